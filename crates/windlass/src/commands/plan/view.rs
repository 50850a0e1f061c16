//! A plan as data for people and programs.
//!
//! Inputs: the full spec, what exists. Output: [`View`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;

use windlass_plan::preview::{Fate, PlannedMachine, machines};
use windlass_plan::{Observed, Plan};
use windlass_providers::address;
use windlass_spec::full::FullCluster;
use windlass_spec::identity::{Role, Slot};
use windlass_spec::names;

/// What a spec would make or change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    /// Cluster name.
    pub(super) cluster: String,
    /// Is it there already?
    pub(super) exists: bool,
    /// Kubernetes version and bundle.
    pub(super) kubernetes: String,
    pub(super) bundle: String,
    /// Where clients will find the API.
    pub(super) endpoint: String,
    /// Ranges.
    pub(super) network: NetworkView,
    /// Machines that are or will be.
    pub(super) machines: Vec<MachineView>,
    /// Volumes wanted.
    pub(super) volumes: Vec<VolumeView>,
    /// Version by component.
    pub(super) components: BTreeMap<String, String>,
    /// What would be done, in order, and what was changed by hand and stays.
    pub(super) plan: Plan,
}

/// Ranges of a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NetworkView {
    /// The machines' own: free now, kept at create.
    pub(super) machines: Option<IpNet>,
    pub(super) endpoint: Option<IpAddr>,
    pub(super) pods: Vec<IpNet>,
    pub(super) services: Vec<IpNet>,
    pub(super) zone: String,
}

/// A machine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineView {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) group: String,
    pub(super) version: String,
    /// Expected; the provider keeps it at create.
    pub(super) address: Option<IpAddr>,
    pub(super) volumes: Vec<String>,
    pub(super) exists: bool,
    /// It is there, and the change takes it away.
    pub(super) goes: bool,
}

/// A volume.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeView {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) machine: Option<String>,
    /// A new one is blank and will be formatted.
    pub(super) will_format: bool,
}

impl View {
    /// The view of a spec.
    pub(super) fn new(full: &FullCluster, observed: &Observed) -> Self {
        let subnet = expected_subnet(full).filter(|_| observed.applied.is_none());
        let machines = machine_views(full, observed, subnet);
        Self {
            cluster: full.name.clone(),
            exists: observed.applied.is_some(),
            kubernetes: full.release.kubernetes.clone(),
            bundle: full.release.bundle.clone(),
            endpoint: format!("https://{}:{}", full.endpoint.name, full.endpoint.port),
            network: NetworkView {
                machines: subnet,
                endpoint: subnet.map(address::endpoint),
                pods: full.network.pods.clone(),
                services: full.network.services.clone(),
                zone: names::zone(&full.name),
            },
            volumes: volumes(full, observed, &machines),
            machines,
            components: full.release.versions.clone(),
            plan: windlass_plan::plan(full, observed),
        }
    }
}

/// The range the provider would pick now.
fn expected_subnet(full: &FullCluster) -> Option<IpNet> {
    let network = &full.network;
    let taken: Vec<IpNet> =
        full.facts.host_routes.iter().chain(&network.pods).chain(&network.services).copied().collect();
    address::free_subnet(&taken).ok()
}

fn machine_views(full: &FullCluster, observed: &Observed, subnet: Option<IpNet>) -> Vec<MachineView> {
    let mut taken: Vec<IpAddr> = Vec::new();
    let mut views = Vec::new();
    for PlannedMachine { machine, fate } in machines(full, observed) {
        let address = subnet.and_then(|subnet| expected_address(machine.slot, subnet, &taken));
        taken.extend(address);
        let group = full.workers.iter().find(|group| group.name == machine.group);
        let held = |etcd: &windlass_spec::full::Etcd| machine.slot.map(|slot| names::etcd_volume(&etcd.name, slot));
        views.push(MachineView {
            version: group.map_or(&full.release.kubernetes, |group| &group.version).clone(),
            volumes: full.etcd.iter().filter_map(held).collect(),
            exists: !matches!(fate, Fate::New { .. }),
            goes: matches!(fate, Fate::Goes { .. }),
            role: machine.role,
            group: machine.group,
            name: machine.name,
            address,
        });
    }
    views
}

fn expected_address(slot: Option<Slot>, subnet: IpNet, taken: &[IpAddr]) -> Option<IpAddr> {
    match slot {
        Some(slot) => address::of_slot(subnet, slot).ok(),
        None => address::next_worker(subnet, taken.iter().copied()).ok(),
    }
}

fn volumes(full: &FullCluster, observed: &Observed, machines: &[MachineView]) -> Vec<VolumeView> {
    let all = full.etcd.iter().flat_map(|etcd| etcd.members.iter().map(move |slot| (etcd, *slot)));
    all.map(|(etcd, slot)| {
        let name = names::etcd_volume(&etcd.name, slot);
        VolumeView {
            machine: machines
                .iter()
                .find(|machine| machine.volumes.contains(&name))
                .map(|machine| machine.name.clone()),
            bytes: etcd.volume_bytes,
            will_format: !observed.volumes.contains(&name),
            name,
        }
    })
    .collect()
}
