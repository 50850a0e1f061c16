//! A release manifest together with the Go modules it names: all that a bundle is built from.
//!
//! Input: the `bundles` folder embedded in the binary, or one on disk. Output: [`Recipe`], whose digest is the same
//! as long as nothing that matters to a bundle changes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use include_dir::{Dir, include_dir};

use crate::digest::Digest;
use crate::manifest::{Manifest, ManifestError, numbers};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../bundles");

/// Files of one Go module by name.
pub(crate) type Module = BTreeMap<String, Vec<u8>>;

/// What one bundle is built from.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The release manifest.
    pub manifest: Manifest,
    modules: BTreeMap<String, Module>,
}

/// Why there is no recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A module is missing.
    #[error("release {release} names the Go module {module:?}, which is not in bundles/modules")]
    Module {
        /// Kubernetes version of the manifest.
        release: String,
        /// The module's folder.
        module: String,
    },
    /// No release fits.
    #[error("no release fits Kubernetes {wanted:?}; this build knows {}", known.join(", "))]
    NoRelease {
        /// What was asked for.
        wanted: String,
        /// Versions there are.
        known: Vec<String>,
    },
    /// The folder cannot be read.
    #[error("the bundles folder cannot be read")]
    Read(#[source] io::Error),
}

impl Recipe {
    /// The recipes embedded in this build, oldest Kubernetes first.
    pub fn embedded() -> Result<Vec<Self>, RecipeError> {
        let files: BTreeMap<String, Vec<u8>> = embedded_files(&EMBEDDED);
        let mut recipes = files
            .iter()
            .filter(|(path, _)| path.ends_with(".yaml") && !path.contains('/'))
            .map(|(path, bytes)| Self::assemble(path, &String::from_utf8_lossy(bytes), &files))
            .collect::<Result<Vec<_>, _>>()?;
        recipes.sort_by_key(|recipe| numbers(&recipe.manifest.kubernetes));
        Ok(recipes)
    }

    /// The newest embedded recipe for `1.37`, `1.37.2` or (empty) any Kubernetes.
    pub fn find(wanted: &str) -> Result<Self, RecipeError> {
        let mut recipes = Self::embedded()?;
        let known = recipes.iter().map(|recipe| recipe.manifest.kubernetes.clone()).collect();
        recipes.retain(|recipe| fits(wanted, &recipe.manifest.kubernetes));
        recipes.pop().ok_or_else(|| RecipeError::NoRelease { wanted: wanted.to_owned(), known })
    }

    /// The recipe of one manifest in a folder laid out like `bundles/`.
    pub fn from_folder(folder: &Path, manifest: &str) -> Result<Self, RecipeError> {
        let mut files = BTreeMap::new();
        read_folder(folder, folder, &mut files).map_err(RecipeError::Read)?;
        let text = fs_err::read_to_string(folder.join(manifest)).map_err(RecipeError::Read)?;
        Self::assemble(manifest, &text, &files)
    }

    fn assemble(name: &str, text: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<Self, RecipeError> {
        let manifest = Manifest::parse(name, text)?;
        let mut modules = BTreeMap::new();
        for component in &manifest.components {
            let prefix = format!("modules/{}/", component.module);
            let module: Module = files
                .iter()
                .filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?.to_owned(), bytes.clone())))
                .collect();
            if module.is_empty() {
                let (release, module) = (manifest.kubernetes.clone(), component.module.clone());
                return Err(RecipeError::Module { release, module });
            }
            modules.insert(component.module.clone(), module);
        }
        Ok(Self { manifest, modules })
    }

    /// Digest over everything that goes into a bundle.
    pub fn digest(&self) -> Digest {
        let modules: BTreeMap<&str, Digest> =
            self.modules.keys().map(|module| (module.as_str(), self.module_digest(module))).collect();
        Digest::of(serde_json::json!([self.manifest, modules]).to_string().as_bytes())
    }

    /// Digest of a module's files.
    pub(crate) fn module_digest(&self, module: &str) -> Digest {
        let files: BTreeMap<&str, Digest> = self
            .modules
            .get(module)
            .into_iter()
            .flatten()
            .map(|(name, bytes)| (name.as_str(), Digest::of(bytes)))
            .collect();
        Digest::of(serde_json::json!(files).to_string().as_bytes())
    }

    /// Writes a module's files into a folder.
    pub(crate) fn write_module(&self, module: &str, folder: &Path) -> io::Result<()> {
        fs_err::create_dir_all(folder)?;
        for (name, bytes) in self.modules.get(module).into_iter().flatten() {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                fs_err::create_dir_all(parent)?;
            }
            fs_err::write(path, bytes)?;
        }
        Ok(())
    }
}

fn fits(wanted: &str, version: &str) -> bool {
    let wanted = wanted.strip_prefix('v').unwrap_or(wanted);
    wanted.is_empty() || version == wanted || version.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

fn embedded_files(folder: &Dir<'_>) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> =
        folder.files().map(|file| (file.path().to_string_lossy().into_owned(), file.contents().to_vec())).collect();
    for inner in folder.dirs() {
        files.extend(embedded_files(inner));
    }
    files
}

fn read_folder(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.insert(name.to_string_lossy().into_owned(), fs_err::read(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_releases_are_sound() {
        let recipes = Recipe::embedded().unwrap();
        assert!(!recipes.is_empty());
        let release = Recipe::find("1.37").unwrap().manifest.release();
        insta::assert_yaml_snapshot!(release, @r#"
        kubernetes: 1.37.2
        bundle: unbuilt
        versions:
          cni-plugins: 1.10.0
          containerd: 2.4.2
          coredns: 1.14.6
          cri-tools: 1.37.0
          etcd: 3.7.0
          kubernetes: 1.37.2
          local-path-provisioner: 0.0.30
          pause: 3.10.2
          runc: 1.5.3
        images:
          coredns: "windlass.dev/coredns:v1.14.6"
          etcd: "windlass.dev/etcd:v3.7.0"
          kube-apiserver: "windlass.dev/kube-apiserver:v1.37.2"
          kube-controller-manager: "windlass.dev/kube-controller-manager:v1.37.2"
          kube-proxy: "windlass.dev/kube-proxy:v1.37.2"
          kube-scheduler: "windlass.dev/kube-scheduler:v1.37.2"
          local-path-provisioner: "windlass.dev/local-path-provisioner:v0.0.30"
          pause: "windlass.dev/pause:3.10.2"
          volume-helper: "windlass.dev/volume-helper:v0.0.30"
        "#);
    }

    #[test]
    fn the_agent_finds_what_a_new_control_plane_makes_for_itself() {
        for recipe in Recipe::embedded().unwrap() {
            let places: Vec<String> = recipe
                .manifest
                .documents()
                .filter_map(|(_, document)| Some(format!("{}/{}", document.install.as_ref()?, document.name)))
                .collect();
            assert_eq!(places, [windlass_spec::paths::BOOTSTRAP_OBJECTS], "{}", recipe.manifest.kubernetes);
        }
    }

    #[test]
    fn a_version_is_found_by_its_beginning() {
        assert!(fits("1.37", "1.37.2") && fits("v1.37.2", "1.37.2") && fits("", "1.37.2"));
        assert!(!fits("1.3", "1.37.2") && !fits("1.37.20", "1.37.2") && !fits("1.37.", "1.37.2"));
        assert!(Recipe::find("1.2").unwrap_err().to_string().contains("this build knows"));
    }
}
