//! One machine's configuration.
//!
//! Input: [`NodeInputs`]. Output: everything the machine must be, sealed with its secrets. Each file here makes one part
//! of it.

mod balancer;
mod certificates;
mod containerd;
mod control_plane;
mod duties;
mod encryption;
mod etcd;
mod files;
pub(crate) mod flags;
mod hosts;
mod kubelet;
mod labels;
mod pod;
mod rbac;
mod secrets;
mod site;
mod units;

use windlass_spec::identity::Role;
use windlass_spec::node_config::{NodeConfig, PodNetwork, Resolvers, SealedNodeConfig};

use crate::inputs::{NodeInputs, RenderError};
use windlass_spec::full::{Cni, EndpointMode};

pub use control_plane::{EXTERNAL_NAME_ANNOTATION, INTERNAL_NAME_ANNOTATION};
pub(crate) use labels::{is_for_kubelet, wanted as wanted_labels};
pub use rbac::bootstrap_objects;

/// Renders one machine's configuration.
///
/// # Errors
/// When the inputs contradict each other, or the release lacks an image the machine needs.
pub fn render(inputs: &NodeInputs<'_>) -> Result<SealedNodeConfig, RenderError> {
    check(inputs)?;
    let full = inputs.full;
    let is_control_plane = inputs.machine.role == Role::ControlPlane;
    let config = NodeConfig {
        format: NodeConfig::FORMAT,
        cluster: full.name.clone(),
        cluster_id: inputs.cluster_id.clone(),
        epoch: inputs.epoch,
        generation: inputs.generation,
        windlass_version: env!("CARGO_PKG_VERSION").to_owned(),
        bundle: full.release.bundle.clone(),
        machine: inputs.machine.clone(),
        first_boot: site::first_boot(inputs),
        hosts: hosts::entries(inputs),
        resolvers: resolvers(inputs),
        sysctls: site::sysctls(full),
        modules: ["br_netfilter", "nf_conntrack", "overlay"].map(str::to_owned).to_vec(),
        files: files::files(inputs)?,
        users: site::users(full),
        ntp_servers: full.ntp_servers.clone(),
        trusted_cas: full.trusted_cas.clone(),
        volumes: etcd::volumes(inputs)?,
        units: units::units(inputs),
        certificates: certificates::certificates(inputs)?,
        kubeconfigs: certificates::kubeconfigs(inputs),
        etcd: if is_control_plane { etcd::member(inputs)? } else { None },
        static_pods: control_plane::static_pods(inputs)?,
        kubelet: kubelet::registration(inputs),
        balancer: balancer::balancer(inputs),
        pod_network: pod_network(inputs),
        hooks: site::hooks(inputs),
        cluster_duties: if is_control_plane { Some(duties::duties(inputs)?) } else { None },
    };
    Ok(SealedNodeConfig::seal(config, secrets::secrets(inputs))?)
}

/// Refuses inputs that contradict each other.
fn check(inputs: &NodeInputs<'_>) -> Result<(), RenderError> {
    if let Some(further) = inputs.full.etcd.get(1) {
        return Err(RenderError::FurtherEtcd(further.name.clone()));
    }
    if inputs.machine.role == Role::Worker {
        return Ok(());
    }
    let name = &inputs.machine.name;
    let slot = inputs.machine.slot.ok_or_else(|| RenderError::NoSlot(name.clone()))?;
    if inputs.control_planes.iter().any(|machine| machine.slot == slot && machine.name == *name) {
        Ok(())
    } else {
        Err(RenderError::UnknownSlot { machine: name.clone(), slot })
    }
}

/// The machine asks the zone's server first; pods are only given what leads outside.
fn resolvers(inputs: &NodeInputs<'_>) -> Resolvers {
    let upstreams = &inputs.full.network.dns_upstreams;
    let zone_server = (inputs.full.endpoint.mode == EndpointMode::Provider).then_some(inputs.network.gateway);
    Resolvers { machine: zone_server.into_iter().chain(upstreams.iter().copied()).collect(), pods: upstreams.clone() }
}

fn pod_network(inputs: &NodeInputs<'_>) -> PodNetwork {
    let network = &inputs.full.network;
    PodNetwork {
        routes: network.cni == Cni::Bridge,
        pods: network.pods.clone(),
        services: network.services.clone(),
        nodes: vec![inputs.network.subnet],
    }
}
