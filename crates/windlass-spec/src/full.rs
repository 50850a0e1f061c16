//! The complete spec: what [`crate::v1alpha1::Cluster`] grows into when nothing is left out.
//!
//! Input: `resolve(spec, release, facts)`. Output: every flag, range, version and digest of a cluster, and for each
//! value who set it. What differs from machine to machine (addresses, member lists) is added by `windlass-plan`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::identity::{Role, Slot};
use crate::node_config::{HookPoint, OnFailure, Taint};

/// Who set a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Written in the spec.
    User,
    /// Windlass's default.
    Default,
    /// Follows from other values, the bundle or the ground.
    Derived,
}

/// Every value of a cluster. Field paths of [`FullCluster::origins`] are dotted, list items by index:
/// `workers[0].count`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FullCluster {
    /// Cluster name.
    pub name: String,
    /// Namespace of the cluster's management objects.
    pub namespace: String,
    /// Versions, images and digests in use.
    pub release: Release,
    /// Where machines come from.
    pub provider: Provider,
    /// Facts about the ground that were known when this was resolved.
    pub facts: Facts,
    /// Control plane.
    pub control_plane: ControlPlane,
    /// Instance groups.
    pub workers: Vec<WorkerGroup>,
    /// etcd clusters; the first, `main`, holds everything not said otherwise.
    pub etcd: Vec<Etcd>,
    /// Ranges and the network's parts.
    pub network: Network,
    /// Where clients find the API.
    pub endpoint: Endpoint,
    /// Flags and configuration of each component.
    pub components: Components,
    /// Add-ons that are on.
    pub addons: Addons,
    /// `audit.k8s.io/v1` Policy; none: no audit log.
    pub audit_policy: Option<Value>,
    /// `apiserver.config.k8s.io/v1` AuthenticationConfiguration.
    pub authentication_configuration: Value,
    /// Files on machines.
    pub files: Vec<FileAsset>,
    /// Custom static pods.
    pub static_pods: Vec<StaticPodAsset>,
    /// Hooks.
    pub hooks: Vec<HookAsset>,
    /// Shell text run once at a machine's first boot, before the agent's first part; by role.
    pub extra_user_data: Vec<UserData>,
    /// Kernel parameters.
    pub sysctls: BTreeMap<String, String>,
    /// Login users.
    pub users: Vec<LoginUser>,
    /// Proxy for containerd, kubelet and the agent; `no_proxy` is complete with the cluster's own addresses.
    pub proxy: Option<Proxy>,
    /// Registry mirrors.
    pub registry_mirrors: Vec<RegistryMirror>,
    /// Further authorities, PEM.
    pub trusted_cas: Vec<String>,
    /// NTP servers.
    pub ntp_servers: Vec<String>,
    /// Who set each value, by field path.
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
}

/// Versions, images and digests of one release, as the bundle's lock has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// Kubernetes version without `v`: `1.37.2`.
    pub kubernetes: String,
    /// Digest of the bundle's lock, `sha256:HEX`; `unbuilt` while no bundle was made.
    pub bundle: String,
    /// Version by component: `etcd`, `containerd`, `coredns`, `local-path-provisioner`, `pause`, …
    pub versions: BTreeMap<String, String>,
    /// Image reference by component: `kube-apiserver`, `etcd`, `coredns`, `pause`, `volume-helper`, `windlass`, …
    pub images: BTreeMap<String, String>,
}

/// Where machines come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// Sandboxes on this computer.
    pub local: Option<LocalProvider>,
}

/// Sandboxes on this computer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalProvider {}

/// What is known of the machines' ground before they exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Facts {
    /// Which cgroup hierarchy the machines see.
    pub cgroup: CgroupMode,
    /// May `oom_score_adj` be lowered (`CAP_SYS_RESOURCE`)?
    pub oom_score_adjustable: bool,
    /// Is `net.netfilter.nf_conntrack_max` writable on the machines?
    pub conntrack_writable: bool,
    /// Are the machines sandboxes that share the host's disk (disk-pressure eviction must be off)?
    pub shared_disk: bool,
    /// Host routes the ranges must keep clear of.
    pub host_routes: Vec<IpNet>,
}

/// cgroup hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupMode {
    /// Version 1 or hybrid: kubelet `failCgroupV1: false`, driver cgroupfs.
    V1,
    /// Version 2 with systemd: driver systemd.
    V2,
}

/// Control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlPlane {
    /// Its places.
    pub slots: Vec<Slot>,
    /// Only control-plane pods there (taint while there are workers).
    pub dedicated: bool,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
    /// Node taints, the control-plane taint included when it applies.
    pub taints: Vec<Taint>,
    /// Failure domains slots are spread over.
    pub failure_domains: Vec<String>,
}

/// An instance group of workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkerGroup {
    /// Name within the cluster.
    pub name: String,
    /// Machines wanted.
    pub count: u32,
    /// Kubernetes version.
    pub version: String,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
    /// Node taints.
    pub taints: Vec<Taint>,
    /// Machines over the count during a roll-out.
    pub max_surge: u32,
    /// Machines missing during a roll-out.
    pub max_unavailable: u32,
}

/// An etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Etcd {
    /// `main`, `events`.
    pub name: String,
    /// Slots with a member.
    pub members: Vec<Slot>,
    /// Volume size, bytes.
    pub volume_bytes: u64,
    /// Client port.
    pub client_port: u16,
    /// Peer port.
    pub peer_port: u16,
}

/// Ranges and parts of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Network {
    /// Pod ranges, primary family first.
    pub pods: Vec<IpNet>,
    /// Service ranges, same families in the same order.
    pub services: Vec<IpNet>,
    /// Prefix length of a Node's PodCIDR (IPv4).
    pub node_mask_size: u8,
    /// Pod network.
    pub cni: Cni,
    /// Service proxy.
    pub kube_proxy: KubeProxy,
    /// Where CoreDNS and machines forward to; empty: nowhere.
    pub dns_upstreams: Vec<IpAddr>,
    /// `cluster.local`.
    pub dns_domain: String,
    /// CoreDNS's Service address: the tenth of the first service range.
    pub cluster_dns: IpAddr,
    /// The `kubernetes` Service's address: the first of the first service range.
    pub kubernetes_service: IpAddr,
}

/// Pod network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Cni {
    /// Bridge, host-local and portmap, with routes by the agent.
    Bridge,
    /// Left to the user (Cilium and the like).
    None,
}

/// Service proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum KubeProxy {
    /// kube-proxy in nftables mode.
    NFTables,
    /// kube-proxy in iptables mode.
    IPTables,
    /// Left to the user.
    None,
}

/// Where clients find the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// DNS name: `api.NAME.windlass.internal` unless said.
    pub name: String,
    /// Internal DNS name for machines: `api.internal.NAME.windlass.internal`.
    pub internal_name: String,
    /// Port, also the API servers' own.
    pub port: u16,
    /// How the address is kept. Local: the provider's map.
    pub mode: EndpointMode,
    /// Further names and addresses in the serving certificate.
    pub cert_sans: Vec<String>,
}

/// How the endpoint's address is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum EndpointMode {
    /// By the machine provider (local: an address on the bridge).
    Provider,
    /// A virtual IP held by a control-plane agent.
    VirtualIP,
    /// DNS records only.
    DNS,
    /// The user's own.
    External,
}

/// Flags and configuration of each component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Components {
    /// kube-apiserver.
    pub kube_apiserver: Flags,
    /// kube-controller-manager.
    pub kube_controller_manager: Flags,
    /// kube-scheduler.
    pub kube_scheduler: Flags,
    /// kube-proxy.
    pub kube_proxy: Flags,
    /// etcd.
    pub etcd: Flags,
    /// containerd.
    pub containerd: Flags,
    /// kubelet flags.
    pub kubelet: Flags,
    /// `kubelet.config.k8s.io/v1beta1` KubeletConfiguration, complete but for what differs by machine.
    pub kubelet_config: Value,
    /// `kubeproxy.config.k8s.io/v1alpha1` KubeProxyConfiguration, complete.
    pub kube_proxy_config: Value,
    /// containerd's configuration (version 3), as JSON; written as TOML.
    pub containerd_config: Value,
}

/// Flags of one component. A renderer starts from what differs by machine, sets these over it, then takes away
/// [`Flags::unset`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flags {
    /// Name without dashes to value.
    pub set: BTreeMap<String, String>,
    /// Names taken away by the user.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unset: BTreeSet<String>,
}

/// Add-ons that are on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addons {
    /// Cluster DNS.
    pub coredns: bool,
    /// Default StorageClass on the machines' disks.
    pub local_path: bool,
}

/// A file on machines of some roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileAsset {
    /// Absolute path.
    pub path: String,
    /// Content, byte for byte.
    pub content: String,
    /// Octal mode.
    pub mode: String,
    /// Where.
    pub roles: Vec<Role>,
}

/// A custom static pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticPodAsset {
    /// Name of the manifest.
    pub name: String,
    /// The Pod.
    pub manifest: Value,
    /// Where.
    pub roles: Vec<Role>,
}

/// A hook on machines of some roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookAsset {
    /// Name.
    pub name: String,
    /// When.
    pub when: HookPoint,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Seconds.
    pub timeout_seconds: u64,
    /// What its failure does.
    pub on_failure: OnFailure,
    /// Where.
    pub roles: Vec<Role>,
}

/// Shell text for a machine's first boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserData {
    /// Name.
    pub name: String,
    /// Script with its `#!` line.
    pub script: String,
    /// Where.
    pub roles: Vec<Role>,
}

/// A login user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginUser {
    /// Login name.
    pub name: String,
    /// Lines of `authorized_keys`.
    pub ssh_authorized_keys: Vec<String>,
    /// May become root without a password.
    pub sudo: bool,
}

/// Proxy settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proxy {
    /// For `http://`.
    pub http: String,
    /// For `https://`.
    pub https: String,
    /// Exempt; complete.
    pub no_proxy: Vec<String>,
}

/// A mirror of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryMirror {
    /// The registry as image names have it: `docker.io`.
    pub registry: String,
    /// `https://HOST[:PORT][/PATH]`, tried in order.
    pub endpoints: Vec<String>,
    /// Its authority, PEM; empty: the machine's own.
    pub ca_cert: String,
}
