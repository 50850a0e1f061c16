//! Rights that must stand before the first kubelet joins.

use serde_json::{Value, json};

use windlass_pki::{ADMINS_GROUP, AGENTS_GROUP};

use super::certificates::KUBELET_CLIENT;

/// Namespace of Windlass's own objects in a cluster.
pub(crate) const SYSTEM_NAMESPACE: &str = "windlass-system";
/// Group of machines that hold a join token.
const BOOTSTRAPPERS: &str = "system:bootstrappers:windlass";
const NODES: &str = "system:nodes";

/// Every object, in the order they are applied.
pub fn bootstrap_objects() -> Vec<Value> {
    let group = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name });
    let user = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name });
    vec![
        bind("windlass:agents", "cluster-admin", &group(AGENTS_GROUP)),
        bind("windlass:admins", "cluster-admin", &group(ADMINS_GROUP)),
        bind("windlass:kubelet-api-admin", "system:kubelet-api-admin", &user(KUBELET_CLIENT)),
        // A first certificate is approved by an agent, which knows whose token asks; only renewals approve themselves.
        bind("windlass:node-bootstrapper", "system:node-bootstrapper", &group(BOOTSTRAPPERS)),
        bind(
            "windlass:node-renewal",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            &group(NODES),
        ),
        node_routes(),
        bind("windlass:node-routes", "windlass:node-routes", &group(NODES)),
        api_servers(),
        api_servers_binding(&group(NODES)),
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": SYSTEM_NAMESPACE,
                "labels": { "pod-security.kubernetes.io/enforce": "privileged" },
            },
        }),
    ]
}

fn bind(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

/// Routes to other machines' pods need their PodCIDRs; a node may read only itself without this.
fn node_routes() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "windlass:node-routes" },
        "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] }],
    })
}

/// The balancer follows the addresses of the API servers.
fn api_servers() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": "windlass:api-servers", "namespace": "default" },
        "rules": [{
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "resourceNames": ["kubernetes"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

fn api_servers_binding(subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "windlass:api-servers", "namespace": "default" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "windlass:api-servers" },
        "subjects": [subject],
    })
}
