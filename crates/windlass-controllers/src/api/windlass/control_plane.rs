//! `ControlPlane`: the machines that run etcd and the Kubernetes control plane, by slot.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_spec::identity::Slot;

use super::node_config::NodeConfigSpec;
use crate::api::cluster_api::machine::{MachineDeletion, MachineTaint};
use crate::api::cluster_api::shared::{ConditionGate, ContractReference, TemplateMetadata, VersionCount};
use crate::api::{Conditions, Time};

/// The control plane of a cluster. Each replica is a slot (`a`, `b`, `c`) that owns its etcd volume, names, address
/// and peer identity for life; a Machine claims it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "ControlPlane",
    namespaced,
    status = "ControlPlaneStatus",
    derive = "PartialEq",
    doc = "The control plane of a cluster, one Machine a slot.",
    shortname = "wcp",
    category = "cluster-api",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.replicas in [1, 3, 5, 7]", "message": "a control plane has 1, 3, 5 or 7 machines"},
    {"rule": "self.replicas >= oldSelf.replicas", "message": "control-plane machines cannot be taken away from a running cluster"},
]))]
pub struct ControlPlaneSpec {
    /// Machines wanted.
    pub replicas: i32,
    /// Kubernetes version, with `v`.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// How the Machines are made.
    pub machine_template: ControlPlaneMachineTemplate,
    /// How they are configured.
    #[serde(default)]
    pub node_config: NodeConfigSpec,
    /// When they are rolled over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<ControlPlaneRollout>,
}

/// How control-plane Machines are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneMachineTemplate {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Their spec.
    pub spec: ControlPlaneMachineSpec,
}

/// Spec of control-plane Machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSpec {
    /// The template of what provides the machines.
    pub infrastructure_ref: ContractReference,
    /// How patient a deletion is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletion>,
    /// Further conditions readiness depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readiness_gates: Vec<ConditionGate>,
    /// Taints of the Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<MachineTaint>,
}

/// When control-plane Machines are rolled over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneRollout {
    /// Machines older than this count as outdated once it has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Time>,
}

/// What is observed of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    /// Aspects of it.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// What was reached once and stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ControlPlaneInitialization>,
    /// The selector as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Machines there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Machines ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Machines available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Machines as the template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Machines by version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionCount>,
    /// etcd as the machines report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdStatus>,
    /// The generation this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What a control plane reached once and keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneInitialization {
    /// The API took requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// etcd as the machines report it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdStatus {
    /// The attempt that formed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formed_by: Option<String>,
    /// Its members, by slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub members: Vec<EtcdMemberStatus>,
}

/// A member of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMemberStatus {
    /// Its place.
    pub slot: Slot,
    /// The Machine that claims the place.
    pub machine: String,
    /// Its member id, hex, once started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Does its machine report it healthy?
    pub healthy: bool,
}
