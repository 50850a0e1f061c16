//! After hostd's own start: machines that live are taken up, those that lost their power start again, once.
//!
//! Inputs: what an earlier hostd wrote down, the processes there are. Outputs: every machine as it was wanted. Control
//! planes come first: until an API server answers, a worker's kubelet can start nothing and would only take its time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use windlass_spec::identity::ClusterId;

use super::host::{Host, Key};
use super::machines::give_volumes;
use crate::holdings::Power;
use crate::ports::{MachineState, ProviderError};

/// Machines brought up at once.
const AT_ONCE: usize = 4;

/// Workers start without an API server after this long: their own static pods shall not wait for a lost one.
const PATIENCE: Duration = Duration::from_secs(45);

impl Host {
    /// Takes up what runs, starts what should; workers are left to follow their API server. `resume`: machines found dead stay so (hostd only became another binary).
    pub(super) async fn bring_up(self: &Arc<Self>, resume: bool) {
        let ids: Vec<ClusterId> = self.clusters().keys().cloned().collect();
        for id in &ids {
            if let Err(error) = self.raise_again(id).await {
                tracing::warn!(cluster = %id, %error, "network not raised");
            }
        }
        let mut dead = Vec::new();
        for key in ids.iter().flat_map(|id| self.every_machine(id)) {
            match self.take_up(&key, resume).await {
                Ok(Found::Settled) => {}
                Ok(Found::WithoutPower) => dead.push(key),
                Err(error) => tracing::warn!(machine = %key.1, cluster = %key.0, %error, "machine not taken up"),
            }
        }
        let (control_planes, workers): (Vec<Key>, Vec<Key>) = dead.into_iter().partition(|key| self.has_slot(key));
        self.power_on_all(control_planes).await;
        if let Err(error) = self.load_table().await {
            tracing::warn!(%error, "table not loaded");
        }
        self.ready.send_replace(true);
        for id in ids {
            let own: Vec<Key> = workers.iter().filter(|(cluster, _)| *cluster == id).cloned().collect();
            let host = Arc::clone(self);
            tokio::spawn(async move { host.bring_up_workers(&id, own).await });
        }
    }

    async fn raise_again(self: &Arc<Self>, id: &ClusterId) -> Result<(), ProviderError> {
        let _alone = self.network_lock.lock().await;
        match self.look(id, |cluster| Ok(cluster.holdings.network.is_some()))? {
            true => self.raise_network(id).await,
            false => Ok(()),
        }
    }

    async fn bring_up_workers(self: &Arc<Self>, id: &ClusterId, workers: Vec<Key>) {
        if workers.is_empty() {
            return;
        }
        if tokio::time::timeout(PATIENCE, self.until_api_serves(id)).await.is_err() {
            tracing::warn!(cluster = %id, "no API server answers yet; workers start without one");
        }
        self.power_on_all(workers).await;
    }

    /// Returns once an API server of the cluster is ready, or when it has no control plane here that runs.
    async fn until_api_serves(&self, id: &ClusterId) {
        let mut changes = self.changes();
        let waits = || {
            self.look(id, |cluster| {
                let mut running = cluster.processes.keys().filter_map(|name| cluster.holdings.machines.get(name));
                let may_serve = running.any(|held| held.slot.is_some());
                Ok(may_serve && cluster.holdings.ready_api_servers().is_empty())
            })
        };
        while waits().unwrap_or(false) && changes.changed().await.is_ok() {}
    }

    /// Begun in order, a few at a time.
    async fn power_on_all(self: &Arc<Self>, keys: Vec<Key>) {
        let starts = keys.into_iter().map(|key| {
            let host = Arc::clone(self);
            async move {
                let _alone = host.lock_machine(&key).await;
                // Meanwhile it may have been deleted, or stopped by request.
                let wanted = host.look(&key.0, |cluster| Ok(cluster.holdings.machine(&key.1)?.power == Power::On));
                if !wanted.unwrap_or(false) {
                    return;
                }
                if let Err(error) = host.power_on(&key).await {
                    tracing::warn!(machine = %key.1, cluster = %key.0, %error, "machine not brought up");
                }
            }
        });
        futures::stream::iter(starts).buffered(AT_ONCE).collect::<()>().await;
    }

    /// Those that shall run in their order, then the others.
    fn every_machine(&self, id: &ClusterId) -> Vec<Key> {
        let names = self.look(id, |cluster| {
            let mut names = cluster.holdings.start_order();
            let rest = cluster.holdings.machines.iter().filter(|(_, held)| held.wanted.is_some());
            let rest: Vec<String> = rest.map(|(name, _)| name.clone()).filter(|name| !names.contains(name)).collect();
            names.extend(rest);
            Ok(names)
        });
        names.unwrap_or_default().into_iter().map(|name| (id.clone(), name)).collect()
    }

    fn has_slot(&self, (id, machine): &Key) -> bool {
        self.look(id, |cluster| Ok(cluster.holdings.machine(machine)?.slot.is_some())).unwrap_or(false)
    }

    /// Enters a machine that lives; cleans up after one that does not.
    async fn take_up(self: &Arc<Self>, key: &Key, resume: bool) -> Result<Found, ProviderError> {
        let (id, machine) = key;
        let _alone = self.lock_machine(key).await;
        let sandbox = self.sandbox(key)?;
        let recorded = self.store.process(id, machine)?.map(|running| running.supervisor);
        let process = recorded.filter(|process| process.is_alive()).or_else(|| sandbox.find());
        if let Some(running) = process.and_then(|process| sandbox.take_up(process)) {
            tracing::info!(%machine, cluster = %id, pid = running.init.pid, "machine taken up");
            self.adopt(key, running, false)?;
            give_volumes(running, &self.volume_files(key)?).await?;
            return Ok(Found::Settled);
        }
        let held = self.look(id, |cluster| Ok(cluster.holdings.machine(machine)?.clone()))?;
        let dead = matches!(held.state, MachineState::Stopped { .. });
        if held.power == Power::On && !(resume && dead) {
            self.set_state(key, MachineState::Starting)?;
            return Ok(Found::WithoutPower);
        }
        self.wind_down(key, &sandbox).await?;
        if !dead {
            self.set_state(key, MachineState::Stopped { reason: "stopped by request".to_owned() })?;
        }
        Ok(Found::Settled)
    }
}

/// What became of a machine while no hostd ran.
enum Found {
    /// It is as it was wanted.
    Settled,
    /// It shall run and does not.
    WithoutPower,
}
