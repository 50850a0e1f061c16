//! Objects that a cluster is given: DNS, service proxy, storage, and Windlass's controllers where it manages itself.
//!
//! Input: the full spec. Output: [`Addon`]s, each of which an agent applies server-side as one set.

mod controller;
mod coredns;
mod kube_proxy;
mod local_path;

use serde_json::{Value, json};

use windlass_spec::full::{FullCluster, KubeProxy};
use windlass_spec::node_config::Addon;

use crate::inputs::RenderError;
use crate::yaml;

/// Label of every object of an add-on.
pub const ADDON_LABEL: &str = "windlass.dev/addon";
/// Taint of machines kept for the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// An add-on in the making.
#[derive(Debug)]
struct Objects {
    name: &'static str,
    version: String,
    namespace: &'static str,
    objects: Vec<Value>,
}

/// Add-ons that are on. What a pod needs to reach anything comes first.
///
/// # Errors
/// When the release lacks an image.
pub fn addons(full: &FullCluster, self_managed: bool) -> Result<Vec<Addon>, RenderError> {
    let mut all = Vec::new();
    if full.network.kube_proxy != KubeProxy::None {
        all.push(kube_proxy::objects(full)?);
    }
    if full.addons.coredns {
        all.push(coredns::objects(full)?);
    }
    if full.addons.local_path {
        all.push(local_path::objects(full)?);
    }
    if self_managed {
        all.push(controller::objects(full)?);
    }
    Ok(all.into_iter().map(finish).collect())
}

fn finish(addon: Objects) -> Addon {
    let Objects { name, version, namespace, objects } = addon;
    let objects = objects.into_iter().map(|object| yaml::document(&labelled(object, name))).collect();
    Addon { name: name.to_owned(), version, namespace: namespace.to_owned(), objects }
}

fn labelled(mut object: Value, addon: &str) -> Value {
    let labels = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
    if let Some(Value::Object(labels)) = labels {
        labels.insert(ADDON_LABEL.to_owned(), json!(addon));
    }
    object
}

fn image(full: &FullCluster, component: &'static str) -> Result<String, RenderError> {
    full.release.images.get(component).cloned().ok_or(RenderError::NoImage(component))
}

fn version(full: &FullCluster, component: &str) -> String {
    full.release.versions.get(component).cloned().unwrap_or_else(|| full.release.kubernetes.clone())
}

/// Machines the cluster begins with.
fn machine_count(full: &FullCluster) -> usize {
    let workers: u32 = full.workers.iter().map(|group| group.count).sum();
    full.control_plane.slots.len() + workers as usize
}

fn service_account(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": namespace } })
}

fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": rules,
    })
}

fn cluster_role_binding(name: &str, role: &str, namespace: &str, account: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
    })
}
