//! A machine in a temporary directory, for tests of parts.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use windlass_assets::{Digest, FileEntry, Lock};
use windlass_spec::identity::{Epoch, Generation, Role, Slot};
use windlass_spec::node_config::{
    Authority, Balancer, Certificate, DeviceSelector, EtcdMember, EtcdPeer, EtcdPermit, Kubelet, MachineIdentity,
    NodeConfig, NodeSecrets, PodNetwork, Resolvers, SealedNodeConfig, Volume,
};

use super::Context;
use crate::balancer::pool::Pool;
use crate::board::Board;
use crate::host::command::MemoryCommands;
use crate::host::units::MemoryUnits;
use crate::host::{Host, Root};
use crate::ledger::LedgerStore;

pub(crate) const CLUSTER_ID: &str = "0123456789abcdef";

pub(crate) struct Machine {
    directory: tempfile::TempDir,
    pub(crate) commands: Arc<MemoryCommands>,
    pub(crate) units: Arc<MemoryUnits>,
    config: NodeConfig,
    secrets: NodeSecrets,
}

/// A machine on which a bundle without files is installed.
pub(crate) fn machine() -> Machine {
    let mut secrets = NodeSecrets::default();
    for authority in [Authority::Cluster, Authority::Etcd] {
        let pair = windlass_pki::authority("test", Timestamp::now()).unwrap();
        secrets.authorities.insert(authority, pair.certificate_pem);
        secrets.authority_keys.insert(authority, pair.key_pem);
    }
    let mut machine = Machine {
        directory: tempfile::tempdir().unwrap(),
        commands: Arc::default(),
        units: Arc::default(),
        config: config(),
        secrets,
    };
    machine.install(&[]);
    machine
}

pub(crate) fn sealed() -> SealedNodeConfig {
    SealedNodeConfig::seal(config(), NodeSecrets::default()).unwrap()
}

fn config() -> NodeConfig {
    NodeConfig {
        format: NodeConfig::FORMAT,
        cluster: "lab".into(),
        cluster_id: CLUSTER_ID.into(),
        epoch: Epoch(1),
        generation: Generation(1),
        windlass_version: "0.1.0".into(),
        bundle: "sha256:0".into(),
        machine: MachineIdentity {
            name: "lab-cp-a".into(),
            role: Role::ControlPlane,
            group: "cp".into(),
            slot: Some(Slot::A),
            address: "10.77.0.11".parse().unwrap(),
            provider_id: "windlass-local://host/1".into(),
            failure_domain: None,
        },
        first_boot: Vec::new(),
        hosts: Vec::new(),
        resolvers: Resolvers::default(),
        sysctls: Default::default(),
        modules: Vec::new(),
        files: Vec::new(),
        users: Vec::new(),
        ntp_servers: Vec::new(),
        trusted_cas: Vec::new(),
        volumes: Vec::new(),
        units: Vec::new(),
        certificates: Vec::new(),
        kubeconfigs: Vec::new(),
        etcd: None,
        static_pods: Vec::new(),
        kubelet: Kubelet {
            unit: "kubelet.service".into(),
            manifest_dir: "/etc/kubernetes/manifests".into(),
            tls_bootstrap: false,
        },
        balancer: Balancer {
            listen: "127.0.0.1:0".into(),
            servers: Vec::new(),
            fallback: "api:6443".into(),
            own_listen: None,
        },
        pod_network: PodNetwork { routes: false, pods: Vec::new(), services: Vec::new(), nodes: Vec::new() },
        hooks: Vec::new(),
        cluster_duties: None,
    }
}

impl Machine {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        Root::new(self.directory.path()).at(path)
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut NodeConfig)) {
        change(&mut self.config);
    }

    pub(crate) fn secrets(&mut self, change: impl FnOnce(&mut NodeSecrets)) {
        change(&mut self.secrets);
    }

    /// Lays programs and the lock of the bundle they are of, and names that bundle in the configuration.
    pub(crate) fn install(&mut self, programs: &[(&str, &str)]) {
        let mut lock = Lock {
            format: Lock::FORMAT,
            kubernetes: "1.2.3".into(),
            recipe: Digest::of(b"recipe"),
            toolchain: "go1.2.3".into(),
            versions: Default::default(),
            debian_packages: Default::default(),
            images: Default::default(),
            files: Default::default(),
        };
        for (path, content) in programs {
            self.lay(path, content.as_bytes(), 0o755);
            let name = path.rsplit('/').next().unwrap();
            let entry = FileEntry {
                sha256: Digest::of(content.as_bytes()),
                size: content.len() as u64,
                executable: true,
                install: Some((*path).into()),
            };
            lock.files.insert(format!("bin/{name}"), entry);
        }
        self.lay(Lock::INSTALLED, &lock.to_bytes().unwrap(), 0o644);
        self.config.bundle = lock.digest().unwrap().to_string();
    }

    fn lay(&self, path: &str, content: &[u8], mode: u32) {
        crate::host::files::replace(self.path(path), content, mode, None).unwrap();
    }

    pub(crate) fn context(&self) -> Context {
        let root = Root::new(self.directory.path());
        Context {
            host: Host { root: root.clone(), commands: self.commands.clone(), units: self.units.clone() },
            board: Board::new("lab-cp-a", "boot"),
            ledger: LedgerStore::open(&root).unwrap(),
            api_servers: Arc::new(Pool::new("lab-cp-a")),
            sealed: Arc::new(SealedNodeConfig::seal(self.config.clone(), self.secrets.clone()).unwrap()),
        }
    }

    /// A member on a plain directory, with one peer that does not answer.
    pub(crate) fn etcd(&mut self, permit: EtcdPermit) {
        let mount_point = "/var/lib/windlass/volumes/etcd-main";
        self.config.volumes = vec![Volume {
            name: "etcd-main".into(),
            device: DeviceSelector::Directory("/disks/etcd-main".into()),
            slot: Slot::A,
            mount_point: mount_point.into(),
            filesystem: "ext4".into(),
        }];
        let peer = |slot, name: &str, port: u16| EtcdPeer {
            slot,
            name: name.into(),
            peer_url: format!("https://127.0.0.1:{port}"),
            client_url: format!("https://127.0.0.1:{}", port + 1),
        };
        self.config.certificates = vec![Certificate {
            name: "etcd-client".into(),
            authority: Authority::Etcd,
            common_name: "agent".into(),
            organizations: Vec::new(),
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            server_auth: false,
            client_auth: true,
            days: 365,
            certificate_path: "/etc/kubernetes/pki/etcd/agent.crt".into(),
            key_path: "/etc/kubernetes/pki/etcd/agent.key".into(),
        }];
        self.config.etcd = Some(EtcdMember {
            cluster: "main".into(),
            name: "etcd-a".into(),
            volume: "etcd-main".into(),
            form_manifest: matches!(permit, EtcdPermit::Form { .. }).then(|| "form".into()),
            permit,
            // Ports of the discard range, where nobody listens.
            members: vec![peer(Slot::A, "etcd-a", 1), peer(Slot::B, "etcd-b", 3)],
            members_generation: Generation(1),
            data_dir: format!("{mount_point}/data"),
            manifest: "restart".into(),
            manifest_path: format!("{mount_point}/manifest/etcd.yaml"),
            client_url: "https://127.0.0.1:2".into(),
            client_certificate: "etcd-client".into(),
        });
    }
}
