//! What a person puts on machines: files, static pods, hooks, scripts, users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Role;
use crate::node_config::{HookPoint, OnFailure};
use crate::v1alpha1::Object;

/// A file on machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileAsset {
    /// Absolute path, outside the places Windlass keeps itself.
    pub path: String,
    /// Content, byte for byte; nothing is expanded.
    pub content: String,
    /// Octal permissions. `0644` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// On machines of these roles; all unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
}

/// A pod run by kubelet straight from a manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticPod {
    /// Name of the manifest.
    pub name: String,
    /// A `v1` Pod.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub manifest: Object,
    /// On machines of these roles; all unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
}

/// A command run on machines at a fixed point, once for each change of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// Name in reports.
    pub name: String,
    /// When it runs.
    pub when: HookPoint,
    /// Program (absolute path) and arguments; there is no shell.
    pub command: Vec<String>,
    /// How long it may take, such as `30s` or `5m`. `1m` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// What its failure does. `Stop` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// On machines of these roles; all unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
}

/// A script run once at a machine's first boot, before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserData {
    /// Name in reports.
    pub name: String,
    /// The script with its `#!` line; nothing is expanded.
    pub script: String,
    /// On machines of these roles; all unless set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
}

/// A login user on every machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Lines of `authorized_keys`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_authorized_keys: Vec<String>,
    /// May become root without a password. False unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sudo: Option<bool>,
}
