//! What the agent must never forget, in `/var/lib/windlass/ledger.json`.
//!
//! Inputs: facts as they become true. Outputs: the same facts after any crash; each change is synced before it is acted
//! upon. The format has a version; a newer one is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use windlass_spec::identity::{ClusterId, FormAttempt, Generation};
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::ConfigSeen;

use crate::host::{Root, files};
use crate::paths;

/// The facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ledger {
    /// Format of this document: [`Ledger::FORMAT`].
    pub format: u32,
    /// The cluster the machine belongs to, from its first configuration on.
    pub cluster_id: Option<ClusterId>,
    /// The newest configuration taken up.
    pub config: Option<ConfigSeen>,
    /// Generation of the newest list of etcd members taken up.
    #[serde(default)]
    pub members_generation: Option<Generation>,
    /// What is known of etcd's forming.
    pub etcd: Option<EtcdRecord>,
    /// Volumes by name.
    #[serde(default)]
    pub volumes: BTreeMap<String, VolumeRecord>,
    /// Hooks that ran: name to the hash of what ran.
    #[serde(default)]
    pub hooks: BTreeMap<String, String>,
    /// First-boot scripts that ran, by name.
    #[serde(default)]
    pub first_boot: BTreeSet<String>,
    /// Users whose keys and rights the agent laid.
    #[serde(default)]
    pub logins: BTreeSet<String>,
    /// Did the agent start the SSH server, so that it is the agent's to stop?
    #[serde(default)]
    pub ssh_server: bool,
    /// API servers last seen, `ADDRESS:PORT`.
    #[serde(default)]
    pub api_servers: Vec<String>,
    /// Identity of the last start of the machine.
    pub last_boot_id: Option<String>,
}

/// What is known of etcd's forming.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdRecord {
    /// The attempt this machine took part in.
    pub attempt: FormAttempt,
    /// Was it seen formed?
    pub formed: bool,
}

/// What is known of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeRecord {
    /// UUID of its file system.
    pub uuid: String,
    /// The label's count of mounts when last seen; an older copy has a lower one.
    pub serial: u64,
    /// Formatting was begun on a blank device and is not known to have ended.
    pub formatting: bool,
}

impl Ledger {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;
}

/// A ledger that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Reading.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing.
    #[error("writing {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is damaged.
    #[error("{} is damaged: {source}; it is left as it is", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// How.
        source: serde_json::Error,
    },
    /// A newer Windlass wrote it.
    #[error("{} has format {found}; this build knows {}", path.display(), Ledger::FORMAT)]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// The ledger on disk.
#[derive(Clone, Debug)]
pub struct LedgerStore {
    root: Root,
    ledger: Arc<Mutex<Ledger>>,
}

impl LedgerStore {
    /// Reads the ledger, or begins one.
    ///
    /// # Errors
    /// When it is there and cannot be understood.
    pub fn open(root: &Root) -> Result<Self, LedgerError> {
        let path = root.at(paths::LEDGER);
        let text = files::read_text(&path).map_err(|source| LedgerError::Read { path: path.clone(), source })?;
        let ledger = match text {
            None => Ledger { format: Ledger::FORMAT, ..Ledger::default() },
            Some(text) => parse(&text, path)?,
        };
        Ok(Self { root: root.clone(), ledger: Arc::new(Mutex::new(ledger)) })
    }

    /// The facts now.
    pub fn get(&self) -> Ledger {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the facts; synced to disk when this returns. Nothing is written when nothing changes.
    ///
    /// # Errors
    /// When writing fails; the facts then stay as they were.
    pub fn update(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), LedgerError> {
        let mut held = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = held.clone();
        change(&mut changed);
        if changed == *held {
            return Ok(());
        }
        let path = self.root.at(paths::LEDGER);
        let text = serde_json::to_vec_pretty(&changed)
            .map_err(|source| LedgerError::Damaged { path: path.clone(), source })?;
        files::replace_durably(&path, &text, 0o600).map_err(|source| LedgerError::Write { path, source })?;
        *held = changed;
        Ok(())
    }

    /// The last configuration taken up, secrets included.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn config(&self) -> Result<Option<SealedNodeConfig>, LedgerError> {
        let path = self.root.at(paths::NODE_CONFIG);
        let text = files::read_text(&path).map_err(|source| LedgerError::Read { path: path.clone(), source })?;
        text.map(|text| serde_json::from_str(&text).map_err(|source| LedgerError::Damaged { path, source })).transpose()
    }

    /// Keeps a configuration and notes it in the ledger.
    ///
    /// # Errors
    /// When writing fails.
    pub fn keep_config(&self, config: &SealedNodeConfig) -> Result<(), LedgerError> {
        let path = self.root.at(paths::NODE_CONFIG);
        let text = serde_json::to_vec(config).map_err(|source| LedgerError::Damaged { path: path.clone(), source })?;
        files::replace_durably(&path, &text, 0o600).map_err(|source| LedgerError::Write { path, source })?;
        self.update(|ledger| {
            ledger.cluster_id = Some(config.config.cluster_id.clone());
            let members = config.config.etcd.as_ref().map(|member| member.members_generation);
            ledger.members_generation = members.or(ledger.members_generation);
            ledger.config = Some(ConfigSeen {
                epoch: config.config.epoch,
                generation: config.config.generation,
                hash: config.hash.clone(),
            });
        })
    }
}

fn parse(text: &str, path: PathBuf) -> Result<Ledger, LedgerError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    match serde_json::from_str::<Versioned>(text) {
        Ok(Versioned { format }) if format > Ledger::FORMAT => Err(LedgerError::Newer { path, found: format }),
        Ok(_) => serde_json::from_str(text).map_err(|source| LedgerError::Damaged { path, source }),
        Err(source) => Err(LedgerError::Damaged { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = include_str!("../fixtures/ledger-v1.json");

    #[test]
    fn format_1_is_read_and_written_alike() {
        let ledger = parse(V1, "ledger.json".into()).unwrap();
        assert_eq!(ledger.etcd, Some(EtcdRecord { attempt: "5f0e".into(), formed: true }));
        assert_eq!(serde_json::to_string_pretty(&ledger).unwrap(), V1.trim_end());
    }

    #[test]
    fn a_newer_or_damaged_one_is_refused_and_kept() {
        assert!(matches!(parse(r#"{"format": 2, "new": 1}"#, "l".into()), Err(LedgerError::Newer { found: 2, .. })));
        assert!(matches!(parse("{", "l".into()), Err(LedgerError::Damaged { .. })));
    }

    #[test]
    fn facts_outlive_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let store = LedgerStore::open(&root).unwrap();
        store.update(|ledger| ledger.last_boot_id = Some("b".into())).unwrap();
        assert_eq!(LedgerStore::open(&root).unwrap().get(), store.get());
    }
}
