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

/// A place that Windlass or the system keeps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// A file, a folder with all below it, or with `*` at its end every path that begins so.
    pub path: &'static str,
    /// What a person does instead of laying a file there.
    pub instead: &'static str,
}

impl Owned {
    /// Is the path this place, or below it?
    fn holds(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => is_at_or_below(path, self.path),
        }
    }

    /// Would a file at the path stand where the way to this place needs a folder?
    fn is_below(&self, path: &str) -> bool {
        self.path != path && is_at_or_below(self.path, path)
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

const fn owned(path: &'static str, instead: &'static str) -> Owned {
    Owned { path, instead }
}

const ELSEWHERE: &str = "choose another place";
const BY_BUNDLE: &str =
    "the bundle of `spec.kubernetesVersion` brings it; lay your own program beside it under another name";
const BY_KUBELET: &str = "write `spec.components.kubelet`";
const BY_CONTAINERD: &str = "write `spec.components.containerd.flags`, or `spec.registryMirrors` for mirrors";
const BY_USERS: &str = "write `spec.users`";
const BY_CAS: &str = "write `spec.trustedCAs`";

/// Everything that machine images, the provider and the agent write themselves: files of the spec must lie elsewhere.
pub const OWNED: [Owned; 59] = [
    owned("/etc/kubernetes", "write `spec.staticPods` for manifests and `spec.components` for configuration"),
    owned("/etc/systemd/system/kubelet.service", BY_KUBELET),
    owned("/var/lib/kubelet", BY_KUBELET),
    owned("/etc/systemd/system/containerd.service", BY_CONTAINERD),
    owned("/etc/containerd", BY_CONTAINERD),
    owned("/var/lib/containerd", BY_CONTAINERD),
    owned("/etc/crictl.yaml", ELSEWHERE),
    owned("/etc/cni", "write `spec.network.cni: None` to bring a pod network of your own"),
    owned("/opt/cni", "write `spec.network.cni: None` to bring a pod network of your own"),
    owned("/var/lib/etcd", "write `spec.components.etcd.flags`"),
    owned("/etc/windlass", ELSEWHERE),
    owned("/var/lib/windlass", ELSEWHERE),
    owned("/usr/local/lib/windlass", ELSEWHERE),
    owned("/usr/local/share/windlass", BY_BUNDLE),
    owned("/usr/local/bin/windlass", "machines run the binary that made them"),
    owned("/usr/local/bin/kubelet", BY_BUNDLE),
    owned("/usr/local/bin/kubectl", BY_BUNDLE),
    owned("/usr/local/bin/containerd", BY_BUNDLE),
    owned("/usr/local/bin/containerd-shim-runc-v2", BY_BUNDLE),
    owned("/usr/local/bin/ctr", BY_BUNDLE),
    owned("/usr/local/bin/runc", BY_BUNDLE),
    owned("/usr/local/bin/crictl", BY_BUNDLE),
    owned("/usr/local/bin/etcdctl", BY_BUNDLE),
    owned("/usr/local/bin/etcdutl", BY_BUNDLE),
    owned("/etc/systemd/system/windlass-agent.service", ELSEWHERE),
    owned("/etc/systemd/system/sandbox-prep.service", ELSEWHERE),
    owned("/etc/systemd/system/ssh.service.d/host-keys.conf", ELSEWHERE),
    owned("/etc/systemd/system/ssh@.service.d/host-keys.conf", ELSEWHERE),
    owned("/etc/systemd/journald.conf.d/windlass.conf", "name it after something else: files there are read in order"),
    owned("/etc/ssh/sshd_config.d/windlass.conf", "name it after something else: files there are read in order"),
    owned("/etc/modules-load.d/windlass.conf", "name it after something else"),
    owned("/etc/sysctl.d/90-windlass.conf", "write `spec.sysctls`"),
    owned("/etc/systemd/timesyncd.conf.d/windlass.conf", "write `spec.ntp.servers`"),
    owned("/etc/chrony/sources.d/windlass.sources", "write `spec.ntp.servers`"),
    owned(
        "/etc/hosts",
        "the agent keeps the cluster's names there; a name server of yours goes into `spec.network.dnsUpstreams`",
    ),
    owned("/etc/resolv.conf", "write `spec.network.dnsUpstreams`"),
    owned("/etc/hostname", "a machine is called by its cluster and group"),
    owned("/etc/machine-id", ELSEWHERE),
    owned("/etc/passwd", BY_USERS),
    owned("/etc/passwd-", BY_USERS),
    owned("/etc/shadow", BY_USERS),
    owned("/etc/shadow-", BY_USERS),
    owned("/etc/group", BY_USERS),
    owned("/etc/group-", BY_USERS),
    owned("/etc/gshadow", BY_USERS),
    owned("/etc/gshadow-", BY_USERS),
    owned("/etc/subuid", BY_USERS),
    owned("/etc/subgid", BY_USERS),
    owned("/etc/sudoers.d/windlass-*", "write `sudo: true` at the user in `spec.users`"),
    owned("/usr/local/share/ca-certificates/windlass-*", BY_CAS),
    owned("/etc/ssl/certs", BY_CAS),
    owned("/var/log/pods", ELSEWHERE),
    owned("/var/log/kubernetes", ELSEWHERE),
    owned("/var/log/journal", ELSEWHERE),
    owned("/run", "files there are gone after a restart; write `spec.hooks` for what is made at each start"),
    owned("/var/run", "files there are gone after a restart; write `spec.hooks` for what is made at each start"),
    owned("/proc", "write `spec.sysctls`"),
    owned("/sys", "write `spec.hooks`"),
    owned("/dev", ELSEWHERE),
];

/// The place of [`OWNED`] that a file at this absolute path would lie in.
pub fn owner_of(path: &str) -> Option<&'static Owned> {
    OWNED.iter().find(|owned| owned.holds(path))
}

/// Does a place of [`OWNED`] lie below this path, so that it must stay a folder?
pub fn is_folder(path: &str) -> bool {
    OWNED.iter().any(|owned| owned.is_below(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_from_their_neighbours() {
        let kept = [
            "/etc/kubernetes",
            "/etc/kubernetes/manifests/x.yaml",
            "/usr/local/bin/kubelet",
            "/etc/sudoers.d/windlass-ops",
            "/usr/local/share/ca-certificates/windlass-0123.crt",
        ];
        for path in kept {
            assert!(owner_of(path).is_some(), "{path}");
        }
        let free = [
            "/etc/kubernetes-like",
            "/usr/local/bin/kubelet-wrapper",
            "/etc/systemd/system/kubelet.service.d/10-nice.conf",
            "/etc/sudoers.d/ops",
            "/usr/local/share/ca-certificates/own.crt",
        ];
        for path in free {
            assert!(owner_of(path).is_none() && !is_folder(path), "{path}");
        }
        assert!(is_folder("/etc") && is_folder("/usr/local/bin") && is_folder("/etc/sudoers.d"));
        assert!(!is_folder("/etc/kubernetes"), "that is the place itself");
    }

    #[test]
    fn places_are_plain_and_listed_once() {
        let mut paths: Vec<&str> = OWNED.iter().map(|owned| owned.path).collect();
        assert!(paths.iter().all(|path| path.starts_with('/') && !path.ends_with('/')));
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), OWNED.len());
    }
}
