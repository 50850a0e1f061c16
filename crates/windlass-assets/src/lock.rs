//! The lock of a bundle: the digest of every file and image, written when the bundle is made.
//!
//! Inputs: a bundle's folder, or the root of a machine the bundle is installed on. Outputs: [`Lock`], and for each file
//! that is not what it was a [`Damage`] that names it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Digests of everything in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// Format of this document: [`Lock::FORMAT`].
    pub format: u32,
    /// Kubernetes version.
    pub kubernetes: String,
    /// Digest of the recipe the bundle was built from.
    pub recipe: Digest,
    /// Go version that built it.
    pub toolchain: String,
    /// Version by component.
    pub versions: BTreeMap<String, String>,
    /// Version by Debian package of the machines' root.
    pub debian_packages: BTreeMap<String, String>,
    /// Images by name.
    pub images: BTreeMap<String, ImageEntry>,
    /// Every file of the bundle but the lock itself, by path.
    pub files: BTreeMap<String, FileEntry>,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageEntry {
    /// Full name.
    pub reference: String,
    /// Digest of its OCI manifest.
    pub digest: Digest,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileEntry {
    /// Digest of its content.
    pub sha256: Digest,
    /// Bytes.
    pub size: u64,
    /// Is it a program?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// Absolute path on machines, when it is installed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
}

/// One file that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Damage {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub kind: DamageKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum DamageKind {
    /// It is gone.
    Missing {
        /// Digest it should have.
        expected: Digest,
    },
    /// It has another content.
    Changed {
        /// Digest it should have.
        expected: Digest,
        /// Digest it has.
        found: Digest,
        /// The file whose content this is, when two were swapped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        same_as: Option<String>,
    },
    /// It is a program without the permission to run.
    NotExecutable,
    /// It is a link, a folder or a device.
    NotAFile,
    /// It does not belong there.
    Extra,
    /// It cannot be read.
    Unreadable {
        /// Why.
        cause: String,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.kind {
            DamageKind::Missing { expected } => write!(f, "{path} is missing (expected {expected})"),
            DamageKind::Changed { expected, found, same_as } => {
                write!(f, "{path} was changed: expected {expected}, found {found}")?;
                same_as.as_ref().map_or(Ok(()), |other| write!(f, " (the content of {other})"))
            }
            DamageKind::NotExecutable => write!(f, "{path} lost the permission to be executed"),
            DamageKind::NotAFile => write!(f, "{path} is not a regular file"),
            DamageKind::Extra => write!(f, "{path} does not belong there"),
            DamageKind::Unreadable { cause } => write!(f, "{path} cannot be read: {cause}"),
        }
    }
}

/// Why a lock cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Not the document it should be.
    #[error("the lock cannot be understood")]
    Parse(#[from] serde_json::Error),
    /// Written by another version of Windlass.
    #[error("the lock has format {found}; this build reads {}", Lock::FORMAT)]
    Format {
        /// Its format.
        found: u32,
    },
    /// A path or digest in it leads out of the bundle.
    #[error("the lock names {path:?}, which is no path inside a bundle")]
    Path {
        /// The path.
        path: String,
    },
}

impl Lock {
    /// Version of the format this build writes.
    pub const FORMAT: u32 = 1;
    /// Its name in the bundle's folder.
    pub const FILE: &'static str = "bundle.lock.json";
    /// Where it lies on machines.
    pub const INSTALLED: &'static str = "/usr/local/share/windlass/bundle.lock.json";

    /// Reads a lock and checks that every path stays inside.
    pub fn parse(bytes: &[u8]) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = serde_json::from_slice(bytes)?;
        if head.format != Self::FORMAT {
            return Err(LockError::Format { found: head.format });
        }
        let lock: Self = serde_json::from_slice(bytes)?;
        match lock.files.keys().find(|path| !stays_inside(path)) {
            Some(path) => Err(LockError::Path { path: path.clone() }),
            None => Ok(lock),
        }
    }

    /// The document as it is written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LockError> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Digest of the document: the bundle's identity.
    pub fn digest(&self) -> Result<Digest, LockError> {
        Ok(Digest::of(&self.to_bytes()?))
    }

    /// Files installed on machines: absolute path and entry.
    pub fn installed(&self) -> impl Iterator<Item = (&str, &FileEntry)> {
        self.files.values().filter_map(|entry| Some((entry.install.as_deref()?, entry)))
    }

    /// Compares every file of a bundle's folder; names all damage, in order of path.
    pub fn verify(&self, folder: &Path) -> io::Result<Vec<Damage>> {
        let present = files_below(folder)?;
        let checks: Vec<Check<'_>> = self
            .files
            .iter()
            .map(|(path, entry)| Check { name: path.clone(), path: folder.join(path), entry })
            .collect();
        let mut damages = self.compare(&checks);
        let extra = present.into_iter().filter(|path| path != Self::FILE && !self.files.contains_key(path));
        damages.extend(extra.map(|path| Damage { path, kind: DamageKind::Extra }));
        damages.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(damages)
    }

    /// Compares just these files of a bundle's folder, by their paths in it; names all damage, in order of path.
    pub fn verify_some(&self, folder: &Path, paths: &[&str]) -> Vec<Damage> {
        let wanted = self.files.iter().filter(|(path, _)| paths.contains(&path.as_str()));
        let checks: Vec<Check<'_>> =
            wanted.map(|(path, entry)| Check { name: path.clone(), path: folder.join(path), entry }).collect();
        self.compare(&checks)
    }

    /// Compares the installed files below a machine's root (`/` on the machine itself). With `only`, just those whose
    /// absolute paths are named; a named path the bundle does not install is an extra.
    pub fn verify_installed(&self, root: &Path, only: Option<&[&str]>) -> Vec<Damage> {
        let checks: Vec<Check<'_>> = self
            .installed()
            .filter(|(path, _)| only.is_none_or(|only| only.contains(path)))
            .map(|(path, entry)| Check { name: path.to_owned(), path: root.join(path.trim_start_matches('/')), entry })
            .collect();
        let mut damages = self.compare(&checks);
        let unknown = only.unwrap_or_default().iter().filter(|path| !checks.iter().any(|check| check.name == **path));
        damages.extend(unknown.map(|path| Damage { path: (*path).to_owned(), kind: DamageKind::Extra }));
        damages
    }

    /// Compares files, several at a time.
    fn compare(&self, checks: &[Check<'_>]) -> Vec<Damage> {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let work = || {
            let mut damages = Vec::new();
            while let Some(check) = checks.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                damages.extend(check.damage().map(|kind| Damage { path: check.name.clone(), kind }));
            }
            damages
        };
        let mut damages: Vec<Damage> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        damages.sort_by(|a, b| a.path.cmp(&b.path));
        for damage in &mut damages {
            if let DamageKind::Changed { found, same_as, .. } = &mut damage.kind {
                *same_as = self.files.iter().find(|(_, entry)| entry.sha256 == *found).map(|(path, _)| path.clone());
            }
        }
        damages
    }
}

/// One file to compare.
struct Check<'a> {
    name: String,
    path: PathBuf,
    entry: &'a FileEntry,
}

impl Check<'_> {
    fn damage(&self) -> Option<DamageKind> {
        let expected = self.entry.sha256;
        let unreadable = |error: io::Error| DamageKind::Unreadable { cause: error.to_string() };
        let found = match self.path.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(DamageKind::Missing { expected }),
            Err(error) => return Some(unreadable(error)),
        };
        if !found.is_file() {
            return Some(DamageKind::NotAFile);
        }
        match Digest::of_file(&self.path) {
            Err(error) => Some(unreadable(error)),
            Ok(found) if found != expected => Some(DamageKind::Changed { expected, found, same_as: None }),
            Ok(_) if self.entry.executable && found.permissions().mode() & 0o111 == 0 => {
                Some(DamageKind::NotExecutable)
            }
            Ok(_) => None,
        }
    }
}

/// A relative path of plain names.
pub(crate) fn stays_inside(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Paths of everything below a folder that is no folder.
fn files_below(folder: &Path) -> io::Result<Vec<String>> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> io::Result<()> {
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                walk(root, &path, found)?;
            } else if let Ok(name) = path.strip_prefix(root) {
                found.push(name.to_string_lossy().into_owned());
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(content: &str, install: Option<&str>) -> FileEntry {
        FileEntry {
            sha256: Digest::of(content.as_bytes()),
            size: content.len() as u64,
            executable: install.is_some(),
            install: install.map(str::to_owned),
        }
    }

    fn lock() -> Lock {
        Lock {
            format: 1,
            kubernetes: "1.2.3".to_owned(),
            recipe: Digest::of(b"recipe"),
            toolchain: "go1.2.3".to_owned(),
            versions: BTreeMap::new(),
            debian_packages: BTreeMap::new(),
            images: BTreeMap::new(),
            files: BTreeMap::from([
                ("bin/a".to_owned(), entry("a", Some("/usr/local/bin/a"))),
                ("bin/b".to_owned(), entry("b", Some("/usr/local/bin/b"))),
                ("images/x".to_owned(), entry("x", None)),
            ]),
        }
    }

    fn write(root: &Path, path: &str, content: &str, mode: u32) {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        fs_err::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn bundle() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "bin/a", "a", 0o755);
        write(folder.path(), "bin/b", "b", 0o755);
        write(folder.path(), "images/x", "x", 0o644);
        write(folder.path(), Lock::FILE, "", 0o644);
        folder
    }

    fn damages(folder: &Path) -> String {
        lock().verify(folder).unwrap().iter().map(|damage| format!("{damage}\n")).collect()
    }

    #[test]
    fn a_sound_bundle_has_no_damage() {
        assert_eq!(damages(bundle().path()), "");
    }

    #[test]
    fn every_damage_is_named() {
        let folder = bundle();
        write(folder.path(), "bin/a", "b", 0o755);
        write(folder.path(), "bin/b", "B", 0o755);
        write(folder.path(), "bin/evil", "", 0o755);
        fs_err::remove_file(folder.path().join("images/x")).unwrap();
        insta::assert_snapshot!(damages(folder.path()), @r"
        bin/a was changed: expected sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb, found sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d (the content of bin/b)
        bin/b was changed: expected sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d, found sha256:df7e70e5021544f4834bbee64a9e3789febc4be81470df629cad6ddb03320a5c
        bin/evil does not belong there
        images/x is missing (expected sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881)
        ");
    }

    #[test]
    fn links_and_lost_permissions_are_damage() {
        let folder = bundle();
        write(folder.path(), "bin/a", "a", 0o644);
        fs_err::remove_file(folder.path().join("bin/b")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("bin/b")).unwrap();
        insta::assert_snapshot!(damages(folder.path()), @r"
        bin/a lost the permission to be executed
        bin/b is not a regular file
        ");
    }

    #[test]
    fn a_machine_checks_what_it_starts() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "usr/local/bin/a", "a", 0o755);
        write(root.path(), "usr/local/bin/b", "!", 0o755);
        let lock = lock();
        assert_eq!(lock.verify_installed(root.path(), Some(&["/usr/local/bin/a"])), []);
        let all = lock.verify_installed(root.path(), None);
        assert_eq!(all.iter().map(|damage| damage.path.as_str()).collect::<Vec<_>>(), ["/usr/local/bin/b"]);
        let unknown = lock.verify_installed(root.path(), Some(&["/bin/other"]));
        assert_eq!(unknown, [Damage { path: "/bin/other".to_owned(), kind: DamageKind::Extra }]);
    }

    #[test]
    fn round_trip_and_strictness() {
        let lock = lock();
        let bytes = lock.to_bytes().unwrap();
        assert_eq!(Lock::parse(&bytes).unwrap(), lock);
        assert_eq!(lock.digest().unwrap(), Digest::of(&bytes));
        let text = String::from_utf8(bytes).unwrap();
        let outside = text.replace("\"bin/a\"", "\"../a\"");
        assert!(matches!(Lock::parse(outside.as_bytes()), Err(LockError::Path { path }) if path == "../a"));
        let newer = text.replace("\"format\": 1", "\"format\": 2, \"more\": true");
        assert!(matches!(Lock::parse(newer.as_bytes()), Err(LockError::Format { found: 2 })));
        assert!(Lock::parse(text.replace("\"toolchain\"", "\"tool\"").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn one_swapped_byte_is_caught_by_name(content in proptest::collection::vec(any::<u8>(), 1..4096), at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let folder = bundle();
            let mut lock = lock();
            lock.files.insert("big".to_owned(), FileEntry { sha256: Digest::of(&content), size: content.len() as u64, executable: false, install: None });
            let mut swapped = content.clone();
            *at.get_mut(&mut swapped) ^= 1 << bit;
            fs_err::write(folder.path().join("big"), &swapped).unwrap();
            let damages = lock.verify(folder.path()).unwrap();
            prop_assert_eq!(damages, [Damage { path: "big".to_owned(), kind: DamageKind::Changed { expected: Digest::of(&content), found: Digest::of(&swapped), same_as: None } }]);
        }
    }
}
