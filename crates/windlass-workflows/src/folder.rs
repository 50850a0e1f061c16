//! Where a cluster's files lie on the admin machine, and how commands find them from anywhere.
//!
//! Inputs: the state folder, the working folder, a cluster's name. Outputs: paths, and the [`Pointer`] kept under
//! `clusters/NAME` of the state folder. The cluster's own folder may be lost; the pointer says what it was.
//!
//! ```text
//! NAME/NAME-cluster.yaml (0600), NAME-cluster.full.yaml, NAME.kubeconfig (0600), generated/, journal/
//! ```

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_providers::ports::Scope;
use windlass_spec::annotate::redacted;
use windlass_spec::full::FullCluster;

/// A file or folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Reading failed.
    #[error("failed to read `{path}`")]
    Read {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Writing failed.
    #[error("failed to write `{path}`")]
    Write {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Removing failed.
    #[error("failed to remove `{path}`")]
    Remove {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A pointer is not understood.
    #[error("`{path}` is not understood")]
    Pointer {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A pointer is of a later format than this build knows.
    #[error("`{path}` was written by a newer Windlass (format {format}, this one knows {})", Pointer::FORMAT)]
    Newer {
        /// Which.
        path: Utf8PathBuf,
        /// Its format.
        format: u64,
    },
    /// A full spec has no text, or the text is no full spec.
    #[error("the full spec `{path}` cannot be kept or read")]
    Full {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A cluster's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFolder {
    name: String,
    root: Utf8PathBuf,
}

impl ClusterFolder {
    /// The folder of cluster `name` at `root`.
    pub fn new(name: &str, root: impl Into<Utf8PathBuf>) -> Self {
        Self { name: name.to_owned(), root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// What the user wrote: it may hold passwords.
    pub fn spec(&self) -> Utf8PathBuf {
        self.root.join(format!("{}-cluster.yaml", self.name))
    }

    /// Every value with its origin.
    pub fn full(&self) -> Utf8PathBuf {
        self.root.join(format!("{}-cluster.full.yaml", self.name))
    }

    /// What the user wrote, while the cluster is being made.
    pub fn early_spec(&self) -> Utf8PathBuf {
        self.generated().join("cluster.yaml")
    }

    /// Every value with its origin, while the cluster is being made.
    pub fn early_full(&self) -> Utf8PathBuf {
        self.generated().join("cluster.full.yaml")
    }

    /// The administrators' kubeconfig.
    pub fn kubeconfig(&self) -> Utf8PathBuf {
        self.root.join(format!("{}.kubeconfig", self.name))
    }

    /// What a running operation needs; kept after a failure.
    pub fn generated(&self) -> Utf8PathBuf {
        self.root.join("generated")
    }

    /// The bootstrap plane's durable state.
    pub fn plane(&self) -> Utf8PathBuf {
        self.generated().join("plane")
    }

    /// Logs of the bootstrap plane and of the controllers in this process.
    pub fn logs(&self) -> Utf8PathBuf {
        self.generated().join("logs")
    }

    /// One journal an operation.
    pub fn journal(&self) -> Utf8PathBuf {
        self.root.join("journal")
    }

    /// Writes a file that others may read.
    pub fn write(&self, path: &Utf8Path, text: &str) -> Result<(), FolderError> {
        write_file(path, text, 0o644)
    }

    /// Keeps a full spec at [`Self::full`] or [`Self::early_full`], without passwords: it is for people and for plans.
    pub fn write_full(&self, path: &Utf8Path, full: &FullCluster) -> Result<(), FolderError> {
        let text = serde_saphyr::to_string(&redacted(full));
        self.write(path, &text.map_err(|error| FolderError::Full { path: path.to_owned(), source: error.into() })?)
    }

    /// The full spec that was kept last; none: the spec has not been resolved yet.
    pub fn read_full(&self) -> Result<Option<FullCluster>, FolderError> {
        let Some(path) = [self.full(), self.early_full()].into_iter().find(|path| path.exists()) else {
            return Ok(None);
        };
        let text = fs_err::read_to_string(&path).map_err(|source| FolderError::Read { path: path.clone(), source })?;
        let full = serde_saphyr::from_str(&text);
        full.map(Some).map_err(|error| FolderError::Full { path, source: error.into() })
    }

    /// Writes a file only its owner reads.
    pub fn write_private(&self, path: &Utf8Path, text: &str) -> Result<(), FolderError> {
        write_file(path, text, 0o600)
    }

    /// Removes what operations generated.
    pub fn clear_generated(&self) -> Result<(), FolderError> {
        remove(&self.generated())
    }

    /// Removes what a cluster that is no more leaves: generated parts, kubeconfig and full spec. The user's spec and the
    /// journals stay.
    pub fn clear_cluster(&self) -> Result<(), FolderError> {
        remove(&self.generated())?;
        remove(&self.kubeconfig())?;
        remove(&self.full())
    }
}

/// Writes a whole file: readers see the old or the new one.
pub fn write_file(path: &Utf8Path, text: &str, mode: u32) -> Result<(), FolderError> {
    let failed = |source| FolderError::Write { path: path.to_owned(), source };
    windlass_files::replace_durably(path, text.as_bytes(), mode).map_err(failed)
}

fn remove(path: &Utf8Path) -> Result<(), FolderError> {
    let gone = if path.is_dir() { fs_err::remove_dir_all(path) } else { fs_err::remove_file(path) };
    match gone {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(FolderError::Remove { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Where a cluster is in its life, as far as this computer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Life {
    /// A create was begun and has not ended well.
    Creating,
    /// It was created.
    Created,
    /// A delete was begun and has not ended well.
    Deleting,
    /// It is gone, but volumes were kept.
    Kept,
}

/// What this computer knows of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pointer {
    /// Format of this document: [`Pointer::FORMAT`].
    pub format: u32,
    /// Who it is, and by whose right it is touched.
    pub scope: Scope,
    /// Namespace of its objects.
    pub namespace: String,
    /// The cluster's folder.
    pub folder: Utf8PathBuf,
    /// Where it is in its life.
    pub life: Life,
    /// When it was first made.
    pub created: Timestamp,
    /// Digest of the bundle it runs.
    pub bundle: String,
    /// Hash of the spec it was made from.
    pub spec_hash: String,
    /// Clusters of this name that are gone but whose volumes were kept.
    pub kept: Vec<Scope>,
    /// Version of the Windlass that made it; empty where none was noted.
    #[serde(default)]
    pub version: String,
}

impl Pointer {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;
}

/// All pointers of a state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    folder: Utf8PathBuf,
}

impl Registry {
    /// The registry in this state folder.
    pub fn new(state: &Utf8Path) -> Self {
        Self { folder: state.join("clusters") }
    }

    fn pointer(&self, name: &str) -> Utf8PathBuf {
        self.folder.join(name).join("cluster.json")
    }

    /// The lock of a cluster.
    pub fn lock(&self, name: &str) -> Utf8PathBuf {
        self.folder.join(name).join("lock")
    }

    /// What is known of a cluster.
    pub fn find(&self, name: &str) -> Result<Option<Pointer>, FolderError> {
        let path = self.pointer(name);
        let text = match fs_err::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        read_pointer(&text, path).map(Some)
    }

    /// Every known cluster by name.
    pub fn list(&self) -> Result<Vec<Pointer>, FolderError> {
        let Ok(entries) = self.folder.read_dir_utf8() else { return Ok(Vec::new()) };
        let mut names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_owned()).collect();
        names.sort();
        names.iter().filter_map(|name| self.find(name).transpose()).collect()
    }

    /// Keeps what is known of a cluster.
    pub fn keep(&self, pointer: &Pointer) -> Result<(), FolderError> {
        let path = self.pointer(&pointer.scope.cluster);
        let text = serde_json::to_string_pretty(pointer)
            .map_err(|source| FolderError::Pointer { path: path.clone(), source })?;
        write_file(&path, &(text + "\n"), 0o600)
    }

    /// Forgets a cluster. The lock file goes too: whoever waits for it finds another inode and asks again.
    pub fn forget(&self, name: &str) -> Result<(), FolderError> {
        remove(&self.folder.join(name))
    }
}

/// The format is looked at first: what follows is a later build's to understand.
fn read_pointer(text: &str, path: Utf8PathBuf) -> Result<Pointer, FolderError> {
    let value: serde_json::Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(source) => return Err(FolderError::Pointer { path, source }),
    };
    match value["format"].as_u64() {
        Some(format) if format > u64::from(Pointer::FORMAT) => Err(FolderError::Newer { path, format }),
        _ => serde_json::from_value(value).map_err(|source| FolderError::Pointer { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership};

    use super::*;

    fn scope(name: &str) -> Scope {
        let ownership = Ownership { owner: OwnerId::from("0123456789abcdef"), epoch: Epoch(1) };
        Scope { cluster_id: ClusterId::from("0123456789abcdef"), cluster: name.into(), ownership }
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("folder");
        let registry = Registry::new(Utf8Path::from_path(dir.path()).expect("utf-8"));
        assert_eq!(registry.list().expect("empty"), []);
        let pointer = Pointer {
            format: Pointer::FORMAT,
            scope: scope("lab"),
            namespace: "default".into(),
            folder: "/home/me/lab".into(),
            life: Life::Creating,
            created: Timestamp::UNIX_EPOCH,
            bundle: "sha256:0".into(),
            spec_hash: "sha256:1".into(),
            kept: Vec::new(),
            version: "0.1.0".into(),
        };
        registry.keep(&pointer).expect("kept");
        assert_eq!(registry.find("lab").expect("read"), Some(pointer.clone()));
        assert_eq!(registry.list().expect("read"), [pointer]);
        assert_eq!(registry.find("other").expect("read"), None);
        registry.forget("lab").expect("forgotten");
        registry.forget("lab").expect("nothing to do");
        assert_eq!(registry.find("lab").expect("read"), None);
    }

    #[test]
    fn the_first_format_of_a_pointer_is_still_read() {
        let text = include_str!("../tests/fixtures/pointer-1.json");
        let pointer: Pointer = serde_json::from_str(text).expect("understood");
        assert_eq!((pointer.life, pointer.scope.cluster.as_str()), (Life::Created, "lab"));
        let later = text.replace("\"format\": 1", "\"format\": 2, \"more\": {}");
        let error = read_pointer(&later, "/state/clusters/lab/cluster.json".into()).expect_err("of a later format");
        insta::assert_snapshot!(error, @"`/state/clusters/lab/cluster.json` was written by a newer Windlass (format 2, this one knows 1)");
    }

    #[test]
    fn private_files_are_private_even_over_an_old_open_one() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("folder");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("lab/lab.kubeconfig")).expect("utf-8");
        write_file(&path, "old", 0o644).expect("written");
        write_file(&path, "new", 0o600).expect("written");
        assert_eq!(fs_err::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs_err::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
