//! The hosts block: names that must resolve while no nameserver answers.

use windlass_spec::full::EndpointMode;
use windlass_spec::identity::Role;
use windlass_spec::names;
use windlass_spec::node_config::HostEntry;

use crate::inputs::NodeInputs;

/// Control planes with their members' names, the endpoint, and the machine itself.
pub(super) fn entries(inputs: &NodeInputs<'_>) -> Vec<HostEntry> {
    let zone = &inputs.network.zone;
    let mut entries: Vec<HostEntry> = inputs
        .control_planes
        .iter()
        .map(|machine| HostEntry {
            address: machine.address,
            names: vec![
                names::etcd_host(&inputs.full.name, machine.slot),
                format!("{}.{zone}", machine.name),
                machine.name.clone(),
            ],
        })
        .collect();
    entries.push(HostEntry { address: inputs.network.endpoint, names: endpoint_names(inputs) });
    if inputs.machine.role == Role::Worker {
        let name = &inputs.machine.name;
        entries
            .push(HostEntry { address: inputs.machine.address, names: vec![format!("{name}.{zone}"), name.clone()] });
    }
    entries
}

/// A name the user keeps elsewhere is not answered here.
fn endpoint_names(inputs: &NodeInputs<'_>) -> Vec<String> {
    let endpoint = &inputs.full.endpoint;
    let own = (endpoint.mode != EndpointMode::External).then(|| endpoint.name.clone());
    own.into_iter().chain([endpoint.internal_name.clone()]).collect()
}
