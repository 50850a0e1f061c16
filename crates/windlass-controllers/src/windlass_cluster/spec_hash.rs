//! The hash of what the spec says for machines of one group: another hash is another configuration. What concerns only
//! others, counts, and who set a value are left out.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_spec::full::FullCluster;
use windlass_spec::names::CONTROL_PLANE_GROUP;

const LENGTH: usize = 16;
/// Fields only control planes look at.
const OF_CONTROL_PLANES: [&str; 5] = ["controlPlane", "etcd", "auditPolicy", "authenticationConfiguration", "addons"];
/// Components only control planes run or render.
const COMPONENTS_OF_CONTROL_PLANES: [&str; 6] =
    ["kubeApiserver", "kubeControllerManager", "kubeScheduler", "etcd", "kubeProxy", "kubeProxyConfig"];

/// The hash for a group.
pub(crate) fn spec_hash(full: &FullCluster, group: &str) -> String {
    let mut tree = serde_json::to_value(full).unwrap_or_default();
    if let Some(tree) = tree.as_object_mut() {
        tree.remove("origins");
        tree.remove("facts");
        let workers = tree.remove("workers");
        if group == CONTROL_PLANE_GROUP {
            without_counts(tree);
        } else {
            for field in OF_CONTROL_PLANES {
                tree.remove(field);
            }
            if let Some(components) = tree.get_mut("components").and_then(Value::as_object_mut) {
                for field in COMPONENTS_OF_CONTROL_PLANES {
                    components.remove(field);
                }
            }
            tree.insert("group".to_owned(), own_group(workers, group));
        }
    }
    hex::encode(Sha256::digest(sorted(tree).to_string()))[..LENGTH].to_owned()
}

/// The tree with its keys in order: an API gives them back in another.
fn sorted(tree: Value) -> Value {
    match tree {
        Value::Object(fields) => {
            let ordered: BTreeMap<String, Value> =
                fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// How many control planes there are, and the taint that follows from there being workers, are told to machines as
/// they come and go; they make no configuration outdated.
fn without_counts(tree: &mut serde_json::Map<String, Value>) {
    if let Some(plane) = tree.get_mut("controlPlane").and_then(Value::as_object_mut) {
        plane.remove("slots");
        plane.remove("taints");
    }
    for etcd in tree.get_mut("etcd").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(etcd) = etcd.as_object_mut() {
            etcd.remove("members");
        }
    }
}

fn own_group(workers: Option<Value>, group: &str) -> Value {
    let Some(Value::Array(workers)) = workers else { return Value::Null };
    let own = workers.into_iter().find(|worker| worker.get("name").and_then(Value::as_str) == Some(group));
    let mut own = own.unwrap_or_default();
    if let Some(own) = own.as_object_mut() {
        for field in ["count", "maxSurge", "maxUnavailable"] {
            own.remove(field);
        }
    }
    own
}
