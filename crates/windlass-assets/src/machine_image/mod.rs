//! Machine images: what a machine is cloned from in well under a second, with nothing left to import.
//!
//! Inputs: a [`Bundle`] and the running binary. Output: [`MachineImage`] in two halves: a base (Debian root with the
//! bundle's programs, containerd store with its images), made once a bundle, and a top (the binary, its units, its
//! controllers' image), made again in seconds for each build of the binary.
//!
//! A machine's root is an overlay with [`MachineImage::lowerdirs`] below and a folder of its own on top; its
//! `/var/lib/containerd` is filled by [`MachineImage::clone_store`]. Whoever makes a machine calls
//! [`MachineImage::hold`] with a path that exists as long as the machine, so that the image is not pruned under it.

mod base;
mod containerd;
mod files;
mod holders;
mod store;
mod top;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use windlass_spec::full::Release;

use crate::IMAGE_PREFIX;
use crate::bundle::{Bundle, BundleError};
use crate::cache::{Cache, CacheError};
use crate::debian::DebianError;
use crate::digest::Digest;
use crate::lock::{Damage, Lock, LockError};
use crate::oci::OciError;
use crate::progress::Progress;

pub use containerd::StoreError;

/// The binary that machines and controllers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindlassBinary {
    path: PathBuf,
    digest: Digest,
}

impl WindlassBinary {
    /// Name of the controllers' image in [`Release::images`].
    pub const IMAGE: &'static str = "windlass";

    /// The binary that is running, even when its file was replaced since.
    pub fn running() -> io::Result<Self> {
        Self::at(Path::new("/proc/self/exe"))
    }

    /// The binary in this file.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), digest: Digest::of_file(path)? })
    }

    /// Digest of its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Name of the controllers' image: `windlass.dev/windlass:` and twelve digits of the digest.
    pub fn reference(&self) -> String {
        format!("{IMAGE_PREFIX}/{}:{}", Self::IMAGE, self.digest.short())
    }

    /// The release of a bundle with this binary's image: what a cluster runs.
    pub fn complete(&self, mut release: Release) -> Release {
        release.images.insert(Self::IMAGE.to_owned(), self.reference());
        release
    }
}

/// What machines are cloned from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineImage {
    folder: PathBuf,
    document: Document,
}

/// `image.json` beside an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    format: u32,
    id: String,
    /// Folders of the root, topmost first, relative to the image's own.
    lowerdirs: Vec<String>,
    /// Folder of the store, relative to the image's own.
    containerd: String,
    bundle: Digest,
    windlass: Digest,
    release: Release,
}

/// Why there is no machine image.
#[derive(Debug, thiserror::Error)]
pub enum MachineImageError {
    /// Roots and mounts are root's.
    #[error("machine images can only be made by root")]
    NotRoot,
    /// None of that name.
    #[error("no machine image {id:?} in {}", folder.display())]
    NotFound {
        /// What was asked for.
        id: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Its document cannot be used.
    #[error("the machine image {} has no usable image.json", folder.display())]
    Document {
        /// Where.
        folder: PathBuf,
        /// Why.
        cause: String,
    },
    /// Files are not what the bundle's lock says.
    #[error("the machine image {id} is damaged:\n  {}", damages.iter().map(Damage::to_string).collect::<Vec<_>>().join("\n  "))]
    Damaged {
        /// Which.
        id: String,
        /// Each file.
        damages: Vec<Damage>,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The root cannot be unpacked.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// The controllers' image cannot be written.
    #[error(transparent)]
    Image(#[from] OciError),
    /// The store cannot be filled.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lock on the image cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file cannot be written.
    #[error("the machine image cannot be written")]
    Write(#[source] io::Error),
    /// `image.json` cannot be written.
    #[error("image.json cannot be written")]
    Json(#[from] serde_json::Error),
    /// A store cannot be cloned.
    #[error("the containerd store of {id} cannot be cloned")]
    Clone {
        /// The image.
        id: String,
        /// Why.
        source: io::Error,
    },
    /// A holder cannot be noted.
    #[error("the use of machine image {id} cannot be noted")]
    Hold {
        /// The image.
        id: String,
        /// Why.
        source: io::Error,
    },
}

/// Name of the image of a bundle and a binary.
fn id(bundle: &Bundle, binary: &WindlassBinary) -> String {
    format!("{}-{}", bundle.name(), binary.digest.short())
}

/// The machine image of a bundle and a binary, made if it is not there. Needs root to make one.
pub fn machine_image(
    bundle: &Bundle,
    binary: &WindlassBinary,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<MachineImage, MachineImageError> {
    let id = id(bundle, binary);
    if let Ok(image) = MachineImage::open(cache, &id) {
        return Ok(image);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(MachineImageError::NotRoot);
    }
    let lock = cache.lock(progress)?;
    if let Ok(image) = MachineImage::open(cache, &id) {
        return Ok(image);
    }
    let base = base::ensure(bundle, cache, &lock, progress)?;
    let image = top::make(bundle, binary, &base, cache, &lock, progress)?;
    holders::prune(cache, SystemTime::now()).map_err(MachineImageError::Write)?;
    Ok(image)
}

impl MachineImage {
    /// Version of `image.json` this build writes.
    pub const FORMAT: u32 = 1;
    /// Name of the document in an image's folder.
    pub const FILE: &'static str = "image.json";

    /// The image of this name; keeps it from being pruned for an hour.
    pub fn open(cache: &Cache, id: &str) -> Result<Self, MachineImageError> {
        let folder = cache.machine_images().join(id);
        if !folder.join(Self::FILE).is_file() {
            return Err(MachineImageError::NotFound { id: id.to_owned(), folder: cache.machine_images() });
        }
        let image = Self::open_folder(&folder)?;
        // Whoever may not write here cannot prune here either.
        holders::touch(&folder).ok();
        Ok(image)
    }

    fn open_folder(folder: &Path) -> Result<Self, MachineImageError> {
        let wrong = |cause: String| MachineImageError::Document { folder: folder.to_path_buf(), cause };
        let bytes = fs_err::read(folder.join(Self::FILE)).map_err(|error| wrong(error.to_string()))?;
        let document: Document = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if document.format != Self::FORMAT {
            return Err(wrong(format!("its format is {}, this build reads {}", document.format, Self::FORMAT)));
        }
        let image = Self { folder: folder.to_path_buf(), document };
        match image.lowerdirs().into_iter().chain([image.store()]).find(|part| !part.is_dir()) {
            Some(gone) => Err(wrong(format!("{} is gone", gone.display()))),
            None => Ok(image),
        }
    }

    /// Every usable image in the cache, by name.
    pub fn list(cache: &Cache) -> Result<Vec<Self>, MachineImageError> {
        let folder = cache.machine_images();
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let entries = fs_err::read_dir(folder).map_err(MachineImageError::Write)?;
        let mut images: Vec<Self> =
            entries.filter_map(Result::ok).filter_map(|entry| Self::open_folder(&entry.path()).ok()).collect();
        images.sort_by(|a, b| a.document.id.cmp(&b.document.id));
        Ok(images)
    }

    /// Its name: `KUBERNETES-BUNDLE-BINARY`.
    pub fn id(&self) -> &str {
        &self.document.id
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folders of the root, topmost first, as overlayfs's `lowerdir=` wants them; absolute when the cache is.
    pub fn lowerdirs(&self) -> Vec<PathBuf> {
        self.document.lowerdirs.iter().map(|below| resolve(&self.folder, below)).collect()
    }

    /// The filled containerd store.
    fn store(&self) -> PathBuf {
        resolve(&self.folder, &self.document.containerd)
    }

    /// Clones the store into a machine's own `/var/lib/containerd`: hard links, but databases copied. On another file
    /// system everything is copied.
    pub fn clone_store(&self, target: &Path) -> Result<(), MachineImageError> {
        store::clone(&self.store(), target)
            .map_err(|source| MachineImageError::Clone { id: self.document.id.clone(), source })
    }

    /// Notes that `holder`, a path that exists as long as it needs the image, uses it. It is not pruned until the path
    /// is gone or [`MachineImage::release_holder`] is called.
    pub fn hold(&self, holder: &Path) -> Result<(), MachineImageError> {
        holders::hold(&self.folder, holder)
            .map_err(|source| MachineImageError::Hold { id: self.document.id.clone(), source })
    }

    /// Takes a holder's note away.
    pub fn release_holder(&self, holder: &Path) -> Result<(), MachineImageError> {
        holders::release(&self.folder, holder)
            .map_err(|source| MachineImageError::Hold { id: self.document.id.clone(), source })
    }

    /// Digest of the bundle it was made from.
    pub fn bundle(&self) -> Digest {
        self.document.bundle
    }

    /// Digest of the binary on it.
    pub fn windlass(&self) -> Digest {
        self.document.windlass
    }

    /// The release machines of this image run: the bundle's, with the controllers' image as `windlass`.
    pub fn release(&self) -> Release {
        self.document.release.clone()
    }

    /// Compares the installed programs with the bundle's lock.
    pub fn verify(&self) -> Result<(), MachineImageError> {
        let root = self.lowerdirs().pop().unwrap_or_default();
        let bytes =
            fs_err::read(root.join(Lock::INSTALLED.trim_start_matches('/'))).map_err(MachineImageError::Write)?;
        let id = self.document.id.clone();
        if Digest::of(&bytes) != self.document.bundle {
            let (path, expected, found) = (Lock::INSTALLED.to_owned(), self.document.bundle, Digest::of(&bytes));
            let kind = crate::lock::DamageKind::Changed { expected, found, same_as: None };
            return Err(MachineImageError::Damaged { id, damages: vec![Damage { path, kind }] });
        }
        let damages = Lock::parse(&bytes)?.verify_installed(&root, None);
        if damages.is_empty() { Ok(()) } else { Err(MachineImageError::Damaged { id, damages }) }
    }
}

/// Joins without leaving `..` in the path, so that paths compare.
fn resolve(folder: &Path, below: &str) -> PathBuf {
    match (below.strip_prefix("../"), folder.parent()) {
        (Some(beside), Some(parent)) => parent.join(beside),
        _ => folder.join(below),
    }
}
