//! The order in which a cluster is taken down: workers → control plane → infrastructure.

use std::sync::Arc;

use crate::api::cluster_api::{Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use crate::api::names;
use crate::api::windlass::{ControlPlane, LocalCluster, LocalMachine};
use crate::index::{Index, Key};
use crate::objects;

/// Everything below a cluster.
#[derive(Default)]
pub(super) struct Descendants {
    pub(super) health_checks: Vec<Arc<MachineHealthCheck>>,
    pub(super) deployments: Vec<Arc<MachineDeployment>>,
    pub(super) sets: Vec<Arc<MachineSet>>,
    pub(super) machines: Vec<Arc<Machine>>,
    pub(super) control_planes: Vec<Arc<ControlPlane>>,
    pub(super) local_machines: Vec<Arc<LocalMachine>>,
    pub(super) local_clusters: Vec<Arc<LocalCluster>>,
}

impl Descendants {
    /// Gathers them.
    pub(super) fn of(index: &Index, cluster: &Key) -> Self {
        Self {
            health_checks: index.health_checks.of_cluster(cluster),
            deployments: index.machine_deployments.of_cluster(cluster),
            sets: index.machine_sets.of_cluster(cluster),
            machines: index.machines.of_cluster(cluster),
            control_planes: index.control_planes.of_cluster(cluster),
            local_machines: index.local_machines.of_cluster(cluster),
            local_clusters: index.local_clusters.of_cluster(cluster),
        }
    }

    /// Control-plane Machines.
    pub(super) fn planes(&self) -> Vec<&Machine> {
        self.machines.iter().map(|machine| &**machine).filter(|machine| is_plane(machine)).collect()
    }

    /// Worker Machines.
    pub(super) fn workers(&self) -> Vec<&Machine> {
        self.machines.iter().map(|machine| &**machine).filter(|machine| !is_plane(machine)).collect()
    }

    /// Worker Machines without a controller: nobody else deletes them.
    pub(super) fn lonely_workers(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter().filter(|machine| !is_plane(machine) && objects::controller_of(&***machine).is_none())
    }
}

fn is_plane(machine: &Machine) -> bool {
    objects::label(machine, names::CONTROL_PLANE).is_some()
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Workers,
    ControlPlane,
    Infrastructure,
    Finish,
}

/// Decides.
pub(super) fn next_step(below: &Descendants) -> Step {
    let workers_left = !below.workers().is_empty()
        || !below.deployments.is_empty()
        || !below.sets.is_empty()
        || !below.health_checks.is_empty();
    if workers_left {
        Step::Workers
    } else if !below.control_planes.is_empty() || !below.machines.is_empty() {
        Step::ControlPlane
    } else if !below.local_clusters.is_empty() || !below.local_machines.is_empty() {
        Step::Infrastructure
    } else {
        Step::Finish
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cluster_api::machine::{Bootstrap, MachineSpec};
    use crate::api::cluster_api::shared::ContractReference;
    use crate::api::windlass::LocalClusterSpec;

    fn machine(name: &str, plane: bool) -> Arc<Machine> {
        let spec = MachineSpec {
            cluster_name: "lab".to_owned(),
            bootstrap: Bootstrap::default(),
            infrastructure_ref: ContractReference::windlass("LocalMachine", name),
            version: None,
            provider_id: None,
            failure_domain: None,
            min_ready_seconds: None,
            readiness_gates: Vec::new(),
            deletion: None,
            taints: Vec::new(),
        };
        let mut machine = Machine::new(name, spec);
        if plane {
            machine.metadata.labels = Some([(names::CONTROL_PLANE.to_owned(), String::new())].into());
        }
        Arc::new(machine)
    }

    #[test]
    fn workers_go_first_infrastructure_last() {
        let local = Arc::new(LocalCluster::new("lab", LocalClusterSpec::default()));
        let mut below = Descendants {
            machines: vec![machine("lab-cp-a", true), machine("lab-md-1", false)],
            local_clusters: vec![local],
            ..Descendants::default()
        };
        assert_eq!(next_step(&below), Step::Workers);
        below.machines.pop();
        assert_eq!(next_step(&below), Step::ControlPlane);
        below.machines.pop();
        assert_eq!(next_step(&below), Step::Infrastructure);
        below.local_clusters.pop();
        assert_eq!(next_step(&below), Step::Finish);
    }
}
