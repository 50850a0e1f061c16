//! Ranges, parts of the network and the API endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::full::{Cni, EndpointMode, KubeProxy};

/// Ranges and parts of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Network {
    /// Pod ranges: one, or one of each address family, the primary first. `10.244.0.0/16` unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// Service ranges: the same families in the same order. `10.96.0.0/16` unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Prefix length of the pod range each machine gets. 24 unless set (64 for IPv6, always).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_mask_size: Option<u8>,
    /// Pod network. `Bridge` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<Cni>,
    /// Service proxy. `NFTables` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<KubeProxy>,
    /// Name servers for names outside the cluster. None unless set: such names are not resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_upstreams: Vec<String>,
}

/// Where clients find the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// DNS name. `api.NAME.windlass.internal` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Port of the endpoint and of every API server. 6443 unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How its address is kept. `Provider` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<EndpointMode>,
    /// Further names and addresses in the API servers' certificates.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    pub cert_sans: Vec<String>,
}
