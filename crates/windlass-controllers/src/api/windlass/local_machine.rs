//! `LocalMachine` (the local infrastructure provider's kind) and its template: a systemd machine on this computer.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_spec::identity::Slot;

use super::local_cluster::LocalInitialization;
use crate::api::cluster_api::shared::{MachineAddress, TemplateMetadata};
use crate::api::{Conditions, Time};

/// A systemd machine on this computer, with its address and block volumes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "LocalMachine",
    namespaced,
    status = "LocalMachineStatus",
    derive = "PartialEq",
    doc = "A systemd machine on this computer, with its address and block volumes.",
    category = "cluster-api"
)]
#[serde(rename_all = "camelCase")]
pub struct LocalMachineSpec {
    /// `windlass-local://HOST/ID`; known before the machine starts.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The control-plane place it claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Volumes it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<LocalVolume>,
    /// Further DNS names of its address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub dns_names: Vec<String>,
    /// Machine image; the newest of the bundle when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// A block volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalVolume {
    /// Name, also the tag the machine finds it by.
    pub name: String,
    /// Size.
    pub bytes: i64,
}

/// What is observed of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalMachineStatus {
    /// Aspects of it.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// What was reached once and stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<LocalInitialization>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// `Reserved`, `Starting`, `Running` or `Stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How often it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<i64>,
    /// Hash of the configuration laid for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_config_hash: Option<String>,
    /// What its agent last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,
    /// The generation this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What an agent last said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Version of the agent.
    pub version: String,
    /// The boot it speaks of.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// Hash of the configuration it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Generation of that configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_generation: Option<i64>,
    /// The part it is at, waits at or failed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// `Pending`, `Waiting`, `Done` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// For what it waits, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The attempt that formed the etcd cluster its data belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_formed_by: Option<String>,
    /// Its etcd member id.
    #[serde(default, rename = "etcdMemberID", skip_serializing_if = "Option::is_none")]
    pub etcd_member_id: Option<String>,
    /// Is its own API server ready?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server_ready: Option<bool>,
    /// Is its Node Ready with this boot?
    #[serde(default)]
    pub node_ready: bool,
    /// Parts that are not done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub unfinished: Vec<String>,
}

/// How LocalMachines are made.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "LocalMachineTemplate",
    namespaced,
    derive = "PartialEq",
    doc = "How LocalMachines are made.",
    category = "cluster-api"
)]
pub struct LocalMachineTemplateSpec {
    /// The template.
    pub template: LocalMachineTemplateResource,
}

/// The template of LocalMachines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalMachineTemplateResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec.
    pub spec: LocalMachineSpec,
}
