//! What a node config is rendered from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use windlass_pki::Authorities;
use windlass_spec::full::FullCluster;
use windlass_spec::identity::{ClusterId, Epoch, Generation, Slot};
use windlass_spec::node_config::{EtcdPermit, MachineIdentity, ManagedNode};

/// A machine that claims a control-plane place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneMachine {
    /// The place.
    pub slot: Slot,
    /// Machine name.
    pub name: String,
    /// The place's address for life.
    pub address: IpAddr,
}

/// The machines' network as the provider made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkFacts {
    /// Range of the machines.
    pub subnet: IpNet,
    /// Nameserver of the zone.
    pub gateway: IpAddr,
    /// Address of the API endpoint.
    pub endpoint: IpAddr,
    /// DNS zone: `NAME.windlass.internal`.
    pub zone: String,
}

/// Everything one machine's configuration depends on.
#[derive(Clone, Debug)]
pub struct NodeInputs<'a> {
    /// The full spec.
    pub full: &'a FullCluster,
    /// The cluster's identity for life.
    pub cluster_id: &'a ClusterId,
    /// The owner that renders.
    pub epoch: Epoch,
    /// Which configuration of that owner this is.
    pub generation: Generation,
    /// The machine.
    pub machine: &'a MachineIdentity,
    /// Every wanted control-plane machine, this one included where it is one.
    pub control_planes: &'a [ControlPlaneMachine],
    /// Every machine of the cluster; only control planes are told.
    pub machines: &'a [ManagedNode],
    /// May etcd be formed?
    pub permit: &'a EtcdPermit,
    /// Generation of the wanted member list.
    pub members_generation: Generation,
    /// The machines' network.
    pub network: &'a NetworkFacts,
    /// Roots of trust.
    pub authorities: &'a Authorities,
    /// The worker's own join token, `id.secret`; none once it was used.
    pub bootstrap_token: Option<&'a str>,
    /// Pending join tokens by machine; only control planes are told.
    pub join_tokens: &'a BTreeMap<String, String>,
    /// Does the cluster run Windlass's controllers itself?
    pub self_managed: bool,
}

/// Why a configuration cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A control-plane machine without a place.
    #[error("the control-plane machine {0} has no slot")]
    NoSlot(String),
    /// The machine's place is not among the wanted ones.
    #[error("slot {slot} of {machine} is not among the wanted control planes")]
    UnknownSlot {
        /// The machine.
        machine: String,
        /// Its place.
        slot: Slot,
    },
    /// No etcd cluster holds the cluster's state.
    #[error("the spec has no etcd cluster")]
    NoEtcd,
    /// More etcd clusters than machines of this release can run.
    #[error("etcd cluster {0}: only one etcd cluster is supported")]
    FurtherEtcd(String),
    /// The release lacks an image.
    #[error("the release has no image for {0}")]
    NoImage(&'static str),
    /// containerd's configuration cannot be written as TOML.
    #[error("containerd's configuration cannot be written: {0}")]
    Containerd(#[from] toml::ser::Error),
    /// The result cannot be written as JSON.
    #[error("the configuration cannot be sealed: {0}")]
    Seal(#[from] serde_json::Error),
}
