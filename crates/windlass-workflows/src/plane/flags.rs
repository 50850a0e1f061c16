//! Command lines of the bootstrap plane's three programs.
//!
//! Inputs: where its files and sockets lie, and the port. Outputs: arguments. The plane serves one client on loopback
//! for minutes: it authenticates by client certificate, allows that client everything, and leaves out whatever admission
//! and fairness would cost at start.

use camino::{Utf8Path, Utf8PathBuf};

/// Files of one plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// Durable state: etcd's data, keys, kubeconfig.
    pub(crate) state: Utf8PathBuf,
    /// Sockets, short paths.
    pub(crate) sockets: Utf8PathBuf,
    /// Logs.
    pub(crate) logs: Utf8PathBuf,
}

impl Files {
    pub(crate) fn pki(&self, name: &str) -> Utf8PathBuf {
        self.state.join("pki").join(name)
    }

    pub(crate) fn log(&self, program: &str) -> Utf8PathBuf {
        self.logs.join(format!("{program}.log"))
    }

    fn etcd_url(&self) -> String {
        format!("unix://{}", self.sockets.join("etcd.sock"))
    }
}

/// etcd: one member, clients and peers on sockets only its user reaches.
pub(crate) fn etcd(files: &Files) -> Vec<String> {
    let url = files.etcd_url();
    // Never listened on: one member has no peers, but the flag wants a URL.
    let peer = "http://127.0.0.1:2380";
    vec![
        "--name=plane".into(),
        format!("--data-dir={}", files.state.join("etcd")),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls=unix://{}", files.sockets.join("peer.sock")),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=plane={peer}"),
        "--log-level=warn".into(),
    ]
}

/// Admission plugins that guard nothing here.
const NO_ADMISSION: &[&str] = &[
    "ServiceAccount",
    "PodSecurity",
    "LimitRanger",
    "ResourceQuota",
    "Priority",
    "RuntimeClass",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "DefaultIngressClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "TaintNodesByCondition",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionWebhook",
];

/// kube-apiserver on loopback.
pub(crate) fn apiserver(files: &Files, port: u16) -> Vec<String> {
    vec![
        format!("--etcd-servers={}", files.etcd_url()),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--tls-cert-file={}", files.pki("apiserver.crt")),
        format!("--tls-private-key-file={}", files.pki("apiserver.key")),
        format!("--client-ca-file={}", files.pki("ca.crt")),
        "--anonymous-auth=false".into(),
        "--authorization-mode=AlwaysAllow".into(),
        "--service-account-issuer=https://windlass-bootstrap-plane".into(),
        format!("--service-account-key-file={}", files.pki("service-account.pub")),
        format!("--service-account-signing-key-file={}", files.pki("service-account.key")),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        format!("--disable-admission-plugins={}", NO_ADMISSION.join(",")),
        "--enable-priority-and-fairness=false".into(),
        "--profiling=false".into(),
    ]
}

/// kube-controller-manager with the garbage collector (owner references) and namespaces only.
pub(crate) fn controller_manager(kubeconfig: &Utf8Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={kubeconfig}"),
        "--controllers=garbage-collector-controller,namespace-controller".into(),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
        "--secure-port=0".into(),
        "--profiling=false".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_listens_beyond_loopback_and_sockets() {
        let files = Files { state: "/s".into(), sockets: "/r".into(), logs: "/l".into() };
        let all = [etcd(&files), apiserver(&files, 4711), controller_manager("/s/kubeconfig".into())].concat();
        let listening: Vec<&str> = all
            .iter()
            .map(String::as_str)
            .filter(|flag| ["listen", "bind", "port"].iter().any(|word| flag.contains(word)))
            .collect();
        insta::assert_snapshot!(listening.join("\n"), @r"
        --listen-client-urls=unix:///r/etcd.sock
        --listen-peer-urls=unix:///r/peer.sock
        --secure-port=4711
        --bind-address=127.0.0.1
        --bind-address=127.0.0.1
        --secure-port=0
        ");
    }
}
