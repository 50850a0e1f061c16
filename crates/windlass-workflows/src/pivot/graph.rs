//! Which objects belong to a cluster, and in which order they can be made elsewhere. Pure.
//!
//! Inputs: objects as read. Outputs: layers, owners before what they own; hashes by which both sides are compared. An
//! object whose owner is not among them is an error, never left out in silence.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{ApiResource, DynamicObject};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Label that says to which cluster an object belongs.
pub(crate) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Group of Cluster API's kinds.
const CLUSTER_API: &str = "cluster.x-k8s.io";

/// One object with its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its kind.
    pub kind: ApiResource,
    /// As read.
    pub object: DynamicObject,
}

/// What names an object in a namespace: group, kind, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}.{}/{}", self.kind, self.group, self.name)
        }
    }
}

impl Item {
    /// Its key.
    pub fn key(&self) -> Key {
        let name = self.object.metadata.name.clone().unwrap_or_default();
        Key { group: self.kind.group.clone(), kind: self.kind.kind.clone(), name }
    }

    fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    fn owner_uids(&self) -> impl Iterator<Item = &str> {
        self.object.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str())
    }

    fn is_of(&self, cluster: &str) -> bool {
        let labelled = self.object.metadata.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME));
        let is_cluster = self.kind.kind == "Cluster" && self.object.metadata.name.as_deref() == Some(cluster);
        is_cluster || labelled.is_some_and(|name| name == cluster)
    }

    /// Is it Cluster API's Cluster, whose pause holds everything below it?
    pub fn is_root(&self) -> bool {
        self.kind.group == CLUSTER_API && self.kind.kind == "Cluster"
    }

    /// Does a controller report on it? Templates and plain data have none.
    pub fn is_reported(&self) -> bool {
        !self.kind.group.is_empty() && !self.kind.kind.ends_with("Template") && self.kind.kind != "MachinePool"
    }

    /// The `Paused` condition, when it speaks of the object as it is now.
    pub fn paused(&self) -> Option<bool> {
        let conditions = self.object.data.pointer("/status/conditions")?.as_array()?;
        let paused = conditions.iter().find(|condition| condition["type"] == "Paused")?;
        let current = paused["observedGeneration"].as_i64() == self.object.metadata.generation;
        current.then(|| paused["status"] == "True")
    }
}

/// An object hangs from one that is not among those moved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} is owned by {owner}, which is not part of the cluster")]
pub struct ForeignOwner {
    object: Key,
    owner: String,
}

/// Keeps what belongs to the cluster: labelled, or owned (at any distance) by something that is.
pub fn belonging(items: Vec<Item>, cluster: &str) -> Vec<Item> {
    let mut uids: BTreeSet<String> =
        items.iter().filter(|item| item.is_of(cluster)).map(|item| item.uid().to_owned()).collect();
    loop {
        let more: Vec<String> = items
            .iter()
            .filter(|item| !uids.contains(item.uid()) && item.owner_uids().any(|owner| uids.contains(owner)))
            .map(|item| item.uid().to_owned())
            .collect();
        if more.is_empty() {
            break;
        }
        uids.extend(more);
    }
    items.into_iter().filter(|item| uids.contains(item.uid())).collect()
}

/// Sorts objects into layers: each one's owners stand in earlier layers.
pub fn layers(items: Vec<Item>) -> Result<Vec<Vec<Item>>, ForeignOwner> {
    let known: BTreeSet<String> = items.iter().map(|item| item.uid().to_owned()).collect();
    let mut placed: BTreeSet<String> = BTreeSet::new();
    let mut rest = items;
    let mut layers = Vec::new();
    while !rest.is_empty() {
        let (layer, later): (Vec<Item>, Vec<Item>) =
            rest.into_iter().partition(|item| item.owner_uids().all(|owner| placed.contains(owner)));
        let Some(first) = later.first().filter(|_| layer.is_empty()) else {
            placed.extend(layer.iter().map(|item| item.uid().to_owned()));
            layers.push(layer);
            rest = later;
            continue;
        };
        // Nothing can be placed: an owner is missing (or owners go round in a circle).
        let missing = first.object.metadata.owner_references.iter().flatten().find(|owner| !known.contains(&owner.uid));
        let owner =
            missing.map_or_else(|| "a circle of owners".to_owned(), |owner| format!("{}/{}", owner.kind, owner.name));
        return Err(ForeignOwner { object: first.key(), owner });
    }
    Ok(layers)
}

/// The object as it is to be made elsewhere: without what only its first home knows, owners by their new uids.
pub fn transplant(item: &Item, uids: &BTreeMap<String, String>) -> DynamicObject {
    let mut object = item.object.clone();
    let metadata = &mut object.metadata;
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.creation_timestamp = None;
    metadata.generation = None;
    metadata.managed_fields = None;
    metadata.self_link = None;
    metadata.generate_name = None;
    for owner in metadata.owner_references.iter_mut().flatten() {
        if let Some(uid) = uids.get(&owner.uid) {
            owner.uid.clone_from(uid);
        }
    }
    if let Value::Object(data) = &mut object.data {
        data.remove("status");
    }
    object
}

/// A hash over everything of an object but its status and what each home gives it (uids, versions, times).
pub fn content_hash(object: &DynamicObject) -> String {
    let owners: Vec<Value> = object
        .metadata
        .owner_references
        .iter()
        .flatten()
        .map(|owner| json!([owner.api_version, owner.kind, owner.name, owner.controller.unwrap_or(false)]))
        .collect();
    let mut data = match &object.data {
        Value::Object(data) => data.clone(),
        _ => Map::new(),
    };
    data.remove("status");
    let metadata = &object.metadata;
    hash(&json!([metadata.name, metadata.labels, metadata.annotations, metadata.finalizers, owners, data]))
}

/// A hash over an object's status; none when it has none.
pub fn status_hash(object: &DynamicObject) -> Option<String> {
    object.data.get("status").filter(|status| !status.is_null()).map(hash)
}

fn hash(value: &Value) -> String {
    hex::encode(Sha256::digest(sorted(value).to_string().as_bytes()))
}

/// The same value with all keys in order: APIs answer them in any.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kube::api::GroupVersionKind;

    use super::*;

    fn item(kind: &str, name: &str, owners: &[&str], labelled: bool) -> Item {
        let owner = |name: &&str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": format!("uid-{name}")});
        let labels = if labelled { json!({CLUSTER_NAME: "lab"}) } else { json!({}) };
        let object = serde_json::from_value(json!({
            "metadata": {
                "name": name, "uid": format!("uid-{name}"), "generation": 2, "labels": labels,
                "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>(),
            },
            "spec": {"b": 1, "a": 2},
        }))
        .expect("an object");
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(CLUSTER_API, "v1beta2", kind));
        Item { kind, object }
    }

    fn names(items: &[Item]) -> Vec<String> {
        items.iter().map(|item| item.key().name).collect()
    }

    #[test]
    fn what_hangs_from_the_cluster_belongs_and_strangers_do_not() {
        let items = vec![
            item("Cluster", "lab", &[], false),
            item("MachineSet", "set", &["lab"], false),
            item("Machine", "far", &["set"], false),
            item("Secret", "ca", &[], true),
            item("Cluster", "other", &[], false),
            item("Machine", "theirs", &["other"], false),
        ];
        assert_eq!(names(&belonging(items, "lab")), ["lab", "set", "far", "ca"]);
    }

    #[test]
    fn owners_come_first() {
        let items = vec![
            item("Machine", "machine", &["set"], true),
            item("Secret", "data", &["machine"], true),
            item("MachineSet", "set", &["lab"], true),
            item("Cluster", "lab", &[], true),
            item("Secret", "ca", &["lab"], true),
        ];
        let layers = layers(items).expect("sorted");
        let layers: Vec<Vec<String>> = layers.iter().map(|layer| names(layer)).collect();
        assert_eq!(layers, [vec!["lab"], vec!["set", "ca"], vec!["machine"], vec!["data"]]);
    }

    #[test]
    fn an_owner_that_is_not_moved_is_an_error_and_never_a_lost_object() {
        let items = vec![item("Cluster", "lab", &[], true), item("Machine", "machine", &["ghost"], true)];
        let error = layers(items).expect_err("refused");
        insta::assert_snapshot!(error, @"Machine.cluster.x-k8s.io/machine is owned by K/ghost, which is not part of the cluster");
    }

    #[test]
    fn a_transplant_has_the_same_hash_whatever_home_gives_it() {
        let before = item("Machine", "machine", &["set"], true);
        let uids = BTreeMap::from([("uid-set".to_owned(), "new-uid".to_owned())]);
        let mut after = transplant(&before, &uids);
        assert_eq!(after.metadata.owner_references.as_ref().expect("kept")[0].uid, "new-uid");
        after.metadata.uid = Some("given".into());
        after.metadata.generation = Some(1);
        after.data = json!({"spec": {"a": 2, "b": 1}, "status": {"phase": "Running"}});
        assert_eq!(content_hash(&after), content_hash(&before.object));
        after.data = json!({"spec": {"a": 2, "b": 3}});
        assert_ne!(content_hash(&after), content_hash(&before.object));
    }

    #[test]
    fn paused_counts_only_for_the_generation_it_speaks_of() {
        let mut item = item("Machine", "machine", &[], true);
        assert_eq!(item.paused(), None);
        item.object.data =
            json!({"status": {"conditions": [{"type": "Paused", "status": "True", "observedGeneration": 1}]}});
        assert_eq!(item.paused(), None);
        item.object.data =
            json!({"status": {"conditions": [{"type": "Paused", "status": "True", "observedGeneration": 2}]}});
        assert_eq!(item.paused(), Some(true));
    }
}
