//! What the controllers know: every object they care for, by name and by cluster, kept by watches and by their own
//! writes; the provider's inventory; the Nodes of workload clusters.

mod inventories;
mod nodes;
mod table;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use windlass_spec::full::FullCluster;

use crate::api::cluster_api::{Cluster, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use crate::api::windlass::{
    ControlPlane, LocalCluster, LocalMachine, LocalMachineTemplate, NodeConfig, NodeConfigTemplate, WindlassCluster,
};

pub(crate) use inventories::Inventories;
pub(crate) use nodes::{Connection, Nodes};
pub(crate) use table::{Change, Indexed, Key, Table};

/// The resource version it was read at, and the complete spec.
type FullSpec = (Option<String>, Arc<FullCluster>);

/// Everything known.
#[derive(Default)]
pub(crate) struct Index {
    pub(crate) windlass_clusters: Table<WindlassCluster>,
    pub(crate) clusters: Table<Cluster>,
    pub(crate) machines: Table<Machine>,
    pub(crate) machine_sets: Table<MachineSet>,
    pub(crate) machine_deployments: Table<MachineDeployment>,
    pub(crate) health_checks: Table<MachineHealthCheck>,
    pub(crate) control_planes: Table<ControlPlane>,
    pub(crate) node_configs: Table<NodeConfig>,
    pub(crate) node_config_templates: Table<NodeConfigTemplate>,
    pub(crate) local_clusters: Table<LocalCluster>,
    pub(crate) local_machines: Table<LocalMachine>,
    pub(crate) local_machine_templates: Table<LocalMachineTemplate>,
    /// Secrets by metadata alone: their content stays at the API.
    pub(crate) secrets: Table<PartialObjectMeta<Secret>>,
    pub(crate) inventories: Inventories,
    pub(crate) nodes: Nodes,
    full: std::sync::Mutex<std::collections::HashMap<Key, FullSpec>>,
}

impl Index {
    /// The complete spec of a cluster, as its status has it.
    pub(crate) fn full(&self, cluster: &Key) -> Option<Arc<FullCluster>> {
        let object = self.windlass_clusters.get(cluster)?;
        let version = object.metadata.resource_version.clone();
        let mut known = self.full.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((seen, full)) = known.get(cluster)
            && *seen == version
        {
            return Some(full.clone());
        }
        let tree = object.status.as_ref()?.full.as_ref()?;
        let full = match serde_json::from_value::<FullCluster>(tree.clone()) {
            Ok(full) => Arc::new(full),
            Err(error) => {
                tracing::debug!(%cluster, %error, "the complete spec on the status is of another version");
                return None;
            }
        };
        known.insert(cluster.clone(), (version, full.clone()));
        Some(full)
    }

    /// Does something hold the controllers off this cluster?
    pub(crate) fn is_paused(&self, cluster: &Key) -> bool {
        self.clusters.get(cluster).is_some_and(|cluster| {
            cluster.spec.paused == Some(true) || crate::objects::has_annotation(&*cluster, crate::api::names::PAUSED)
        })
    }

    /// Is the whole cluster being taken down?
    pub(crate) fn is_deleting(&self, cluster: &Key) -> bool {
        self.clusters.get(cluster).is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
    }
}
