//! Where things lie on a machine. Flags written by `resolve` and files laid by the agent meet here.

/// kubelet's directory of static pods.
pub const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// Certificates and keys.
pub const PKI: &str = "/etc/kubernetes/pki";
/// Certificate of the cluster's authority.
pub const CLUSTER_CA: &str = "/etc/kubernetes/pki/ca.crt";
/// kube-apiserver's AuthenticationConfiguration.
pub const AUTHENTICATION_CONFIGURATION: &str = "/etc/kubernetes/apiserver/authentication.yaml";
/// kube-apiserver's EncryptionConfiguration, a secret.
pub const ENCRYPTION_CONFIGURATION: &str = "/etc/kubernetes/apiserver/encryption.yaml";
/// kube-apiserver's audit Policy.
pub const AUDIT_POLICY: &str = "/etc/kubernetes/apiserver/audit-policy.yaml";
/// Directory of the configuration files above.
pub const API_SERVER_CONFIGURATION: &str = "/etc/kubernetes/apiserver";
/// Directory of kube-apiserver's audit log.
pub const AUDIT_LOG_DIRECTORY: &str = "/var/log/kubernetes/audit";
/// kube-apiserver's audit log.
pub const AUDIT_LOG: &str = "/var/log/kubernetes/audit/audit.log";
/// kube-controller-manager's kubeconfig.
pub const CONTROLLER_MANAGER_KUBECONFIG: &str = "/etc/kubernetes/controller-manager.conf";
/// kube-scheduler's kubeconfig.
pub const SCHEDULER_KUBECONFIG: &str = "/etc/kubernetes/scheduler.conf";
/// kubelet's kubeconfig.
pub const KUBELET_KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
/// kubelet's kubeconfig with the bootstrap token.
pub const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
/// kubelet's configuration.
pub const KUBELET_CONFIGURATION: &str = "/var/lib/kubelet/config.yaml";
/// Directory of kubelet's own certificates.
pub const KUBELET_PKI: &str = "/var/lib/kubelet/pki";
/// Name servers for pods with `dnsPolicy: Default`, without search domains.
pub const RESOLV_CONF: &str = "/etc/windlass/resolv.conf";
/// Directory of kube-proxy's configuration in its pod.
pub const KUBE_PROXY: &str = "/var/lib/kube-proxy";
/// kube-proxy's configuration in its pod.
pub const KUBE_PROXY_CONFIGURATION: &str = "/var/lib/kube-proxy/config.conf";
/// kube-proxy's kubeconfig in its pod.
pub const KUBE_PROXY_KUBECONFIG: &str = "/var/lib/kube-proxy/kubeconfig.conf";
/// containerd's configuration.
pub const CONTAINERD_CONFIGURATION: &str = "/etc/containerd/config.toml";
/// containerd's directory of registry mirrors.
pub const REGISTRY_CONFIGURATION: &str = "/etc/containerd/certs.d";
/// containerd's socket.
pub const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// Template of the pod network's configuration; containerd fills in the Node's PodCIDR.
pub const CNI_TEMPLATE: &str = "/etc/containerd/cni-template.conflist";
/// Directory of the pod network's configuration.
pub const CNI_CONFIGURATION: &str = "/etc/cni/net.d";
/// Directory of the pod network's programs.
pub const CNI_PROGRAMS: &str = "/opt/cni/bin";
/// What a new control plane of the release makes for itself, as one JSON list; the bundle brings it.
pub const BOOTSTRAP_OBJECTS: &str = "/usr/local/share/windlass/bootstrap-objects.json";
/// Where etcd's volume is mounted.
pub const ETCD_VOLUME: &str = "/var/lib/windlass/volumes/etcd-main";
/// etcd's data, on its volume.
pub const ETCD_DATA: &str = "/var/lib/windlass/volumes/etcd-main/data";

/// Places Windlass keeps itself: files of the spec must lie elsewhere.
pub const OWNED: [&str; 20] = [
    "/etc/kubernetes",
    "/etc/containerd",
    "/etc/cni",
    "/etc/windlass",
    "/var/lib/windlass",
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/opt/cni",
    "/run",
    "/var/run",
    "/proc",
    "/sys",
    "/dev",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/machine-id",
    "/usr/local/bin/windlass",
    "/etc/systemd/system/windlass-agent.service",
];
