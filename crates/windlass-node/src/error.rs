//! Why a part of the machine is not as the configuration says.

use std::io;
use std::path::{Path, PathBuf};

use crate::host::command::CommandError;
use crate::host::disks::DiskError;
use crate::host::units::UnitError;
use crate::ledger::LedgerError;

/// A part's failure.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// systemd.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Files of the bundle that are not what its lock says.
    #[error("files of the bundle are damaged or were swapped, so nothing of it is started: {}; replace the machine, or put the right files back", files.join("; "))]
    Damaged {
        /// Each, with what is wrong.
        files: Vec<String>,
    },
    /// A volume that may not be used.
    #[error("volume {volume}: {reason}")]
    Volume {
        /// Which.
        volume: String,
        /// Why not.
        reason: String,
    },
    /// The configuration contradicts itself or the machine.
    #[error("{what}: {problem}")]
    Config {
        /// What part of it.
        what: String,
        /// How.
        problem: String,
    },
    /// A certificate could not be issued.
    #[error("certificate {name}: {cause}")]
    Certificate {
        /// Which.
        name: String,
        /// Why.
        cause: String,
    },
    /// A hook or first-boot script failed.
    #[error("{name}: {cause}")]
    Hook {
        /// Which.
        name: String,
        /// Why.
        cause: String,
    },
    /// etcd may not be started.
    #[error("etcd: {0}")]
    Etcd(String),
    /// The network could not be set.
    #[error("network: {operation}: {cause}")]
    Network {
        /// What was tried.
        operation: String,
        /// Why it failed.
        cause: String,
    },
    /// The cluster's API said no.
    #[error("{operation}: {cause}")]
    Api {
        /// What was asked.
        operation: String,
        /// Its answer.
        cause: String,
    },
    /// A component keeps ending.
    #[error("{0}")]
    Component(String),
    /// A failure with the component's own last lines.
    #[error("{source}")]
    Logged {
        /// The failure.
        source: Box<PartError>,
        /// The lines.
        log: Vec<String>,
    },
}

impl PartError {
    /// Adds a path to an I/O failure.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    /// Adds the operation to an API failure.
    pub fn api(operation: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let operation = operation.into();
        move |error| Self::Api { operation, cause: error.to_string() }
    }

    /// Adds the component's own last lines.
    #[must_use]
    pub fn with_log(self, log: Vec<String>) -> Self {
        if log.is_empty() { self } else { Self::Logged { source: Box::new(self), log } }
    }

    /// The component's own last lines, as far as known.
    pub fn log(&self) -> Vec<String> {
        match self {
            Self::Logged { log, .. } => log.clone(),
            Self::Command(CommandError::Failed { lines, .. }) => lines.clone(),
            _ => Vec::new(),
        }
    }
}

/// What a part changed, for people.
pub type Changes = Vec<String>;
