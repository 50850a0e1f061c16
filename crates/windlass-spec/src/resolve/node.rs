//! Configuration of kubelet, kube-proxy and containerd.
//!
//! Input: what is already resolved ([`Basis`]) and the ground's facts. Outputs: the documents, and which of their fields
//! follow from facts or other values.

use serde_json::{Value, json};

use super::Basis;
use super::control_plane::CIPHER_SUITES;
use super::flags::Table;
use crate::full::{CgroupMode, Cni, Facts, KubeProxy};
use crate::paths;

/// Pods a machine may run, where its range has room for them.
const MAX_PODS: u64 = 110;
/// Network, gateway and broadcast address of a machine's pod range.
const RANGE_OVERHEAD: u64 = 3;

/// A document and the paths in it that follow from other values.
pub(super) type Document = (Value, &'static [&'static str]);

/// kubelet's flags; those of one machine are added by the renderer.
pub(super) fn kubelet_flags() -> Table {
    Table::fixed(&[
        ("bootstrap-kubeconfig", paths::BOOTSTRAP_KUBECONFIG),
        ("cert-dir", paths::KUBELET_PKI),
        ("config", paths::KUBELET_CONFIGURATION),
        ("kubeconfig", paths::KUBELET_KUBECONFIG),
    ])
}

/// kube-proxy's flags.
pub(super) fn kube_proxy_flags() -> Table {
    Table::fixed(&[("config", paths::KUBE_PROXY_CONFIGURATION), ("hostname-override", "$(NODE_NAME)")])
}

/// containerd's flags.
pub(super) fn containerd_flags() -> Table {
    Table::fixed(&[("config", paths::CONTAINERD_CONFIGURATION)])
}

/// `KubeletConfiguration`.
pub(super) fn kubelet(basis: &Basis<'_>) -> Document {
    let facts = basis.facts;
    let (cgroup_driver, fail_cgroup_v1) = match facts.cgroup {
        CgroupMode::V1 => ("cgroupfs", false),
        CgroupMode::V2 => ("systemd", true),
    };
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true, "cacheTTL": "2m0s" },
            "x509": { "clientCAFile": paths::CLUSTER_CA },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": cgroup_driver,
        "clusterDNS": [basis.network.cluster_dns],
        "clusterDomain": basis.network.dns_domain,
        "containerLogMaxFiles": 5,
        "containerLogMaxSize": "10Mi",
        "containerRuntimeEndpoint": format!("unix://{}", paths::CONTAINERD_SOCKET),
        "enableProfilingHandler": false,
        "eventRecordQPS": 50,
        "failCgroupV1": fail_cgroup_v1,
        "failSwapOn": false,
        "fileCheckFrequency": "5s",
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "makeIPTablesUtilChains": true,
        "maxParallelImagePulls": 5,
        "maxPods": max_pods(basis.network.node_mask_size),
        "memorySwap": { "swapBehavior": "NoSwap" },
        "nodeLeaseDurationSeconds": 40,
        "nodeStatusReportFrequency": "5m0s",
        "nodeStatusUpdateFrequency": "10s",
        "oomScoreAdj": if facts.oom_score_adjustable { -999 } else { 0 },
        "podPidsLimit": 4096,
        "port": 10250,
        "protectKernelDefaults": false,
        "readOnlyPort": 0,
        "resolvConf": paths::RESOLV_CONF,
        "rotateCertificates": true,
        "seccompDefault": true,
        "serializeImagePulls": false,
        "serverTLSBootstrap": true,
        "staticPodPath": paths::MANIFESTS,
        "streamingConnectionIdleTimeout": "4h0m0s",
        "syncFrequency": "1m0s",
        "tlsCipherSuites": CIPHER_SUITES,
        "tlsMinVersion": "VersionTLS12",
    });
    lay(&mut config, disk(facts));
    lay(&mut config, shutdown(facts));
    (config, KUBELET_DERIVED)
}

const KUBELET_DERIVED: &[&str] = &[
    "cgroupDriver",
    "clusterDNS",
    "clusterDomain",
    "evictionHard",
    "failCgroupV1",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "maxPods",
    "oomScoreAdj",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
];

/// On a disk shared with the host, kubelet would judge the host's free space: it would delete images that nobody can
/// bring back, and evict pods for what others wrote.
fn disk(facts: &Facts) -> Value {
    if facts.shared_disk {
        json!({
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "imagefs.available": "0%",
                "imagefs.inodesFree": "0%",
                "memory.available": "100Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
        })
    } else {
        json!({
            "imageGCHighThresholdPercent": 85,
            "imageGCLowThresholdPercent": 80,
            "evictionHard": {
                "imagefs.available": "15%",
                "imagefs.inodesFree": "5%",
                "memory.available": "100Mi",
                "nodefs.available": "10%",
                "nodefs.inodesFree": "5%",
            },
        })
    }
}

/// Sandboxes are stopped by their host, quickly; other machines give pods time.
fn shutdown(facts: &Facts) -> Value {
    let (all, critical) = if facts.shared_disk { ("0s", "0s") } else { ("30s", "10s") };
    json!({ "shutdownGracePeriod": all, "shutdownGracePeriodCriticalPods": critical })
}

fn lay(config: &mut Value, more: Value) {
    if let (Value::Object(config), Value::Object(more)) = (config, more) {
        config.extend(more);
    }
}

/// As many as the machine's range has addresses for.
fn max_pods(node_mask_size: u8) -> u64 {
    let addresses = 1_u64 << 32_u8.saturating_sub(node_mask_size).min(31);
    addresses.saturating_sub(RANGE_OVERHEAD).min(MAX_PODS)
}

/// `KubeProxyConfiguration`.
pub(super) fn kube_proxy(basis: &Basis<'_>) -> Document {
    let facts = basis.facts;
    let ranges: Vec<String> = basis.network.pods.iter().map(ToString::to_string).collect();
    let mode = match basis.network.kube_proxy {
        KubeProxy::IPTables => "iptables",
        KubeProxy::NFTables | KubeProxy::None => "nftables",
    };
    // The limit is the host's in a network namespace: writing it fails, and kube-proxy would exit.
    let conntrack = if facts.conntrack_writable {
        json!({ "maxPerCore": 32768, "min": 131_072 })
    } else {
        json!({ "maxPerCore": 0, "min": 0 })
    };
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": if ranges.first().is_some_and(|range| range.contains(':')) { "::" } else { "0.0.0.0" },
        "clientConnection": { "kubeconfig": paths::KUBE_PROXY_KUBECONFIG },
        "clusterCIDR": ranges.join(","),
        "conntrack": conntrack,
        "detectLocalMode": "ClusterCIDR",
        "enableProfiling": false,
        "metricsBindAddress": "127.0.0.1:10249",
        "mode": mode,
        "oomScoreAdj": if facts.oom_score_adjustable { -999 } else { 0 },
    });
    (config, &["bindAddress", "clusterCIDR", "conntrack", "mode", "oomScoreAdj"])
}

/// containerd's configuration, version 3.
pub(super) fn containerd(basis: &Basis<'_>) -> Document {
    let facts = basis.facts;
    let mut cni = json!({
        "bin_dirs": [paths::CNI_PROGRAMS],
        "conf_dir": paths::CNI_CONFIGURATION,
        "max_conf_num": 1,
        "use_internal_loopback": true,
    });
    if basis.network.cni == Cni::Bridge {
        lay(&mut cni, json!({ "conf_template": paths::CNI_TEMPLATE }));
    }
    let config = json!({
        "version": 3,
        "root": "/var/lib/containerd",
        "state": "/run/containerd",
        "oom_score": if facts.oom_score_adjustable { -999 } else { 0 },
        "grpc": { "address": paths::CONTAINERD_SOCKET },
        "plugins": {
            "io.containerd.cri.v1.images": {
                "snapshotter": "overlayfs",
                "pinned_images": { "sandbox": basis.release.images.get("pause") },
                "registry": { "config_path": paths::REGISTRY_CONFIGURATION },
            },
            "io.containerd.cri.v1.runtime": {
                "restrict_oom_score_adj": !facts.oom_score_adjustable,
                "cni": cni,
                "containerd": {
                    "default_runtime_name": "runc",
                    "runtimes": {
                        "runc": {
                            "runtime_type": "io.containerd.runc.v2",
                            "options": {
                                "BinaryName": "/usr/local/bin/runc",
                                "SystemdCgroup": facts.cgroup == CgroupMode::V2,
                            },
                        },
                    },
                },
            },
            "io.containerd.internal.v1.opt": { "path": "/var/lib/containerd/opt" },
        },
    });
    (config, &["oom_score", "plugins"])
}
