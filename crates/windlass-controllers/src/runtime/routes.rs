//! Which queues a change wakes. Coarse where that is cheap (changes that are rare), exact where changes are many.

use crate::api::cluster_api::{Cluster, Machine, MachineDeployment, MachineHealthCheck, MachineSet};
use crate::api::names;
use crate::api::windlass::{
    ControlPlane, LocalCluster, LocalMachine, LocalMachineTemplate, NodeConfig, NodeConfigTemplate, WindlassCluster,
};
use crate::index::{Change, Index, Indexed, Key};
use crate::objects::{self, cluster_name, label};
use crate::runtime::workers::Thing;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;

/// What is woken.
pub(crate) type Wakes = Vec<(Thing, Key)>;

/// What a change of an object of this kind wakes.
pub(crate) trait Routed: Indexed {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes;
}

/// Everything of a cluster.
fn everything(cluster: &Key, index: &Index) -> Wakes {
    let mut wakes = vec![(Thing::WindlassCluster, cluster.clone()), (Thing::Cluster, cluster.clone())];
    wakes.extend(all(Thing::LocalCluster, &index.local_clusters, cluster));
    wakes.extend(all(Thing::ControlPlane, &index.control_planes, cluster));
    wakes.extend(all(Thing::MachineDeployment, &index.machine_deployments, cluster));
    wakes.extend(all(Thing::MachineSet, &index.machine_sets, cluster));
    wakes.extend(all(Thing::Machine, &index.machines, cluster));
    wakes.extend(all(Thing::MachineHealthCheck, &index.health_checks, cluster));
    wakes.extend(all(Thing::NodeConfig, &index.node_configs, cluster));
    wakes.extend(all(Thing::LocalMachine, &index.local_machines, cluster));
    wakes
}

fn all<K: Indexed>(thing: Thing, table: &crate::index::Table<K>, cluster: &Key) -> Wakes {
    table.of_cluster(cluster).iter().map(|object| (thing, Key::of(&**object))).collect()
}

/// Configurations of control-plane machines: they know every machine of the cluster.
fn control_plane_configs(cluster: &Key, index: &Index) -> Wakes {
    let configs = index.node_configs.of_cluster(cluster);
    let chosen = configs.iter().filter(|config| config.spec.slot.is_some());
    chosen.map(|config| (Thing::NodeConfig, Key::of(&**config))).collect()
}

/// Owners of an object that are things.
fn owners<K: Indexed>(change: &Change<K>, key: &Key) -> Wakes {
    let objects = change.before.iter().chain(&change.after);
    objects
        .flat_map(|object| object.meta().owner_references.iter().flatten())
        .filter_map(|owner| Some((thing_of(&owner.api_version, &owner.kind)?, key.sibling(&owner.name))))
        .collect()
}

fn thing_of(api_version: &str, kind: &str) -> Option<Thing> {
    let group = api_version.split('/').next()?;
    Some(match (group, kind) {
        (names::CLUSTER_API, "Cluster") => Thing::Cluster,
        (names::CLUSTER_API, "MachineDeployment") => Thing::MachineDeployment,
        (names::CLUSTER_API, "MachineSet") => Thing::MachineSet,
        (names::CLUSTER_API, "Machine") => Thing::Machine,
        (names::WINDLASS, "ControlPlane") => Thing::ControlPlane,
        (names::WINDLASS, "NodeConfig") => Thing::NodeConfig,
        _ => return None,
    })
}

/// The cluster a change is about.
fn cluster_of<K: Indexed>(change: &Change<K>, key: &Key) -> Option<Key> {
    change.object()?.cluster().map(|cluster| key.sibling(&cluster))
}

impl Routed for WindlassCluster {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let spec_changed = change.differs(|cluster| {
            (
                cluster.metadata.annotations.clone(),
                cluster.status.as_ref().and_then(|status| status.full.clone()),
                objects::is_deleting(cluster),
            )
        });
        if spec_changed {
            everything(key, index)
        } else {
            vec![(Thing::WindlassCluster, key.clone()), (Thing::Cluster, key.clone())]
        }
    }
}

impl Routed for Cluster {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let telling = change.differs(|cluster| {
            (
                cluster.metadata.generation,
                objects::is_deleting(cluster),
                objects::has_annotation(cluster, names::PAUSED),
                cluster.status.as_ref().and_then(|status| status.initialization.clone()),
            )
        });
        if telling {
            everything(key, index)
        } else {
            vec![(Thing::WindlassCluster, key.clone()), (Thing::Cluster, key.clone())]
        }
    }
}

impl Routed for ControlPlane {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes = vec![(Thing::ControlPlane, key.clone())];
        let Some(cluster) = cluster_of(change, key) else { return wakes };
        wakes.push((Thing::Cluster, cluster.clone()));
        wakes.push((Thing::WindlassCluster, cluster.clone()));
        if change.differs(|plane| (plane.metadata.annotations.clone(), plane.metadata.generation)) {
            wakes.extend(all(Thing::NodeConfig, &index.node_configs, &cluster));
            wakes.extend(all(Thing::Machine, &index.machines, &cluster));
        }
        wakes
    }
}

impl Routed for MachineDeployment {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes = vec![(Thing::MachineDeployment, key.clone())];
        let Some(cluster) = cluster_of(change, key) else { return wakes };
        wakes.push((Thing::Cluster, cluster.clone()));
        wakes.push((Thing::WindlassCluster, cluster.clone()));
        if change.differs(|deployment| (deployment.metadata.generation, deployment.metadata.annotations.clone())) {
            wakes.extend(all(Thing::MachineSet, &index.machine_sets, &cluster));
            wakes.extend(all(Thing::Machine, &index.machines, &cluster));
            wakes.extend(control_plane_configs(&cluster, index));
        }
        wakes
    }
}

impl Routed for MachineSet {
    fn wakes(change: &Change<Self>, key: &Key, _: &Index) -> Wakes {
        let mut wakes = vec![(Thing::MachineSet, key.clone())];
        wakes.extend(owners(change, key));
        wakes.extend(cluster_of(change, key).map(|cluster| (Thing::Cluster, cluster)));
        wakes
    }
}

impl Routed for Machine {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes =
            vec![(Thing::Machine, key.clone()), (Thing::NodeConfig, key.clone()), (Thing::LocalMachine, key.clone())];
        wakes.extend(owners(change, key));
        let Some(cluster) = cluster_of(change, key) else { return wakes };
        wakes.push((Thing::Cluster, cluster.clone()));
        wakes.extend(all(Thing::MachineHealthCheck, &index.health_checks, &cluster));
        let telling = change.differs(|machine| {
            let status = machine.status.as_ref();
            (
                objects::is_deleting(machine),
                machine.spec.provider_id.clone(),
                status.is_some_and(|status| status.conditions.is_true(crate::reasons::types::NODE_HEALTHY)),
            )
        });
        if telling {
            wakes.extend(control_plane_configs(&cluster, index));
        }
        if change.after.is_none() || change.before.is_none() {
            // A name became free or taken.
            wakes.extend(all(Thing::MachineSet, &index.machine_sets, &cluster));
        }
        wakes
    }
}

impl Routed for MachineHealthCheck {
    fn wakes(change: &Change<Self>, key: &Key, _: &Index) -> Wakes {
        let mut wakes = vec![(Thing::MachineHealthCheck, key.clone())];
        wakes.extend(cluster_of(change, key).map(|cluster| (Thing::WindlassCluster, cluster)));
        wakes
    }
}

impl Routed for NodeConfig {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes =
            vec![(Thing::NodeConfig, key.clone()), (Thing::Machine, key.clone()), (Thing::LocalMachine, key.clone())];
        if change.differs(|config| config.metadata.annotations.clone())
            && let Some(cluster) = cluster_of(change, key)
        {
            wakes.extend(control_plane_configs(&cluster, index));
        }
        wakes
    }
}

impl Routed for NodeConfigTemplate {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        template(cluster_of(change, key), index)
    }
}

impl Routed for LocalMachineTemplate {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        template(cluster_of(change, key), index)
    }
}

fn template(cluster: Option<Key>, index: &Index) -> Wakes {
    let Some(cluster) = cluster else { return Wakes::new() };
    let mut wakes = vec![(Thing::WindlassCluster, cluster.clone())];
    wakes.extend(all(Thing::MachineDeployment, &index.machine_deployments, &cluster));
    wakes.extend(all(Thing::MachineSet, &index.machine_sets, &cluster));
    wakes.extend(all(Thing::ControlPlane, &index.control_planes, &cluster));
    wakes.extend(all(Thing::Machine, &index.machines, &cluster));
    wakes
}

impl Routed for LocalCluster {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes = vec![(Thing::LocalCluster, key.clone())];
        let Some(cluster) = cluster_of(change, key) else { return wakes };
        wakes.push((Thing::Cluster, cluster.clone()));
        wakes.push((Thing::WindlassCluster, cluster.clone()));
        if change.differs(|local| {
            (local.metadata.generation, local.status.as_ref().and_then(|status| status.network.clone()))
        }) {
            wakes.extend(all(Thing::LocalMachine, &index.local_machines, &cluster));
            wakes.extend(all(Thing::NodeConfig, &index.node_configs, &cluster));
            wakes.extend(all(Thing::ControlPlane, &index.control_planes, &cluster));
        }
        wakes
    }
}

impl Routed for LocalMachine {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes =
            vec![(Thing::LocalMachine, key.clone()), (Thing::Machine, key.clone()), (Thing::NodeConfig, key.clone())];
        let Some(cluster) = cluster_of(change, key) else { return wakes };
        let addresses =
            |machine: &Self| machine.status.as_ref().map(|status| status.addresses.clone()).unwrap_or_default();
        let is_control_plane = change.object().is_some_and(|machine| machine.spec.slot.is_some());
        if change.differs(addresses) {
            wakes.extend(if is_control_plane {
                all(Thing::NodeConfig, &index.node_configs, &cluster)
            } else {
                control_plane_configs(&cluster, index)
            });
        }
        if is_control_plane {
            wakes.extend(all(Thing::ControlPlane, &index.control_planes, &cluster));
            // Others may wait for this one before it is their turn.
            wakes.extend(control_plane_configs(&cluster, index));
        }
        if change.after.is_none() {
            wakes.extend(all(Thing::LocalCluster, &index.local_clusters, &cluster));
        }
        wakes
    }
}

impl Routed for PartialObjectMeta<Secret> {
    fn wakes(change: &Change<Self>, key: &Key, index: &Index) -> Wakes {
        let mut wakes = owners(change, key);
        wakes.push((Thing::LocalMachine, key.clone()));
        let Some(object) = change.object() else { return wakes };
        let Some(cluster) = cluster_name(&**object).map(|cluster| key.sibling(cluster)) else { return wakes };
        let is_config = label(&**object, names::GROUP).is_some();
        if !is_config {
            wakes.extend(all(Thing::ControlPlane, &index.control_planes, &cluster));
            wakes.extend(all(Thing::NodeConfig, &index.node_configs, &cluster));
        }
        wakes
    }
}
