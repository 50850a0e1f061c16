//! A bundle in the cache: found, opened, verified.
//!
//! Inputs: the cache and a Kubernetes version. Outputs: [`Bundle`] with its lock, the paths of its programs, and the
//! release it is.

use std::io;
use std::path::{Path, PathBuf};

use windlass_spec::full::Release;

use crate::cache::{Cache, clear};
use crate::debian;
use crate::digest::Digest;
use crate::lock::{Damage, Lock, LockError};
use crate::manifest::numbers;
use crate::recipe::Recipe;

/// A bundle on this computer. Its folder is named `KUBERNETES-DIGEST` after the lock's digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    folder: PathBuf,
    lock: Lock,
    digest: Digest,
}

/// Why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The folder cannot be read.
    #[error("the bundle {} cannot be read", folder.display())]
    Read {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its lock cannot be used.
    #[error("the bundle {} has no usable lock", folder.display())]
    Lock {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: LockError,
    },
    /// Its lock is not the one its folder is named after.
    #[error("the lock of the bundle {} was changed: expected sha256:{expected}…, found {found}", folder.display())]
    Swapped {
        /// Where.
        folder: PathBuf,
        /// Digits the folder's name ends with.
        expected: String,
        /// Digest of the lock that is there.
        found: Digest,
    },
    /// Files are not what they were.
    #[error("the bundle {} is damaged:\n  {}", folder.display(), list(damages))]
    Damaged {
        /// Where.
        folder: PathBuf,
        /// Each file.
        damages: Vec<Damage>,
    },
    /// It cannot be moved into the cache or removed.
    #[error("the bundle {} cannot be moved into the cache or removed", folder.display())]
    Move {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn list(damages: &[Damage]) -> String {
    damages.iter().map(Damage::to_string).collect::<Vec<_>>().join("\n  ")
}

impl Bundle {
    /// Opens the bundle in a folder; its lock must be the one the folder is named after.
    pub fn open(folder: &Path) -> Result<Self, BundleError> {
        let read = |source| BundleError::Read { folder: folder.to_path_buf(), source };
        let bytes = fs_err::read(folder.join(Lock::FILE)).map_err(read)?;
        let digest = Digest::of(&bytes);
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some((_, expected)) = name.rsplit_once('-')
            && expected != digest.short()
        {
            let (folder, expected) = (folder.to_path_buf(), expected.to_owned());
            return Err(BundleError::Swapped { folder, expected, found: digest });
        }
        let lock = Lock::parse(&bytes).map_err(|source| BundleError::Lock { folder: folder.to_path_buf(), source })?;
        Ok(Self { folder: folder.to_path_buf(), lock, digest })
    }

    /// Every bundle in the cache: lowest Kubernetes first, then oldest first. One that cannot be opened is an error in
    /// its place.
    pub fn list(cache: &Cache) -> Result<Vec<Result<Self, BundleError>>, BundleError> {
        let folder = cache.bundles();
        let read = |source| BundleError::Read { folder: folder.clone(), source };
        if !folder.try_exists().map_err(read)? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in fs_err::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            let made = entry.metadata().and_then(|metadata| metadata.modified()).map_err(read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name.split('-').next().map(numbers).unwrap_or_default();
            found.push(((version, made), entry.path()));
        }
        found.sort();
        Ok(found.iter().map(|(_, path)| Self::open(path)).collect())
    }

    /// The bundle built from exactly this recipe.
    pub fn of_recipe(recipe: &Recipe, cache: &Cache) -> Result<Option<Self>, BundleError> {
        let wanted = recipe.digest();
        Ok(Self::usable(cache)?.rfind(|bundle| bundle.lock.recipe == wanted))
    }

    /// The bundle to use for a Kubernetes version (`1.37.2`): the one this build's recipe makes, else the newest of that
    /// version, from wherever it came.
    pub fn locate(kubernetes_version: &str, cache: &Cache) -> Result<Option<Self>, BundleError> {
        let wanted = kubernetes_version.strip_prefix('v').unwrap_or(kubernetes_version);
        if let Ok(recipe) = Recipe::find(wanted)
            && let Some(bundle) = Self::of_recipe(&recipe, cache)?
        {
            return Ok(Some(bundle));
        }
        Ok(Self::usable(cache)?.rfind(|bundle| bundle.lock.kubernetes == wanted))
    }

    /// The bundle with this digest (`sha256:HEX`), as a cluster records it.
    pub fn with_digest(digest: &str, cache: &Cache) -> Result<Option<Self>, BundleError> {
        Ok(Self::usable(cache)?.find(|bundle| bundle.digest.to_string() == digest))
    }

    fn usable(cache: &Cache) -> Result<impl DoubleEndedIterator<Item = Self>, BundleError> {
        Ok(Self::list(cache)?.into_iter().filter_map(Result::ok))
    }

    /// Moves a finished folder into the cache under its own name; an equal one that is there already stays.
    pub(crate) fn take_in(folder: &Path, cache: &Cache) -> Result<Self, BundleError> {
        let moved = |source| BundleError::Move { folder: folder.to_path_buf(), source };
        let bytes = fs_err::read(folder.join(Lock::FILE)).map_err(moved)?;
        let lock = Lock::parse(&bytes).map_err(|source| BundleError::Lock { folder: folder.to_path_buf(), source })?;
        let place = cache.bundles().join(format!("{}-{}", lock.kubernetes, Digest::of(&bytes).short()));
        if place.try_exists().map_err(moved)? {
            clear(&place).map_err(moved)?;
        }
        fs_err::create_dir_all(cache.bundles()).map_err(moved)?;
        fs_err::rename(folder, &place).map_err(moved)?;
        Self::open(&place)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its lock.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Digest of its lock: its identity.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Name of its folder: `1.37.2-0123456789ab`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.lock.kubernetes, self.digest.short())
    }

    /// Bytes of all its files.
    pub fn size(&self) -> u64 {
        self.lock.files.values().map(|entry| entry.size).sum()
    }

    /// Path of a program on this computer (`kube-apiserver`, `etcd`, `kubectl`).
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.path_of(name).map(|path| self.folder.join(path))
    }

    /// Path of a program in the bundle.
    fn path_of(&self, name: &str) -> Option<&str> {
        let program = |path: &&String| path.starts_with("bin/") && path.rsplit('/').next() == Some(name);
        self.lock.files.keys().find(program).map(String::as_str)
    }

    /// Folders of its images' OCI layouts.
    pub(crate) fn layouts(&self) -> Vec<PathBuf> {
        self.lock.images.keys().map(|name| self.folder.join("images").join(name)).collect()
    }

    /// The archive of the machines' root.
    pub(crate) fn root_archive(&self) -> PathBuf {
        self.folder.join("root").join(debian::ARCHIVE)
    }

    /// The release it is: versions and image names. The controllers' image is not in a bundle:
    /// [`crate::MachineImage::release`] adds it.
    pub fn release(&self) -> Release {
        Release {
            kubernetes: self.lock.kubernetes.clone(),
            bundle: self.digest.to_string(),
            versions: self.lock.versions.clone(),
            images: self.lock.images.iter().map(|(name, image)| (name.clone(), image.reference.clone())).collect(),
        }
    }

    /// Reads every file again and refuses, by name, each that is not what it was.
    pub fn verify(&self) -> Result<(), BundleError> {
        let damages = self
            .lock
            .verify(&self.folder)
            .map_err(|source| BundleError::Read { folder: self.folder.clone(), source })?;
        self.refuse_damaged(damages)
    }

    /// Reads these programs again, before they are run, and refuses, by name, each that is not what it was. Names it does
    /// not have are passed over.
    pub fn verify_programs(&self, names: &[&str]) -> Result<(), BundleError> {
        let paths: Vec<&str> = names.iter().filter_map(|name| self.path_of(name)).collect();
        self.refuse_damaged(self.lock.verify_some(&self.folder, &paths))
    }

    fn refuse_damaged(&self, damages: Vec<Damage>) -> Result<(), BundleError> {
        if damages.is_empty() { Ok(()) } else { Err(BundleError::Damaged { folder: self.folder.clone(), damages }) }
    }

    /// Removes it from the cache. Machine images made from it stay.
    pub fn remove(self) -> Result<(), BundleError> {
        clear(&self.folder).map_err(|source| BundleError::Move { folder: self.folder.clone(), source })
    }
}
