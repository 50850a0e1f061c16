//! clusterctl's inventory: which providers a management cluster has. With Windlass's entries there, the real
//! `clusterctl init` and `upgrade` keep their hands off its kinds.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An entry of clusterctl's inventory.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "clusterctl.cluster.x-k8s.io",
    version = "v1alpha3",
    kind = "Provider",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "An entry of clusterctl's inventory."
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    /// `CoreProvider`, `BootstrapProvider`, `ControlPlaneProvider` or `InfrastructureProvider`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Its version, with `v`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The namespace it is bound to; none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_namespace: Option<String>,
}
