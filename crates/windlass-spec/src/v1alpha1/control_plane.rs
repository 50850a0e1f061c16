//! Control-plane machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_config::Taint;

/// Machines that run etcd and the Kubernetes control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlPlane {
    /// How many: 1, 3, 5 or 7. One unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Keep workloads off while there are workers (by the taint `node-role.kubernetes.io/control-plane:NoSchedule`).
    /// True unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedicated: Option<bool>,
    /// Node labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Node taints beside the control-plane taint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Failure domains the machines are spread over, by the provider's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<String>,
}
