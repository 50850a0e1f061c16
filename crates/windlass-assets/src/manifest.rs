//! The release manifest: what one Kubernetes release is made from.
//!
//! Input: a YAML file of `bundles/`. Output: [`Manifest`], checked: every name unique, every reference resolved.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_spec::full::Release;

use crate::IMAGE_PREFIX;

/// Everything one release pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Format of this document: [`Manifest::FORMAT`].
    pub format: u32,
    /// Kubernetes version: `1.37.2`.
    pub kubernetes: String,
    /// What the building machine must have.
    pub toolchain: Toolchain,
    /// The Debian root of machines.
    pub root: Root,
    /// Programs by the project they come from.
    pub components: Vec<Component>,
    /// Images made from programs and files of the root.
    pub images: Vec<Image>,
}

/// What the building machine must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toolchain {
    /// Lowest Go version that builds every module.
    pub go: String,
    /// Other things, and the Debian packages that bring them.
    pub needs: Vec<Need>,
}

/// Something of the building machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    /// A command on the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A library pkg-config knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkg_config: Option<String>,
    /// The Debian package it comes in.
    pub package: String,
}

/// The Debian root of machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Root {
    /// Debian's name for its release.
    pub suite: String,
    /// Packages over the minimal base.
    pub packages: Vec<String>,
    /// Patterns of paths that are left out.
    pub exclude: Vec<String>,
}

/// Programs of one project, built from one Go module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// Name.
    pub name: String,
    /// Version without `v`.
    pub version: String,
    /// Folder of `bundles/modules` with pinned `go.mod` and `go.sum`.
    pub module: String,
    /// Folder of the bundle its programs go to.
    #[serde(default = "bin")]
    pub folder: String,
    /// Go build tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Is it linked with C?
    #[serde(default)]
    pub cgo: bool,
    /// Flags for Go's linker.
    #[serde(default = "stripped")]
    pub ldflags: Vec<String>,
    /// Programs that belong to every bundle.
    pub programs: Vec<Program>,
    /// Files that programs print when the bundle is built; these programs are not kept.
    #[serde(default)]
    pub documents: Vec<Program>,
    /// Programs built only when asked for.
    #[serde(default)]
    pub extras: Vec<Program>,
}

fn bin() -> String {
    "bin".to_owned()
}

fn stripped() -> Vec<String> {
    vec!["-s".to_owned(), "-w".to_owned()]
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// File name.
    pub name: String,
    /// Go package of its `main`.
    pub package: String,
    /// Folder on machines; none: it is only in images and for the admin machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
}

/// One image of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// Name; the reference is `windlass.dev/NAME:TAG`.
    pub name: String,
    /// Component whose version it carries.
    pub component: String,
    /// Tag; `{version}` is the component's.
    pub tag: String,
    /// Programs in `/usr/local/bin`; the first is the entry point unless one is given.
    pub programs: Vec<String>,
    /// Debian packages of the root that are in it, with what they depend on.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Single paths of the root that are in it.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Symbolic links: path to target.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// Entry point.
    #[serde(default)]
    pub entrypoint: Vec<String>,
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not the document it should be.
    #[error("{file} is no release manifest: {cause}")]
    Parse {
        /// The file.
        file: String,
        /// Where and why.
        cause: String,
    },
    /// It contradicts itself.
    #[error("{file}: {}", problems.join("; "))]
    Contradiction {
        /// The file.
        file: String,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
}

impl Manifest {
    /// Version of the format this build reads.
    pub const FORMAT: u32 = 1;

    /// Reads and checks a manifest.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let manifest: Self = serde_saphyr::from_str(text)
            .map_err(|cause| ManifestError::Parse { file: file.to_owned(), cause: cause.to_string() })?;
        let problems = manifest.problems();
        if problems.is_empty() {
            Ok(manifest)
        } else {
            Err(ManifestError::Contradiction { file: file.to_owned(), problems })
        }
    }

    /// Everything wrong with it.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.format != Self::FORMAT {
            problems.push(format!("format {} is not {}", self.format, Self::FORMAT));
        }
        if numbers(&self.kubernetes).len() != 3 {
            problems.push(format!("kubernetes {:?} is no version of three numbers", self.kubernetes));
        }
        problems.extend(twice("component", self.components.iter().map(|component| component.name.as_str())));
        problems.extend(twice("image", self.images.iter().map(|image| image.name.as_str())));
        problems.extend(twice("program", self.all_programs().map(|(_, program)| program.name.as_str())));
        problems.extend(self.components.iter().flat_map(component_problems));
        problems.extend(self.images.iter().flat_map(|image| self.image_problems(image)));
        for need in &self.toolchain.needs {
            if need.command.is_some() == need.pkg_config.is_some() {
                problems.push(format!("need {}: one of command and pkgConfig is wanted", need.package));
            }
        }
        problems
    }

    fn image_problems(&self, image: &Image) -> Vec<String> {
        let mut problems = Vec::new();
        if self.component(&image.component).is_none() {
            problems.push(format!("image {}: no component {:?}", image.name, image.component));
        }
        let unknown = image.programs.iter().filter(|&name| self.program(name).is_none());
        problems.extend(unknown.map(|name| format!("image {}: no program {name:?}", image.name)));
        if image.programs.is_empty() && image.entrypoint.is_empty() {
            problems.push(format!("image {}: nothing to start", image.name));
        }
        problems
    }

    /// Every program with its component: documents and extras last.
    fn all_programs(&self) -> impl Iterator<Item = (&Component, &Program)> {
        self.programs().chain(self.documents()).chain(self.of_each(|component| &component.extras))
    }

    /// The documents of every bundle, with their components.
    pub fn documents(&self) -> impl Iterator<Item = (&Component, &Program)> {
        self.of_each(|component| &component.documents)
    }

    /// The programs of every bundle, with their components.
    pub fn programs(&self) -> impl Iterator<Item = (&Component, &Program)> {
        self.of_each(|component| &component.programs)
    }

    /// One list of each component.
    fn of_each(&self, list: fn(&Component) -> &[Program]) -> impl Iterator<Item = (&Component, &Program)> {
        self.components
            .iter()
            .flat_map(move |component| list(component).iter().map(move |program| (component, program)))
    }

    /// A program of every bundle.
    pub fn program(&self, name: &str) -> Option<(&Component, &Program)> {
        self.programs().find(|(_, program)| program.name == name)
    }

    /// A program built only on request.
    pub fn extra(&self, name: &str) -> Option<(&Component, &Program)> {
        self.of_each(|component| &component.extras).find(|(_, program)| program.name == name)
    }

    /// A component by name.
    pub fn component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }

    /// Full name of an image: `windlass.dev/kube-apiserver:v1.37.2`.
    pub fn reference(&self, image: &Image) -> String {
        let version = self.component(&image.component).map_or("", |component| component.version.as_str());
        format!("{IMAGE_PREFIX}/{}:{}", image.name, image.tag.replace("{version}", version))
    }

    /// Version by component.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.components.iter().map(|component| (component.name.clone(), component.version.clone())).collect()
    }

    /// Versions and image names, known before a bundle is made; [`Release::bundle`] is `unbuilt`.
    pub fn release(&self) -> Release {
        Release {
            kubernetes: self.kubernetes.clone(),
            bundle: "unbuilt".to_owned(),
            versions: self.versions(),
            images: self.images.iter().map(|image| (image.name.clone(), self.reference(image))).collect(),
        }
    }
}

impl Component {
    /// The linker's flags with versions filled in.
    pub fn linker_flags(&self) -> String {
        let numbers = numbers(&self.version);
        let number = |index: usize| numbers.get(index).map(u64::to_string).unwrap_or_default();
        self.ldflags
            .join(" ")
            .replace("{version}", &self.version)
            .replace("{major}", &number(0))
            .replace("{minor}", &number(1))
    }
}

/// The numbers of a dotted version; none when a part is no number.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default()
}

fn component_problems(component: &Component) -> Vec<String> {
    let mut problems = Vec::new();
    if component.version.starts_with('v') || component.version.is_empty() {
        problems.push(format!("component {}: version {:?} is not a plain one", component.name, component.version));
    }
    for program in component.programs.iter().chain(&component.documents).chain(&component.extras) {
        if program.install.as_deref().is_some_and(|folder| !folder.starts_with('/')) {
            problems.push(format!("program {}: install is no absolute path", program.name));
        }
        if program.name.contains('/') || program.name.is_empty() {
            problems.push(format!("program {:?}: not a file name", program.name));
        }
    }
    problems
}

fn twice<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).map(|name| format!("{kind} {name:?} is there twice")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "
format: 1
kubernetes: 1.2.3
toolchain: {go: 1.20.0, needs: []}
root: {suite: none, packages: [], exclude: []}
components:
- {name: a, version: 1.2.3, module: a, ldflags: ['-X v={version}', '-X m={major}.{minor}'], programs: [{name: one, package: p}]}
images:
- {name: one, component: a, tag: 'v{version}', programs: [one]}
";

    fn problem(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from), "{from}");
        Manifest::parse("m.yaml", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn versions_are_filled_in() {
        let manifest = Manifest::parse("m.yaml", SMALL).unwrap();
        assert_eq!(manifest.components[0].linker_flags(), "-X v=1.2.3 -X m=1.2");
        let release = manifest.release();
        assert_eq!(release.images["one"], "windlass.dev/one:v1.2.3");
        assert_eq!((release.versions["a"].as_str(), release.bundle.as_str()), ("1.2.3", "unbuilt"));
    }

    #[test]
    fn strict() {
        assert!(problem("kubernetes: 1.2.3", "kubernetes: 1.2.3\nkubernets: 1").contains("kubernets"));
        assert!(problem("kubernetes: 1.2.3", "kubernetes: 1.2.3\nkubernetes: 1.2.4").contains("kubernetes"));
        assert!(problem("tag: 'v{version}', ", "").contains("tag"));
    }

    #[test]
    fn contradictions_are_named_all_at_once() {
        let text = SMALL
            .replace("format: 1", "format: 2")
            .replace("kubernetes: 1.2.3", "kubernetes: '1.2'")
            .replace("programs: [one]}", "programs: [two]}\n- {name: one, component: b, tag: x, programs: []}");
        insta::assert_snapshot!(Manifest::parse("m.yaml", &text).unwrap_err(), @r#"m.yaml: format 2 is not 1; kubernetes "1.2" is no version of three numbers; image "one" is there twice; image one: no program "two"; image one: no component "b"; image one: nothing to start"#);
    }
}
