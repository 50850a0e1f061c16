//! What a machine says of itself: what is, and why not yet.
//!
//! Input: made by the agent after each pass. Output: kept by the config source (readable after the machine's death),
//! turned into conditions by controllers and into the progress view by the CLI.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::{Epoch, Generation};

/// The state of one machine as its agent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeReport {
    /// Format of this document: [`NodeReport::FORMAT`].
    pub format: u32,
    /// Machine name.
    pub machine: String,
    /// Kernel boot id of this start (sandboxes: made fresh at each start).
    pub boot_id: String,
    /// When this was said.
    pub at: Timestamp,
    /// Version of the agent.
    pub windlass_version: String,
    /// The configuration it works on; none yet while it waits for the first.
    pub config: Option<ConfigSeen>,
    /// Each part in order.
    pub parts: Vec<PartReport>,
    /// etcd's attempt that formed the cluster this member's data belongs to, once known.
    pub etcd_formed_by: Option<String>,
    /// etcd member id, hex, once started.
    pub etcd_member_id: Option<String>,
    /// Is the own API server ready? Control planes only.
    pub api_server_ready: Option<bool>,
    /// DNS names the API server on this machine answers for, read from its manifest's annotations.
    pub api_server_names: Vec<String>,
    /// Is the Node Ready with this boot?
    pub node_ready: bool,
}

impl NodeReport {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;

    /// Did every part converge, and is the Node Ready?
    pub fn is_ready(&self) -> bool {
        self.node_ready && self.parts.iter().all(|part| part.state == PartState::Done)
    }

    /// The first part that is not done: what the machine is doing, waits for or failed at.
    pub fn current(&self) -> Option<&PartReport> {
        self.parts
            .iter()
            .find(|part| matches!(part.state, PartState::Failed { .. }))
            .or_else(|| self.parts.iter().find(|part| part.state != PartState::Done))
    }
}

/// A configuration the agent took up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigSeen {
    /// Its epoch.
    pub epoch: Epoch,
    /// Its generation.
    pub generation: Generation,
    /// Its hash.
    pub hash: String,
}

/// One part of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartReport {
    /// Name: `sysctls`, `volumes`, `containerd`, `etcd`, `kube-apiserver` …
    pub part: String,
    /// Where it is.
    pub state: PartState,
    /// What the last pass changed, for people; empty when nothing.
    pub changes: Vec<String>,
    /// When the state last changed.
    pub since: Timestamp,
}

/// Where a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum PartState {
    /// Not begun: an earlier part is not done.
    Pending,
    /// At work, or waiting for something outside.
    Waiting {
        /// For what, for people: `etcd peers b and c`.
        reason: String,
    },
    /// As the configuration says.
    Done,
    /// Cannot go on without a change.
    Failed {
        /// The cause, for people.
        message: String,
        /// The component's own last log lines.
        log: Vec<String>,
    },
}
