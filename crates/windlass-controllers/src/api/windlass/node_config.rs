//! `NodeConfig` (the bootstrap provider's kind) and its template.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_spec::identity::Slot;

use crate::api::Conditions;
use crate::api::cluster_api::shared::TemplateMetadata;

/// What a machine's configuration is rendered from, beside the cluster's spec. The result is a Secret named like the
/// Machine, with the sealed node config under `value`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "NodeConfig",
    namespaced,
    status = "NodeConfigStatus",
    derive = "PartialEq",
    doc = "What a machine's configuration is rendered from, beside the cluster's spec.",
    shortname = "wnc",
    category = "cluster-api"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigSpec {
    /// Instance group: `cp`, or the name of a `workers[]` entry.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The control-plane place it claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Hash of what the spec says for this group; another hash is another configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<String>,
    /// Random part of this machine's join token; worthless without the cluster's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_nonce: Option<String>,
}

/// What is observed of a machine's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigStatus {
    /// Aspects of it.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// What was reached once and stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<NodeConfigInitialization>,
    /// The Secret that holds it: named like the Machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
    /// Generation of the configuration in the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_generation: Option<i64>,
    /// Its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// The generation this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What a configuration reached once and keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigInitialization {
    /// The Secret is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_created: Option<bool>,
}

/// How NodeConfigs are made.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "NodeConfigTemplate",
    namespaced,
    derive = "PartialEq",
    doc = "How NodeConfigs are made.",
    category = "cluster-api"
)]
pub struct NodeConfigTemplateSpec {
    /// The template.
    pub template: NodeConfigTemplateResource,
}

/// The template of NodeConfigs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeConfigTemplateResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec.
    pub spec: NodeConfigSpec,
}
