//! `LocalCluster` (the local infrastructure provider's kind): network, zone and endpoint of a cluster on this computer.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Conditions;
use crate::api::cluster_api::shared::{ApiEndpoint, FailureDomain};

/// Network, zone and endpoint of a cluster on this computer.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "windlass.dev",
    version = "v1alpha1",
    kind = "LocalCluster",
    namespaced,
    status = "LocalClusterStatus",
    derive = "PartialEq",
    doc = "Network, zone and endpoint of a cluster on this computer.",
    category = "cluster-api"
)]
#[serde(rename_all = "camelCase")]
pub struct LocalClusterSpec {
    /// Where the API is reached; filled once the network is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// What is wanted of the network.
    #[serde(default)]
    pub network: LocalNetworkSpec,
    /// Names of failure domains machines are spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub failure_domains: Vec<String>,
}

/// What is wanted of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalNetworkSpec {
    /// DNS zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Port of the endpoint.
    #[serde(default)]
    pub endpoint_port: i32,
    /// DNS names of the endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub endpoint_names: Vec<String>,
    /// Ranges the machines' own must keep clear of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub avoid: Vec<String>,
}

/// What is observed of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalClusterStatus {
    /// Aspects of it.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// What was reached once and stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<LocalInitialization>,
    /// The network as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<LocalNetworkStatus>,
    /// Places machines can be in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
    /// The generation this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What infrastructure reached once and keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalInitialization {
    /// It is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A network as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalNetworkStatus {
    /// Range of the machines.
    pub subnet: String,
    /// The host's address in it.
    pub gateway: String,
    /// The endpoint's address.
    pub endpoint: String,
    /// Bridge on the host.
    pub bridge: String,
    /// DNS zone.
    pub zone: String,
    /// Where machines and owners find the host daemon.
    pub api_url: String,
}
