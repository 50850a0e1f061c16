//! Machines: bootstrap configuration, infrastructure and Node brought together; deletion in order.
//!
//! Inputs: the Machine, its NodeConfig and LocalMachine, its Node in the workload cluster. Outputs: references filled
//! in, conditions, phase; on deletion infrastructure, configuration and Node taken away.

pub(crate) mod decide;
mod node;
mod node_deletions;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::api::cluster_api::{Machine, MachineStatus};
use crate::api::names;
use crate::conditions;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::{Index, Key};
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;
use decide::{Fresh, Observed, Step, decide, node_is_left};
pub(crate) use node_deletions::NodeDeletions;

const MANAGER: &str = "windlass-machine";
/// Deletion of a Node is tried this often until it is given up.
const NODE_RETRY: Duration = Duration::from_secs(1);

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(machine) = index.machines.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(&machine.spec.cluster_name);
    if index.is_paused(&cluster) || objects::has_annotation(&*machine, names::PAUSED) {
        return pause(&context, &machine).await;
    }
    let machine = own(&context, machine, &cluster).await?;
    if !objects::is_deleting(&*machine) {
        adopt_parts(&context, &machine, &key).await?;
    }
    let machine = fill_in(&context, machine, &key).await?;
    let node = index.nodes.find(&cluster, machine.spec.provider_id.as_deref(), &key.name);
    let seen = Observed {
        machine: &machine,
        config: index.node_configs.get(&key),
        local: index.local_machines.get(&key),
        node,
        node_deletion: context.node_deletions.of(&machine),
        connection: index.nodes.connection(&cluster),
        cluster_deleting: index.is_deleting(&cluster) || index.clusters.get(&cluster).is_none(),
        fresh: freshness(index, &machine, &cluster),
        now: context.now(),
    };
    let plan = decide(&seen);
    announce(&context, &machine, &plan.status);
    context.writer.apply_status(&index.machines, MANAGER, &*machine, &plan.status).await?;
    step(&context, &machine, &cluster, &seen, plan.step).await.map(|next| next.sooner(plan.again))
}

async fn pause(context: &Context, machine: &Machine) -> Result<Next, ReconcileError> {
    let before = machine.status.clone().unwrap_or_default();
    let generation = objects::generation(machine);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = MachineStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.machines, MANAGER, machine, &status).await?;
    Ok(Next::Await)
}

/// Puts back finalizer and labels.
async fn own(context: &Context, machine: Arc<Machine>, cluster: &Key) -> Result<Arc<Machine>, ReconcileError> {
    let table = &context.index.machines;
    if objects::is_deleting(&*machine) {
        return Ok(machine);
    }
    let mut machine = machine;
    if !objects::has_finalizer(&*machine, names::MACHINE_FINALIZER) {
        machine = context.writer.add_finalizer(table, &machine, names::MACHINE_FINALIZER).await?;
    }
    if objects::cluster_name(&*machine) != Some(&cluster.name) {
        let fields = json!({"metadata": {"labels": {names::CLUSTER_NAME: cluster.name}}});
        machine = context.writer.apply_fields(table, "windlass-machine-labels", &*machine, fields).await?;
    }
    Ok(machine)
}

/// Makes the Machine the owner of its NodeConfig and LocalMachine, also after somebody stripped that.
async fn adopt_parts(context: &Context, machine: &Machine, key: &Key) -> Result<(), ReconcileError> {
    let fields = || json!({"metadata": {"ownerReferences": [objects::owner(machine, true)]}});
    let index = &context.index;
    if let Some(config) = index.node_configs.get(key)
        && !objects::is_deleting(&*config)
        && !objects::is_controlled_by(&*config, machine)
    {
        context.writer.apply_fields(&index.node_configs, MANAGER, &*config, fields()).await?;
    }
    if let Some(local) = index.local_machines.get(key)
        && !objects::is_deleting(&*local)
        && !objects::is_controlled_by(&*local, machine)
    {
        context.writer.apply_fields(&index.local_machines, MANAGER, &*local, fields()).await?;
    }
    Ok(())
}

/// Copies provider id and data Secret into the spec, where they outlive every status.
async fn fill_in(context: &Context, machine: Arc<Machine>, key: &Key) -> Result<Arc<Machine>, ReconcileError> {
    if objects::is_deleting(&*machine) {
        return Ok(machine);
    }
    let index = &context.index;
    let provider_id = index.local_machines.get(key).and_then(|local| local.spec.provider_id.clone());
    let secret = index
        .node_configs
        .get(key)
        .and_then(|config| config.status.as_ref()?.data_secret_name.clone())
        .or_else(|| machine.spec.bootstrap.data_secret_name.clone());
    let provider_id = machine.spec.provider_id.clone().or(provider_id);
    let unchanged = provider_id == machine.spec.provider_id && secret == machine.spec.bootstrap.data_secret_name;
    if unchanged {
        return Ok(machine);
    }
    let mut spec = serde_json::Map::new();
    if let Some(id) = provider_id {
        spec.insert("providerID".to_owned(), json!(id));
    }
    if let Some(secret) = secret {
        spec.insert("bootstrap".to_owned(), json!({"dataSecretName": secret}));
    }
    context.writer.merge_spec(&index.machines, &*machine, spec.into()).await
}

/// Is the Machine as its owner's template says?
fn freshness(index: &Index, machine: &Machine, cluster: &Key) -> Fresh {
    if objects::label(machine, names::CONTROL_PLANE).is_some() {
        return control_plane_freshness(index, machine, cluster);
    }
    let Some(owner) = objects::controller_of(machine) else { return Fresh::Yes };
    let Some(set) = index.machine_sets.get(&cluster.sibling(&owner.name)) else { return Fresh::Yes };
    let Some(deployment) = crate::machine_set::deployment_of(index, &set) else { return Fresh::Yes };
    let current = crate::machine_deployment::template_hash::of(index, &deployment);
    let own = objects::label(machine, names::TEMPLATE_HASH);
    match current {
        Some(current) if own == Some(&current) => Fresh::Yes,
        Some(_) => Fresh::No("made from an older template".to_owned()),
        None => Fresh::Unknown,
    }
}

fn control_plane_freshness(index: &Index, machine: &Machine, cluster: &Key) -> Fresh {
    let key = Key::of(machine);
    let Some(plane) = index.control_planes.of_cluster(cluster).into_iter().next() else { return Fresh::Unknown };
    let Some(secret) = index.secrets.get(&key) else { return Fresh::Unknown };
    let rendered = objects::annotation(&*secret, names::SPEC_HASH);
    if rendered != plane.spec.node_config.spec_hash.as_deref() {
        return Fresh::No("its configuration is of an older spec".to_owned());
    }
    let wanted = objects::annotation(&*secret, names::CONFIG_HASH);
    let local = index.local_machines.get(&key);
    let agent = local.as_ref().and_then(|local| local.status.as_ref()?.agent.as_ref());
    match agent {
        Some(agent) if agent.config_hash.as_deref() == wanted => Fresh::Yes,
        Some(_) => Fresh::No("it has not taken up its newest configuration yet".to_owned()),
        None => Fresh::Unknown,
    }
}

fn announce(context: &Context, machine: &Machine, status: &MachineStatus) {
    let joined = |status: Option<&MachineStatus>| status.is_some_and(|status| status.node_ref.is_some());
    if joined(Some(status)) && !joined(machine.status.as_ref()) {
        let node = status.node_ref.as_ref().map(|node| node.name.as_str()).unwrap_or_default();
        context.events.say(machine, Reason::Joined, format!("Node {node} is there"));
    }
    let failed = |status: Option<&MachineStatus>| {
        let condition = status.and_then(|status| status.conditions.get(types::NODE_HEALTHY));
        condition.filter(|condition| condition.reason == Reason::Failed.as_str()).map(|one| one.message.clone())
    };
    let now = failed(Some(status));
    if let Some(message) = &now
        && now != failed(machine.status.as_ref())
    {
        context.events.warn(machine, Reason::Failed, message);
    }
}

async fn step(
    context: &Context,
    machine: &Machine,
    cluster: &Key,
    seen: &Observed<'_>,
    step: Step,
) -> Result<Next, ReconcileError> {
    let index = &context.index;
    match step {
        Step::Keep => {
            if let (Some(node), Some(client)) = (&seen.node, context.workloads.client(cluster)) {
                node::annotate(client, machine, cluster, node).await?;
            }
            Ok(Next::Await)
        }
        Step::Wait => Ok(Next::Await),
        Step::Cordon => {
            if let (Some(node), Some(client)) = (&seen.node, context.workloads.client(cluster)) {
                node::cordon(client, cluster, node).await?;
            }
            Ok(Next::After(Duration::ZERO))
        }
        Step::DeleteInfrastructure => {
            if let Some(local) = &seen.local {
                context.writer.delete(&index.local_machines, &**local).await?;
            }
            Ok(Next::Await)
        }
        Step::DeleteBootstrap => {
            if let Some(config) = &seen.config {
                context.writer.delete(&index.node_configs, &**config).await?;
            }
            Ok(Next::Await)
        }
        Step::DeleteNode => delete_node(context, machine, cluster, seen).await,
        Step::Finish => {
            if node_is_left(seen) {
                context.events.warn(
                    machine,
                    Reason::ConnectionDown,
                    "its Node stays behind: no API took its deletion in time",
                );
            }
            context.writer.remove_finalizer(&index.machines, machine, names::MACHINE_FINALIZER).await?;
            context.node_deletions.forget(machine);
            Ok(Next::Await)
        }
    }
}

async fn delete_node(
    context: &Context,
    machine: &Machine,
    cluster: &Key,
    seen: &Observed<'_>,
) -> Result<Next, ReconcileError> {
    context.node_deletions.begin(machine, context.now());
    let Some(name) = take_node(context, machine, cluster, seen).await else { return Ok(Next::After(NODE_RETRY)) };
    context.index.nodes.remove(cluster, &name);
    context.node_deletions.done(machine);
    Ok(Next::After(Duration::ZERO))
}

/// Deletes the Node through the workload cluster's API, else through the one these controllers live on if that holds it:
/// the API of a cluster that manages itself answers them even when its endpoint does not.
async fn take_node(context: &Context, machine: &Machine, cluster: &Key, seen: &Observed<'_>) -> Option<String> {
    let silent = |error: ReconcileError| {
        tracing::debug!(machine = %Key::of(machine), %error, "the Node was not deleted");
    };
    if let (Some(node), Some(client)) = (&seen.node, context.workloads.client(cluster)) {
        match node::delete(client, cluster, node).await {
            Ok(name) => return Some(name),
            Err(error) => silent(error),
        }
    }
    let node = node::find(context.client.clone(), cluster, machine).await.map_err(silent).ok()??;
    node::delete(context.client.clone(), cluster, &node).await.map_err(silent).ok()
}
