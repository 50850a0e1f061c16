//! Windlass's `Cluster` (short name `wcl`): what people edit.
//!
//! The spec is held as a plain tree, so that one document the types refuse cannot stop the watch of all others; it
//! becomes a `windlass_spec::v1alpha1::Cluster` when it is resolved.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::Conditions;

/// What a person wrote, as a tree.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "Cluster",
    root = "WindlassCluster",
    namespaced,
    status = "WindlassClusterStatus",
    derive = "PartialEq",
    doc = "A Kubernetes cluster as people describe it to Windlass.",
    shortname = "wcl",
    category = "cluster-api"
)]
#[serde(transparent)]
pub struct WindlassClusterSpec(pub Map<String, Value>);

impl JsonSchema for WindlassClusterSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WindlassClusterSpec".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        windlass_spec::v1alpha1::ClusterSpec::json_schema(generator)
    }
}

/// What is observed of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindlassClusterStatus {
    /// Aspects of it.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The generation this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it is in its life, as Cluster API's Cluster has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Kubernetes version in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Where the API is reached: `https://ADDRESS:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Control-plane machines available, of how many: `3/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_planes: Option<String>,
    /// Worker machines available, of how many: `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<String>,
    /// The complete spec: every value, and in `origins` who set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tree")]
    pub full: Option<Value>,
}

fn tree(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
