//! local-path-provisioner: volumes as directories on the machine's disk, the default StorageClass.

use serde_json::{Value, json};

use windlass_spec::full::FullCluster;

use super::{Objects, cluster_role, cluster_role_binding, image, service_account, version};
use crate::inputs::RenderError;
use crate::yaml;

const NAMESPACE: &str = "local-path-storage";
const NAME: &str = "local-path-provisioner";
const CONFIG: &str = "local-path-config";
const PROVISIONER: &str = "windlass.dev/local-path";
/// Where volumes lie on a machine.
const FOLDER: &str = "/var/lib/local-path";

pub(super) fn objects(full: &FullCluster) -> Result<Objects, RenderError> {
    let objects = vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": NAMESPACE, "labels": { "pod-security.kubernetes.io/enforce": "privileged" } },
        }),
        service_account(NAMESPACE, NAME),
        cluster_role("windlass:local-path-provisioner", &rules()),
        cluster_role_binding("windlass:local-path-provisioner", "windlass:local-path-provisioner", NAMESPACE, NAME),
        role(),
        role_binding(),
        config_map(&image(full, "volume-helper")?),
        storage_class(),
        deployment(&image(full, NAME)?),
    ];
    Ok(Objects { name: "local-path", version: version(full, NAME), namespace: NAMESPACE, objects })
}

fn rules() -> Value {
    json!([
        { "apiGroups": [""], "resources": ["nodes", "persistentvolumeclaims", "configmaps"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"] },
        { "apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"] },
        { "apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get", "list", "watch"] },
    ])
}

/// Helper pods and the lease live in the provisioner's own namespace.
fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "rules": [
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"] },
            { "apiGroups": [""], "resources": ["endpoints"], "verbs": ["get", "list", "watch", "create", "patch", "update"] },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "patch", "update"] },
        ],
    })
}

fn role_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME },
        "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE }],
    })
}

fn config_map(helper_image: &str) -> Value {
    let nodes = json!({ "nodePathMap": [{ "node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [FOLDER] }] });
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": CONFIG, "namespace": NAMESPACE },
        "data": {
            "config.json": format!("{nodes:#}\n"),
            "setup": "#!/bin/sh\nset -eu\nmkdir -m 0777 -p \"$VOL_DIR\"\n",
            "teardown": "#!/bin/sh\nset -eu\nrm -rf \"$VOL_DIR\"\n",
            "helperPod.yaml": yaml::document(&helper_pod(helper_image)),
        },
    })
}

fn helper_pod(image: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "helper-pod" },
        "spec": {
            "priorityClassName": "system-node-critical",
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "helper-pod", "image": image, "imagePullPolicy": "IfNotPresent" }],
        },
    })
}

fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "local-path",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    })
}

fn deployment(image: &str) -> Value {
    let labels = json!({ "app": NAME });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    "tolerations": [
                        { "key": super::CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule" },
                    ],
                    "containers": [{
                        "name": NAME,
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": [
                            NAME, "start", "--config=/etc/config/config.json",
                            format!("--provisioner-name={PROVISIONER}"),
                            format!("--service-account-name={NAME}"),
                            format!("--configmap-name={CONFIG}"),
                            "--helper-pod-file=/etc/config/helperPod.yaml",
                        ],
                        "env": [{
                            "name": "POD_NAMESPACE",
                            "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
                        }],
                        "resources": { "requests": { "cpu": "10m", "memory": "32Mi" } },
                        "volumeMounts": [{ "name": "config", "mountPath": "/etc/config/", "readOnly": true }],
                    }],
                    "volumes": [{ "name": "config", "configMap": { "name": CONFIG } }],
                },
            },
        },
    })
}
