//! What hostd and its clients say to each other: JSON over HTTP/1.1, `POST` to `/v1/OPERATION`.
//!
//! Inputs and outputs are the types below and those of [`crate::ports`]. The protocol has a version; a peer of another
//! one is refused before anything is done.

use serde::{Deserialize, Serialize};

use windlass_spec::identity::Slot;
use windlass_spec::node_config::SealedNodeConfig;

use crate::ports::{MachineWanted, NetworkWanted, ProviderError, Scope, VolumeWanted};

/// Version of the protocol this build speaks.
pub const PROTOCOL: u32 = 1;
/// Header that carries it.
pub const PROTOCOL_HEADER: &str = "windlass-protocol";
/// Port of the mutual-TLS server on each bridge's gateway.
pub const PORT: u16 = 7440;

/// How hostd introduces itself (`GET /v1/hello`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// [`PROTOCOL`] of that hostd.
    pub protocol: u32,
    /// Highest format of state it writes.
    pub state_format: u32,
    /// Windlass version.
    pub version: String,
    /// First hex digits of the sha256 of its binary.
    pub build: String,
    /// Its process.
    pub pid: u32,
    /// Is it still bringing machines up?
    pub starting: bool,
    /// Clusters held.
    pub clusters: usize,
    /// Machines held.
    pub machines: usize,
}

/// A call that only names the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfCluster {
    /// Whose.
    pub scope: Scope,
}

/// A call about one thing of a cluster: a machine, a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfThing {
    /// Whose.
    pub scope: Scope,
    /// Its name.
    pub name: String,
}

/// Preflight for that many machines.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preflight {
    /// How many more.
    pub machines: u32,
}

/// A network is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnsureNetwork {
    /// Whose.
    pub scope: Scope,
    /// What.
    pub wanted: NetworkWanted,
}

/// A name and address are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reserve {
    /// Whose.
    pub scope: Scope,
    /// Machine name.
    pub machine: String,
    /// The place it claims.
    pub slot: Option<Slot>,
}

/// A volume is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnsureVolume {
    /// Whose.
    pub scope: Scope,
    /// What.
    pub wanted: VolumeWanted,
}

/// A machine is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnsureMachine {
    /// Whose.
    pub scope: Scope,
    /// What.
    pub wanted: MachineWanted,
}

/// A configuration is laid.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutConfig {
    /// Whose.
    pub scope: Scope,
    /// Machine name.
    pub machine: String,
    /// What.
    pub config: SealedNodeConfig,
}

/// Waits for another revision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// Whose.
    pub scope: Scope,
    /// Revision known to the caller.
    pub seen: u64,
}

/// What a person does to a machine, whoever owns its cluster (the socket only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// Start it.
    Start,
    /// Stop it in order.
    Stop,
    /// Cut its power.
    Kill,
    /// Stop it in order and start it.
    Restart,
}

/// A person acts on a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetPower {
    /// `MACHINE` or `CLUSTER/MACHINE`.
    pub machine: String,
    /// What to do.
    pub power: Power,
}

/// hostd is to go on as another binary.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Succeed {
    /// The binary, one of the copies in the state folder.
    pub build: String,
}

/// hostd is to end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stop {
    /// Stop every machine first.
    pub machines: bool,
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refusal {
    /// Why.
    pub error: ProviderError,
}

/// The HTTP status an error travels with.
pub fn status(error: &ProviderError) -> u16 {
    match error {
        ProviderError::NotFound { .. } => 404,
        ProviderError::Conflict { .. } => 409,
        ProviderError::Fenced { .. } => 412,
        ProviderError::Denied { .. } => 403,
        ProviderError::Ground { .. } => 424,
        ProviderError::Unreachable { .. } => 503,
        ProviderError::Failed { .. } => 500,
    }
}
