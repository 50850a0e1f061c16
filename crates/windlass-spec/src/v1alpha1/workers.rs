//! Instance groups of workers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_config::Taint;
use crate::v1alpha1::is_default;

/// A group of equal machines that run workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerGroup {
    /// Name within the cluster; machines are named `CLUSTER-GROUP-N`.
    pub name: String,
    /// How many machines. One unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Kubernetes version; the cluster's unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Node labels; `node-role.kubernetes.io/NAME` is welcome too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Node taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// How machines are replaced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rollout: Rollout,
}

/// How machines of a group are replaced by new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollout {
    /// Machines over the count meanwhile. One unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<u32>,
    /// Machines missing meanwhile. None unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
}
