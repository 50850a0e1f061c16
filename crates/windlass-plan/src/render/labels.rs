//! Which Node labels a kubelet may set itself, and which only a manager may.

use std::collections::BTreeMap;

use windlass_spec::identity::Role;
use windlass_spec::node_config::MachineIdentity;

use windlass_spec::full::FullCluster;

/// Instance group of a Node.
pub(crate) const GROUP_LABEL: &str = "windlass.dev/group";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Labels of the Kubernetes domains that NodeRestriction lets a kubelet set.
const ALLOWED: [&str; 9] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
];
const ALLOWED_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// May a kubelet set this label on its own Node?
pub(crate) fn is_for_kubelet(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    let is_below =
        |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
    if !is_below("kubernetes.io") && !is_below("k8s.io") {
        return true;
    }
    ALLOWED.contains(&label) || ALLOWED_DOMAINS.into_iter().any(is_below)
}

/// Labels the kubelet registers with.
pub(crate) fn kubelet_labels(full: &FullCluster, machine: &MachineIdentity) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(GROUP_LABEL.to_owned(), machine.group.clone())]);
    if let Some(domain) = &machine.failure_domain {
        labels.insert(ZONE_LABEL.to_owned(), domain.clone());
    }
    labels.extend(wanted(full, machine.role, &machine.group).filter(|(label, _)| is_for_kubelet(label)));
    labels
}

/// Labels the spec asks for on machines of a group.
pub(crate) fn wanted<'a>(
    full: &'a FullCluster,
    role: Role,
    group: &str,
) -> impl Iterator<Item = (String, String)> + use<'a> {
    let labels = match role {
        Role::ControlPlane => Some(&full.control_plane.labels),
        Role::Worker => full.workers.iter().find(|workers| workers.name == group).map(|workers| &workers.labels),
    };
    labels.into_iter().flatten().map(|(label, value)| (label.clone(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b10_only_labels_that_noderestriction_allows_reach_the_kubelet() {
        let allowed = [
            "tier",
            "example.com/a",
            "node.kubernetes.io/x",
            "topology.kubernetes.io/zone",
            "a.kubelet.kubernetes.io/x",
        ];
        let refused = [
            "node-role.kubernetes.io/worker",
            "kubernetes.io/foo",
            "foo.k8s.io/x",
            "k8s.io/x",
            "node-restriction.kubernetes.io/a",
        ];
        assert!(allowed.into_iter().all(is_for_kubelet));
        assert!(!refused.into_iter().any(is_for_kubelet));
        assert!(is_for_kubelet("notkubernetes.io/x"), "another domain that ends alike");
    }
}
