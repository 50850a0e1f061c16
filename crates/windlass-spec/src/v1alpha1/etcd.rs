//! etcd clusters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Slot;
use crate::v1alpha1::is_default;

/// An etcd cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Etcd {
    /// Its name; the cluster's state is in `main`.
    pub name: String,
    /// Where its members run. `Stacked` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Control-plane places with a member, such as `[a, b, c]`. Every place unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Slot>,
    /// The block volume under each member.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volume: EtcdVolume,
}

/// Where etcd's members run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Topology {
    /// On the control-plane machines.
    #[default]
    Stacked,
    /// On machines of their own; reserved for a later release.
    External,
}

/// A block volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdVolume {
    /// Size, such as `2Gi`. `2Gi` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}
