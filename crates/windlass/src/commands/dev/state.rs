//! What `dev raise` must not forget: a file in the cluster's folder, mode 0600.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use windlass_pki::Authorities;
use windlass_providers::ports::Scope;
use windlass_spec::identity::{ClusterId, Epoch, FormAttempt, Ownership, Role};

use windlass_plan::decide::WantedMachine;

/// Everything random about a cluster.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct State {
    pub(super) scope: Scope,
    pub(super) authorities: Authorities,
    pub(super) attempt: FormAttempt,
    /// Has the cluster been formed?
    pub(super) formed: bool,
    /// Generation of the configurations handed out last.
    pub(super) generation: u64,
    /// Join tokens by worker.
    pub(super) tokens: BTreeMap<String, String>,
}

impl State {
    /// A cluster that never was.
    pub(super) fn new(cluster: &str, machines: &[WantedMachine]) -> anyhow::Result<Self> {
        let cluster_id = ClusterId(random("0123456789abcdef", 16));
        let owner = cluster_id.as_str().into();
        let alphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
        let workers = machines.iter().filter(|machine| machine.role == Role::Worker);
        Ok(Self {
            scope: Scope {
                cluster: cluster.to_owned(),
                ownership: Ownership { owner: windlass_spec::identity::OwnerId(owner), epoch: Epoch(1) },
                cluster_id,
            },
            authorities: Authorities::generate(Timestamp::now())?,
            attempt: FormAttempt(random("0123456789abcdef", 16)),
            formed: false,
            generation: 0,
            tokens: workers
                .map(|machine| (machine.name.clone(), format!("{}.{}", random(alphabet, 6), random(alphabet, 16))))
                .collect(),
        })
    }

    /// Reads it, where there is one.
    pub(super) fn load(cluster: &str) -> anyhow::Result<Option<Self>> {
        let path = file(cluster);
        if !path.try_exists()? {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&fs_err::read(path)?)?))
    }

    /// Writes it.
    pub(super) fn store(&self, cluster: &str) -> anyhow::Result<()> {
        Ok(windlass_files::replace_durably(file(cluster), &serde_json::to_vec_pretty(self)?, 0o600)?)
    }
}

fn file(cluster: &str) -> PathBuf {
    Path::new(cluster).join("dev.json")
}

fn random(alphabet: &str, length: usize) -> String {
    let letters = alphabet.as_bytes();
    let mut source = rand::rng();
    (0..length).map(|_| char::from(letters[source.random_range(0..letters.len())])).collect()
}
