//! Windlass's controllers in a cluster that manages itself: one on each control plane, on the host network, so that
//! healing survives the last worker.

use serde_json::{Value, json};

use windlass_spec::full::FullCluster;

use super::{CONTROL_PLANE, Objects, cluster_role, cluster_role_binding, image, service_account};
use crate::inputs::RenderError;
use crate::render::bootstrap_objects;

const NAMESPACE: &str = "windlass-system";
const NAME: &str = "windlass-controller";

pub(super) fn objects(full: &FullCluster) -> Result<Objects, RenderError> {
    // The Namespace stands already: it is one of [`bootstrap_objects`], which keeps it whatever add-ons come and go.
    debug_assert!(bootstrap_objects().iter().any(|object| object["metadata"]["name"] == NAMESPACE));
    let objects = vec![
        service_account(NAMESPACE, NAME),
        cluster_role("windlass:controller", &rules()),
        cluster_role_binding("windlass:controller", "windlass:controller", NAMESPACE, NAME),
        daemon_set(&image(full, "windlass")?),
    ];
    Ok(Objects { name: NAME, version: env!("CARGO_PKG_VERSION").to_owned(), namespace: NAMESPACE, objects })
}

/// Everything of the kinds it keeps, Secrets and events, and a look at Nodes and Pods.
fn rules() -> Value {
    json!([
        {
            "apiGroups": [
                "windlass.dev", "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io",
                "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "addons.cluster.x-k8s.io",
            ],
            "resources": ["*"],
            "verbs": ["*"],
        },
        { "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"] },
        { "apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "update", "patch"] },
        { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch", "create"] },
        { "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"] },
        { "apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "update", "patch"] },
        { "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get", "list", "watch", "create", "update", "patch"] },
    ])
}

fn daemon_set(image: &str) -> Value {
    let labels = json!({ "app": NAME });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "spec": {
            "selector": { "matchLabels": labels },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    "hostNetwork": true,
                    "dnsPolicy": "Default",
                    "nodeSelector": { CONTROL_PLANE: "" },
                    // The control plane's taint, those of a person, those of a machine in trouble.
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [container(image)],
                },
            },
        },
    })
}

fn container(image: &str) -> Value {
    json!({
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["controller"],
        "env": [
            // The machine's own balancer: no service proxy is needed to reach the API.
            { "name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1" },
            { "name": "KUBERNETES_SERVICE_PORT", "value": "7443" },
            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
        ],
        "resources": { "requests": { "cpu": "20m", "memory": "64Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
    })
}
