//! Clusters for tests: a spec as people write it, resolved, with machines at fixed addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use windlass_pki::Authorities;
use windlass_plan::decide::{managed_node, wanted_machines};
use windlass_plan::{ControlPlaneMachine, NetworkFacts, NodeInputs, RenderError, render};
use windlass_spec::full::{CgroupMode, Facts, FullCluster, Release};
use windlass_spec::identity::{Epoch, FormAttempt, Generation, Role};
use windlass_spec::node_config::{EtcdPermit, MachineIdentity, ManagedNode, SealedNodeConfig};
use windlass_spec::resolve::resolve;
use windlass_spec::v1alpha1;

/// A resolved spec of these groups, with more YAML below `spec` (indented by two).
pub(crate) fn full(control_planes: u32, workers: u32, more: &str) -> FullCluster {
    let groups = if workers > 0 { format!("  workers: [{{name: md, count: {workers}}}]\n") } else { String::new() };
    let text = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: lab}}\nspec:\n  provider: {{local: {{}}}}\n  \
         controlPlane: {{count: {control_planes}}}\n{groups}{more}"
    );
    let cluster: v1alpha1::Cluster = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    resolve(&cluster, &release(), &facts()).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn release() -> Release {
    let versions =
        [("coredns", "1.14.6"), ("etcd", "3.7.0"), ("local-path-provisioner", "0.0.30"), ("pause", "3.10.2")];
    let kubernetes = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"];
    let mut images: BTreeMap<String, String> =
        kubernetes.iter().map(|name| ((*name).to_owned(), format!("windlass.dev/{name}:v1.37.2"))).collect();
    images.extend(versions.map(|(name, version)| (name.to_owned(), format!("windlass.dev/{name}:{version}"))));
    images.insert("volume-helper".to_owned(), "windlass.dev/volume-helper:0.0.30".to_owned());
    images.insert("windlass".to_owned(), "windlass.dev/windlass:0123456789ab".to_owned());
    Release {
        kubernetes: "1.37.2".to_owned(),
        bundle: "sha256:00".to_owned(),
        versions: versions.map(|(name, version)| (name.to_owned(), version.to_owned())).into(),
        images,
    }
}

fn facts() -> Facts {
    Facts {
        cgroup: CgroupMode::V1,
        oom_score_adjustable: false,
        conntrack_writable: false,
        shared_disk: true,
        host_routes: vec![],
    }
}

/// A cluster's machines and what else their configurations depend on.
pub(crate) struct World {
    pub(crate) full: FullCluster,
    pub(crate) machines: Vec<MachineIdentity>,
    pub(crate) permit: EtcdPermit,
    pub(crate) authorities: Authorities,
    pub(crate) tokens: BTreeMap<String, String>,
    pub(crate) self_managed: bool,
    network: NetworkFacts,
    control_planes: Vec<ControlPlaneMachine>,
    nodes: Vec<ManagedNode>,
}

impl World {
    pub(crate) fn of(full: FullCluster) -> Self {
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 77, 0, last));
        let mut workers = 21_u8;
        let machines: Vec<MachineIdentity> = wanted_machines(&full)
            .into_iter()
            .map(|wanted| {
                let last = wanted.slot.map_or(workers, |slot| 11 + slot as u8);
                workers += u8::from(wanted.slot.is_none());
                MachineIdentity {
                    provider_id: format!("windlass-local://host/{}", wanted.name),
                    name: wanted.name,
                    role: wanted.role,
                    group: wanted.group,
                    slot: wanted.slot,
                    address: address(last),
                    failure_domain: wanted.failure_domain,
                }
            })
            .collect();
        let count = machines.iter().filter(|machine| machine.role == Role::Worker).count();
        let node = |machine: &MachineIdentity| {
            managed_node(&full, &machine.name, machine.role, &machine.group, machine.address, count)
        };
        let tokens = machines.iter().filter(|machine| machine.role == Role::Worker);
        let authorities = Authorities::generate("2026-03-01T12:00:00Z".parse().expect("a timestamp"));
        Self {
            nodes: machines.iter().map(node).collect(),
            control_planes: machines
                .iter()
                .filter_map(|machine| {
                    let claim =
                        |slot| ControlPlaneMachine { slot, name: machine.name.clone(), address: machine.address };
                    machine.slot.map(claim)
                })
                .collect(),
            tokens: tokens.map(|machine| (machine.name.clone(), "abcdef.0123456789abcdef".to_owned())).collect(),
            permit: EtcdPermit::Form { attempt: FormAttempt::from("attempt-1") },
            authorities: authorities.expect("authorities"),
            self_managed: true,
            network: NetworkFacts {
                subnet: "10.77.0.0/24".parse().expect("a range"),
                gateway: address(1),
                endpoint: address(2),
                zone: "lab.windlass.internal".to_owned(),
            },
            machines,
            full,
        }
    }

    pub(crate) fn try_render(&self, machine: &MachineIdentity) -> Result<SealedNodeConfig, RenderError> {
        render(&NodeInputs {
            full: &self.full,
            cluster_id: &"0123456789abcdef".into(),
            epoch: Epoch(1),
            generation: Generation(1),
            machine,
            control_planes: &self.control_planes,
            machines: &self.nodes,
            permit: &self.permit,
            members_generation: Generation(1),
            network: &self.network,
            authorities: &self.authorities,
            bootstrap_token: self.tokens.get(&machine.name).map(String::as_str),
            join_tokens: &self.tokens,
            self_managed: self.self_managed,
        })
    }

    pub(crate) fn render(&self, name: &str) -> SealedNodeConfig {
        let machine = self.machines.iter().find(|machine| machine.name == name).expect("a machine of that name");
        self.try_render(machine).expect("a configuration")
    }
}
