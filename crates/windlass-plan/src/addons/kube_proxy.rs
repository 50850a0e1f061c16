//! kube-proxy on every machine, with an account of its own; it reaches the API through the machine's balancer.

use serde_json::{Value, json};

use windlass_spec::full::FullCluster;
use windlass_spec::paths;

use super::{Objects, cluster_role_binding, image, service_account, version};
use crate::inputs::RenderError;
use crate::render::flags::command;
use crate::yaml;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-proxy";
/// The API through the machine's balancer.
const SERVER: &str = "https://127.0.0.1:7443";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn objects(full: &FullCluster) -> Result<Objects, RenderError> {
    let objects = vec![
        service_account(NAMESPACE, NAME),
        cluster_role_binding("windlass:kube-proxy", "system:node-proxier", NAMESPACE, NAME),
        config_map(full),
        daemon_set(full, &image(full, NAME)?),
    ];
    Ok(Objects { name: NAME, version: version(full, "kubernetes"), namespace: NAMESPACE, objects })
}

fn config_map(full: &FullCluster) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "data": {
            "config.conf": configuration(full),
            "kubeconfig.conf": yaml::document(&kubeconfig()),
        },
    })
}

fn kubeconfig() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "default",
        "clusters": [{
            "name": "default",
            "cluster": { "server": SERVER, "certificate-authority": format!("{ACCOUNT}/ca.crt") },
        }],
        "contexts": [{ "name": "default", "context": { "cluster": "default", "user": "default" } }],
        "users": [{ "name": "default", "user": { "tokenFile": format!("{ACCOUNT}/token") } }],
    })
}

fn daemon_set(full: &FullCluster, image: &str) -> Value {
    let labels = json!({ "k8s-app": NAME });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": { "k8s-app": NAME } },
        "spec": {
            "selector": { "matchLabels": labels },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": labels, "annotations": { "windlass.dev/config": config_text_hash(full) } },
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-node-critical",
                    "hostNetwork": true,
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [container(full, image)],
                    "volumes": [
                        { "name": "config", "configMap": { "name": NAME } },
                        { "name": "xtables-lock", "hostPath": { "path": "/run/xtables.lock", "type": "FileOrCreate" } },
                        { "name": "lib-modules", "hostPath": { "path": "/lib/modules", "type": "" } },
                    ],
                },
            },
        },
    })
}

fn container(full: &FullCluster, image: &str) -> Value {
    json!({
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command(NAME, &full.components.kube_proxy.set),
        "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
        "resources": { "requests": { "cpu": "50m", "memory": "50Mi" } },
        "securityContext": { "privileged": true },
        "volumeMounts": [
            { "name": "config", "mountPath": paths::KUBE_PROXY, "readOnly": true },
            { "name": "xtables-lock", "mountPath": "/run/xtables.lock" },
            { "name": "lib-modules", "mountPath": "/lib/modules", "readOnly": true },
        ],
    })
}

/// In the order of its keys: an API gives them back in another order than they were written, and that is no difference.
fn configuration(full: &FullCluster) -> String {
    let mut config = full.components.kube_proxy_config.clone();
    config.sort_all_objects();
    yaml::document(&config)
}

/// Changes with the configuration, so that pods follow it.
fn config_text_hash(full: &FullCluster) -> String {
    let text = configuration(full);
    // FNV-1a: no secret, only a mark of difference.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}
