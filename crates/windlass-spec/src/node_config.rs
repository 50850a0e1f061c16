//! One immutable configuration of one machine: nothing in it is left to decide on the node.
//!
//! Input: rendered by `windlass-plan` from the full spec and the cluster's membership. Output: the agent converges the
//! machine to it. Ordered by (epoch, generation), hashed; its secrets are a part of their own ([`NodeSecrets`]).
//! Paths are absolute paths on the machine. Times are seconds.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::identity::{ClusterId, Epoch, FormAttempt, Generation, Role, Slot};

/// Everything one machine must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeConfig {
    /// Format of this document: [`NodeConfig::FORMAT`].
    pub format: u32,
    /// The cluster's name.
    pub cluster: String,
    /// The cluster's identity for life.
    pub cluster_id: ClusterId,
    /// Which owner rendered this.
    pub epoch: Epoch,
    /// Which configuration of that owner this is.
    pub generation: Generation,
    /// The Windlass version that rendered it.
    pub windlass_version: String,
    /// Digest of the bundle whose content the machine runs.
    pub bundle: String,
    /// Who the machine is.
    pub machine: MachineIdentity,
    /// Scripts run once in the machine's life, before every other part.
    #[serde(default)]
    pub first_boot: Vec<FirstBootScript>,
    /// Lines of the hosts block the agent keeps in `/etc/hosts`.
    pub hosts: Vec<HostEntry>,
    /// Nameservers for the machine itself and for pods with `dnsPolicy: Default`.
    pub resolvers: Resolvers,
    /// Kernel parameters.
    pub sysctls: BTreeMap<String, String>,
    /// Kernel modules to load; those built in are no error.
    pub modules: Vec<String>,
    /// The user's files and Windlass's own, in order.
    pub files: Vec<File>,
    /// Login users.
    pub users: Vec<User>,
    /// NTP servers; empty: left alone.
    pub ntp_servers: Vec<String>,
    /// Further certificate authorities the machine trusts, PEM.
    pub trusted_cas: Vec<String>,
    /// Block volumes to find, check, format when blank, and mount.
    pub volumes: Vec<Volume>,
    /// systemd units written and kept running by the agent (containerd, kubelet).
    pub units: Vec<Unit>,
    /// Certificates the agent issues itself from authorities in its secrets, and kubeconfigs made from them.
    pub certificates: Vec<Certificate>,
    /// Kubeconfig files.
    pub kubeconfigs: Vec<Kubeconfig>,
    /// This machine's etcd member. Control planes only.
    pub etcd: Option<EtcdMember>,
    /// Static pods other than etcd, in start order.
    pub static_pods: Vec<StaticPod>,
    /// How the Node registers.
    pub kubelet: Kubelet,
    /// The balancer on 127.0.0.1 that workers and everything but the control plane use to reach the API.
    pub balancer: Balancer,
    /// Pod network on this machine.
    pub pod_network: PodNetwork,
    /// Commands at fixed points.
    pub hooks: Vec<Hook>,
    /// What control-plane agents keep in the cluster under one lease. Control planes only.
    pub cluster_duties: Option<ClusterDuties>,
}

impl NodeConfig {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;
}

/// Who a machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineIdentity {
    /// Machine and Node name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Instance group: `cp`, or the name of a `workers[]` entry.
    pub group: String,
    /// The control-plane place it claims.
    pub slot: Option<Slot>,
    /// Node address.
    pub address: IpAddr,
    /// `spec.providerID` of the Node.
    pub provider_id: String,
    /// Failure domain, where the provider knows any.
    pub failure_domain: Option<String>,
}

/// A script run once at a machine's first boot, in order, each with up to five minutes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FirstBootScript {
    /// Name in reports.
    pub name: String,
    /// Its text with the `#!` line.
    pub script: String,
}

/// One address and its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostEntry {
    /// The address.
    pub address: IpAddr,
    /// Canonical name first.
    pub names: Vec<String>,
}

/// Which nameservers to use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolvers {
    /// For the machine's own `/etc/resolv.conf`; empty: left as found.
    pub machine: Vec<IpAddr>,
    /// For pods through kubelet's `resolvConf` and CoreDNS; empty: nothing is forwarded.
    pub pods: Vec<IpAddr>,
}

/// One file on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// Where.
    pub path: String,
    /// Octal permission text, such as `0644`.
    pub mode: String,
    /// `user:group`; root:root when absent.
    pub owner: Option<String>,
    /// What is in it.
    pub content: Content,
}

/// Where content comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Content {
    /// The text itself.
    Text(String),
    /// Bytes, base64.
    Base64(String),
    /// An entry of [`NodeSecrets::values`].
    Secret(String),
}

/// A login user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Lines of `authorized_keys`.
    pub ssh_authorized_keys: Vec<String>,
    /// Member of the `sudo` group, without a password.
    pub sudo: bool,
}

/// A block volume, found by what is written inside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Volume {
    /// Name in reports: `etcd-main`.
    pub name: String,
    /// How the device is found.
    pub device: DeviceSelector,
    /// The control-plane place it belongs to, checked inside.
    pub slot: Slot,
    /// Where it is mounted.
    pub mount_point: String,
    /// File system made on a blank device.
    pub filesystem: String,
}

/// How a block device is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum DeviceSelector {
    /// A symbolic link or node under `/dev/windlass/TAG` the provider keeps.
    Tag(String),
    /// A stable path such as `/dev/disk/by-id/…`.
    Path(String),
    /// A plain directory where there is no disk to give.
    Directory(String),
}

/// A systemd unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// Name with suffix.
    pub name: String,
    /// The unit file.
    pub content: String,
    /// Files whose change restarts the unit, beside its own.
    pub restart_on: Vec<String>,
}

/// Which key pair signs a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Authority {
    /// The cluster's: API server and its clients.
    Cluster,
    /// etcd's: peers, servers and clients.
    Etcd,
    /// The front proxy's: aggregated API servers.
    FrontProxy,
}

/// A certificate the agent issues on the machine and renews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Certificate {
    /// Name in reports: `apiserver`.
    pub name: String,
    /// Who signs it.
    pub authority: Authority,
    /// Subject common name.
    pub common_name: String,
    /// Subject organizations.
    pub organizations: Vec<String>,
    /// DNS subject alternative names.
    pub dns_names: Vec<String>,
    /// IP subject alternative names.
    pub ip_addresses: Vec<IpAddr>,
    /// For TLS servers.
    pub server_auth: bool,
    /// For TLS clients.
    pub client_auth: bool,
    /// Validity, days.
    pub days: u32,
    /// Certificate file, mode 0644.
    pub certificate_path: String,
    /// Key file, mode 0600.
    pub key_path: String,
}

/// A kubeconfig file, mode 0600.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubeconfig {
    /// Where.
    pub path: String,
    /// API server.
    pub server: String,
    /// How it authenticates.
    pub identity: KubeconfigIdentity,
}

/// How a kubeconfig authenticates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum KubeconfigIdentity {
    /// A client certificate of this [`Certificate::name`], embedded.
    Certificate(String),
    /// The bootstrap token in [`NodeSecrets::bootstrap_token`].
    BootstrapToken,
    /// Certificate and key files that something else renews (kubelet).
    Files {
        /// Certificate file.
        certificate: String,
        /// Key file.
        key: String,
    },
}

/// This machine's etcd member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdMember {
    /// Which etcd cluster: `main`.
    pub cluster: String,
    /// Member name, fixed by slot: `etcd-a`.
    pub name: String,
    /// The volume's name in [`NodeConfig::volumes`].
    pub volume: String,
    /// May it form a cluster, or only join or restart?
    pub permit: EtcdPermit,
    /// Every wanted member, this one included.
    pub members: Vec<EtcdPeer>,
    /// The list's generation; changes are made one at a time and checked against it.
    pub members_generation: Generation,
    /// Where the data lies on the machine, on the volume.
    pub data_dir: String,
    /// Static pod manifest (YAML) for [`EtcdPermit::Form`], with `--initial-cluster-state=new` and the token.
    pub form_manifest: Option<String>,
    /// Static pod manifest (YAML) used once the volume holds a member's data.
    pub manifest: String,
    /// Where the manifest is laid on the volume; linked into the manifest directory.
    pub manifest_path: String,
    /// Client endpoint for health: `https://ADDRESS:2379`.
    pub client_url: String,
    /// [`Certificate::name`] of the client certificate the agent uses.
    pub client_certificate: String,
}

/// Forming needs a permit, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum EtcdPermit {
    /// The cluster is to be formed by this attempt; refused when the ledger, the volume or a peer knows another.
    Form {
        /// The attempt's random token.
        attempt: FormAttempt,
    },
    /// The cluster exists (formed by that attempt): start from data, or join. Never form.
    Join {
        /// The attempt that formed it.
        formed_by: FormAttempt,
    },
}

/// One wanted etcd member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdPeer {
    /// Its place.
    pub slot: Slot,
    /// Member name.
    pub name: String,
    /// `https://NAME:2380`.
    pub peer_url: String,
    /// `https://NAME:2379`.
    pub client_url: String,
}

/// A static pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticPod {
    /// Name, and the manifest's file name.
    pub name: String,
    /// The Pod, YAML.
    pub manifest: String,
    /// Files whose change restarts the pod (the agent writes their hash into an annotation).
    pub restart_on: Vec<String>,
    /// Health endpoint on the machine that must answer 200, over TLS with the cluster's authority.
    pub health_url: Option<String>,
}

/// How the Node registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubelet {
    /// The unit among [`NodeConfig::units`] that runs it.
    pub unit: String,
    /// Directory it watches for static pods.
    pub manifest_dir: String,
    /// Does it get its client certificate by TLS bootstrap?
    pub tls_bootstrap: bool,
}

/// A Node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    /// Qualified name.
    pub key: String,
    /// May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods go elsewhere if they can.
    PreferNoSchedule,
    /// Running pods are evicted too.
    NoExecute,
}

/// The TCP balancer in front of the API servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Balancer {
    /// `127.0.0.1:7443`.
    pub listen: String,
    /// `ADDRESS:PORT` of each API server known when this was rendered; the own one first.
    pub servers: Vec<String>,
    /// `NAME:PORT` asked when none of those answers.
    pub fallback: String,
    /// `127.0.0.1:7444` on control planes: leads to the own API server alone, and holds connections while it starts, so
    /// that those beside it (kubelet, controller manager, scheduler) go on the moment it answers instead of counting
    /// down a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_listen: Option<String>,
}

/// Pod network of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodNetwork {
    /// Does the agent keep routes to other machines' PodCIDRs and masquerade? Off for `cni: None`.
    pub routes: bool,
    /// Pod ranges.
    pub pods: Vec<IpNet>,
    /// Service ranges: never masqueraded.
    pub services: Vec<IpNet>,
    /// The machines' own network.
    pub nodes: Vec<IpNet>,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum HookPoint {
    /// Before containerd starts.
    BeforeContainerd,
    /// Before kubelet starts.
    BeforeKubelet,
    /// After the Node is Ready for the first time.
    AfterReady,
}

/// What a failed hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum OnFailure {
    /// The machine stops there and says so.
    Stop,
    /// It is reported and the machine goes on.
    Continue,
}

/// A command at a fixed point; run once per content (its hash is in the ledger).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// Name in reports.
    pub name: String,
    /// When.
    pub when: HookPoint,
    /// Program and arguments; no shell.
    pub command: Vec<String>,
    /// Seconds until it is killed.
    pub timeout_seconds: u64,
    /// What its failure does.
    pub on_failure: OnFailure,
}

/// What control-plane agents keep in the cluster, one at a time under the lease `kube-system/windlass-cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterDuties {
    /// Kubeconfig of the agents' own identity (group `windlass:agents`).
    pub kubeconfig: String,
    /// Kubeconfig in group `system:masters`, used once to apply [`ClusterDuties::bootstrap`].
    pub bootstrap_kubeconfig: String,
    /// RBAC and the like that must exist before the first kubelet joins; applied in order, server-side. YAML documents.
    pub bootstrap: Vec<String>,
    /// Add-ons.
    pub addons: Vec<Addon>,
    /// Every machine of the cluster: whose certificates may be approved, and what only a manager may set on Nodes.
    pub nodes: Vec<ManagedNode>,
}

/// A Node as control-plane agents keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedNode {
    /// Machine and Node name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The only address its serving certificate may carry.
    pub address: IpAddr,
    /// Labels a kubelet may not set itself (`node-role.kubernetes.io/…`).
    pub labels: BTreeMap<String, String>,
    /// Must `node-role.kubernetes.io/control-plane:NoSchedule` be there (`Some(true)`), be gone (`Some(false)`), or is it
    /// left alone?
    pub control_plane_taint: Option<bool>,
}

/// An add-on, applied server-side as an ApplySet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addon {
    /// Name: `coredns`, `kube-proxy`, `local-path`, `windlass-controller`.
    pub name: String,
    /// Version shown by status.
    pub version: String,
    /// Namespace that holds the ApplySet's parent.
    pub namespace: String,
    /// Objects, one YAML document each.
    pub objects: Vec<String>,
}

/// The secret part of a node config. Never logged, never in plans, events or support bundles; mode 0600 on disk.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSecrets {
    /// Certificates of the authorities (every machine needs at least the cluster's), PEM.
    pub authorities: BTreeMap<Authority, String>,
    /// Keys of the authorities, PEM. Control planes only.
    pub authority_keys: BTreeMap<Authority, String>,
    /// Token for TLS bootstrap, `id.secret`. Workers only.
    pub bootstrap_token: Option<String>,
    /// Join tokens by machine name, kept in the cluster until that Node is Ready. Control planes only.
    #[serde(default)]
    pub join_tokens: BTreeMap<String, String>,
    /// Named values for [`Content::Secret`]: service-account keys, encryption configuration.
    pub values: BTreeMap<String, String>,
}

impl std::fmt::Debug for NodeSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeSecrets").field("values", &self.values.keys()).finish_non_exhaustive()
    }
}

/// What a config source hands out: the configuration, its secrets and the hash over both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SealedNodeConfig {
    /// The configuration.
    pub config: NodeConfig,
    /// Its secrets.
    pub secrets: NodeSecrets,
    /// `sha256:HEX` over the JSON of `[config, secrets]`.
    pub hash: String,
}

impl SealedNodeConfig {
    /// Puts the hash over a configuration and its secrets.
    ///
    /// # Errors
    /// When either cannot be written as JSON, which no value of these types causes.
    pub fn seal(config: NodeConfig, secrets: NodeSecrets) -> Result<Self, serde_json::Error> {
        let hash = digest(&config, &secrets)?;
        Ok(Self { config, secrets, hash })
    }

    /// Does the hash fit the content?
    pub fn is_intact(&self) -> bool {
        digest(&self.config, &self.secrets).is_ok_and(|hash| hash == self.hash)
    }
}

/// `sha256:HEX` over the JSON of both parts.
fn digest(config: &NodeConfig, secrets: &NodeSecrets) -> Result<String, serde_json::Error> {
    use sha2::Digest as _;

    let text = serde_json::to_vec(&(config, secrets))?;
    Ok(format!("sha256:{}", hex::encode(sha2::Sha256::digest(text))))
}
