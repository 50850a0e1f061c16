//! MachineDeployments: a MachineSet a template, rolled from one to the next.
//!
//! Inputs: the deployment, its templates' content, its sets and Machines. Outputs: sets made, sized and deleted; the
//! deployment's status.

pub(crate) mod decide;
pub(crate) mod template_hash;

use std::sync::Arc;

use kube::ResourceExt;
use serde_json::json;

use crate::api::cluster_api::{MachineDeployment, MachineDeploymentStatus, MachineSet, MachineSetSpec};
use crate::api::names;
use crate::conditions;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::objects;
use crate::reasons::Reason;
use crate::runtime::workers::Next;
use decide::{Observed, Plan, decide};

const MANAGER: &str = "windlass-machinedeployment";

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(deployment) = index.machine_deployments.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(&deployment.spec.cluster_name);
    if index.is_paused(&cluster) || objects::has_annotation(&*deployment, names::PAUSED) {
        return pause(&context, &deployment).await;
    }
    let deployment = own(&context, deployment, &cluster).await?;
    let sets = index.machine_sets.of_cluster(&cluster);
    let machines = index.machines.of_cluster(&cluster);
    let plan = decide(&Observed {
        deployment: &deployment,
        hash: template_hash::of(index, &deployment),
        sets: &sets,
        machines: &machines,
        now: context.now(),
    });
    act(&context, &deployment, &cluster, plan).await
}

async fn pause(context: &Context, deployment: &MachineDeployment) -> Result<Next, ReconcileError> {
    let before = deployment.status.clone().unwrap_or_default();
    let generation = objects::generation(deployment);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = MachineDeploymentStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.machine_deployments, MANAGER, deployment, &status).await?;
    Ok(Next::Await)
}

/// Puts back finalizer, label and owner.
async fn own(
    context: &Context,
    deployment: Arc<MachineDeployment>,
    cluster: &Key,
) -> Result<Arc<MachineDeployment>, ReconcileError> {
    let table = &context.index.machine_deployments;
    if objects::is_deleting(&*deployment) {
        return Ok(deployment);
    }
    let mut deployment = deployment;
    if !objects::has_finalizer(&*deployment, names::MACHINE_DEPLOYMENT_FINALIZER) {
        deployment = context.writer.add_finalizer(table, &deployment, names::MACHINE_DEPLOYMENT_FINALIZER).await?;
    }
    if let Some(owner) = context.index.clusters.get(cluster)
        && (!objects::is_owned_by(&*deployment, &*owner) || objects::cluster_name(&*deployment).is_none())
    {
        let fields = json!({"metadata": {
            "labels": {names::CLUSTER_NAME: cluster.name},
            "ownerReferences": [objects::owner(&*owner, false)],
        }});
        deployment = context.writer.apply_fields(table, MANAGER, &*deployment, fields).await?;
    }
    Ok(deployment)
}

async fn act(
    context: &Context,
    deployment: &MachineDeployment,
    cluster: &Key,
    plan: Plan,
) -> Result<Next, ReconcileError> {
    let sets = &context.index.machine_sets;
    for (name, owner) in plan.adopt.iter().map(|name| (name, objects::owner(deployment, true))) {
        if let Some(set) = sets.get(&cluster.sibling(name)) {
            let fields = json!({"metadata": {"ownerReferences": [owner]}});
            context.writer.apply_fields(sets, MANAGER, &*set, fields).await?;
            context.events.say(deployment, Reason::Adopted, format!("adopted MachineSet {name}"));
        }
    }
    if let Some((hash, replicas)) = &plan.create {
        let set = new_set(deployment, cluster, hash, *replicas, plan.revision);
        if context.writer.create(sets, &set).await? {
            let name = set.name_any();
            context.events.say(deployment, Reason::Created, format!("created MachineSet {name} for {replicas}"));
        }
    }
    for (name, size) in &plan.resize {
        resize(context, deployment, cluster, name, *size).await?;
    }
    for name in &plan.delete {
        if let Some(set) = sets.get(&cluster.sibling(name)) {
            context.writer.delete(sets, &*set).await?;
            context.events.say(deployment, Reason::Deleted, format!("deleted MachineSet {name}"));
        }
    }
    let table = &context.index.machine_deployments;
    if plan.finished {
        context.writer.remove_finalizer(table, deployment, names::MACHINE_DEPLOYMENT_FINALIZER).await?;
        return Ok(Next::Await);
    }
    context.writer.apply_status(table, MANAGER, deployment, &plan.status).await?;
    Ok(Next::Await)
}

async fn resize(
    context: &Context,
    deployment: &MachineDeployment,
    cluster: &Key,
    name: &str,
    size: i32,
) -> Result<(), ReconcileError> {
    let sets = &context.index.machine_sets;
    let Some(set) = sets.get(&cluster.sibling(name)) else { return Ok(()) };
    let before = set.spec.replicas.unwrap_or(1);
    context.writer.set_replicas(sets, &*set, size).await?;
    context.events.say(deployment, Reason::Scaled, format!("MachineSet {name} from {before} to {size}"));
    Ok(())
}

/// The set for a template.
fn new_set(deployment: &MachineDeployment, cluster: &Key, hash: &str, replicas: i32, revision: u64) -> MachineSet {
    let name = format!("{}-{hash}", deployment.name_any());
    let mut template = deployment.spec.template.clone();
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels.insert(names::TEMPLATE_HASH.to_owned(), hash.to_owned());
    template.metadata.get_or_insert_default().labels.extend(selector.match_labels.clone());
    let spec = MachineSetSpec {
        cluster_name: deployment.spec.cluster_name.clone(),
        replicas: Some(replicas),
        selector,
        template,
        machine_naming: None,
        deletion: deployment.spec.deletion.clone(),
    };
    let mut set = MachineSet::new(&name, spec);
    let owners = vec![objects::owner(deployment, true)];
    set.metadata = objects::meta(&cluster.namespace, &name, &cluster.name, owners);
    set.metadata.finalizers = Some(vec![names::MACHINE_SET_FINALIZER.to_owned()]);
    set.metadata.annotations = Some([(names::REVISION.to_owned(), revision.to_string())].into());
    let labels = set.metadata.labels.get_or_insert_default();
    labels.insert(names::DEPLOYMENT_NAME.to_owned(), deployment.name_any());
    labels.insert(names::TEMPLATE_HASH.to_owned(), hash.to_owned());
    if let Some(group) = objects::label(deployment, names::GROUP) {
        labels.insert(names::GROUP.to_owned(), group.to_owned());
    }
    set
}
