//! Cluster API's Clusters: phase, counts, conditions, and the order in which a cluster is taken down.
//!
//! Inputs: the Cluster and everything below it. Outputs: the endpoint copied into the spec, the status, the connection
//! to the workload cluster; on deletion workers, then control plane, then infrastructure deleted.

mod decide;
mod status;

use std::sync::Arc;

use serde_json::json;

use crate::api::cluster_api::{Cluster, ClusterStatus};
use crate::api::names;
use crate::conditions;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::objects;
use crate::runtime::workers::Next;
use decide::{Descendants, Step, next_step};

const MANAGER: &str = "windlass-cluster";

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(cluster) = index.clusters.get(&key) else {
        context.workloads.forget(&key);
        index.nodes.forget(&key);
        return Ok(Next::Await);
    };
    if index.is_paused(&key) {
        return pause(&context, &cluster).await;
    }
    let cluster = own(&context, cluster).await?;
    let below = Descendants::of(index, &key);
    connect(&context, &key, &cluster, &below);
    let step = objects::is_deleting(&*cluster).then(|| next_step(&below));
    if step == Some(Step::Finish) {
        context.writer.remove_finalizer(&index.clusters, &cluster, names::CLUSTER_FINALIZER).await?;
        return Ok(Next::Await);
    }
    let (status, again) = status::status(&status::Observed {
        cluster: &cluster,
        below: &below,
        connection: index.nodes.connection(&key),
        step,
        now: context.now(),
    });
    context.writer.apply_status(&index.clusters, MANAGER, &*cluster, &status).await?;
    if let Some(step) = step {
        take(&context, &below, step).await?;
    }
    Ok(again)
}

async fn pause(context: &Context, cluster: &Cluster) -> Result<Next, ReconcileError> {
    let before = cluster.status.clone().unwrap_or_default();
    let generation = objects::generation(cluster);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = ClusterStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.clusters, MANAGER, cluster, &status).await?;
    Ok(Next::Await)
}

/// Puts back the finalizer, and copies the endpoint from the infrastructure.
async fn own(context: &Context, cluster: Arc<Cluster>) -> Result<Arc<Cluster>, ReconcileError> {
    let table = &context.index.clusters;
    if objects::is_deleting(&*cluster) {
        return Ok(cluster);
    }
    let mut cluster = cluster;
    if !objects::has_finalizer(&*cluster, names::CLUSTER_FINALIZER) {
        cluster = context.writer.add_finalizer(table, &cluster, names::CLUSTER_FINALIZER).await?;
    }
    let has_endpoint = cluster.spec.control_plane_endpoint.as_ref().is_some_and(|endpoint| endpoint.is_valid());
    let key = Key::of(&*cluster);
    let found = context.index.local_clusters.of_cluster(&key);
    let endpoint = found.iter().find_map(|local| local.spec.control_plane_endpoint.clone());
    if let (false, Some(endpoint)) = (has_endpoint, endpoint) {
        let fields = json!({"spec": {"controlPlaneEndpoint": endpoint}});
        cluster = context.writer.apply_fields(table, MANAGER, &*cluster, fields).await?;
    }
    Ok(cluster)
}

/// Keeps a connection to the workload cluster once an API server of it was seen to answer.
fn connect(context: &Arc<Context>, key: &Key, cluster: &Cluster, below: &Descendants) {
    let serves = below.local_machines.iter().any(|local| {
        let agent = local.status.as_ref().and_then(|status| status.agent.as_ref());
        agent.is_some_and(|agent| agent.api_server_ready == Some(true))
    });
    let initialized = cluster
        .status
        .as_ref()
        .and_then(|status| status.initialization.as_ref()?.control_plane_initialized)
        .unwrap_or(false);
    if serves || initialized {
        context.workloads.ensure(context, key);
    }
}

/// Deletes what is next.
async fn take(context: &Context, below: &Descendants, step: Step) -> Result<(), ReconcileError> {
    let index = &context.index;
    match step {
        Step::Workers => {
            for check in &below.health_checks {
                context.writer.delete(&index.health_checks, &**check).await?;
            }
            for deployment in &below.deployments {
                context.writer.delete(&index.machine_deployments, &**deployment).await?;
            }
            for set in below.sets.iter().filter(|set| objects::controller_of(&***set).is_none()) {
                context.writer.delete(&index.machine_sets, &**set).await?;
            }
            for machine in below.lonely_workers() {
                context.writer.delete(&index.machines, &**machine).await?;
            }
        }
        Step::ControlPlane => {
            for plane in &below.control_planes {
                context.writer.delete(&index.control_planes, &**plane).await?;
            }
            for machine in &below.machines {
                context.writer.delete(&index.machines, &**machine).await?;
            }
        }
        Step::Infrastructure => {
            for local in &below.local_clusters {
                context.writer.delete(&index.local_clusters, &**local).await?;
            }
        }
        Step::Finish => {}
    }
    Ok(())
}
