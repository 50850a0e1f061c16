//! What only a manager may set on a Node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_spec::full::FullCluster;
use windlass_spec::identity::Role;
use windlass_spec::node_config::{ManagedNode, Taint, TaintEffect};

use crate::render::{is_for_kubelet, wanted_labels};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const NO_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Must control planes carry their taint? While they are dedicated and there is a worker to go to, or when the spec
/// names the taint itself.
pub fn control_plane_taint(full: &FullCluster, workers: usize) -> bool {
    // The spec's own taints hold the derived one too, as it was with the workers the spec names.
    let is_named = !full.control_plane.dedicated && full.control_plane.taints.iter().any(is_control_plane_taint);
    is_named || (full.control_plane.dedicated && workers > 0)
}

fn is_control_plane_taint(taint: &Taint) -> bool {
    taint.key == CONTROL_PLANE && taint.effect == TaintEffect::NoSchedule
}

/// A Node as control-plane agents keep it; `workers` counts those of the cluster.
pub fn managed_node(
    full: &FullCluster,
    name: &str,
    role: Role,
    group: &str,
    address: IpAddr,
    workers: usize,
) -> ManagedNode {
    let mut labels: BTreeMap<String, String> =
        wanted_labels(full, role, group).filter(|(label, _)| !is_for_kubelet(label)).collect();
    if role == Role::ControlPlane {
        labels.insert(CONTROL_PLANE.to_owned(), String::new());
        labels.insert(NO_BALANCER.to_owned(), String::new());
    }
    ManagedNode {
        name: name.to_owned(),
        role,
        address,
        labels,
        control_plane_taint: (role == Role::ControlPlane).then(|| control_plane_taint(full, workers)),
    }
}
