//! ControlPlanes: authorities, kubeconfig, one Machine a slot, the permit to form etcd.
//!
//! Inputs: the ControlPlane, its Machines with what their agents report, the cluster's Secrets. Outputs: authorities
//! made once and never again, the kubeconfig renewed, Machines by slot, the attempt and the forming of etcd recorded.

mod authorities;
mod decide;
mod kubeconfig;
mod status;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use kube::ResourceExt;
use windlass_spec::full::FullCluster;
use windlass_spec::identity::Slot;

use crate::api::cluster_api::Machine;
use crate::api::cluster_api::machine::{Bootstrap, MachineSpec};
use crate::api::cluster_api::shared::ContractReference;
use crate::api::names;
use crate::api::windlass::local_machine::LocalVolume;
use crate::api::windlass::{ControlPlane, ControlPlaneStatus, LocalMachine, NodeConfig, NodeConfigSpec};
use crate::conditions;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::machine_set::clone_metadata;
use crate::objects;
use crate::reasons::Reason;
use crate::runtime::workers::Next;
use decide::{Member, Observed, Plan, decide};

pub(crate) use authorities::AuthorityCache;

const MANAGER: &str = "windlass-controlplane";

/// The address of each slot, for life.
pub(crate) fn slot_addresses(plane: &ControlPlane) -> BTreeMap<Slot, IpAddr> {
    let text = objects::annotation(plane, names::SLOT_ADDRESSES).unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_default()
}

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(plane) = index.control_planes.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(objects::cluster_name(&*plane).unwrap_or(&key.name));
    if index.is_paused(&cluster) || objects::has_annotation(&*plane, names::PAUSED) {
        return pause(&context, &plane).await;
    }
    let mut plane = plane;
    let deleting = objects::is_deleting(&*plane);
    let mut certificates = authorities::Certificates::Missing;
    let mut again = Next::Await;
    if !deleting {
        if !objects::has_finalizer(&*plane, names::CONTROL_PLANE_FINALIZER) {
            let table = &index.control_planes;
            plane = context.writer.add_finalizer(table, &plane, names::CONTROL_PLANE_FINALIZER).await?;
        }
        certificates = authorities::ensure(&context, &plane, &cluster).await?;
        again = kubeconfig::ensure(&context, &plane, &cluster).await?;
    }
    let members = members(&context, &cluster);
    let plan = decide(&Observed {
        plane: &plane,
        members: &members,
        attempt: random_attempt(),
        cluster_deleting: index.is_deleting(&cluster),
        now: context.now(),
    });
    again = again.sooner(plan.again);
    let plane = record(&context, plane, &plan).await?;
    let full = index.full(&cluster);
    act(&context, &plane, &cluster, full.as_deref(), &plan).await?;
    if plan.finished {
        let table = &index.control_planes;
        context.writer.remove_finalizer(table, &plane, names::CONTROL_PLANE_FINALIZER).await?;
        return Ok(Next::Await);
    }
    let status = status::status(&plane, &members, certificates, context.now());
    context.writer.apply_status(&index.control_planes, MANAGER, &*plane, &status).await?;
    Ok(again)
}

fn random_attempt() -> String {
    hex::encode(rand::random::<[u8; 8]>())
}

async fn pause(context: &Context, plane: &ControlPlane) -> Result<Next, ReconcileError> {
    let before = plane.status.clone().unwrap_or_default();
    let generation = objects::generation(plane);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = ControlPlaneStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.control_planes, MANAGER, plane, &status).await?;
    Ok(Next::Await)
}

/// The control-plane Machines of a cluster with what belongs to them.
fn members(context: &Context, cluster: &Key) -> Vec<Member> {
    let index = &context.index;
    let machines = index.machines.of_cluster(cluster);
    let planes = machines.iter().filter(|machine| objects::label(&***machine, names::CONTROL_PLANE).is_some());
    planes
        .map(|machine| {
            let key = Key::of(&**machine);
            Member {
                slot: objects::label(&**machine, names::SLOT).and_then(|slot| slot.parse().ok()),
                machine: machine.clone(),
                local: index.local_machines.get(&key),
                has_config: index.node_configs.get(&key).is_some(),
            }
        })
        .collect()
}

/// Writes durable facts down before anything is built on them.
async fn record(context: &Context, plane: Arc<ControlPlane>, plan: &Plan) -> Result<Arc<ControlPlane>, ReconcileError> {
    if plan.record.is_empty() {
        return Ok(plane);
    }
    let facts: Vec<(&str, &str)> = plan.record.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let after = context.writer.record(&context.index.control_planes, &plane, &facts).await?;
    if let Some((_, attempt)) = facts.iter().find(|(name, _)| *name == names::FORMED_BY) {
        context.events.say(&*after, Reason::Formed, format!("etcd was formed by attempt {attempt}"));
    }
    Ok(after)
}

async fn act(
    context: &Context,
    plane: &ControlPlane,
    cluster: &Key,
    full: Option<&FullCluster>,
    plan: &Plan,
) -> Result<(), ReconcileError> {
    let index = &context.index;
    for name in &plan.adopt {
        if let Some(machine) = index.machines.get(&cluster.sibling(name)) {
            let fields = serde_json::json!({"metadata": {"ownerReferences": [objects::owner(plane, true)]}});
            context.writer.apply_fields(&index.machines, MANAGER, &*machine, fields).await?;
            context.events.say(plane, Reason::Adopted, format!("adopted Machine {name}"));
        }
    }
    for name in &plan.delete {
        if let Some(machine) = index.machines.get(&cluster.sibling(name)) {
            context.writer.delete(&index.machines, &*machine).await?;
            context.events.say(plane, Reason::Deleted, format!("deleted Machine {name}"));
        }
    }
    let Some(full) = full else { return Ok(()) };
    for &slot in &plan.create {
        let machine = new_machine(plane, cluster, full, slot);
        if context.writer.create(&index.machines, &machine).await? {
            let name = machine.name_any();
            context.events.say(plane, Reason::Created, format!("created Machine {name} for slot {slot}"));
        }
        complete(context, plane, cluster, full, slot).await?;
    }
    for &slot in &plan.complete {
        complete(context, plane, cluster, full, slot).await?;
    }
    Ok(())
}

fn new_machine(plane: &ControlPlane, cluster: &Key, full: &FullCluster, slot: Slot) -> Machine {
    let name = windlass_spec::names::control_plane_machine(&cluster.name, slot);
    let template = &plane.spec.machine_template;
    let domains = windlass_plan::decide::spread(&full.control_plane.slots, &full.control_plane.failure_domains);
    let spec = MachineSpec {
        cluster_name: cluster.name.clone(),
        bootstrap: Bootstrap {
            config_ref: Some(ContractReference::windlass("NodeConfig", &name)),
            data_secret_name: None,
        },
        infrastructure_ref: ContractReference::windlass("LocalMachine", &name),
        version: Some(plane.spec.version.clone()),
        provider_id: None,
        failure_domain: domains.get(&slot).cloned(),
        min_ready_seconds: None,
        readiness_gates: template.spec.readiness_gates.clone(),
        deletion: template.spec.deletion.clone(),
        taints: template.spec.taints.clone(),
    };
    let mut machine = Machine::new(&name, spec);
    machine.metadata = objects::meta(&cluster.namespace, &name, &cluster.name, vec![objects::owner(plane, true)]);
    machine.metadata.finalizers = Some(vec![names::MACHINE_FINALIZER.to_owned()]);
    let given = template.metadata.clone().unwrap_or_default();
    let labels = machine.metadata.labels.get_or_insert_default();
    labels.extend(given.labels);
    labels.insert(names::CONTROL_PLANE.to_owned(), String::new());
    labels.insert(names::CONTROL_PLANE_NAME.to_owned(), plane.name_any());
    labels.insert(names::GROUP.to_owned(), windlass_spec::names::CONTROL_PLANE_GROUP.to_owned());
    labels.insert(names::SLOT.to_owned(), slot.to_string());
    machine.metadata.annotations = Some(given.annotations).filter(|annotations| !annotations.is_empty());
    machine
}

/// Makes the NodeConfig and LocalMachine the Machine of a slot lacks.
async fn complete(
    context: &Context,
    plane: &ControlPlane,
    cluster: &Key,
    full: &FullCluster,
    slot: Slot,
) -> Result<(), ReconcileError> {
    let index = &context.index;
    let name = windlass_spec::names::control_plane_machine(&cluster.name, slot);
    let key = cluster.sibling(&name);
    let Some(machine) = index.machines.get(&key) else { return Ok(()) };
    if index.local_machines.get(&key).is_none()
        && let Some(mut local) = local_machine(context, plane, cluster, full, slot)
    {
        clone_metadata(&mut local.metadata, &machine, cluster);
        context.writer.create(&index.local_machines, &local).await?;
    }
    if index.node_configs.get(&key).is_none() {
        let spec = NodeConfigSpec { slot: Some(slot), spec_hash: None, ..plane.spec.node_config.clone() };
        let mut config = NodeConfig::new(&name, spec);
        clone_metadata(&mut config.metadata, &machine, cluster);
        context.writer.create(&index.node_configs, &config).await?;
    }
    Ok(())
}

/// The LocalMachine of a slot: the template with the slot's volumes and names.
fn local_machine(
    context: &Context,
    plane: &ControlPlane,
    cluster: &Key,
    full: &FullCluster,
    slot: Slot,
) -> Option<LocalMachine> {
    let template = &plane.spec.machine_template.spec.infrastructure_ref.name;
    let template = context.index.local_machine_templates.get(&cluster.sibling(template))?;
    let name = windlass_spec::names::control_plane_machine(&cluster.name, slot);
    let mut local = LocalMachine::new(&name, template.spec.template.spec.clone());
    local.spec.slot = Some(slot);
    local.spec.volumes = full
        .etcd
        .iter()
        .filter(|etcd| etcd.members.contains(&slot))
        .map(|etcd| LocalVolume {
            name: windlass_spec::names::etcd_volume(&etcd.name, slot),
            bytes: i64::try_from(etcd.volume_bytes).unwrap_or(i64::MAX),
        })
        .collect();
    local.spec.dns_names = vec![windlass_spec::names::etcd_host(&cluster.name, slot)];
    local.metadata.annotations = Some(BTreeMap::from([
        (names::CLONED_FROM_NAME.to_owned(), template.name_any()),
        (names::CLONED_FROM_GROUP_KIND.to_owned(), format!("LocalMachineTemplate.{}", names::WINDLASS)),
    ]));
    Some(local)
}
