//! MachineSets: a number of Machines from one template, named by ordinals.
//!
//! Inputs: the set, the Machines of its cluster, its templates. Outputs: Machines with their NodeConfig and
//! LocalMachine made, adopted or deleted; the set's status.

pub(crate) mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;

use crate::api::cluster_api::machine::{Machine, MachineSpec};
use crate::api::cluster_api::shared::ContractReference;
use crate::api::cluster_api::{MachineDeployment, MachineSet};
use crate::api::windlass::{LocalMachine, NodeConfig};
use crate::api::{cluster_api::MachineSetStatus, names};
use crate::conditions;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::{Index, Key};
use crate::objects;
use crate::reasons::Reason;
use crate::runtime::workers::Next;
use decide::{Observed, Plan, decide};

const MANAGER: &str = "windlass-machineset";

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(set) = index.machine_sets.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(&set.spec.cluster_name);
    if index.is_paused(&cluster) || objects::has_annotation(&*set, names::PAUSED) {
        return pause(&context, &set).await;
    }
    let set = own(&context, set, &cluster).await?;
    let machines = index.machines.of_cluster(&cluster);
    let taken = names_taken(index, &cluster);
    let plan = decide(&Observed {
        set: &set,
        machines: &machines,
        taken: &taken,
        can_create: may_create(index, &set, &cluster),
        now: context.now(),
    });
    act(&context, &set, &cluster, plan).await
}

async fn pause(context: &Context, set: &MachineSet) -> Result<Next, ReconcileError> {
    let before = set.status.clone().unwrap_or_default();
    let generation = objects::generation(set);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = MachineSetStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.machine_sets, MANAGER, set, &status).await?;
    Ok(Next::Await)
}

/// Puts back finalizer and, for a set of its own, the Cluster as owner.
async fn own(context: &Context, set: Arc<MachineSet>, cluster: &Key) -> Result<Arc<MachineSet>, ReconcileError> {
    if objects::is_deleting(&*set) {
        return Ok(set);
    }
    let mut set = set;
    if !objects::has_finalizer(&*set, names::MACHINE_SET_FINALIZER) {
        let table = &context.index.machine_sets;
        set = context.writer.add_finalizer(table, &set, names::MACHINE_SET_FINALIZER).await?;
    }
    if objects::label(&*set, names::DEPLOYMENT_NAME).is_none()
        && let Some(owner) = context.index.clusters.get(cluster)
        && !objects::is_owned_by(&*set, &*owner)
    {
        let metadata = serde_json::json!({"metadata": {
            "labels": {names::CLUSTER_NAME: cluster.name},
            "ownerReferences": [objects::owner(&*owner, false)],
        }});
        set = context.writer.apply_fields(&context.index.machine_sets, MANAGER, &*set, metadata).await?;
    }
    Ok(set)
}

/// Every name in the cluster that a new Machine must keep clear of. The Secret of a deleted Machine outlives it until the
/// garbage collector comes; its join token is spent, and a new machine of that name would be given it.
fn names_taken(index: &Index, cluster: &Key) -> BTreeSet<String> {
    let machines = index.machines.of_cluster(cluster).into_iter().map(|machine| machine.name_any());
    let configs = index.node_configs.of_cluster(cluster).into_iter().map(|config| config.name_any());
    let locals = index.local_machines.of_cluster(cluster).into_iter().map(|local| local.name_any());
    let secrets = index.secrets.of_cluster(cluster).into_iter().map(|secret| secret.name_any());
    machines.chain(configs).chain(locals).chain(secrets).collect()
}

fn may_create(index: &Index, set: &MachineSet, cluster: &Key) -> Result<(), String> {
    if index.is_deleting(cluster) {
        return Err("the cluster is being deleted".to_owned());
    }
    if objects::has_annotation(set, names::DISABLE_MACHINE_CREATE) {
        return Err("an annotation keeps it from making Machines".to_owned());
    }
    templates(index, set, cluster).map(|_| ())
}

type Templates = (NodeConfig, LocalMachine);

/// Clones of the set's templates, without names.
fn templates(index: &Index, set: &MachineSet, cluster: &Key) -> Result<Templates, String> {
    let spec = &set.spec.template.spec;
    let config = spec.bootstrap.config_ref.as_ref().ok_or("its template names no bootstrap template")?;
    let config = index
        .node_config_templates
        .get(&cluster.sibling(&config.name))
        .ok_or_else(|| format!("NodeConfigTemplate {} does not exist", config.name))?;
    let local = &spec.infrastructure_ref.name;
    let local = index
        .local_machine_templates
        .get(&cluster.sibling(local))
        .ok_or_else(|| format!("LocalMachineTemplate {local} does not exist"))?;
    let mut node_config = NodeConfig::new("", config.spec.template.spec.clone());
    node_config.metadata.annotations = Some(cloned_from("NodeConfigTemplate", &config.name_any()));
    let mut local_machine = LocalMachine::new("", local.spec.template.spec.clone());
    local_machine.metadata.annotations = Some(cloned_from("LocalMachineTemplate", &local.name_any()));
    Ok((node_config, local_machine))
}

fn cloned_from(kind: &str, name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::CLONED_FROM_NAME.to_owned(), name.to_owned()),
        (names::CLONED_FROM_GROUP_KIND.to_owned(), format!("{kind}.{}", names::WINDLASS)),
    ])
}

async fn act(context: &Context, set: &MachineSet, cluster: &Key, plan: Plan) -> Result<Next, ReconcileError> {
    for name in &plan.adopt {
        adopt(context, set, cluster, name).await?;
    }
    for name in &plan.create {
        create(context, set, cluster, name).await?;
    }
    for name in &plan.complete {
        complete(context, set, cluster, name).await?;
    }
    for name in &plan.delete {
        if let Some(machine) = context.index.machines.get(&cluster.sibling(name)) {
            context.writer.delete(&context.index.machines, &*machine).await?;
            context.events.say(set, Reason::Deleted, format!("deleted Machine {name}"));
        }
    }
    if plan.finished {
        let table = &context.index.machine_sets;
        context.writer.remove_finalizer(table, set, names::MACHINE_SET_FINALIZER).await?;
        return Ok(Next::Await);
    }
    context.writer.apply_status(&context.index.machine_sets, MANAGER, set, &plan.status).await?;
    Ok(plan.again)
}

async fn adopt(context: &Context, set: &MachineSet, cluster: &Key, name: &str) -> Result<(), ReconcileError> {
    let Some(machine) = context.index.machines.get(&cluster.sibling(name)) else { return Ok(()) };
    let fields = serde_json::json!({"metadata": {"ownerReferences": [objects::owner(set, true)]}});
    context.writer.apply_fields(&context.index.machines, MANAGER, &*machine, fields).await?;
    context.events.say(set, Reason::Adopted, format!("adopted Machine {name}"));
    Ok(())
}

async fn create(context: &Context, set: &MachineSet, cluster: &Key, name: &str) -> Result<(), ReconcileError> {
    if context.writer.create(&context.index.machines, &new_machine(set, cluster, name)).await? {
        context.events.say(set, Reason::Created, format!("created Machine {name}"));
    }
    complete(context, set, cluster, name).await
}

/// Makes the NodeConfig and LocalMachine a Machine lacks.
async fn complete(context: &Context, set: &MachineSet, cluster: &Key, name: &str) -> Result<(), ReconcileError> {
    let key = cluster.sibling(name);
    let Some(machine) = context.index.machines.get(&key) else { return Ok(()) };
    let Ok((mut config, mut local)) = templates(&context.index, set, cluster) else { return Ok(()) };
    if context.index.local_machines.get(&key).is_none() {
        clone_metadata(&mut local.metadata, &machine, cluster);
        context.writer.create(&context.index.local_machines, &local).await?;
    }
    if context.index.node_configs.get(&key).is_none() {
        clone_metadata(&mut config.metadata, &machine, cluster);
        config.spec.join_nonce = Some(hex::encode(rand::random::<[u8; 8]>()));
        context.writer.create(&context.index.node_configs, &config).await?;
    }
    Ok(())
}

/// Name, place, labels and owner of what belongs to a Machine.
pub(crate) fn clone_metadata(metadata: &mut kube::core::ObjectMeta, machine: &Machine, cluster: &Key) {
    let annotations = metadata.annotations.take();
    let owners = vec![objects::owner(machine, true)];
    *metadata = objects::meta(&cluster.namespace, &machine.name_any(), &cluster.name, owners);
    metadata.annotations = annotations;
    let labels = metadata.labels.get_or_insert_default();
    for name in [names::GROUP, names::SLOT, names::CONTROL_PLANE] {
        if let Some(value) = objects::label(machine, name) {
            labels.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// A Machine of this set. Its references name the clones, which are named like itself.
fn new_machine(set: &MachineSet, cluster: &Key, name: &str) -> Machine {
    let template = &set.spec.template;
    let mut spec: MachineSpec = template.spec.clone();
    spec.bootstrap.config_ref = Some(ContractReference::windlass("NodeConfig", name));
    spec.infrastructure_ref = ContractReference::windlass("LocalMachine", name);
    let mut machine = Machine::new(name, spec);
    machine.metadata = objects::meta(&cluster.namespace, name, &cluster.name, vec![objects::owner(set, true)]);
    machine.metadata.finalizers = Some(vec![names::MACHINE_FINALIZER.to_owned()]);
    let labels = machine.metadata.labels.get_or_insert_default();
    let given = template.metadata.clone().unwrap_or_default();
    labels.extend(given.labels);
    labels.insert(names::SET_NAME.to_owned(), set.name_any());
    for name in [names::DEPLOYMENT_NAME, names::TEMPLATE_HASH, names::GROUP] {
        if let Some(value) = objects::label(set, name) {
            labels.insert(name.to_owned(), value.to_owned());
        }
    }
    machine.metadata.annotations = Some(given.annotations).filter(|annotations| !annotations.is_empty());
    machine
}

/// The deployment a set belongs to.
pub(crate) fn deployment_of(index: &Index, set: &MachineSet) -> Option<Arc<MachineDeployment>> {
    let owner = objects::controller_of(set).filter(|owner| owner.kind == "MachineDeployment")?;
    index.machine_deployments.get(&Key::of(set).sibling(&owner.name))
}
