//! The machine, behind narrow traits.
//!
//! Inputs: a root directory (`/` on a real machine), a runner of commands, systemd. Outputs: the same effects on a real
//! machine and, in tests, in a temporary directory with in-memory twins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub mod accounts;
pub mod command;
pub mod disks;
pub mod files;
pub mod units;

use command::Commands;
use units::Units;

/// A machine's file tree.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The tree below `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Where a path of the machine lies.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Is this the running machine itself?
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }
}

/// Everything a part may touch.
#[derive(Clone)]
pub struct Host {
    /// Files.
    pub root: Root,
    /// Programs.
    pub commands: Arc<dyn Commands>,
    /// systemd.
    pub units: Arc<dyn Units>,
}
