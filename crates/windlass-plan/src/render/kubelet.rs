//! kubelet: its flags, its configuration, how its Node registers.

use serde_json::{Value, json};

use windlass_spec::identity::Role;
use windlass_spec::node_config::{Kubelet, Taint};
use windlass_spec::paths;

use super::flags::{FlagMap, flags, merged};
use super::labels::kubelet_labels;
use crate::inputs::NodeInputs;

/// The unit.
pub(crate) const UNIT: &str = "kubelet.service";

/// How the Node registers.
pub(super) fn registration(inputs: &NodeInputs<'_>) -> Kubelet {
    Kubelet {
        unit: UNIT.to_owned(),
        manifest_dir: paths::MANIFESTS.to_owned(),
        tls_bootstrap: inputs.machine.role == Role::Worker,
    }
}

/// Flags of this machine's kubelet.
pub(super) fn kubelet_flags(inputs: &NodeInputs<'_>) -> FlagMap {
    let machine = inputs.machine;
    let labels: Vec<String> =
        kubelet_labels(inputs.full, machine).into_iter().map(|(label, value)| format!("{label}={value}")).collect();
    let mut all = merged(
        flags([
            ("hostname-override", machine.name.clone()),
            ("node-ip", machine.address.to_string()),
            ("node-labels", labels.join(",")),
        ]),
        &inputs.full.components.kubelet,
    );
    if machine.role == Role::ControlPlane {
        // Its client certificate is issued on the machine: there is nothing to bootstrap.
        all.remove("bootstrap-kubeconfig");
    }
    all
}

/// `KubeletConfiguration` of this machine.
pub(super) fn configuration(inputs: &NodeInputs<'_>) -> Value {
    let mut config = inputs.full.components.kubelet_config.clone();
    if let Value::Object(fields) = &mut config {
        fields.insert("providerID".to_owned(), json!(inputs.machine.provider_id));
        let taints = taints(inputs);
        if !taints.is_empty() {
            fields.insert("registerWithTaints".to_owned(), json!(taints));
        }
    }
    config
}

fn taints<'a>(inputs: &NodeInputs<'a>) -> &'a [Taint] {
    match inputs.machine.role {
        Role::ControlPlane => &inputs.full.control_plane.taints,
        Role::Worker => inputs
            .full
            .workers
            .iter()
            .find(|group| group.name == inputs.machine.group)
            .map_or(&[], |group| group.taints.as_slice()),
    }
}
