//! How the twin's machines live: they boot, take up their configuration and report, as real ones do.
//!
//! Input: machines that were started or given a configuration. Output: changed states and [`NodeReport`]s, by tokio's
//! clock (so a test with paused time sees them at once).

use std::time::Duration;

use jiff::Timestamp;

use windlass_spec::identity::{ClusterId, Role};
use windlass_spec::node_config::{EtcdPermit, SealedNodeConfig};
use windlass_spec::report::{ConfigSeen, NodeReport, PartReport, PartState};

use super::Memory;
use crate::ports::{MachineState, ProviderError};

/// How long things take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// From start to running; none: it stays starting until a test says otherwise.
    pub boot: Option<Duration>,
    /// From running with a configuration to ready; none: it never reports by itself.
    pub ready: Option<Duration>,
}

impl Default for Life {
    fn default() -> Self {
        Self { boot: Some(Duration::from_millis(2)), ready: Some(Duration::from_millis(2)) }
    }
}

impl Life {
    /// Machines that do nothing by themselves.
    pub fn manual() -> Self {
        Self { boot: None, ready: None }
    }
}

const POLL: Duration = Duration::from_millis(5);

impl Memory {
    /// Lets a machine live until it is stopped, started again or deleted.
    pub(super) fn live(&self, cluster: &ClusterId, machine: &str) {
        let Some(boot) = self.shared.life.boot else { return };
        let (memory, cluster, machine) = (self.clone(), cluster.clone(), machine.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(boot).await;
            let Ok(boot_id) = memory.boot(&cluster, &machine) else { return };
            if let Some(ready) = memory.shared.life.ready {
                memory.follow(&cluster, &machine, &boot_id, ready).await;
            }
        });
    }

    /// Brings a starting machine to running.
    pub fn boot(&self, cluster: &ClusterId, machine: &str) -> Result<String, ProviderError> {
        let boot_id = self.fresh().machine_id;
        let new = boot_id.clone();
        self.change(cluster, |cluster| {
            let held = cluster.holdings.machine_mut(machine)?;
            if held.state != MachineState::Starting {
                return Err(ProviderError::NotFound { what: format!("starting machine {machine}") });
            }
            held.state = MachineState::Running;
            held.starts += 1;
            held.boot_id = Some(new);
            Ok(true)
        })?;
        Ok(boot_id)
    }

    /// Takes up each configuration laid while this boot lasts.
    async fn follow(&self, cluster: &ClusterId, machine: &str, boot_id: &str, ready: Duration) {
        let mut changes = self.shared.changes.subscribe();
        let mut applied = None;
        while self.boots_with(cluster, machine, boot_id) {
            let config = self.config(cluster, machine);
            if let Some(config) = config.filter(|config| applied.as_ref() != Some(&config.hash)) {
                tokio::time::sleep(ready).await;
                if !self.boots_with(cluster, machine, boot_id) {
                    return;
                }
                applied = Some(config.hash.clone());
                if self.report(cluster, machine, ready_report(&config, boot_id)).is_err() {
                    return;
                }
            }
            // Changes of other machines wake this one as well; rest a little between them.
            if changes.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn boots_with(&self, cluster: &ClusterId, machine: &str, boot_id: &str) -> bool {
        let clusters = self.clusters();
        let held = clusters.get(cluster).and_then(|cluster| cluster.holdings.machines.get(machine));
        held.is_some_and(|held| held.boot_id.as_deref() == Some(boot_id))
    }
}

/// What the agent of a machine that converged reports.
pub fn ready_report(sealed: &SealedNodeConfig, boot_id: &str) -> NodeReport {
    let config = &sealed.config;
    let now = Timestamp::now();
    let done =
        |part: &str| PartReport { part: part.to_owned(), state: PartState::Done, changes: Vec::new(), since: now };
    let control_plane = config.machine.role == Role::ControlPlane;
    let mut parts = vec![done("volumes"), done("containerd"), done("kubelet")];
    if control_plane {
        parts.extend([done("etcd"), done("kube-apiserver")]);
    }
    NodeReport {
        format: NodeReport::FORMAT,
        machine: config.machine.name.clone(),
        boot_id: boot_id.to_owned(),
        at: now,
        windlass_version: config.windlass_version.clone(),
        config: Some(ConfigSeen { epoch: config.epoch, generation: config.generation, hash: sealed.hash.clone() }),
        parts,
        etcd_formed_by: config.etcd.as_ref().map(|etcd| match &etcd.permit {
            EtcdPermit::Form { attempt } => attempt.0.clone(),
            EtcdPermit::Join { formed_by } => formed_by.0.clone(),
        }),
        etcd_member_id: config.machine.slot.map(|slot| format!("{:016x}", 0xe7cd_0000_u64 + slot as u64)),
        api_server_ready: control_plane.then_some(true),
        api_server_names: Vec::new(),
        node_ready: true,
    }
}
