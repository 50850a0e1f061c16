//! What one hostd holds, and how it is changed: the rules of [`Holdings`], written down before anyone is told.
//!
//! Inputs: calls by owners, what machines do. Outputs: state on disk, woken watchers. The acts themselves are beside
//! this file: [`super::networks`], [`super::machines`], [`super::disks`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use windlass_spec::identity::ClusterId;
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

use super::super::authority::{Authority, Identity};
use super::super::paths::Paths;
use super::super::protocol;
use super::cgroups::Hierarchies;
use super::metrics::Metrics;
use super::networks::Servers;
use super::sandbox::Running;
use super::store::{Store, StoreError};
use crate::holdings::{FreshIdentity, Holdings};
use crate::ports::{Inventory, Machine, OwnerCredential, ProviderError, Reservation, Scope};

/// How long a long poll waits.
pub(super) const LONG_POLL: Duration = Duration::from_secs(30);

/// A machine of a cluster.
pub(super) type Key = (ClusterId, String);

/// One hostd.
pub(super) struct Host {
    pub(super) paths: Paths,
    pub(super) store: Store,
    pub(super) authority: Authority,
    pub(super) cgroups: Hierarchies,
    pub(super) metrics: Metrics,
    pub(super) build: String,
    /// Held to read by each change, to write by a hostd that becomes another binary.
    pub(super) gate: Arc<tokio::sync::RwLock<()>>,
    /// One at a time: picking ranges, making and removing networks.
    pub(super) network_lock: tokio::sync::Mutex<()>,
    /// The table last loaded.
    pub(super) loaded_table: tokio::sync::Mutex<Option<String>>,
    pub(super) servers: Mutex<BTreeMap<ClusterId, Servers>>,
    /// True once every machine was taken up or started after hostd's own start.
    pub(super) ready: watch::Sender<bool>,
    /// Told to end.
    pub(super) stopping: tokio::sync::Notify,
    clusters: Mutex<BTreeMap<ClusterId, Cluster>>,
    machine_locks: Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<()>>>>,
    changes: watch::Sender<u64>,
    last_call: Mutex<Instant>,
}

/// One cluster in memory.
pub(super) struct Cluster {
    pub(super) holdings: Holdings,
    pub(super) processes: BTreeMap<String, Running>,
    revision: u64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn failed(operation: impl Into<String>, error: &dyn std::error::Error) -> ProviderError {
    let mut cause = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        cause = format!("{cause}: {source}");
        next = source.source();
    }
    ProviderError::Failed { operation: operation.into(), cause }
}

fn no_cluster(id: &ClusterId) -> ProviderError {
    ProviderError::NotFound { what: format!("cluster {id}") }
}

impl Host {
    /// With what an earlier hostd left.
    pub(super) fn load(paths: Paths, build: String) -> Result<Self, super::HostdError> {
        let store = Store::new(paths.clone());
        // Revisions only ever differ: the clock keeps those of an earlier hostd behind.
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let revision = u64::try_from(clock).unwrap_or(1);
        let clusters = store.load()?.into_iter().map(|holdings| {
            (holdings.scope.cluster_id.clone(), Cluster { holdings, processes: BTreeMap::new(), revision })
        });
        let cgroups = Hierarchies::detect(&paths.unit()).map_err(super::HostdError::Cgroups)?;
        Ok(Self {
            authority: Authority::load_or_make(&paths.authority())?,
            clusters: Mutex::new(clusters.collect()),
            cgroups,
            store,
            paths,
            metrics: Metrics::new(&build),
            build,
            gate: Arc::default(),
            network_lock: tokio::sync::Mutex::new(()),
            loaded_table: tokio::sync::Mutex::new(None),
            servers: Mutex::default(),
            ready: watch::Sender::new(false),
            stopping: tokio::sync::Notify::new(),
            machine_locks: Mutex::default(),
            changes: watch::Sender::new(revision),
            last_call: Mutex::new(Instant::now()),
        })
    }

    pub(super) fn clusters(&self) -> MutexGuard<'_, BTreeMap<ClusterId, Cluster>> {
        lock(&self.clusters)
    }

    /// Reads a cluster that is there.
    pub(super) fn look<T>(
        &self,
        id: &ClusterId,
        read: impl FnOnce(&Cluster) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        read(self.clusters().get(id).ok_or_else(|| no_cluster(id))?)
    }

    /// Changes a cluster, writes it down, wakes those who watch.
    pub(super) fn change<T>(
        &self,
        id: &ClusterId,
        act: impl FnOnce(&mut Cluster) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let mut clusters = self.clusters();
        let cluster = clusters.get_mut(id).ok_or_else(|| no_cluster(id))?;
        let before = cluster.holdings.clone();
        let answer = act(cluster)?;
        if cluster.holdings != before {
            self.store.save(&cluster.holdings).map_err(|error| failed("writing hostd's state", &error))?;
            cluster.revision = self.tick();
        }
        Ok(answer)
    }

    /// As [`Host::change`], by an owner's right.
    pub(super) fn owned<T>(
        &self,
        scope: &Scope,
        act: impl FnOnce(&mut Cluster) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        self.change(&scope.cluster_id, |cluster| {
            cluster.holdings.admit(scope)?;
            act(cluster)
        })
    }

    /// Told of each change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn tick(&self) -> u64 {
        self.changes.send_modify(|revision| *revision += 1);
        *self.changes.borrow()
    }

    /// Enters a cluster that is not there yet. Two living clusters never share a name.
    pub(super) fn enter(&self, scope: &Scope) -> Result<(), ProviderError> {
        let mut clusters = self.clusters();
        let living = clusters.values().filter(|cluster| cluster.holdings.holds_name());
        let mut others = living.map(|cluster| &cluster.holdings.scope);
        let other = others.find(|other| other.cluster == scope.cluster && other.cluster_id != scope.cluster_id);
        if let Some(other) = other {
            return Err(ProviderError::Conflict {
                what: format!("cluster {}", scope.cluster),
                difference: format!("its id is {}, not {}", other.cluster_id, scope.cluster_id),
            });
        }
        let revision = *self.changes.borrow();
        clusters.entry(scope.cluster_id.clone()).or_insert_with(|| Cluster {
            holdings: Holdings::new(scope.clone()),
            processes: BTreeMap::new(),
            revision,
        });
        Ok(())
    }

    /// Forgets a cluster of which nothing is left.
    pub(super) fn forget_empty(&self, id: &ClusterId) -> Result<(), ProviderError> {
        let mut clusters = self.clusters();
        if clusters.get(id).is_some_and(|cluster| cluster.holdings.is_empty()) {
            self.store.forget(id).map_err(|error| failed("forgetting the cluster", &error))?;
            clusters.remove(id);
            lock(&self.machine_locks).retain(|(cluster, _), _| cluster != id);
            self.tick();
        }
        Ok(())
    }

    /// Only one act on a machine at a time.
    pub(super) async fn lock_machine(&self, key: &Key) -> tokio::sync::OwnedMutexGuard<()> {
        let mutex = lock(&self.machine_locks).entry(key.clone()).or_default().clone();
        mutex.lock_owned().await
    }

    /// Keeps a name and address.
    pub(super) fn reserve(&self, wish: &protocol::Reserve) -> Result<Reservation, ProviderError> {
        check_name("machine", &wish.machine)?;
        self.owned(&wish.scope, |cluster| cluster.holdings.reserve(&wish.machine, wish.slot, fresh_identity()))
    }

    /// Lays a configuration and wakes the agent that waits for it.
    pub(super) fn put_config(&self, wish: &protocol::PutConfig) -> Result<(), ProviderError> {
        let id = &wish.scope.cluster_id;
        self.owned(&wish.scope, |cluster| {
            if cluster.holdings.lay(&wish.machine, &wish.config)? {
                let saved = self.store.save_config(id, &wish.machine, &wish.config);
                saved.map_err(|error| failed("writing the configuration", &error))?;
            }
            Ok(())
        })
    }

    /// The configuration laid for a machine, when it is another than the one it has; waits for one.
    pub(super) async fn next_config(&self, key: &Key, after: &str) -> Result<Option<SealedNodeConfig>, ProviderError> {
        let mut changes = self.changes();
        let deadline = tokio::time::Instant::now() + LONG_POLL;
        let (id, machine) = key;
        loop {
            let laid = self.look(id, |cluster| Ok(cluster.holdings.machine(machine)?.laid.clone()))?;
            if laid.is_some_and(|laid| laid.hash != after) {
                let config = self.store.config(id, machine);
                return config.map_err(|error| failed("reading the configuration", &error));
            }
            if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Takes a machine's report. True when the ready API servers may be others now.
    pub(super) fn hear(&self, key: &Key, report: NodeReport) -> Result<bool, ProviderError> {
        let (id, machine) = key;
        let mut clusters = self.clusters();
        let cluster = clusters.get_mut(id).ok_or_else(|| no_cluster(id))?;
        let before = cluster.holdings.ready_api_servers();
        let saved = self.store.save_report(id, machine, &report);
        if cluster.holdings.hear(machine, report)? {
            cluster.revision = self.tick();
        }
        saved.map_err(|error| failed("writing the report", &error))?;
        Ok(cluster.holdings.ready_api_servers() != before)
    }

    /// Everything held for a cluster.
    pub(super) fn inventory(&self, scope: &Scope) -> Result<Inventory, ProviderError> {
        self.look(&scope.cluster_id, |cluster| {
            cluster.holdings.recognise(scope)?;
            Ok(cluster.holdings.inventory(cluster.revision))
        })
    }

    /// Everything held for every cluster.
    pub(super) fn inventories(&self) -> Vec<Inventory> {
        self.clusters().values().map(|cluster| cluster.holdings.inventory(cluster.revision)).collect()
    }

    /// The inventory once its revision is another.
    pub(super) async fn watch(&self, scope: &Scope, seen: u64) -> Result<Inventory, ProviderError> {
        let mut changes = self.changes();
        let deadline = tokio::time::Instant::now() + LONG_POLL;
        loop {
            let inventory = self.inventory(scope)?;
            if inventory.revision != seen {
                return Ok(inventory);
            }
            if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(inventory);
            }
        }
    }

    /// A credential for an owner elsewhere.
    pub(super) fn credential(&self, scope: &Scope) -> Result<OwnerCredential, ProviderError> {
        let url = self.look(&scope.cluster_id, |cluster| {
            cluster.holdings.recognise(scope)?;
            Ok(cluster.holdings.network()?.network.api_url.clone())
        })?;
        let identity = Identity::Owner { cluster: scope.cluster_id.clone(), ownership: scope.ownership.clone() };
        let issued = self.authority.client(&identity).map_err(|error| failed("issuing a credential", &error))?;
        let ca = self.authority.certificate().to_owned();
        Ok(OwnerCredential { url, ca, certificate: issued.certificate, key: issued.key })
    }

    /// Finds a machine by `MACHINE` or `CLUSTER/MACHINE`.
    pub(super) fn find(&self, name: &str) -> Result<Key, ProviderError> {
        let clusters = self.clusters();
        let (cluster, machine) =
            name.split_once('/').map_or((None, name), |(cluster, machine)| (Some(cluster), machine));
        let mut found = clusters.iter().filter(|(_, held)| {
            cluster.is_none_or(|cluster| held.holdings.scope.cluster == cluster)
                && held.holdings.machines.contains_key(machine)
        });
        let first = found.next().ok_or_else(|| ProviderError::NotFound { what: format!("machine {name}") })?;
        if let Some(second) = found.next() {
            let names = [first.1, second.1].map(|held| format!("{}/{machine}", held.holdings.scope.cluster));
            return Err(ProviderError::Conflict {
                what: format!("machine {machine}"),
                difference: format!("there are several: {}", names.join(", ")),
            });
        }
        Ok((first.0.clone(), machine.to_owned()))
    }

    /// A machine as ports show it.
    pub(super) fn show(&self, key: &Key) -> Result<Machine, ProviderError> {
        self.look(&key.0, |cluster| cluster.holdings.show_machine(&key.1))
    }

    /// How hostd introduces itself.
    pub(super) fn hello(&self) -> protocol::Hello {
        let clusters = self.clusters();
        protocol::Hello {
            protocol: protocol::PROTOCOL,
            state_format: super::store::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: self.build.clone(),
            pid: std::process::id(),
            starting: !*self.ready.borrow(),
            clusters: clusters.len(),
            machines: clusters.values().map(|cluster| cluster.holdings.machines.len()).sum(),
        }
    }

    /// Waits until hostd knows what runs: an act before that would meet machines it does not know.
    pub(super) async fn until_ready(&self) {
        // An error would mean that this host is gone, and it is not.
        drop(self.ready.subscribe().wait_for(|ready| *ready).await);
    }

    /// Notes that somebody called.
    pub(super) fn touch(&self) {
        *lock(&self.last_call) = Instant::now();
    }

    /// Does it hold nothing, and did nobody call for this long?
    pub(super) fn is_idle(&self, since: Duration) -> bool {
        self.clusters().is_empty() && lock(&self.last_call).elapsed() > since
    }
}

fn fresh_identity() -> FreshIdentity {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (place, machine): (u64, u128) = (rand::random(), rand::random());
    FreshIdentity { place: format!("{host}/{place:016x}"), machine_id: format!("{machine:032x}") }
}

/// Names become file, host and DNS names.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), ProviderError> {
    let fits = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if fits {
        return Ok(());
    }
    Err(ProviderError::Conflict {
        what: format!("{what} {name:?}"),
        difference: "a name is 1 to 63 of a-z, 0-9 and '-', with no '-' at its ends".to_owned(),
    })
}

impl From<StoreError> for ProviderError {
    fn from(error: StoreError) -> Self {
        failed("hostd's state", &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_their_folder_are_refused() {
        for good in ["lab-cp-a", "a", &"x".repeat(63)] {
            assert!(check_name("machine", good).is_ok(), "{good}");
        }
        for bad in ["", "..", "a/b", "-a", "a-", "A", "a.b", &"x".repeat(64)] {
            assert!(check_name("machine", bad).is_err(), "{bad}");
        }
    }
}
