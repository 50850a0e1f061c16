//! Every object is what Kubernetes's own types say: nothing unknown, nothing mistyped.

#[path = "../plan/fixture.rs"]
mod fixture;

use fixture::{World, full};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value as `T`; what `T` does not know would be missing afterwards.
fn check<T: DeserializeOwned + Serialize>(value: &Value) {
    let typed: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}\n{value:#}"));
    let back = serde_json::to_value(typed).expect("json");
    kept("", value, &back);
}

fn kept(path: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let path = format!("{path}.{key}");
                kept(&path, value, new.get(key).unwrap_or_else(|| panic!("{path} is unknown")));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            assert_eq!(old.len(), new.len(), "{path}");
            old.iter().zip(new).for_each(|(old, new)| kept(path, old, new));
        }
        (old, new) => assert_eq!(old, new, "{path}"),
    }
}

fn check_kind(value: &Value) {
    match value["kind"].as_str().expect("a kind") {
        "ClusterRole" => check::<ClusterRole>(value),
        "ClusterRoleBinding" => check::<ClusterRoleBinding>(value),
        "ConfigMap" => check::<ConfigMap>(value),
        "DaemonSet" => check::<DaemonSet>(value),
        "Deployment" => check::<Deployment>(value),
        "Namespace" => check::<Namespace>(value),
        "Pod" => check::<Pod>(value),
        "PodDisruptionBudget" => check::<PodDisruptionBudget>(value),
        "Role" => check::<Role>(value),
        "RoleBinding" => check::<RoleBinding>(value),
        "Service" => check::<Service>(value),
        "ServiceAccount" => check::<ServiceAccount>(value),
        "StorageClass" => check::<StorageClass>(value),
        other => panic!("{other} has no check"),
    }
}

#[test]
fn manifests_and_objects_are_typed() {
    let sealed = World::of(full(3, 2, "  network: {dnsUpstreams: [192.0.2.53]}\n")).render("lab-cp-a");
    let config = sealed.config;
    let duties = config.cluster_duties.expect("duties");
    let etcd = config.etcd.expect("a member");
    let mut texts: Vec<String> = config.static_pods.into_iter().map(|pod| pod.manifest).collect();
    texts.extend([etcd.manifest, etcd.form_manifest.expect("a permit to form")]);
    texts.extend(duties.bootstrap);
    texts.extend(duties.addons.into_iter().flat_map(|addon| addon.objects));
    assert!(texts.len() > 30, "{}", texts.len());
    for text in texts {
        let value: Value = serde_saphyr::from_str(&text).expect("yaml");
        check_kind(&value);
    }
}
