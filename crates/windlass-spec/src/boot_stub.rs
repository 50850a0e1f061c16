//! The small document a machine boots from: fit for a cloud's user data and a launch template.
//!
//! Input: written by a provider before first boot to [`BootStub::PATH`]. Output: the agent knows who it is and where
//! to ask for its [`crate::node_config::NodeConfig`].

use serde::{Deserialize, Serialize};

use crate::identity::ClusterId;

/// Who am I, whom do I ask, how do I prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BootStub {
    /// Format of this document: [`BootStub::FORMAT`].
    pub format: u32,
    /// The cluster the machine belongs to.
    pub cluster_id: ClusterId,
    /// The machine's name, which is also its Node's name.
    pub machine: String,
    /// Where configurations are served: `https://ADDRESS:PORT`.
    pub config_source: String,
    /// The only authority trusted for that server, PEM.
    pub ca: String,
    /// Client certificate proving the machine's identity, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
}

impl BootStub {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;
    /// Where it lies on the machine, mode 0600.
    pub const PATH: &'static str = "/etc/windlass/boot.json";
}
