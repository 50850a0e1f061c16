//! Flags of kube-apiserver, kube-controller-manager, kube-scheduler and etcd.
//!
//! Input: what is already resolved ([`Basis`]). Outputs: tables of flags as an auditor would ask for them. What differs by machine
//! (`advertise-address`, `etcd-servers`, etcd's addresses and member list) is added by the renderer.

use super::Basis;
use super::flags::Table;
use crate::full::Etcd;
use crate::paths;

/// Oldest TLS version spoken.
const TLS_MIN_VERSION: &str = "VersionTLS12";
/// Suites for TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has no others.
pub(super) const CIPHER_SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
/// Prefix length of a Node's IPv6 pod range.
const NODE_MASK_SIZE_V6: u8 = 64;
/// Volumes smaller than this leave etcd no room to speak of.
const QUOTA_FLOOR: u64 = 256 << 20;
/// etcd's own advice for the largest database.
const QUOTA_CEILING: u64 = 8 << 30;

/// kube-apiserver.
pub(super) fn api_server(basis: &Basis<'_>) -> Table {
    let services: Vec<String> = basis.network.services.iter().map(ToString::to_string).collect();
    let table = Table::fixed(&[
        ("allow-privileged", "true"),
        ("authentication-config", paths::AUTHENTICATION_CONFIGURATION),
        ("authorization-mode", "Node,RBAC"),
        ("client-ca-file", paths::CLUSTER_CA),
        ("enable-admission-plugins", "NodeRestriction"),
        ("enable-bootstrap-token-auth", "true"),
        ("encryption-provider-config", paths::ENCRYPTION_CONFIGURATION),
        ("encryption-provider-config-automatic-reload", "true"),
        ("etcd-cafile", "/etc/kubernetes/pki/etcd/ca.crt"),
        ("etcd-certfile", "/etc/kubernetes/pki/apiserver-etcd-client.crt"),
        ("etcd-keyfile", "/etc/kubernetes/pki/apiserver-etcd-client.key"),
        ("kubelet-certificate-authority", paths::CLUSTER_CA),
        ("kubelet-client-certificate", "/etc/kubernetes/pki/apiserver-kubelet-client.crt"),
        ("kubelet-client-key", "/etc/kubernetes/pki/apiserver-kubelet-client.key"),
        ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname"),
        ("profiling", "false"),
        ("proxy-client-cert-file", "/etc/kubernetes/pki/front-proxy-client.crt"),
        ("proxy-client-key-file", "/etc/kubernetes/pki/front-proxy-client.key"),
        ("requestheader-allowed-names", "front-proxy-client"),
        ("requestheader-client-ca-file", "/etc/kubernetes/pki/front-proxy-ca.crt"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-username-headers", "X-Remote-User"),
        ("service-account-extend-token-expiration", "false"),
        ("service-account-key-file", "/etc/kubernetes/pki/sa.pub"),
        ("service-account-signing-key-file", "/etc/kubernetes/pki/sa.key"),
        ("tls-cert-file", "/etc/kubernetes/pki/apiserver.crt"),
        ("tls-cipher-suites", &CIPHER_SUITES.join(",")),
        ("tls-min-version", TLS_MIN_VERSION),
        ("tls-private-key-file", "/etc/kubernetes/pki/apiserver.key"),
    ]);
    audit_log(table, basis.audit_log)
        .derived("secure-port", basis.endpoint.port.to_string())
        .derived("service-account-issuer", format!("https://kubernetes.default.svc.{}", basis.network.dns_domain))
        .derived("service-cluster-ip-range", services.join(","))
}

fn audit_log(table: Table, wanted: bool) -> Table {
    if !wanted {
        return table;
    }
    table.and(&[
        ("audit-log-maxage", "30"),
        ("audit-log-maxbackup", "10"),
        ("audit-log-maxsize", "100"),
        ("audit-log-path", paths::AUDIT_LOG),
        ("audit-policy-file", paths::AUDIT_POLICY),
    ])
}

/// kube-controller-manager.
pub(super) fn controller_manager(basis: &Basis<'_>) -> Table {
    let join = |ranges: &[ipnet::IpNet]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let table = Table::fixed(&[
        ("allocate-node-cidrs", "true"),
        ("authentication-kubeconfig", paths::CONTROLLER_MANAGER_KUBECONFIG),
        ("authorization-kubeconfig", paths::CONTROLLER_MANAGER_KUBECONFIG),
        ("bind-address", "127.0.0.1"),
        ("client-ca-file", paths::CLUSTER_CA),
        ("cluster-signing-cert-file", paths::CLUSTER_CA),
        ("cluster-signing-key-file", "/etc/kubernetes/pki/ca.key"),
        ("controllers", "*,tokencleaner"),
        ("kubeconfig", paths::CONTROLLER_MANAGER_KUBECONFIG),
        ("leader-elect", "true"),
        ("profiling", "false"),
        ("requestheader-client-ca-file", "/etc/kubernetes/pki/front-proxy-ca.crt"),
        ("root-ca-file", paths::CLUSTER_CA),
        ("service-account-private-key-file", "/etc/kubernetes/pki/sa.key"),
        ("terminated-pod-gc-threshold", "1000"),
        ("tls-cipher-suites", &CIPHER_SUITES.join(",")),
        ("tls-min-version", TLS_MIN_VERSION),
        ("use-service-account-credentials", "true"),
    ])
    .derived("cluster-cidr", join(&basis.network.pods))
    .derived("cluster-name", basis.name)
    .derived("service-cluster-ip-range", join(&basis.network.services));
    node_masks(table, basis)
}

/// One mask for one family; a mask each for two.
fn node_masks(table: Table, basis: &Basis<'_>) -> Table {
    let v4 = basis.network.pods.iter().any(|range| range.addr().is_ipv4());
    let v6 = basis.network.pods.iter().any(|range| range.addr().is_ipv6());
    match (v4, v6) {
        (true, true) => table
            .derived("node-cidr-mask-size-ipv4", basis.network.node_mask_size.to_string())
            .derived("node-cidr-mask-size-ipv6", NODE_MASK_SIZE_V6.to_string()),
        (false, true) => table.derived("node-cidr-mask-size", NODE_MASK_SIZE_V6.to_string()),
        _ => table.derived("node-cidr-mask-size", basis.network.node_mask_size.to_string()),
    }
}

/// kube-scheduler.
pub(super) fn scheduler() -> Table {
    Table::fixed(&[
        ("authentication-kubeconfig", paths::SCHEDULER_KUBECONFIG),
        ("authorization-kubeconfig", paths::SCHEDULER_KUBECONFIG),
        ("bind-address", "127.0.0.1"),
        ("kubeconfig", paths::SCHEDULER_KUBECONFIG),
        ("leader-elect", "true"),
        ("profiling", "false"),
        ("tls-cipher-suites", &CIPHER_SUITES.join(",")),
        ("tls-min-version", TLS_MIN_VERSION),
    ])
}

/// etcd. Half of the volume may be database; the rest is for the log, snapshots and defragmentation.
pub(super) fn etcd(main: Option<&Etcd>) -> Table {
    let volume = main.map_or(0, |main| main.volume_bytes);
    Table::fixed(&[
        ("cert-file", "/etc/kubernetes/pki/etcd/server.crt"),
        ("cipher-suites", &CIPHER_SUITES.join(",")),
        ("client-cert-auth", "true"),
        ("data-dir", paths::ETCD_DATA),
        ("feature-gates", "InitialCorruptCheck=true"),
        ("key-file", "/etc/kubernetes/pki/etcd/server.key"),
        ("listen-metrics-urls", "http://127.0.0.1:2381"),
        ("peer-cert-file", "/etc/kubernetes/pki/etcd/peer.crt"),
        ("peer-client-cert-auth", "true"),
        ("peer-key-file", "/etc/kubernetes/pki/etcd/peer.key"),
        ("peer-trusted-ca-file", "/etc/kubernetes/pki/etcd/ca.crt"),
        ("snapshot-count", "10000"),
        ("strict-reconfig-check", "true"),
        ("tls-min-version", "TLS1.2"),
        ("trusted-ca-file", "/etc/kubernetes/pki/etcd/ca.crt"),
        ("watch-progress-notify-interval", "5s"),
    ])
    .derived("quota-backend-bytes", (volume / 2).clamp(QUOTA_FLOOR, QUOTA_CEILING).to_string())
}
