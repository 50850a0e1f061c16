//! MachineHealthChecks: which Machines are unhealthy, and whether that may be acted on. They report; acting comes with
//! repair.
//!
//! Inputs: the check, its Machines and their Nodes. Outputs: counts, and `HealthCheckSucceeded` on each Machine.

pub(crate) mod decide;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use serde_json::json;

use crate::api::cluster_api::{MachineHealthCheck, MachineHealthCheckStatus};
use crate::api::names;
use crate::conditions::{self, settle};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::{Connection, Key};
use crate::objects;
use crate::runtime::workers::Next;
use decide::{Observed, Target, decide};

const MANAGER: &str = "windlass-machinehealthcheck";

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(check) = index.health_checks.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(&check.spec.cluster_name);
    if index.is_paused(&cluster) || objects::has_annotation(&*check, names::PAUSED) {
        return pause(&context, &check).await;
    }
    if objects::is_deleting(&*check) {
        return Ok(Next::Await);
    }
    let check = own(&context, check, &cluster).await?;
    let targets = targets(&context, &check, &cluster);
    let cluster_object = index.clusters.get(&cluster);
    let plan = decide(&Observed {
        check: &check,
        cluster: cluster_object.as_deref(),
        connected: index.nodes.connection(&cluster) == Connection::Up,
        targets: &targets,
        now: context.now(),
    });
    for (target, verdict) in targets.iter().zip(&plan.verdicts) {
        let before = target.machine.status.clone().unwrap_or_default();
        let generation = objects::generation(&*target.machine);
        let conditions = settle(&before.conditions, std::slice::from_ref(verdict), generation, context.now());
        let status = json!({ "conditions": conditions });
        context.writer.apply_status(&index.machines, MANAGER, &*target.machine, &status).await?;
    }
    context.writer.apply_status(&index.health_checks, MANAGER, &*check, &plan.status).await?;
    Ok(plan.again)
}

async fn pause(context: &Context, check: &MachineHealthCheck) -> Result<Next, ReconcileError> {
    let before = check.status.clone().unwrap_or_default();
    let generation = objects::generation(check);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = MachineHealthCheckStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.health_checks, MANAGER, check, &status).await?;
    Ok(Next::Await)
}

/// Puts back label and owner.
async fn own(
    context: &Context,
    check: Arc<MachineHealthCheck>,
    cluster: &Key,
) -> Result<Arc<MachineHealthCheck>, ReconcileError> {
    let Some(owner) = context.index.clusters.get(cluster) else { return Ok(check) };
    if objects::is_owned_by(&*check, &*owner) && objects::cluster_name(&*check).is_some() {
        return Ok(check);
    }
    let fields = json!({"metadata": {
        "labels": {names::CLUSTER_NAME: cluster.name},
        "ownerReferences": [objects::owner(&*owner, false)],
    }});
    context.writer.apply_fields(&context.index.health_checks, MANAGER, &*check, fields).await
}

fn targets(context: &Context, check: &MachineHealthCheck, cluster: &Key) -> Vec<Target> {
    let empty = BTreeMap::new();
    let machines = context.index.machines.of_cluster(cluster);
    machines
        .into_iter()
        .filter(|machine| check.spec.selector.matches(machine.metadata.labels.as_ref().unwrap_or(&empty)))
        .filter(|machine| !objects::is_deleting(&**machine))
        .map(|machine| Target {
            node: context.index.nodes.find(cluster, machine.spec.provider_id.as_deref(), &machine.name_any()),
            machine,
        })
        .collect()
}
