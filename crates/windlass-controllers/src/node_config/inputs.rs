//! Gathers what one machine's configuration is rendered from, or says what is still missing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use windlass_pki::Authorities;
use windlass_plan::{ControlPlaneMachine, NetworkFacts, NodeInputs, RenderError, decide, render};
use windlass_spec::full::FullCluster;
use windlass_spec::identity::{ClusterId, Epoch, FormAttempt, Generation, Role, Slot};
use windlass_spec::node_config::{EtcdPermit, MachineIdentity, ManagedNode, SealedNodeConfig};

use super::tokens::{self, Spent};
use crate::api::cluster_api::Machine;
use crate::api::cluster_api::shared::AddressType;
use crate::api::names;
use crate::api::windlass::{ControlPlane, LocalMachine, NodeConfig};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::{Index, Key};
use crate::objects;
use crate::reasons::Reason;
use crate::runtime::workers::Next;

/// How long the first configurations of control planes wait for workers' addresses: with them, nothing has to be laid
/// twice.
const PATIENCE: i64 = 3;

/// What is missing.
pub(super) struct Wait {
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) again: Next,
}

fn wait<T>(reason: Reason, message: impl Into<String>) -> Result<T, Wait> {
    Err(Wait { reason, message: message.into(), again: Next::Await })
}

/// Everything one machine's configuration depends on.
pub(super) struct Inputs {
    full: Arc<FullCluster>,
    pub(super) spec_hash: String,
    cluster_id: ClusterId,
    epoch: Epoch,
    machine: MachineIdentity,
    control_planes: Vec<ControlPlaneMachine>,
    machines: Vec<ManagedNode>,
    permit: EtcdPermit,
    network: NetworkFacts,
    authorities: Arc<Authorities>,
    bootstrap_token: Option<String>,
    join_tokens: BTreeMap<String, String>,
    /// When the inputs will be others though nothing changes.
    pub(super) again: Next,
    self_managed: bool,
}

impl Inputs {
    /// Renders.
    pub(super) fn render(&self, generation: Generation) -> Result<SealedNodeConfig, RenderError> {
        render(&NodeInputs {
            full: &self.full,
            cluster_id: &self.cluster_id,
            epoch: self.epoch,
            generation,
            machine: &self.machine,
            control_planes: &self.control_planes,
            machines: &self.machines,
            permit: &self.permit,
            members_generation: Generation(self.control_planes.len() as u64),
            network: &self.network,
            authorities: &self.authorities,
            bootstrap_token: self.bootstrap_token.as_deref(),
            join_tokens: &self.join_tokens,
            self_managed: self.self_managed,
        })
    }
}

/// Gathers.
pub(super) async fn gather(
    context: &Arc<Context>,
    config: &NodeConfig,
    cluster: &Key,
) -> Result<Result<Inputs, Wait>, ReconcileError> {
    let Some(plane) = context.index.control_planes.of_cluster(cluster).into_iter().next() else {
        return Ok(wait(Reason::NotFound, "the cluster has no ControlPlane"));
    };
    let Some(authorities) = context.authorities.get(context, cluster).await? else {
        return Ok(wait(Reason::WaitingForCertificates, "the cluster's authorities are not there yet"));
    };
    Ok(collect(context, config, cluster, &plane, authorities))
}

fn collect(
    context: &Context,
    config: &NodeConfig,
    cluster: &Key,
    plane: &ControlPlane,
    authorities: Arc<Authorities>,
) -> Result<Inputs, Wait> {
    let index = &context.index;
    let key = Key::of(config);
    let Some(full) = index.full(cluster) else {
        return wait(Reason::WaitingForSpec, "the complete spec is not there yet");
    };
    let Some(scope) = context.scope(cluster) else {
        return wait(Reason::WaitingForSpec, "the cluster's identity is not known yet");
    };
    let Some(machine) = index.machines.get(&key) else {
        return wait(Reason::WaitingForMachine, format!("Machine {} does not exist", key.name));
    };
    let network = network(index, cluster)?;
    let control_planes = control_planes(plane, &full)?;
    let permit = permit(plane)?;
    let identity = identity(index, config, &machine)?;
    let is_control_plane = identity.role == Role::ControlPlane;
    let machines = managed_nodes(context, cluster, &full);
    if is_control_plane && index.secrets.get(&key).is_none() {
        await_workers(context, cluster, &full, &machines)?;
    }
    let own = |nonce: &String| tokens::token(&authorities.encryption_key, &key.name, nonce);
    let bootstrap_token = config.spec.join_nonce.as_ref().filter(|_| !is_control_plane).map(own);
    let (join_tokens, again) =
        if is_control_plane { join_tokens(index, cluster, &authorities) } else { (BTreeMap::new(), Next::Await) };
    let wcl = index.windlass_clusters.get(cluster);
    let self_managed = wcl.is_some_and(|wcl| objects::annotation(&*wcl, names::SELF_MANAGED) == Some("true"));
    Ok(Inputs {
        spec_hash: crate::windlass_cluster::spec_hash(&full, &config.spec.group),
        cluster_id: scope.cluster_id,
        epoch: scope.ownership.epoch,
        machine: identity,
        control_planes,
        machines: if is_control_plane { machines } else { Vec::new() },
        permit,
        network,
        bootstrap_token,
        join_tokens,
        again,
        self_managed,
        authorities,
        full,
    })
}

fn network(index: &Index, cluster: &Key) -> Result<NetworkFacts, Wait> {
    let locals = index.local_clusters.of_cluster(cluster);
    let facts = locals.iter().find_map(|local| {
        let network = local.status.as_ref()?.network.as_ref()?;
        Some(NetworkFacts {
            subnet: network.subnet.parse().ok()?,
            gateway: network.gateway.parse().ok()?,
            endpoint: network.endpoint.parse().ok()?,
            zone: network.zone.clone(),
        })
    });
    facts.map_or_else(|| wait(Reason::WaitingForNetwork, "the cluster's network is not there yet"), Ok)
}

/// Every wanted place with its address for life.
fn control_planes(plane: &ControlPlane, full: &FullCluster) -> Result<Vec<ControlPlaneMachine>, Wait> {
    let addresses = crate::control_plane::slot_addresses(plane);
    let wanted = Slot::first(usize::try_from(plane.spec.replicas).unwrap_or(0));
    let known: Vec<ControlPlaneMachine> = wanted
        .iter()
        .filter_map(|&slot| {
            let address = *addresses.get(&slot)?;
            let name = windlass_spec::names::control_plane_machine(&full.name, slot);
            Some(ControlPlaneMachine { slot, name, address })
        })
        .collect();
    if known.len() == wanted.len() && !known.is_empty() {
        Ok(known)
    } else {
        wait(Reason::WaitingForAddresses, "addresses of control planes are not all kept yet")
    }
}

fn permit(plane: &ControlPlane) -> Result<EtcdPermit, Wait> {
    if let Some(formed_by) = objects::annotation(plane, names::FORMED_BY) {
        return Ok(EtcdPermit::Join { formed_by: FormAttempt(formed_by.to_owned()) });
    }
    match objects::annotation(plane, names::FORM_ATTEMPT) {
        Some(attempt) => Ok(EtcdPermit::Form { attempt: FormAttempt(attempt.to_owned()) }),
        None => wait(Reason::Waiting, "no attempt to form etcd is recorded yet"),
    }
}

fn identity(index: &Index, config: &NodeConfig, machine: &Machine) -> Result<MachineIdentity, Wait> {
    let key = Key::of(config);
    let local = index.local_machines.get(&key);
    let address = local.as_deref().and_then(address);
    let provider_id = local.as_ref().and_then(|local| local.spec.provider_id.clone());
    let (Some(address), Some(provider_id)) = (address, provider_id) else {
        return wait(Reason::WaitingForAddresses, "its own address is not kept yet");
    };
    let domain = local.as_ref().and_then(|local| local.status.as_ref()?.failure_domain.clone());
    Ok(MachineIdentity {
        name: key.name,
        role: if config.spec.slot.is_some() { Role::ControlPlane } else { Role::Worker },
        group: config.spec.group.clone(),
        slot: config.spec.slot,
        address,
        provider_id,
        failure_domain: machine.spec.failure_domain.clone().or(domain),
    })
}

/// A machine's address.
pub(crate) fn address(local: &LocalMachine) -> Option<IpAddr> {
    let addresses = &local.status.as_ref()?.addresses;
    addresses.iter().find(|one| one.type_ == AddressType::InternalIP)?.address.parse().ok()
}

/// Workers the cluster wants, by its MachineDeployments.
fn workers_wanted(index: &Index, cluster: &Key) -> usize {
    let deployments = index.machine_deployments.of_cluster(cluster);
    let live = deployments.iter().filter(|deployment| !objects::is_deleting(&***deployment));
    live.map(|deployment| usize::try_from(deployment.spec.replicas.unwrap_or(1)).unwrap_or(0)).sum()
}

/// Every machine whose certificates may be approved, with what only a manager may set on its Node.
fn managed_nodes(context: &Context, cluster: &Key, full: &FullCluster) -> Vec<ManagedNode> {
    let index = &context.index;
    let workers = workers_wanted(index, cluster);
    let machines = index.machines.of_cluster(cluster);
    machines
        .iter()
        .filter(|machine| !objects::is_deleting(&***machine))
        .filter_map(|machine| {
            let name = machine.name_any();
            let address = address(&*index.local_machines.get(&cluster.sibling(&name))?)?;
            let is_control_plane = objects::label(&**machine, names::CONTROL_PLANE).is_some();
            let role = if is_control_plane { Role::ControlPlane } else { Role::Worker };
            let group = objects::label(&**machine, names::GROUP).unwrap_or_default();
            Some(decide::managed_node(full, &name, role, group, address, workers))
        })
        .collect()
}

/// The first configuration of a control plane names the workers the spec asks for, if they get addresses soon.
fn await_workers(context: &Context, cluster: &Key, full: &FullCluster, known: &[ManagedNode]) -> Result<(), Wait> {
    let index = &context.index;
    let wanted = workers_wanted(index, cluster);
    let groups = full.workers.iter().filter(|group| group.count > 0).count();
    let known = known.iter().filter(|node| node.role == Role::Worker).count();
    if known >= wanted && index.machine_deployments.of_cluster(cluster).len() >= groups {
        return Ok(());
    }
    let born = index.clusters.get(cluster).and_then(|cluster| objects::created(&*cluster));
    let age = born.map_or(PATIENCE, |born| jiff::Timestamp::now().as_second() - born.as_second());
    if age >= PATIENCE {
        return Ok(());
    }
    Err(Wait {
        reason: Reason::WaitingForAddresses,
        message: "addresses of workers are not all kept yet".to_owned(),
        again: Next::After(Duration::from_millis(500)),
    })
}

/// Tokens of machines that have not joined, and how long until they may be taken away. That is when all have joined and
/// a while has passed: a cluster that grows by many is not written anew for each, nor one that was just raised at once.
fn join_tokens(index: &Index, cluster: &Key, authorities: &Authorities) -> (BTreeMap<String, String>, Next) {
    let machines = index.machines.of_cluster(cluster);
    let workers: Vec<(String, Arc<NodeConfig>)> = machines
        .iter()
        .filter(|machine| !objects::is_deleting(&***machine))
        .filter(|machine| objects::label(&***machine, names::CONTROL_PLANE).is_none())
        .filter_map(|machine| Some((machine.name_any(), index.node_configs.get(&Key::of(&**machine))?)))
        .collect();
    let joined = workers.iter().map(|(_, config)| objects::annotation(&**config, names::JOINED));
    let again = match tokens::spent(joined, jiff::Timestamp::now()) {
        Spent::All => return (BTreeMap::new(), Next::Await),
        Spent::In(time) => Next::After(time),
        Spent::NotYet => Next::Await,
    };
    let token = |(name, config): (String, Arc<NodeConfig>)| {
        let nonce = config.spec.join_nonce.as_ref()?;
        let token = tokens::token(&authorities.encryption_key, &name, nonce);
        Some((name, token))
    };
    (workers.into_iter().filter_map(token).collect(), again)
}
