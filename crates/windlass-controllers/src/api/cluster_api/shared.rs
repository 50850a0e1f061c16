//! Pieces several of Cluster API's kinds share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::MachineSpec;

/// Points to an object of a provider in the same namespace; its version stands in a label of the CRD.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContractReference {
    /// Group of the kind.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub api_group: String,
    /// Kind.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
    pub kind: String,
    /// Name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
}

impl ContractReference {
    /// A reference to one of Windlass's own kinds.
    pub fn windlass(kind: &str, name: impl Into<String>) -> Self {
        Self { api_group: super::super::names::WINDLASS.to_owned(), kind: kind.to_owned(), name: name.into() }
    }
}

/// Labels and annotations given to what is made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How Machines are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineTemplate {
    /// Labels and annotations of the Machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Their spec; its references name templates.
    pub spec: MachineSpec,
}

/// Chooses objects by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels that must all be there with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Does it choose an object with these labels? An unknown operator chooses nothing.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }
}

impl LabelRequirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

impl std::fmt::Display for LabelSelector {
    /// As the scale subresource and `kubectl -l` write it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let requirements = self.match_expressions.iter().map(|requirement| {
            let LabelRequirement { key, operator, values } = requirement;
            match operator.as_str() {
                "In" => format!("{key} in ({})", values.join(",")),
                "NotIn" => format!("{key} notin ({})", values.join(",")),
                "DoesNotExist" => format!("!{key}"),
                _ => key.clone(),
            }
        });
        f.write_str(&labels.chain(requirements).collect::<Vec<_>>().join(","))
    }
}

/// A condition that takes part in a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionGate {
    /// Its type.
    #[schemars(
        length(min = 1, max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub condition_type: String,
    /// Which status is good; `Positive` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polarity: Option<Polarity>,
}

/// Which status of a condition is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Polarity {
    /// True is good.
    Positive,
    /// False is good.
    Negative,
}

/// How many Machines run a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionCount {
    /// Kubernetes version, with `v`.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
}

/// In which order a MachineSet takes Machines away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionOrder {
    /// Any; Windlass takes the highest number, so that the lowest stay.
    #[default]
    Random,
    /// Youngest first.
    Newest,
    /// Oldest first.
    Oldest,
}

/// Order of deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct SetDeletion {
    /// The order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<DeletionOrder>,
}

/// How Machines are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineNaming {
    /// A template of names. Windlass names Machines by number and refuses templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub template: Option<String>,
}

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// What kind of address.
    #[serde(rename = "type")]
    pub type_: AddressType,
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// What kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AddressType {
    /// A host name.
    Hostname,
    /// An address reachable from outside.
    ExternalIP,
    /// An address inside the cluster's network.
    InternalIP,
    /// A name resolvable outside.
    ExternalDNS,
    /// A name resolvable inside.
    InternalDNS,
}

/// Where the API is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct ApiEndpoint {
    /// Address or name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub host: String,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

impl ApiEndpoint {
    /// Are both there?
    pub fn is_valid(&self) -> bool {
        !self.host.is_empty() && self.port.is_some()
    }
}

/// A place whose machines fail together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Its name.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// May control planes be there?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// More about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// A whole number, or a text such as `25%`.
pub(super) fn int_or_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true})
}

/// A number or a share of a total; shares are rounded up or down by the caller's choice.
pub fn resolve_share(value: &serde_json::Value, total: i32, round_up: bool) -> Option<i32> {
    if let Some(number) = value.as_i64() {
        return i32::try_from(number).ok();
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let product = i64::from(total) * percent;
    i32::try_from(if round_up { (product + 99) / 100 } else { product / 100 }).ok()
}
