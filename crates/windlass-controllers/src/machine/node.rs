//! What is done to a Machine's Node in the workload cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::api::cluster_api::Machine;
use crate::api::names;
use crate::error::{ReconcileError, is_not_found};
use crate::index::Key;
use crate::objects;

const MANAGER: &str = "windlass-machine";
/// A workload cluster that hangs must not hang its manager.
const PATIENCE: Duration = Duration::from_secs(5);

/// Notes on the Node which Machine it is; autoscalers and people look there.
pub(super) async fn annotate(
    client: Client,
    machine: &Machine,
    cluster: &Key,
    node: &Node,
) -> Result<(), ReconcileError> {
    let mut wanted = vec![
        (names::NODE_CLUSTER_NAME, cluster.name.clone()),
        (names::NODE_CLUSTER_NAMESPACE, cluster.namespace.clone()),
        (names::NODE_MACHINE, machine.name_any()),
    ];
    if let Some(owner) = objects::controller_of(machine) {
        wanted.push((names::NODE_OWNER_KIND, owner.kind.clone()));
        wanted.push((names::NODE_OWNER_NAME, owner.name.clone()));
    }
    if wanted.iter().all(|(name, value)| objects::annotation(node, name) == Some(value)) {
        return Ok(());
    }
    let tree: serde_json::Map<String, serde_json::Value> =
        wanted.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"annotations": tree}}));
    let parameters = PatchParams::apply(MANAGER).force();
    let api: Api<Node> = Api::all(client);
    let name = node.name_any();
    let request = api.patch(&name, &parameters, &patch);
    in_time(cluster, "annotate Node", request).await.map(|_| ())
}

/// Keeps new pods off the Node.
pub(super) async fn cordon(client: Client, cluster: &Key, node: &Node) -> Result<(), ReconcileError> {
    let api: Api<Node> = Api::all(client);
    let name = node.name_any();
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let parameters = PatchParams::default();
    let request = api.patch(&name, &parameters, &patch);
    in_time(cluster, "cordon Node", request).await.map(|_| ())
}

/// The Machine's Node, if this API holds it.
pub(super) async fn find(client: Client, cluster: &Key, machine: &Machine) -> Result<Option<Node>, ReconcileError> {
    let Some(name) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) else { return Ok(None) };
    let api: Api<Node> = Api::all(client);
    let node = in_time(cluster, "look for Node", api.get(&name.name)).await?;
    let id = machine.spec.provider_id.as_deref();
    let is_its = |node: &Node| id.is_some() && node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == id;
    Ok(node.filter(is_its))
}

/// Deletes the Node, if it is still this one.
pub(super) async fn delete(client: Client, cluster: &Key, node: &Node) -> Result<String, ReconcileError> {
    let api: Api<Node> = Api::all(client);
    let name = node.name_any();
    let preconditions = Preconditions { uid: node.metadata.uid.clone(), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    in_time(cluster, "delete Node", api.delete(&name, &parameters)).await?;
    Ok(name)
}

/// A Node that is gone is as good as done.
async fn in_time<T>(
    cluster: &Key,
    operation: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, ReconcileError> {
    let answer = tokio::time::timeout(PATIENCE, request)
        .await
        .unwrap_or_else(|_| Err(kube::Error::Service(format!("no answer within {} s", PATIENCE.as_secs()).into())));
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => {
            Err(ReconcileError::Workload { operation, cluster: cluster.to_string(), source: Box::new(source) })
        }
    }
}
