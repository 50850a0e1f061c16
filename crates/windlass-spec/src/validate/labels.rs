//! Labels and taints of Nodes.
//!
//! kubelet exits at once over a label that is not its to set, on a far machine, after minutes: they are judged here.

use super::syntax;
use crate::node_config::Taint;
use crate::problems::Problem;
use crate::resolve::{CONTROL_PLANE_KEY, join};
use crate::v1alpha1::ClusterSpec;

/// Namespaces under `kubernetes.io` in which a kubelet may label its own Node.
const KUBELET_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Single labels a kubelet may set, and a person too.
const KUBELET_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
/// Namespaces the control plane's agents set labels in.
const MANAGED_NAMESPACES: [&str; 2] = ["node-role.kubernetes.io", "node-restriction.kubernetes.io"];
/// Namespaces nobody but their owners may use.
const OWNED_NAMESPACES: [&str; 2] = ["windlass.dev", "cluster.x-k8s.io"];

/// May a kubelet set this label on its own Node? If not, control-plane agents do.
pub fn kubelet_may_set(key: &str) -> bool {
    let Some((namespace, _)) = key.split_once('/') else { return true };
    KUBELET_LABELS.contains(&key)
        || KUBELET_NAMESPACES.iter().any(|allowed| is_in(namespace, allowed))
        || !is_kubernetes(namespace)
}

fn is_kubernetes(namespace: &str) -> bool {
    is_in(namespace, "kubernetes.io") || is_in(namespace, "k8s.io")
}

fn is_in(namespace: &str, domain: &str) -> bool {
    namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Checks labels and taints of every group.
pub(super) fn check(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    group("spec.controlPlane", &spec.control_plane.labels, &spec.control_plane.taints, found);
    for (index, workers) in spec.workers.iter().enumerate() {
        group(&format!("spec.workers[{index}]"), &workers.labels, &workers.taints, found);
    }
}

fn group(path: &str, labels: &std::collections::BTreeMap<String, String>, taints: &[Taint], found: &mut Vec<Problem>) {
    for (key, value) in labels {
        found.extend(label(&join(&format!("{path}.labels"), key), key, value));
    }
    for (index, taint) in taints.iter().enumerate() {
        found.extend(taint_problems(&format!("{path}.taints[{index}]"), taint));
        let same = |other: &Taint| (&other.key, other.effect) == (&taint.key, taint.effect);
        if let Some(first) = taints[..index].iter().position(same) {
            let message = format!("taint `{}` with {:?} is there twice", taint.key, taint.effect);
            let problem = Problem::error("taint", format!("{path}.taints[{index}]"), message).label("again here");
            found.push(problem.with(format!("{path}.taints[{first}]"), "first here"));
        }
    }
}

fn label(path: &str, key: &str, value: &str) -> Option<Problem> {
    if !syntax::is_qualified_name(key) {
        let problem = Problem::error("label", path, format!("`{key}` is no name of a label")).on_key();
        return Some(
            problem.hint("`[dns.name/]name` is wanted; the name has at most 63 letters, digits, `-`, `_`, `.`"),
        );
    }
    if !syntax::is_label_value(value) {
        let problem = Problem::error("label", path, format!("`{value}` is no label's value"));
        return Some(problem.hint("at most 63 letters, digits, `-`, `_`, `.`, with a letter or digit at both ends"));
    }
    let reserved =
        |message: String, hint: &str| Some(Problem::error("reserved-label", path, message).on_key().hint(hint));
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    if key == CONTROL_PLANE_KEY {
        return reserved(format!("`{key}` is set by Windlass"), "control-plane machines have it, workers must not");
    }
    if OWNED_NAMESPACES.iter().any(|owned| is_in(namespace, owned)) {
        return reserved(format!("labels in `{namespace}` have an owner already"), "choose another prefix, or none");
    }
    let managed = MANAGED_NAMESPACES.contains(&namespace);
    if managed || kubelet_may_set(key) {
        return None;
    }
    let allowed: Vec<&str> =
        MANAGED_NAMESPACES.iter().chain(&KUBELET_NAMESPACES).chain(&KUBELET_LABELS).copied().collect();
    let hint = format!("choose another prefix; under `kubernetes.io` these are allowed: {}", allowed.join(", "));
    reserved(format!("`{key}` is reserved by Kubernetes"), &hint)
}

fn taint_problems(path: &str, taint: &Taint) -> Option<Problem> {
    if !syntax::is_qualified_name(&taint.key) {
        let problem = Problem::error("taint", format!("{path}.key"), format!("`{}` is no name of a taint", taint.key));
        return Some(
            problem
                .hint("`key`, `value` and `effect` are fields of their own: {key: team, value: a, effect: NoSchedule}"),
        );
    }
    if !syntax::is_label_value(&taint.value) {
        let problem =
            Problem::error("taint", format!("{path}.value"), format!("`{}` is no taint's value", taint.value));
        return Some(problem.hint("at most 63 letters, digits, `-`, `_`, `.`; the effect has a field of its own"));
    }
    let namespace = taint.key.split_once('/').map_or("", |(namespace, _)| namespace);
    let reserved = |hint: &str| {
        let message = format!("taint `{}` is not set by hand", taint.key);
        Some(Problem::error("reserved-taint", format!("{path}.key"), message).hint(hint))
    };
    if taint.key == CONTROL_PLANE_KEY {
        return reserved("`controlPlane.dedicated` decides of it");
    }
    let owned = ["node.kubernetes.io", "node.cloudprovider.kubernetes.io", "node.cluster.x-k8s.io", "windlass.dev"];
    if owned.contains(&namespace) {
        return reserved("controllers put it on Nodes and take it off; choose another key");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::kubelet_may_set;

    #[test]
    fn what_a_kubelet_may_set() {
        for key in
            ["tier", "example.com/a", "node.kubernetes.io/x", "a.node.kubernetes.io/x", "topology.kubernetes.io/zone"]
        {
            assert!(kubelet_may_set(key), "{key}");
        }
        for key in
            ["node-role.kubernetes.io/web", "kubernetes.io/foo", "foo.k8s.io/a", "node-restriction.kubernetes.io/a"]
        {
            assert!(!kubelet_may_set(key), "{key}");
        }
    }
}
