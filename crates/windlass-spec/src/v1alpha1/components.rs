//! Flags and configuration of components, add-ons, audit and authentication.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::is_default;

/// An object of another API, taken over as it is.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// Flags by name without dashes. `null` takes one of Windlass's defaults away.
pub type FlagValues = BTreeMap<String, Option<String>>;

/// Flags and configuration of each component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Components {
    /// kube-apiserver.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kube_apiserver: Component,
    /// kube-controller-manager.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kube_controller_manager: Component,
    /// kube-scheduler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kube_scheduler: Component,
    /// kubelet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kubelet: Kubelet,
    /// kube-proxy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kube_proxy: Component,
    /// etcd.
    #[serde(default, skip_serializing_if = "is_default")]
    pub etcd: Component,
    /// containerd.
    #[serde(default, skip_serializing_if = "is_default")]
    pub containerd: Component,
}

/// A component that is told by flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// Flags by name without dashes; `null` takes a default away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: FlagValues,
}

/// kubelet: flags, and the configuration that has replaced most of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubelet {
    /// Flags by name without dashes; `null` takes a default away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: FlagValues,
    /// Fields of `kubelet.config.k8s.io/v1beta1` KubeletConfiguration, merged over Windlass's; `null` takes one away.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Object,
}

/// Add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addons {
    /// Cluster DNS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub coredns: Addon,
    /// Default StorageClass on the machines' own disks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub local_path: Addon,
}

/// One add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addon {
    /// On unless `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What the API server writes into its audit log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// An `audit.k8s.io/v1` Policy (`apiVersion` and `kind` may be left out). Windlass's own when empty.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub policy: Object,
}

/// Who may be authenticated, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// An `apiserver.config.k8s.io/v1` AuthenticationConfiguration (`apiVersion` and `kind` may be left out). Anonymous
    /// requests are let through for health checks only unless it says more.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub configuration: Object,
}
