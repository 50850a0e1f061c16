//! What Windlass's Cluster shows: a summary of Cluster API's, and the complete spec.

use windlass_spec::full::FullCluster;

use super::MANAGER;
use crate::api::cluster_api::cluster::ReplicaCounts;
use crate::api::cluster_api::{Cluster, ClusterStatus};
use crate::api::condition::Truth;
use crate::api::windlass::WindlassClusterStatus;
use crate::conditions::{Judged, settle};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::objects;
use crate::reasons::{Reason, types};

/// Writes the status; without a complete spec the last one stays.
pub(super) async fn say(
    context: &Context,
    key: &Key,
    resolved: Judged,
    full: Option<&FullCluster>,
) -> Result<(), ReconcileError> {
    let Some(object) = context.index.windlass_clusters.get(key) else { return Ok(()) };
    let cluster = context.index.clusters.get(key);
    let of_cluster = cluster.as_ref().and_then(|cluster| cluster.status.as_ref());
    let before = object.status.clone().unwrap_or_default();
    let tree = full
        .map(serde_json::to_value)
        .transpose()
        .map_err(|source| ReconcileError::Encode { what: format!("the complete spec of {key}"), source })?;
    let deleting =
        objects::is_deleting(&*object).then(|| (Reason::Deleting, "its Cluster is being deleted".to_owned()));
    let available = available(&resolved, of_cluster);
    let judged = [available, resolved, Judged::deleting(deleting), Judged::paused(false)];
    let generation = objects::generation(&*object);
    let status = WindlassClusterStatus {
        conditions: settle(&before.conditions, &judged, generation, context.now()),
        observed_generation: generation,
        phase: of_cluster.and_then(|status| status.phase).map(|phase| format!("{phase:?}")).or(before.phase),
        kubernetes_version: full.map(|full| format!("v{}", full.release.kubernetes)).or(before.kubernetes_version),
        endpoint: cluster.as_deref().and_then(endpoint).or(before.endpoint),
        control_planes: counts(of_cluster.and_then(|status| status.control_plane.as_ref())),
        workers: counts(of_cluster.and_then(|status| status.workers.as_ref())),
        full: tree.or(before.full),
    };
    context.writer.apply_status(&context.index.windlass_clusters, MANAGER, &*object, &status).await
}

fn available(resolved: &Judged, of_cluster: Option<&ClusterStatus>) -> Judged {
    if resolved.status != Truth::True {
        return Judged::no(types::AVAILABLE, resolved.reason, &resolved.message);
    }
    Judged::mirror(
        types::AVAILABLE,
        of_cluster.and_then(|status| status.conditions.get(types::AVAILABLE)),
        Reason::Available,
        (Reason::Waiting, "its Cluster is not judged yet"),
    )
}

fn endpoint(cluster: &Cluster) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref().filter(|endpoint| endpoint.is_valid())?;
    Some(format!("https://{}:{}", endpoint.host, endpoint.port?))
}

fn counts(counts: Option<&ReplicaCounts>) -> Option<String> {
    let counts = counts?;
    Some(format!("{}/{}", counts.available_replicas.unwrap_or(0), counts.desired_replicas.unwrap_or(0)))
}
