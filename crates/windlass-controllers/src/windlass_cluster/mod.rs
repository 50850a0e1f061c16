//! Windlass's Clusters: what people wrote is completed and rendered into Cluster API's objects.
//!
//! Inputs: the spec, the release and the identity on its annotations, the provider's facts. Outputs: the complete spec
//! on the status; Cluster, LocalCluster, ControlPlane, templates, MachineDeployments, MachineHealthChecks. Ours is owned
//! by Cluster API's Cluster, obeys its pause, and never makes one again that was once there.

mod render;
mod resolve;
mod spec_hash;
mod status;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use windlass_spec::full::FullCluster;

use crate::api::cluster_api::Cluster;
use crate::api::names;
use crate::api::windlass::{WindlassCluster, WindlassClusterStatus};
use crate::conditions::{self, Judged};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::local_cluster::reason_of;
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;
use render::Rendered;

pub(crate) use spec_hash::spec_hash;

const MANAGER: &str = "windlass-windlasscluster";
const RETRY: Duration = Duration::from_secs(5);

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(object) = index.windlass_clusters.get(&key) else { return Ok(Next::Await) };
    if index.is_paused(&key) || objects::has_annotation(&*object, names::PAUSED) {
        return pause(&context, &object).await;
    }
    if objects::is_deleting(&*object) {
        return delete(&context, &object, &key).await;
    }
    let mut object = object;
    if !objects::has_finalizer(&*object, names::WINDLASS_CLUSTER_FINALIZER) {
        let table = &index.windlass_clusters;
        object = context.writer.add_finalizer(table, &object, names::WINDLASS_CLUSTER_FINALIZER).await?;
    }
    let object = match facts(&context, object).await? {
        Ok(object) => object,
        Err(judged) => return say_trouble(&context, &key, judged).await.map(|()| Next::After(RETRY)),
    };
    match resolve::resolve(&object) {
        Err(judged) => say_trouble(&context, &key, judged).await.map(|()| Next::Await),
        Ok(full) => {
            let judged = realise(&context, &object, &key, &full).await?;
            status::say(&context, &key, judged, Some(&full)).await.map(|()| Next::Await)
        }
    }
}

async fn pause(context: &Context, object: &WindlassCluster) -> Result<Next, ReconcileError> {
    let before = object.status.clone().unwrap_or_default();
    let generation = objects::generation(object);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = WindlassClusterStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.windlass_clusters, MANAGER, object, &status).await?;
    Ok(Next::Await)
}

/// Deletes Cluster API's Cluster and waits until it and all below it are gone.
async fn delete(context: &Context, object: &WindlassCluster, key: &Key) -> Result<Next, ReconcileError> {
    if let Some(cluster) = context.index.clusters.get(key) {
        context.writer.delete(&context.index.clusters, &*cluster).await?;
        status::say(context, key, resolved(), None).await?;
        return Ok(Next::Await);
    }
    let table = &context.index.windlass_clusters;
    context.writer.remove_finalizer(table, object, names::WINDLASS_CLUSTER_FINALIZER).await?;
    Ok(Next::Await)
}

fn resolved() -> Judged {
    Judged::yes(types::SPEC_RESOLVED, Reason::Resolved)
}

async fn say_trouble(context: &Context, key: &Key, judged: Judged) -> Result<(), ReconcileError> {
    if let Some(object) = context.index.windlass_clusters.get(key) {
        context.events.warn(&*object, judged.reason, &judged.message);
    }
    status::say(context, key, judged, None).await
}

/// Notes the ground's facts once: what is derived from them must not change when the ground does.
async fn facts(
    context: &Context,
    object: Arc<WindlassCluster>,
) -> Result<Result<Arc<WindlassCluster>, Judged>, ReconcileError> {
    if objects::has_annotation(&*object, names::FACTS) {
        return Ok(Ok(object));
    }
    let facts = match context.provider.facts().await {
        Ok(facts) => facts,
        Err(error) => {
            return Ok(Err(Judged::no(types::SPEC_RESOLVED, reason_of(&error), error.to_string())));
        }
    };
    let text = serde_json::to_string(&facts)
        .map_err(|source| ReconcileError::Encode { what: "the ground's facts".to_owned(), source })?;
    context.writer.record(&context.index.windlass_clusters, &object, &[(names::FACTS, &text)]).await.map(Ok)
}

/// Makes the objects so.
async fn realise(
    context: &Context,
    object: &Arc<WindlassCluster>,
    key: &Key,
    full: &FullCluster,
) -> Result<Judged, ReconcileError> {
    let index = &context.index;
    let cluster = index.clusters.get(key);
    if cluster.is_none() && objects::has_annotation(&**object, names::RECORDED) {
        let message = "its cluster.x-k8s.io Cluster was there once and is gone; it is not made again";
        return Ok(Judged::no(types::SPEC_RESOLVED, Reason::RecordedAndGone, message));
    }
    if cluster.as_ref().is_some_and(|cluster| objects::is_deleting(&**cluster)) {
        return Ok(resolved());
    }
    let wanted = render::cluster(object, key, full);
    let cluster = context.writer.apply(&index.clusters, MANAGER, &wanted).await?;
    own(context, object, &cluster).await?;
    let rendered = render::render(&render::Basis {
        key,
        full,
        owner: &cluster,
        object,
        control_plane: index.control_planes.get(key),
        deployments: index.machine_deployments.of_cluster(key),
    });
    apply(context, &rendered).await?;
    prune(context, key, &rendered).await?;
    Ok(resolved())
}

/// Notes that the Cluster was made, and makes it the owner of this object.
async fn own(context: &Context, object: &Arc<WindlassCluster>, cluster: &Cluster) -> Result<(), ReconcileError> {
    let table = &context.index.windlass_clusters;
    let mut object = object.clone();
    if !objects::has_annotation(&*object, names::RECORDED) {
        object = context.writer.record(table, &object, &[(names::RECORDED, "true")]).await?;
    }
    if !objects::is_owned_by(&*object, cluster) {
        let fields = json!({"metadata": {
            "labels": {names::CLUSTER_NAME: cluster.name_any()},
            "ownerReferences": [objects::owner(cluster, false)],
        }});
        context.writer.apply_fields(table, MANAGER, &*object, fields).await?;
    }
    Ok(())
}

async fn apply(context: &Context, rendered: &Rendered) -> Result<(), ReconcileError> {
    let (index, writer) = (&context.index, &context.writer);
    writer.apply(&index.local_clusters, MANAGER, &rendered.local_cluster).await?;
    for template in &rendered.local_machine_templates {
        writer.apply(&index.local_machine_templates, MANAGER, template).await?;
    }
    for template in &rendered.node_config_templates {
        writer.apply(&index.node_config_templates, MANAGER, template).await?;
    }
    writer.apply(&index.control_planes, MANAGER, &rendered.control_plane).await?;
    for deployment in &rendered.deployments {
        let before = index.machine_deployments.get(&Key::of(deployment));
        let after = writer.apply(&index.machine_deployments, MANAGER, deployment).await?;
        let count = |deployment: &crate::api::cluster_api::MachineDeployment| deployment.spec.replicas;
        if let Some(before) = before
            && count(&before) != count(&after)
        {
            let text = format!("{} from {:?} to {:?}", after.name_any(), count(&before), count(&after));
            context.events.say(&*after, Reason::Scaled, text);
        }
    }
    for check in &rendered.health_checks {
        writer.apply(&index.health_checks, MANAGER, check).await?;
    }
    Ok(())
}

/// Deletes what was rendered for a group that is no longer in the spec. Objects that people made are not touched: ours
/// carry the count we asked for.
async fn prune(context: &Context, key: &Key, rendered: &Rendered) -> Result<(), ReconcileError> {
    let index = &context.index;
    let kept = |name: &str| rendered.deployments.iter().any(|deployment| deployment.name_any() == name);
    for deployment in index.machine_deployments.of_cluster(key) {
        let name = deployment.name_any();
        if kept(&name) || !objects::has_annotation(&*deployment, names::COUNT) {
            continue;
        }
        context.writer.delete(&index.machine_deployments, &*deployment).await?;
        let key = key.sibling(&name);
        if let Some(check) = index.health_checks.get(&key) {
            context.writer.delete(&index.health_checks, &*check).await?;
        }
        if let Some(template) = index.local_machine_templates.get(&key) {
            context.writer.delete(&index.local_machine_templates, &*template).await?;
        }
        if let Some(template) = index.node_config_templates.get(&key) {
            context.writer.delete(&index.node_config_templates, &*template).await?;
        }
    }
    Ok(())
}
