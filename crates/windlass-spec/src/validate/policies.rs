//! Audit policy and authentication configuration.

use serde_json::Value;

use crate::problems::Problem;
use crate::resolve::HEALTH_PATHS;
use crate::v1alpha1::{ClusterSpec, Object};

/// Checks the form of both as far as the API server would refuse to start over it.
pub(super) fn check(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    audit(&spec.audit.policy, found);
    authentication(&spec.authentication.configuration, found);
}

/// `apiVersion` and `kind` may be left out, but not be others.
fn kind(path: &str, object: &Object, versions: &[&str], kind: &str, found: &mut Vec<Problem>) {
    let is = |field: &str, allowed: &[&str]| {
        object.get(field).is_none_or(|value| value.as_str().is_some_and(|text| allowed.contains(&text)))
    };
    if !is("apiVersion", versions) {
        let problem = Problem::error(
            "policy",
            format!("{path}.apiVersion"),
            format!("`apiVersion` of a {kind} is {}", versions.join(" or ")),
        );
        found.push(problem);
    }
    if !is("kind", &[kind]) {
        found.push(Problem::error("policy", format!("{path}.kind"), format!("a {kind} is wanted here")));
    }
}

fn only_fields(path: &str, object: &Object, fields: &[&str], found: &mut Vec<Problem>) {
    for field in object.keys().filter(|field| !fields.contains(&field.as_str())) {
        let path = crate::resolve::join(path, field);
        let problem = Problem::error("policy", path, format!("`{field}` is no field of it")).on_key();
        found.push(problem.hint(format!("fields: {}", fields.join(", "))));
    }
}

fn audit(policy: &Object, found: &mut Vec<Problem>) {
    let path = "spec.audit.policy";
    if policy.is_empty() {
        return;
    }
    kind(path, policy, &["audit.k8s.io/v1"], "Policy", found);
    only_fields(path, policy, &["apiVersion", "kind", "metadata", "omitStages", "omitManagedFields", "rules"], found);
    let rules = policy.get("rules").and_then(Value::as_array);
    if rules.is_none_or(Vec::is_empty) {
        let problem = Problem::error("policy", path, "an audit policy needs `rules`");
        found.push(problem.hint("`rules: [{level: Metadata}]` writes down everything without its content"));
    }
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let levels = ["None", "Metadata", "Request", "RequestResponse"];
        if !rule.get("level").and_then(Value::as_str).is_some_and(|level| levels.contains(&level)) {
            let problem = Problem::error("policy", format!("{path}.rules[{index}]"), "a rule needs a `level`");
            found.push(problem.hint(format!("one of {}", levels.join(", "))));
        }
    }
}

fn authentication(configuration: &Object, found: &mut Vec<Problem>) {
    let path = "spec.authentication.configuration";
    let versions = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
    kind(path, configuration, &versions, "AuthenticationConfiguration", found);
    only_fields(path, configuration, &["apiVersion", "kind", "jwt", "anonymous"], found);
    let Some(anonymous) = configuration.get("anonymous") else { return };
    let path = format!("{path}.anonymous");
    if anonymous.get("enabled") == Some(&Value::Bool(false)) {
        let problem = Problem::error("anonymous", path, "without anonymous requests nothing can ask for health");
        found.push(problem.hint("leave `anonymous` out: only health checks are let through"));
        return;
    }
    let Some(conditions) = anonymous.get("conditions").and_then(Value::as_array) else { return };
    let allowed = |wanted: &str| conditions.iter().any(|condition| condition.get("path") == Some(&wanted.into()));
    let missing: Vec<&str> = HEALTH_PATHS.into_iter().filter(|path| !allowed(path)).collect();
    if !missing.is_empty() {
        let message = format!("anonymous requests to {} are needed for health checks", missing.join(", "));
        found.push(Problem::error("anonymous", format!("{path}.conditions"), message));
    }
}
