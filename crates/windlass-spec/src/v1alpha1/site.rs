//! What the site around the machines asks for: proxy, mirrors, time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Proxy of containerd, kubelet and the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proxy {
    /// For `http://` addresses, such as `http://proxy.example:3128`; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub http: String,
    /// For `https://` addresses; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub https: String,
    /// Exempt hosts and ranges beside the cluster's own, which Windlass adds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<String>,
}

/// Mirrors asked before a registry itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryMirror {
    /// The registry as image names have it, such as `docker.io`.
    pub registry: String,
    /// `https://HOST[:PORT][/PATH]` or `http://…`, asked in order.
    pub endpoints: Vec<String>,
    /// The mirrors' certificate authority, PEM; empty: those the machine trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca_cert: String,
}

/// Time servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ntp {
    /// Names or addresses. Empty: the machine's clock is left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}
