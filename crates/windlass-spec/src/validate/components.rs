//! Flags and kubelet's configuration: what a person may set, and what follows from elsewhere.

use super::syntax;
use crate::problems::Problem;
use crate::resolve::join;
use crate::v1alpha1::{Components, FlagValues, Kubelet};

/// Flags that are not a person's to set, and where their values come from.
type Reserved = &'static [(&'static str, &'static str)];

const CERTIFICATES: &str = "Windlass issues and renews the certificates";
const BY_MACHINE: &str = "it differs from machine to machine";
const KUBECONFIG: &str = "Windlass writes the kubeconfig";

const KUBE_APISERVER: Reserved = &[
    ("advertise-address", BY_MACHINE),
    ("anonymous-auth", "write `spec.authentication.configuration` with `anonymous`"),
    ("authentication-config", "write `spec.authentication.configuration`"),
    ("client-ca-file", CERTIFICATES),
    ("enable-bootstrap-token-auth", "machines join by token"),
    ("encryption-provider-config", "Windlass keeps the encryption keys"),
    ("etcd-cafile", CERTIFICATES),
    ("etcd-certfile", CERTIFICATES),
    ("etcd-keyfile", CERTIFICATES),
    ("etcd-servers", BY_MACHINE),
    ("kubelet-certificate-authority", CERTIFICATES),
    ("kubelet-client-certificate", CERTIFICATES),
    ("kubelet-client-key", CERTIFICATES),
    ("proxy-client-cert-file", CERTIFICATES),
    ("proxy-client-key-file", CERTIFICATES),
    ("requestheader-client-ca-file", CERTIFICATES),
    ("secure-port", "write `spec.endpoint.port`"),
    ("service-account-key-file", CERTIFICATES),
    ("service-account-signing-key-file", CERTIFICATES),
    ("service-cluster-ip-range", "write `spec.network.services`"),
    ("tls-cert-file", CERTIFICATES),
    ("tls-private-key-file", CERTIFICATES),
];
/// May be taken away, but not set: the file is made from the spec.
const AUDIT_POLICY_FLAG: &str = "audit-policy-file";

const KUBE_CONTROLLER_MANAGER: Reserved = &[
    ("allocate-node-cidrs", "the pod network needs the Nodes' ranges"),
    ("authentication-kubeconfig", KUBECONFIG),
    ("authorization-kubeconfig", KUBECONFIG),
    ("client-ca-file", CERTIFICATES),
    ("cluster-cidr", "write `spec.network.pods`"),
    ("cluster-name", "it is the cluster's name"),
    ("cluster-signing-cert-file", CERTIFICATES),
    ("cluster-signing-key-file", CERTIFICATES),
    ("kubeconfig", KUBECONFIG),
    ("leader-elect", "several may run at once while machines are replaced"),
    ("node-cidr-mask-size", "write `spec.network.nodeMaskSize`"),
    ("node-cidr-mask-size-ipv4", "write `spec.network.nodeMaskSize`"),
    ("node-cidr-mask-size-ipv6", "it is always 64"),
    ("requestheader-client-ca-file", CERTIFICATES),
    ("root-ca-file", CERTIFICATES),
    ("service-account-private-key-file", CERTIFICATES),
    ("service-cluster-ip-range", "write `spec.network.services`"),
    ("use-service-account-credentials", "each controller has rights of its own"),
];
const KUBE_SCHEDULER: Reserved = &[
    ("authentication-kubeconfig", KUBECONFIG),
    ("authorization-kubeconfig", KUBECONFIG),
    ("kubeconfig", KUBECONFIG),
    ("leader-elect", "several may run at once while machines are replaced"),
];
const KUBE_PROXY: Reserved = &[
    ("cluster-cidr", "write `spec.network.pods`"),
    ("config", "Windlass writes the configuration"),
    ("hostname-override", BY_MACHINE),
    ("kubeconfig", KUBECONFIG),
    ("proxy-mode", "write `spec.network.kubeProxy`"),
];
const ETCD: Reserved = &[
    ("advertise-client-urls", BY_MACHINE),
    ("cert-file", CERTIFICATES),
    ("client-cert-auth", CERTIFICATES),
    ("data-dir", "it is on the member's volume"),
    ("force-new-cluster", "a cluster is brought back by `restore`, on purpose"),
    ("initial-advertise-peer-urls", BY_MACHINE),
    ("initial-cluster", "members are known from the control plane"),
    ("initial-cluster-state", "a cluster is formed once, by Windlass"),
    ("initial-cluster-token", "a cluster is formed once, by Windlass"),
    ("key-file", CERTIFICATES),
    ("listen-client-urls", BY_MACHINE),
    ("listen-metrics-urls", "the agent asks there for health"),
    ("listen-peer-urls", BY_MACHINE),
    ("name", "a member is called by its place"),
    ("peer-cert-file", CERTIFICATES),
    ("peer-client-cert-auth", CERTIFICATES),
    ("peer-key-file", CERTIFICATES),
    ("peer-trusted-ca-file", CERTIFICATES),
    ("strict-reconfig-check", "it keeps the quorum"),
    ("trusted-ca-file", CERTIFICATES),
    ("wal-dir", "it is on the member's volume"),
];
const CONTAINERD: Reserved = &[
    ("address", "kubelet looks for it in one place"),
    ("config", "Windlass writes the configuration"),
    ("root", "machine images are made for it"),
    ("state", "the agent looks for it in one place"),
];
const KUBELET: Reserved = &[
    ("bootstrap-kubeconfig", KUBECONFIG),
    ("cert-dir", "the agent looks for it in one place"),
    ("cgroup-driver", "it follows the machine"),
    ("config", "write `spec.components.kubelet.config`"),
    ("config-dir", "write `spec.components.kubelet.config`"),
    ("container-runtime-endpoint", "containerd is the runtime"),
    ("hostname-override", BY_MACHINE),
    ("kubeconfig", KUBECONFIG),
    ("node-ip", BY_MACHINE),
    ("node-labels", "write `labels` of the control plane or the worker group"),
    ("pod-manifest-path", "Windlass keeps the static pods"),
    ("provider-id", BY_MACHINE),
    ("register-node", "a machine without a Node is none"),
    ("register-with-taints", "write `taints` of the control plane or the worker group"),
    ("root-dir", "the agent looks for it in one place"),
];
const KUBELET_CONFIG: Reserved = &[
    ("cgroupDriver", "it follows the machine and must be containerd's"),
    ("clusterDNS", "it follows `spec.network.services`"),
    ("clusterDomain", "it is cluster.local"),
    ("containerRuntimeEndpoint", "containerd is the runtime"),
    ("failCgroupV1", "it follows the machine"),
    ("port", "the API server and firewalls look for it in one place"),
    ("providerID", BY_MACHINE),
    ("registerNode", "a machine without a Node is none"),
    ("registerWithTaints", "write `taints` of the control plane or the worker group"),
    ("resolvConf", "Windlass writes it; `spec.network.dnsUpstreams` decides what is in it"),
    ("rotateCertificates", CERTIFICATES),
    ("serverTLSBootstrap", CERTIFICATES),
    ("staticPodPath", "Windlass keeps the static pods"),
    ("staticPodURL", "write `spec.staticPods`"),
    ("tlsCertFile", CERTIFICATES),
    ("tlsPrivateKeyFile", CERTIFICATES),
];

/// Checks every component's flags, and kubelet's configuration.
pub(super) fn check(components: &Components, found: &mut Vec<Problem>) {
    let all = [
        ("kubeApiserver", &components.kube_apiserver.flags, KUBE_APISERVER),
        ("kubeControllerManager", &components.kube_controller_manager.flags, KUBE_CONTROLLER_MANAGER),
        ("kubeScheduler", &components.kube_scheduler.flags, KUBE_SCHEDULER),
        ("kubeProxy", &components.kube_proxy.flags, KUBE_PROXY),
        ("etcd", &components.etcd.flags, ETCD),
        ("containerd", &components.containerd.flags, CONTAINERD),
        ("kubelet", &components.kubelet.flags, KUBELET),
    ];
    for (component, values, reserved) in all {
        flags(&format!("spec.components.{component}.flags"), values, reserved, found);
    }
    api_server(&components.kube_apiserver.flags, found);
    kubelet_config(&components.kubelet, found);
}

fn flags(path: &str, values: &FlagValues, reserved: Reserved, found: &mut Vec<Problem>) {
    for (name, value) in values {
        let path = join(path, name);
        if let Some(bare) = Some(name.trim_start_matches('-')).filter(|bare| bare.len() < name.len()) {
            let problem = Problem::error("flag", path, format!("`{name}` is written with dashes")).on_key();
            found.push(problem.hint(format!("write `{bare}`")));
        } else if !syntax::is_flag_name(name) {
            found.push(Problem::error("flag", path, format!("`{name}` is no name of a flag")).on_key());
        } else if let Some((_, reason)) = reserved.iter().find(|(flag, _)| flag == name) {
            let problem = Problem::error("reserved-flag", path, format!("`{name}` is not set by hand")).on_key();
            found.push(problem.hint(*reason));
        } else if value.as_deref().is_some_and(|value| value.contains(['\n', '\0'])) {
            found.push(Problem::error("flag", path, format!("the value of `{name}` has more than one line")));
        }
    }
}

fn api_server(values: &FlagValues, found: &mut Vec<Problem>) {
    let path = "spec.components.kubeApiserver.flags";
    let value = |name: &str| values.get(name).map(|value| value.as_deref().unwrap_or_default());
    if values.get(AUDIT_POLICY_FLAG).is_some_and(Option::is_some) {
        let path = join(path, AUDIT_POLICY_FLAG);
        let problem =
            Problem::error("reserved-flag", path, format!("`{AUDIT_POLICY_FLAG}` is not set by hand")).on_key();
        found.push(problem.hint("write `spec.audit.policy`; `null` here turns the audit log off"));
    }
    let lists = |text: &str, wanted: &str| text.split(',').any(|item| item == wanted);
    for mode in ["Node", "RBAC"] {
        if value("authorization-mode").is_some_and(|modes| !lists(modes, mode)) {
            let message = format!("`authorization-mode` without {mode}");
            let problem = Problem::error("reserved-flag", join(path, "authorization-mode"), message);
            found.push(problem.hint("machines and controllers need Node and RBAC; add to them"));
        }
    }
    if value("enable-admission-plugins").is_some_and(|plugins| !lists(plugins, "NodeRestriction")) {
        let message = "`enable-admission-plugins` without NodeRestriction";
        let problem = Problem::error("reserved-flag", join(path, "enable-admission-plugins"), message);
        found.push(problem.hint("it keeps one machine's rights from reaching to others; add to it"));
    }
}

fn kubelet_config(kubelet: &Kubelet, found: &mut Vec<Problem>) {
    let path = "spec.components.kubelet.config";
    for (field, wanted) in [("apiVersion", "kubelet.config.k8s.io/v1beta1"), ("kind", "KubeletConfiguration")] {
        if kubelet.config.get(field).is_some_and(|value| value != wanted) {
            let message = format!("kubelet's `{field}` is `{wanted}`");
            found.push(Problem::error("kubelet-config", join(path, field), message));
        }
    }
    for (field, reason) in KUBELET_CONFIG.iter().filter(|(field, _)| kubelet.config.contains_key(*field)) {
        let problem =
            Problem::error("reserved-flag", join(path, field), format!("`{field}` is not set by hand")).on_key();
        found.push(problem.hint(*reason));
    }
    let authentication = kubelet.config.get("authentication");
    if authentication.and_then(|value| value.pointer("/x509/clientCAFile")).is_some() {
        let problem = Problem::error(
            "reserved-flag",
            format!("{path}.authentication.x509.clientCAFile"),
            "`clientCAFile` is not set by hand",
        );
        found.push(problem.on_key().hint(CERTIFICATES));
    }
    if authentication.and_then(|value| value.pointer("/anonymous/enabled")) == Some(&true.into()) {
        let message = "anybody who reaches the machine may then ask kubelet";
        found.push(Problem::warning("kubelet-config", format!("{path}.authentication.anonymous.enabled"), message));
    }
}
