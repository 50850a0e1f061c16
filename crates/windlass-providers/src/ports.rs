//! What Windlass asks of a place where machines live.
//!
//! Inputs: wishes scoped by cluster and owner. Outputs: what is. Every call can be made twice with the same effect; what
//! exists is returned, what differs in a way that cannot be changed is [`ProviderError::Conflict`].

use std::net::IpAddr;

use async_trait::async_trait;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use windlass_spec::full::Facts;
use windlass_spec::identity::{ClusterId, Ownership, Role, Slot};
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

/// Which cluster a call is about, and by whose right. Lower epochs than the place has seen are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// The cluster's identity for life.
    pub cluster_id: ClusterId,
    /// Its name.
    pub cluster: String,
    /// Who asks.
    pub ownership: Ownership,
}

/// The network wanted for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkWanted {
    /// Port of the API endpoint.
    pub endpoint_port: u16,
    /// DNS names that resolve to the endpoint's address.
    pub endpoint_names: Vec<String>,
    /// DNS zone: `NAME.windlass.internal`.
    pub zone: String,
    /// Ranges the machines' own range must keep clear of (pods, services).
    pub avoid: Vec<IpNet>,
}

/// A cluster's network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Network {
    /// Range of the machines.
    pub subnet: IpNet,
    /// The host's address in it; also nameserver and config source.
    pub gateway: IpAddr,
    /// The API endpoint's address, mapped to the ready API servers.
    pub endpoint: IpAddr,
    /// Bridge on the host.
    pub bridge: String,
    /// DNS zone.
    pub zone: String,
    /// `https://ADDRESS:PORT` for machines and for owners outside the host's own socket.
    pub api_url: String,
}

/// A name and address kept for a machine, before and beyond its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    /// Machine name.
    pub machine: String,
    /// Its address for life.
    pub address: IpAddr,
    /// `windlass-local://HOST/MACHINE-ID`, known before the machine starts.
    pub provider_id: String,
    /// Where it will be.
    pub failure_domain: Option<String>,
}

/// A volume wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeWanted {
    /// Name within the cluster, also the tag machines find it by (`/dev/windlass/NAME`): `etcd-main-a`.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
    /// The control-plane place it belongs to.
    pub slot: Option<Slot>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Volume {
    /// Name within the cluster.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
    /// The control-plane place it belongs to.
    pub slot: Option<Slot>,
    /// The machine it is attached to.
    pub attached_to: Option<String>,
    /// Where its content lies, for people.
    pub location: String,
}

/// A machine wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineWanted {
    /// Machine name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The control-plane place it claims.
    pub slot: Option<Slot>,
    /// Machine image (`windlass-assets` names it); the place's newest for the bundle when absent.
    pub image: String,
    /// Volumes attached from the start.
    pub volumes: Vec<String>,
    /// Further DNS names for its address: `etcd-a.NAME.windlass.internal`.
    pub dns_names: Vec<String>,
}

/// Where a machine is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum MachineState {
    /// Name and address are kept; nothing runs.
    Reserved,
    /// Being made or booting.
    Starting,
    /// Its init runs.
    Running,
    /// Not running.
    Stopped {
        /// Why: `stopped by request`, `exited 137`, `failed to start: …`.
        reason: String,
    },
}

/// A machine as the place sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// Machine name.
    pub name: String,
    /// What it is for.
    pub role: Option<Role>,
    /// The control-plane place it claims.
    pub slot: Option<Slot>,
    /// Its address.
    pub address: IpAddr,
    /// Its provider id.
    pub provider_id: String,
    /// Where it is.
    pub state: MachineState,
    /// Changes at each start.
    pub boot_id: Option<String>,
    /// Image it was cloned from.
    pub image: Option<String>,
    /// Attached volumes.
    pub volumes: Vec<String>,
    /// How often it was started.
    pub starts: u32,
    /// Its last report, kept after its death.
    pub report: Option<NodeReport>,
}

/// Everything a place holds for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// Changes with every change of what follows.
    pub revision: u64,
    /// Cluster and highest owner seen.
    pub scope: Scope,
    /// Network, once made.
    pub network: Option<Network>,
    /// Machines, by name.
    pub machines: Vec<Machine>,
    /// Volumes, by name.
    pub volumes: Vec<Volume>,
}

/// What proves an owner to the place from elsewhere (a management cluster's controllers).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerCredential {
    /// `https://ADDRESS:PORT`.
    pub url: String,
    /// The place's authority, PEM.
    pub ca: String,
    /// Client certificate scoped to cluster, owner and epoch, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
}

/// Why a place did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ProviderError {
    /// Nothing of that name.
    #[error("{what} does not exist")]
    NotFound {
        /// What.
        what: String,
    },
    /// It exists and differs.
    #[error("{what} exists and differs: {difference}")]
    Conflict {
        /// What.
        what: String,
        /// How.
        difference: String,
    },
    /// A higher epoch was seen.
    #[error("the cluster has a newer owner (epoch {seen}, asked with {asked})")]
    Fenced {
        /// Highest epoch seen.
        seen: u64,
        /// Epoch of the call.
        asked: u64,
    },
    /// The caller's identity does not reach that far.
    #[error("{who} may not {what}")]
    Denied {
        /// Who asked.
        who: String,
        /// What for.
        what: String,
    },
    /// The ground lacks something; nothing was made.
    #[error("{missing}; {remedy}")]
    Ground {
        /// What is missing.
        missing: String,
        /// How to get it.
        remedy: String,
    },
    /// The place cannot be reached.
    #[error("{place} cannot be reached: {cause}")]
    Unreachable {
        /// Where.
        place: String,
        /// Why.
        cause: String,
    },
    /// The place tried and failed.
    #[error("{operation}: {cause}")]
    Failed {
        /// What it tried.
        operation: String,
        /// What went wrong.
        cause: String,
    },
}

/// A place where machines live.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What is known of the ground.
    async fn facts(&self) -> Result<Facts, ProviderError>;

    /// Refuses, before anything is made, what the ground cannot carry for that many further machines. Returns notices
    /// for people: what will be changed on the host while machines are there.
    async fn preflight(&self, machines: u32) -> Result<Vec<String>, ProviderError>;

    /// Makes the cluster's network, zone and endpoint address.
    async fn ensure_network(&self, scope: &Scope, wanted: &NetworkWanted) -> Result<Network, ProviderError>;

    /// Keeps a name and address for a machine. Slots have one for life.
    async fn reserve(&self, scope: &Scope, machine: &str, slot: Option<Slot>) -> Result<Reservation, ProviderError>;

    /// Makes a volume; an existing one is kept with its content.
    async fn ensure_volume(&self, scope: &Scope, wanted: &VolumeWanted) -> Result<Volume, ProviderError>;

    /// Makes and starts a machine whose name was reserved. One that was made before is returned as it is, also when it
    /// died or was stopped; volumes and names added to the wish are attached to it.
    async fn ensure_machine(&self, scope: &Scope, wanted: &MachineWanted) -> Result<Machine, ProviderError>;

    /// Lays a configuration where the machine's agent fetches it; wakes a waiting agent. Lower (epoch, generation)
    /// than the one laid is refused.
    async fn put_config(&self, scope: &Scope, machine: &str, config: &SealedNodeConfig) -> Result<(), ProviderError>;

    /// Stops and removes a machine and its reservation; volumes stay.
    async fn delete_machine(&self, scope: &Scope, machine: &str) -> Result<(), ProviderError>;

    /// Removes a detached volume with its content.
    async fn delete_volume(&self, scope: &Scope, volume: &str) -> Result<(), ProviderError>;

    /// Removes the network; refused while machines are there. Forgets the cluster when it holds no volume either.
    async fn delete_network(&self, scope: &Scope) -> Result<(), ProviderError>;

    /// Everything held for the cluster; [`ProviderError::NotFound`] when nothing is. Any epoch may read: the answer's
    /// scope carries the highest owner seen.
    async fn inventory(&self, scope: &Scope) -> Result<Inventory, ProviderError>;

    /// Like [`Provider::inventory`], but waits up to 30 s for a revision other than `seen`.
    async fn watch(&self, scope: &Scope, seen: u64) -> Result<Inventory, ProviderError>;

    /// Makes a credential for an owner elsewhere.
    async fn credential(&self, scope: &Scope) -> Result<OwnerCredential, ProviderError>;
}
