//! `windlass.dev/v1alpha1`: what a person writes.
//!
//! Input: a document, checked by [`crate::load`] or by the API server. Output: types in which "not set" stays visible,
//! so that [`crate::resolve`] can tell a user's value from a default. Ranges, addresses, sizes and durations are text
//! here; [`crate::validate`] judges them and names their place.

mod components;
mod control_plane;
mod etcd;
mod machine;
mod network;
mod site;
mod workers;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::full::{Cni, EndpointMode, KubeProxy};
pub use crate::identity::{Role, Slot};
pub use crate::node_config::{HookPoint, OnFailure, Taint, TaintEffect};
pub use components::{Addon, Addons, Audit, Authentication, Component, Components, FlagValues, Kubelet, Object};
pub use control_plane::ControlPlane;
pub use etcd::{Etcd, EtcdVolume, Topology};
pub use machine::{FileAsset, Hook, StaticPod, User, UserData};
pub use network::{Endpoint, Network};
pub use site::{Ntp, Proxy, RegistryMirror};
pub use workers::{Rollout, WorkerGroup};

/// `apiVersion` of the documents in this module.
pub const API_VERSION: &str = "windlass.dev/v1alpha1";
/// `kind` of [`Cluster`].
pub const KIND: &str = "Cluster";
/// Namespace of a cluster's management objects unless the document says another.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A Kubernetes cluster as a person wants it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// `windlass.dev/v1alpha1`.
    pub api_version: String,
    /// `Cluster`.
    pub kind: String,
    /// Name and namespace.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: ClusterSpec,
}

impl Cluster {
    /// A cluster of this name and wish.
    pub fn new(name: &str, spec: ClusterSpec) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: Metadata { name: name.to_owned(), ..Metadata::default() },
            spec,
        }
    }

    /// Namespace of its management objects.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }
}

/// Names of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The cluster's name; names of machines, DNS records and objects begin with it.
    pub name: String,
    /// Namespace of the cluster's management objects; `default` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the management object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the management object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What is wanted of a cluster. Only `provider` must be written; the rest has defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// Kubernetes version: a minor such as `1.37` (its newest supported patch) or a patch such as `1.37.2`. The newest
    /// supported one unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Where machines come from; exactly one of its fields is set.
    pub provider: Provider,
    /// Machines that run etcd and the Kubernetes control plane.
    #[serde(default, skip_serializing_if = "is_default")]
    pub control_plane: ControlPlane,
    /// Groups of machines that run workloads. With none, the control plane runs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerGroup>,
    /// etcd clusters. One named `main` with a member on each control-plane machine unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<Etcd>,
    /// Ranges and parts of the network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub network: Network,
    /// Where clients find the Kubernetes API.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoint: Endpoint,
    /// Flags and configuration of each component.
    #[serde(default, skip_serializing_if = "is_default")]
    pub components: Components,
    /// Add-ons, on unless `enabled: false`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub addons: Addons,
    /// What the API server writes into its audit log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub audit: Audit,
    /// Who may be authenticated, and how.
    #[serde(default, skip_serializing_if = "is_default")]
    pub authentication: Authentication,
    /// Files on machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileAsset>,
    /// Pods run by kubelet straight from a manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_pods: Vec<StaticPod>,
    /// Commands run on machines at fixed points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// Scripts run once at a machine's first boot, before anything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_user_data: Vec<UserData>,
    /// Kernel parameters of every machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Login users on every machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// Proxy of containerd, kubelet and the agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proxy: Proxy,
    /// Mirrors asked before a registry itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registry_mirrors: Vec<RegistryMirror>,
    /// Further certificate authorities every machine trusts, PEM.
    #[serde(default, rename = "trustedCAs", skip_serializing_if = "Vec::is_empty")]
    pub trusted_cas: Vec<String>,
    /// Time servers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ntp: Ntp,
}

/// Where machines come from. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// Sandboxes on this computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalProvider>,
}

/// Sandboxes on this computer; nothing to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalProvider {}

/// Is nothing set?
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
