//! Bundles: every file and image of one Kubernetes release, and the machine images made from them.
//!
//! Inputs: a [`Recipe`] (release manifest and the Go modules it names, embedded in the binary), a [`Cache`] folder,
//! and the toolchain of this computer or an archive file. Outputs: a [`Bundle`] whose [`Lock`] holds the digest of
//! every file and image, and a [`MachineImage`] that a machine is cloned from in well under a second.
//!
//! Calls block; from async code they belong on a blocking thread. Progress goes to a [`Progress`] of the caller's.

mod archive;
mod build;
mod bundle;
mod cache;
mod debian;
mod digest;
mod lock;
mod machine_image;
mod manifest;
mod oci;
mod progress;
mod recipe;
mod source;
mod steps;
mod tool;

pub use archive::{ArchiveError, export, import};
pub use build::{BuildError, build, build_extra};
pub use bundle::{Bundle, BundleError};
pub use cache::{Cache, CacheError, CacheLock};
pub use debian::DebianError;
pub use digest::Digest;
pub use lock::{Damage, DamageKind, FileEntry, ImageEntry, Lock, LockError};
pub use machine_image::{MachineImage, MachineImageError, StoreError, WindlassBinary, machine_image};
pub use manifest::{Component, Image, Manifest, ManifestError, Need, Program, Root, Toolchain};
pub use oci::OciError;
pub use progress::{Event, Progress, Silent};
pub use recipe::{Recipe, RecipeError};
pub use source::{ArchiveFile, GoModules, LocalCache, Source, SourceError, obtain};
pub use tool::{ToolError, Tools};

/// Architecture of everything in a bundle, as Go and OCI spell it.
pub const ARCHITECTURE: &str = "amd64";

/// Host part of every image name.
pub const IMAGE_PREFIX: &str = "windlass.dev";
