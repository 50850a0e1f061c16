//! Audit policy and authentication configuration.
//!
//! Input: the user's objects, perhaps empty. Output: complete objects.

use serde_json::{Value, json};

use super::merge::merge;
use super::origins::Origins;
use crate::full::Origin;
use crate::v1alpha1::Object;

/// Paths that answer without authentication: kubelet, balancers and people ask them.
pub const HEALTH_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The audit Policy.
pub(super) fn audit(user: &Object, origins: &mut Origins) -> Value {
    if user.is_empty() {
        origins.mark("auditPolicy", Origin::Default);
        return default_audit();
    }
    origins.mark("auditPolicy", Origin::User);
    let mut policy = object(json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy" }));
    policy.extend(user.clone());
    Value::Object(policy)
}

/// Writes and whatever touches secrets by their metadata, changes of rights with their content; not the heartbeat of
/// the machinery.
fn default_audit() -> Value {
    let reads = ["get", "list", "watch"];
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*", "/metrics"] },
            { "level": "None", "resources": [
                { "group": "", "resources": ["events"] },
                { "group": "events.k8s.io", "resources": ["events"] },
                { "group": "coordination.k8s.io", "resources": ["leases"] },
            ] },
            { "level": "Metadata", "resources": [
                { "group": "", "resources": ["secrets", "configmaps", "serviceaccounts/token"] },
                { "group": "authentication.k8s.io", "resources": ["tokenreviews"] },
            ] },
            { "level": "None", "verbs": reads, "users": [
                "system:apiserver",
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:serviceaccount:kube-system:kube-proxy",
                "system:serviceaccount:kube-system:coredns",
            ] },
            { "level": "None", "verbs": reads, "userGroups": ["system:nodes"] },
            { "level": "None", "verbs": ["patch", "update"], "userGroups": ["system:nodes"], "resources": [
                { "group": "", "resources": ["nodes/status", "pods/status"] },
            ] },
            { "level": "Request", "verbs": ["create", "update", "patch", "delete", "deletecollection"], "resources": [
                { "group": "rbac.authorization.k8s.io" },
                { "group": "admissionregistration.k8s.io" },
                { "group": "certificates.k8s.io" },
            ] },
            { "level": "Metadata" },
        ],
    })
}

/// The AuthenticationConfiguration: anonymous requests for health only, unless the user says more.
pub(super) fn authentication(user: &Object, origins: &mut Origins) -> Value {
    origins.mark("authenticationConfiguration", Origin::Default);
    let conditions: Vec<Value> = HEALTH_PATHS.iter().map(|path| json!({ "path": path })).collect();
    let mut configuration = object(json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": { "enabled": true, "conditions": conditions },
    }));
    merge("authenticationConfiguration", &mut configuration, user, origins);
    Value::Object(configuration)
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
