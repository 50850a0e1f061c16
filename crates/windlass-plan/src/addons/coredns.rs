//! CoreDNS. It forwards only where the site names a resolver, and never to the machine's own, so it cannot loop.

use serde_json::{Value, json};

use windlass_spec::full::FullCluster;

use super::{
    CONTROL_PLANE, Objects, cluster_role, cluster_role_binding, image, machine_count, service_account, version,
};
use crate::inputs::RenderError;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "coredns";

pub(super) fn objects(full: &FullCluster) -> Result<Objects, RenderError> {
    let objects = vec![
        service_account(NAMESPACE, NAME),
        cluster_role("system:coredns", &rules()),
        cluster_role_binding("system:coredns", "system:coredns", NAMESPACE, NAME),
        config_map(full),
        service(full),
        deployment(full, &image(full, NAME)?),
        disruption_budget(),
    ];
    Ok(Objects { name: NAME, version: version(full, NAME), namespace: NAMESPACE, objects })
}

fn rules() -> Value {
    json!([
        { "apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"] },
        { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"] },
    ])
}

/// The Corefile.
fn corefile(full: &FullCluster) -> String {
    let network = &full.network;
    let upstreams: Vec<String> = network.dns_upstreams.iter().map(ToString::to_string).collect();
    let forward = match upstreams.as_slice() {
        [] => String::new(),
        _ => format!("    forward . {} {{\n        max_concurrent 1000\n    }}\n", upstreams.join(" ")),
    };
    let domain = &network.dns_domain;
    format!(
        ".:53 {{\n    errors\n    health {{\n        lameduck 5s\n    }}\n    ready\n    \
         kubernetes {domain} in-addr.arpa ip6.arpa {{\n        pods insecure\n        \
         fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }}\n    prometheus :9153\n{forward}    \
         cache 30 {{\n        disable success {domain}\n        disable denial {domain}\n    }}\n    \
         reload\n    loadbalance\n}}\n"
    )
}

fn config_map(full: &FullCluster) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "data": { "Corefile": corefile(full) },
    })
}

/// Its old name is what clients and tests ask for.
fn service(full: &FullCluster) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": NAMESPACE,
            "labels": { "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS" },
            "annotations": { "prometheus.io/port": "9153", "prometheus.io/scrape": "true" },
        },
        "spec": {
            "clusterIP": full.network.cluster_dns,
            "selector": { "k8s-app": "kube-dns" },
            "ports": [
                { "name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53 },
                { "name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53 },
                { "name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153 },
            ],
        },
    })
}

fn deployment(full: &FullCluster, image: &str) -> Value {
    let labels = json!({ "k8s-app": "kube-dns" });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": { "k8s-app": "kube-dns" } },
        "spec": {
            "replicas": if machine_count(full) > 1 { 2 } else { 1 },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    "dnsPolicy": "Default",
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "tolerations": [
                        { "key": "CriticalAddonsOnly", "operator": "Exists" },
                        { "key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule" },
                    ],
                    "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": { "matchLabels": labels },
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }] } },
                    "containers": [container(image)],
                    "volumes": [{
                        "name": "config",
                        "configMap": { "name": NAME, "items": [{ "key": "Corefile", "path": "Corefile" }] },
                    }],
                },
            },
        },
    })
}

fn container(image: &str) -> Value {
    json!({
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": { "requests": { "cpu": "100m", "memory": "70Mi" }, "limits": { "memory": "170Mi" } },
        "ports": [
            { "name": "dns", "containerPort": 53, "protocol": "UDP" },
            { "name": "dns-tcp", "containerPort": 53, "protocol": "TCP" },
            { "name": "metrics", "containerPort": 9153, "protocol": "TCP" },
        ],
        "livenessProbe": {
            "httpGet": { "path": "/health", "port": 8080, "scheme": "HTTP" },
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        // A name server that is ready a second earlier is a cluster that is ready a second earlier.
        "readinessProbe": {
            "httpGet": { "path": "/ready", "port": 8181, "scheme": "HTTP" },
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [{ "name": "config", "mountPath": "/etc/coredns", "readOnly": true }],
    })
}

fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "k8s-app": "kube-dns" } } },
    })
}
