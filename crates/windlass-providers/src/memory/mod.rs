//! A place that exists only in memory: the twin of the local provider for tests and faults.
//!
//! Inputs: [`Provider`] calls, faults to inject, acts of fate (a machine dies, a disk is lost). Outputs: the same
//! answers as a real place, by the same rules ([`crate::holdings`]), and machines that come to life by themselves and
//! report as agents do ([`life`]).

pub mod faults;
pub mod life;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use tokio::sync::watch;

use windlass_spec::full::{CgroupMode, Facts};
use windlass_spec::identity::{ClusterId, Slot};
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

use crate::address;
use crate::holdings::{FreshIdentity, Holdings, MachineChange, NetworkHeld, Power};
use crate::ports::{
    Inventory, Machine, MachineState, MachineWanted, Network, NetworkWanted, OwnerCredential, Provider, ProviderError,
    Reservation, Scope, Volume, VolumeWanted,
};
use faults::{Fault, Faults, Operation};
use life::Life;

const LONG_POLL: Duration = Duration::from_secs(30);

/// A place in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clusters: Mutex<BTreeMap<ClusterId, Cluster>>,
    faults: Mutex<Faults>,
    life: Life,
    changes: watch::Sender<u64>,
    identities: std::sync::atomic::AtomicU64,
}

#[derive(Debug)]
struct Cluster {
    holdings: Holdings,
    configs: BTreeMap<String, SealedNodeConfig>,
    revision: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Life::default())
    }
}

impl Memory {
    /// An empty place whose machines live like this.
    pub fn new(life: Life) -> Self {
        Self {
            shared: Arc::new(Shared {
                clusters: Mutex::default(),
                faults: Mutex::default(),
                life,
                changes: watch::Sender::new(1),
                identities: std::sync::atomic::AtomicU64::new(1),
            }),
        }
    }

    /// Makes the next `times` calls of an operation fail like this.
    pub fn inject(&self, operation: Operation, fault: Fault, times: usize) {
        self.faults().inject(operation, fault, times);
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<Operation> {
        self.faults().calls().to_vec()
    }

    /// A machine dies by itself.
    pub fn kill(&self, cluster: &ClusterId, machine: &str) -> Result<(), ProviderError> {
        self.change(cluster, |cluster| {
            let held = cluster.holdings.machine_mut(machine)?;
            held.state = MachineState::Stopped { reason: "killed by signal 9".to_owned() };
            held.boot_id = None;
            Ok(true)
        })
    }

    /// A machine is stopped by a person.
    pub fn stop(&self, cluster: &ClusterId, machine: &str) -> Result<(), ProviderError> {
        self.change(cluster, |cluster| {
            let held = cluster.holdings.machine_mut(machine)?;
            held.power = Power::Off;
            held.state = MachineState::Stopped { reason: "stopped by request".to_owned() };
            held.boot_id = None;
            Ok(true)
        })
    }

    /// A stopped or dead machine starts again.
    pub fn start(&self, cluster: &ClusterId, machine: &str) -> Result<(), ProviderError> {
        self.change(cluster, |cluster| {
            let held = cluster.holdings.machine_mut(machine)?;
            held.power = Power::On;
            held.state = MachineState::Starting;
            Ok(true)
        })?;
        self.live(cluster, machine);
        Ok(())
    }

    /// A volume's content is gone: it is forgotten, with whatever it was attached to.
    pub fn lose_volume(&self, cluster: &ClusterId, volume: &str) -> Result<(), ProviderError> {
        self.change(cluster, |cluster| Ok(cluster.holdings.volumes.remove(volume).is_some()))
    }

    /// A machine reports, as its agent would.
    pub fn report(&self, cluster: &ClusterId, machine: &str, report: NodeReport) -> Result<(), ProviderError> {
        self.change(cluster, |cluster| cluster.holdings.hear(machine, report))
    }

    /// The configuration laid for a machine.
    pub fn config(&self, cluster: &ClusterId, machine: &str) -> Option<SealedNodeConfig> {
        self.clusters().get(cluster)?.configs.get(machine).cloned()
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.shared.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn clusters(&self) -> MutexGuard<'_, BTreeMap<ClusterId, Cluster>> {
        self.shared.clusters.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes a cluster that is there; `act` says whether anything changed.
    fn change<T: Changed>(
        &self,
        id: &ClusterId,
        act: impl FnOnce(&mut Cluster) -> Result<T, ProviderError>,
    ) -> Result<T::Answer, ProviderError> {
        let mut clusters = self.clusters();
        let cluster = clusters.get_mut(id).ok_or_else(|| no_cluster(id))?;
        let (changed, answer) = act(cluster)?.split();
        if changed {
            self.shared.changes.send_modify(|revision| *revision += 1);
            cluster.revision = *self.shared.changes.borrow();
        }
        Ok(answer)
    }

    /// As [`Memory::change`], by an owner's right.
    fn owned<T: Changed>(
        &self,
        scope: &Scope,
        act: impl FnOnce(&mut Cluster) -> Result<T, ProviderError>,
    ) -> Result<T::Answer, ProviderError> {
        self.change(&scope.cluster_id, |cluster| {
            cluster.holdings.admit(scope)?;
            act(cluster)
        })
    }

    /// As [`Memory::owned`]; a cluster that is gone is as good.
    fn gone_or(
        &self,
        scope: &Scope,
        act: impl FnOnce(&mut Cluster) -> Result<bool, ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.clusters().contains_key(&scope.cluster_id) { self.owned(scope, act) } else { Ok(()) }
    }

    /// Runs a call through the injected faults.
    async fn call<T>(
        &self,
        operation: Operation,
        act: impl FnOnce() -> Result<T, ProviderError> + Send,
    ) -> Result<T, ProviderError> {
        let fault = self.faults().enter(operation);
        match fault {
            None => act(),
            Some(Fault::Before(error)) => Err(error),
            Some(Fault::After(error)) => act().and(Err(error)),
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                act()
            }
            Some(Fault::Hang) => std::future::pending().await,
        }
    }

    fn fresh(&self) -> FreshIdentity {
        let number = self.shared.identities.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        FreshIdentity { place: format!("memory/{number:016x}"), machine_id: format!("{number:032x}") }
    }

    fn pick_network(&self, wanted: &NetworkWanted) -> Result<Network, ProviderError> {
        let clusters = self.clusters();
        let others = clusters.values().filter_map(|cluster| cluster.holdings.network.as_ref());
        let taken: Vec<IpNet> = others.map(|held| held.network.subnet).chain(wanted.avoid.iter().copied()).collect();
        let subnet = address::free_subnet(&taken)?;
        let gateway = address::gateway(subnet);
        Ok(Network {
            subnet,
            gateway,
            endpoint: address::endpoint(subnet),
            bridge: format!("memory-{}", clusters.len()),
            zone: wanted.zone.clone(),
            api_url: format!("https://{gateway}:7440"),
        })
    }
}

/// What a change answers, and whether it changed anything.
trait Changed {
    type Answer;
    fn split(self) -> (bool, Self::Answer);
}

impl Changed for bool {
    type Answer = ();
    fn split(self) -> (bool, ()) {
        (self, ())
    }
}

impl<T> Changed for (bool, T) {
    type Answer = T;
    fn split(self) -> (bool, T) {
        self
    }
}

fn no_cluster(id: &ClusterId) -> ProviderError {
    ProviderError::NotFound { what: format!("cluster {id}") }
}

#[async_trait]
impl Provider for Memory {
    async fn facts(&self) -> Result<Facts, ProviderError> {
        self.call(Operation::Facts, || {
            Ok(Facts {
                cgroup: CgroupMode::V2,
                oom_score_adjustable: true,
                conntrack_writable: false,
                shared_disk: true,
                host_routes: Vec::new(),
            })
        })
        .await
    }

    async fn preflight(&self, _machines: u32) -> Result<Vec<String>, ProviderError> {
        self.call(Operation::Preflight, || Ok(Vec::new())).await
    }

    async fn ensure_network(&self, scope: &Scope, wanted: &NetworkWanted) -> Result<Network, ProviderError> {
        self.call(Operation::EnsureNetwork, || {
            self.check_name(scope)?;
            self.clusters().entry(scope.cluster_id.clone()).or_insert_with(|| Cluster {
                holdings: Holdings::new(scope.clone()),
                configs: BTreeMap::new(),
                revision: 1,
            });
            if let Some(network) = self.owned(scope, |cluster| Ok((true, cluster.holdings.want_network(wanted)?)))? {
                return Ok(network);
            }
            let network = self.pick_network(wanted)?;
            self.owned(scope, |cluster| {
                let held = NetworkHeld { wanted: wanted.clone(), network: network.clone() };
                Ok((true, cluster.holdings.network.get_or_insert(held).network.clone()))
            })
        })
        .await
    }

    async fn reserve(&self, scope: &Scope, machine: &str, slot: Option<Slot>) -> Result<Reservation, ProviderError> {
        self.call(Operation::Reserve, || {
            self.owned(scope, |cluster| Ok((true, cluster.holdings.reserve(machine, slot, self.fresh())?)))
        })
        .await
    }

    async fn ensure_volume(&self, scope: &Scope, wanted: &VolumeWanted) -> Result<Volume, ProviderError> {
        self.call(Operation::EnsureVolume, || {
            self.owned(scope, |cluster| {
                if let Some(volume) = cluster.holdings.want_volume(wanted)? {
                    return Ok((false, volume));
                }
                let location = format!("memory:{}/{}", scope.cluster, wanted.name);
                Ok((true, cluster.holdings.add_volume(wanted.clone(), location)))
            })
        })
        .await
    }

    async fn ensure_machine(&self, scope: &Scope, wanted: &MachineWanted) -> Result<Machine, ProviderError> {
        self.call(Operation::EnsureMachine, || {
            let (change, machine) = self.owned(scope, |cluster| {
                let change = cluster.holdings.want_machine(wanted, &wanted.image)?;
                if change == MachineChange::Make {
                    let held = cluster.holdings.machine_mut(&wanted.name)?;
                    if held.state != MachineState::Starting {
                        held.state = MachineState::Starting;
                    }
                }
                let machine = cluster.holdings.show_machine(&wanted.name)?;
                Ok((change != MachineChange::Attach(Vec::new()), (change, machine)))
            })?;
            if change == MachineChange::Make {
                self.live(&scope.cluster_id, &wanted.name);
            }
            Ok(machine)
        })
        .await
    }

    async fn put_config(&self, scope: &Scope, machine: &str, config: &SealedNodeConfig) -> Result<(), ProviderError> {
        self.call(Operation::PutConfig, || {
            self.owned(scope, |cluster| {
                let news = cluster.holdings.lay(machine, config)?;
                cluster.configs.insert(machine.to_owned(), config.clone());
                Ok(news)
            })
        })
        .await
    }

    async fn delete_machine(&self, scope: &Scope, machine: &str) -> Result<(), ProviderError> {
        self.call(Operation::DeleteMachine, || {
            self.gone_or(scope, |cluster| {
                cluster.configs.remove(machine);
                Ok(cluster.holdings.remove_machine(machine).is_some())
            })
        })
        .await
    }

    async fn delete_volume(&self, scope: &Scope, volume: &str) -> Result<(), ProviderError> {
        self.call(Operation::DeleteVolume, || {
            self.gone_or(scope, |cluster| {
                cluster.holdings.removable_volume(volume)?;
                Ok(cluster.holdings.volumes.remove(volume).is_some())
            })?;
            self.forget_empty(scope);
            Ok(())
        })
        .await
    }

    async fn delete_network(&self, scope: &Scope) -> Result<(), ProviderError> {
        self.call(Operation::DeleteNetwork, || {
            self.gone_or(scope, |cluster| {
                cluster.holdings.removable_network()?;
                Ok(cluster.holdings.network.take().is_some())
            })?;
            self.forget_empty(scope);
            Ok(())
        })
        .await
    }

    async fn inventory(&self, scope: &Scope) -> Result<Inventory, ProviderError> {
        self.call(Operation::Inventory, || self.read(scope)).await
    }

    async fn watch(&self, scope: &Scope, seen: u64) -> Result<Inventory, ProviderError> {
        let mut changes = self.shared.changes.subscribe();
        let deadline = tokio::time::Instant::now() + LONG_POLL;
        let first = self.call(Operation::Watch, || self.read(scope)).await?;
        let mut inventory = first;
        while inventory.revision == seen {
            if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                break;
            }
            inventory = self.read(scope)?;
        }
        Ok(inventory)
    }

    async fn credential(&self, scope: &Scope) -> Result<OwnerCredential, ProviderError> {
        self.call(Operation::Credential, || {
            let inventory = self.read(scope)?;
            Ok(OwnerCredential {
                url: inventory.network.map(|network| network.api_url).unwrap_or_default(),
                ca: "memory".to_owned(),
                certificate: format!("owner:{}:{}:{}", scope.cluster_id, scope.ownership.owner, scope.ownership.epoch),
                key: "memory".to_owned(),
            })
        })
        .await
    }
}

impl Memory {
    fn read(&self, scope: &Scope) -> Result<Inventory, ProviderError> {
        let clusters = self.clusters();
        let cluster = clusters.get(&scope.cluster_id).ok_or_else(|| no_cluster(&scope.cluster_id))?;
        cluster.holdings.recognise(scope)?;
        Ok(cluster.holdings.inventory(cluster.revision))
    }

    /// Two living clusters never share a name.
    fn check_name(&self, scope: &Scope) -> Result<(), ProviderError> {
        let clusters = self.clusters();
        let living = clusters.values().filter(|cluster| cluster.holdings.holds_name());
        let mut others = living.map(|cluster| &cluster.holdings.scope);
        match others.find(|other| other.cluster == scope.cluster && other.cluster_id != scope.cluster_id) {
            None => Ok(()),
            Some(other) => Err(ProviderError::Conflict {
                what: format!("cluster {}", scope.cluster),
                difference: format!("its id is {}, not {}", other.cluster_id, scope.cluster_id),
            }),
        }
    }

    fn forget_empty(&self, scope: &Scope) {
        let mut clusters = self.clusters();
        if clusters.get(&scope.cluster_id).is_some_and(|cluster| cluster.holdings.is_empty()) {
            clusters.remove(&scope.cluster_id);
            self.shared.changes.send_modify(|revision| *revision += 1);
        }
    }
}
