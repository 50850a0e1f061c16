//! The packages of a root: versions, files, and what depends on what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{DebianError, canonical, open};
use crate::oci::read_all;

const STATUS: &str = "var/lib/dpkg/status";
const INFO: &str = "var/lib/dpkg/info/";

/// Paths of packages that no image needs.
const LEFT_OUT: [&str; 8] = [
    "usr/share/doc/",
    "usr/share/man/",
    "usr/share/info/",
    "usr/share/locale/",
    "usr/share/lintian/",
    "usr/share/bug/",
    "usr/lib/x86_64-linux-gnu/gconv/",
    "usr/lib/systemd/",
];

/// One installed package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Package {
    version: String,
    essential: bool,
    provides: Vec<String>,
    /// Each a list of alternatives.
    depends: Vec<Vec<String>>,
}

/// Everything dpkg knows of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packages {
    packages: BTreeMap<String, Package>,
    /// Paths by package.
    files: BTreeMap<String, Vec<String>>,
}

impl Packages {
    /// Reads dpkg's records out of an archive.
    pub(crate) fn read(archive: &Path) -> Result<Self, DebianError> {
        let read = |source| DebianError::Read { path: archive.to_path_buf(), source };
        let mut found = Self::default();
        for entry in open(archive).map_err(read)?.entries().map_err(read)? {
            let mut entry = entry.map_err(read)?;
            let path = canonical(&entry.path().map_err(read)?.to_string_lossy());
            if path == STATUS {
                found.packages = parse_status(&String::from_utf8_lossy(&read_all(&mut entry).map_err(read)?));
            } else if let Some(name) = path.strip_prefix(INFO).and_then(|name| name.strip_suffix(".list")) {
                let name = name.split(':').next().unwrap_or(name).to_owned();
                let text = String::from_utf8_lossy(&read_all(&mut entry).map_err(read)?).into_owned();
                found.files.insert(name, text.lines().map(canonical).filter(|path| !path.is_empty()).collect());
            }
        }
        Ok(found)
    }

    /// Version by package.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        self.packages.iter().map(|(name, package)| (name.clone(), package.version.clone())).collect()
    }

    /// Paths of these packages and of all they depend on, but for Debian's essential ones (dpkg and the like).
    pub(crate) fn closure(&self, wanted: &[String]) -> Result<BTreeSet<String>, DebianError> {
        let missing: Vec<String> = wanted.iter().filter(|name| !self.packages.contains_key(*name)).cloned().collect();
        if !missing.is_empty() {
            return Err(DebianError::Missing { missing });
        }
        let mut chosen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = wanted.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            let Some(package) = self.packages.get(name) else { continue };
            if package.essential || !chosen.insert(name) {
                continue;
            }
            open.extend(package.depends.iter().filter_map(|alternatives| self.installed(alternatives)));
        }
        let files = chosen.iter().filter_map(|name| self.files.get(*name)).flatten();
        let kept = files.filter(|path| !LEFT_OUT.iter().any(|prefix| format!("{path}/").starts_with(prefix)));
        Ok(kept.cloned().collect())
    }

    /// The installed package that satisfies one of the alternatives.
    fn installed(&self, alternatives: &[String]) -> Option<&str> {
        alternatives.iter().find_map(|name| match self.packages.get_key_value(name) {
            Some((name, _)) => Some(name.as_str()),
            None => {
                self.packages.iter().find(|(_, package)| package.provides.contains(name)).map(|(name, _)| name.as_str())
            }
        })
    }
}

/// Reads `/var/lib/dpkg/status`.
fn parse_status(text: &str) -> BTreeMap<String, Package> {
    text.split("\n\n").filter_map(parse_package).collect()
}

fn parse_package(paragraph: &str) -> Option<(String, Package)> {
    let field = |name: &str| {
        paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
    };
    let name = field("Package");
    if name.is_empty() || !field("Status").ends_with(" installed") {
        return None;
    }
    let depends = [field("Pre-Depends"), field("Depends")].into_iter().flat_map(relations).collect();
    let package = Package {
        version: field("Version").to_owned(),
        essential: field("Essential") == "yes",
        provides: relations(field("Provides")).into_iter().flatten().collect(),
        depends,
    };
    Some((name.to_owned(), package))
}

/// Names in a relation field: `a (>= 1) | b, c:any` → `[[a, b], [c]]`.
fn relations(field: &str) -> Vec<Vec<String>> {
    let name = |text: &str| text.split([' ', '(', ':']).find(|part| !part.is_empty()).map(str::to_owned);
    field
        .split(',')
        .map(|alternatives| alternatives.split('|').filter_map(|text| name(text.trim())).collect::<Vec<_>>())
        .filter(|alternatives| !alternatives.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Package: nft\nStatus: install ok installed\nVersion: 1.0-2\nDepends: libnft1 (= 1.0-2), libc6 (>= 2.3) | musl, awk\nDescription: x\n more\n\n\
Package: libnft1\nStatus: install ok installed\nVersion: 1.0-2\nPre-Depends: dpkg (>= 1)\n\n\
Package: dpkg\nEssential: yes\nStatus: install ok installed\nVersion: 1\nDepends: tar\n\n\
Package: tar\nStatus: install ok installed\nVersion: 1\n\n\
Package: mawk\nStatus: install ok installed\nVersion: 1\nProvides: awk (= 1)\n\n\
Package: libc6\nStatus: install ok installed\nVersion: 2.3\n\n\
Package: gone\nStatus: deinstall ok config-files\nVersion: 2.3\n";

    fn packages() -> Packages {
        let files = ["nft", "libnft1", "dpkg", "tar", "mawk", "libc6"]
            .map(|name| (name.to_owned(), vec![format!("usr/bin/{name}"), format!("usr/share/doc/{name}")]));
        Packages { packages: parse_status(STATUS), files: files.into() }
    }

    #[test]
    fn a_package_brings_what_it_depends_on() {
        let files = packages().closure(&["nft".to_owned()]).unwrap();
        assert_eq!(Vec::from_iter(files), ["usr/bin/libc6", "usr/bin/libnft1", "usr/bin/mawk", "usr/bin/nft"]);
    }

    #[test]
    fn what_is_not_installed_is_missing() {
        let wanted = ["nft".to_owned(), "gone".to_owned(), "other".to_owned()];
        assert_eq!(packages().closure(&wanted).unwrap_err().to_string(), "the Debian root has no gone, other");
        assert_eq!(packages().versions()["libnft1"], "1.0-2");
    }
}
