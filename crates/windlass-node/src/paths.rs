//! Where the agent keeps things on the machine.

/// State that outlives a restart of the machine.
pub const STATE_DIR: &str = "/var/lib/windlass";
/// What the agent must never forget.
pub const LEDGER: &str = "/var/lib/windlass/ledger.json";
/// The last configuration taken up, secrets included; mode 0600.
pub const NODE_CONFIG: &str = "/var/lib/windlass/node-config.json";
/// The last report, for `windlass agent status`.
pub const REPORT: &str = "/var/lib/windlass/report.json";
/// Files found in the manifest directory that nobody configured.
pub const FOREIGN_MANIFESTS: &str = "/var/lib/windlass/foreign-manifests";
/// State of this start of the machine.
pub const RUN_DIR: &str = "/run/windlass";
/// Identity of this start of the machine.
pub const BOOT_ID: &str = "/run/windlass/boot-id";
/// Where Windlass's own configuration files lie.
pub const CONFIG_DIR: &str = "/etc/windlass";
/// The resolver file handed to kubelet.
pub const POD_RESOLV_CONF: &str = "/etc/windlass/resolv.conf";
/// kubelet's kubeconfig with the join token.
pub const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
/// kubelet's kubeconfig, once it has a client certificate.
pub const KUBELET_KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
/// The cluster authority's certificate.
pub const CLUSTER_CA: &str = "/etc/kubernetes/pki/ca.crt";
/// Where metrics are served.
pub const METRICS_ADDRESS: &str = "127.0.0.1:7442";
