//! The objects a complete spec is rendered into. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::json;
use windlass_spec::full::{FullCluster, WorkerGroup};
use windlass_spec::names::CONTROL_PLANE_GROUP;

use super::spec_hash;
use crate::api::cluster_api::cluster::{ClusterNetwork, NetworkRanges};
use crate::api::cluster_api::machine::{Bootstrap, MachineSpec};
use crate::api::cluster_api::machine_deployment::{
    MachineDeploymentSpec, RollingUpdate, Rollout, RolloutStrategy, RolloutType,
};
use crate::api::cluster_api::machine_health_check::{HealthChecks, MachineHealthCheckSpec, UnhealthyNodeCondition};
use crate::api::cluster_api::shared::{ContractReference, LabelSelector, MachineTemplate, TemplateMetadata};
use crate::api::cluster_api::{Cluster, ClusterSpec, MachineDeployment, MachineHealthCheck};
use crate::api::names;
use crate::api::windlass::control_plane::{ControlPlaneMachineSpec, ControlPlaneMachineTemplate};
use crate::api::windlass::local_cluster::LocalNetworkSpec;
use crate::api::windlass::{
    ControlPlane, ControlPlaneSpec, LocalCluster, LocalClusterSpec, LocalMachineTemplate, LocalMachineTemplateSpec,
    NodeConfigSpec, NodeConfigTemplate, NodeConfigTemplateSpec, WindlassCluster,
};
use crate::index::Key;
use crate::objects;

/// Seconds until a Node must be there.
const STARTUP: i32 = 600;
/// Seconds a Node may be not Ready.
const NOT_READY: i32 = 300;

/// What is rendered from.
pub(super) struct Basis<'a> {
    pub(super) key: &'a Key,
    pub(super) full: &'a FullCluster,
    pub(super) owner: &'a Cluster,
    pub(super) object: &'a WindlassCluster,
    /// As it is, for counts that are not ours to change.
    pub(super) control_plane: Option<Arc<ControlPlane>>,
    /// As they are.
    pub(super) deployments: Vec<Arc<MachineDeployment>>,
}

/// Everything below Cluster API's Cluster.
pub(super) struct Rendered {
    pub(super) local_cluster: LocalCluster,
    pub(super) local_machine_templates: Vec<LocalMachineTemplate>,
    pub(super) node_config_templates: Vec<NodeConfigTemplate>,
    pub(super) control_plane: ControlPlane,
    pub(super) deployments: Vec<MachineDeployment>,
    pub(super) health_checks: Vec<MachineHealthCheck>,
}

/// Cluster API's Cluster. Its endpoint is filled in from the infrastructure, its pause is others'.
pub(super) fn cluster(object: &WindlassCluster, key: &Key, full: &FullCluster) -> Cluster {
    let ranges =
        |ranges: &[ipnet::IpNet]| Some(NetworkRanges { cidr_blocks: ranges.iter().map(ToString::to_string).collect() });
    let network = ClusterNetwork {
        api_server_port: Some(i32::from(full.endpoint.port)),
        services: ranges(&full.network.services),
        pods: ranges(&full.network.pods),
        service_domain: Some(full.network.dns_domain.clone()),
    };
    let spec = ClusterSpec {
        cluster_network: Some(network),
        control_plane_ref: Some(ContractReference::windlass("ControlPlane", &key.name)),
        infrastructure_ref: Some(ContractReference::windlass("LocalCluster", &key.name)),
        ..ClusterSpec::default()
    };
    let mut cluster = Cluster::new(&key.name, spec);
    cluster.metadata = objects::meta(&key.namespace, &key.name, &key.name, Vec::new());
    let labels = cluster.metadata.labels.get_or_insert_default();
    labels.extend(object.metadata.labels.clone().unwrap_or_default());
    cluster
}

/// Renders the rest.
pub(super) fn render(basis: &Basis<'_>) -> Rendered {
    let groups = &basis.full.workers;
    let names = || std::iter::once(CONTROL_PLANE_GROUP).chain(groups.iter().map(|group| group.name.as_str()));
    let local_machine_templates = names().map(|group| local_machine_template(basis, group)).collect();
    Rendered {
        local_cluster: local_cluster(basis),
        local_machine_templates,
        node_config_templates: groups.iter().map(|group| node_config_template(basis, &group.name)).collect(),
        control_plane: control_plane(basis),
        deployments: groups.iter().map(|group| deployment(basis, group)).collect(),
        health_checks: names().map(|group| health_check(basis, group)).collect(),
    }
}

fn owners(basis: &Basis<'_>) -> Vec<OwnerReference> {
    vec![objects::owner(basis.owner, false)]
}

fn meta(basis: &Basis<'_>, name: &str) -> kube::core::ObjectMeta {
    objects::meta(&basis.key.namespace, name, &basis.key.name, owners(basis))
}

fn group_name(basis: &Basis<'_>, group: &str) -> String {
    windlass_spec::names::machine_deployment(&basis.key.name, group)
}

fn version(basis: &Basis<'_>) -> String {
    format!("v{}", basis.full.release.kubernetes)
}

fn local_cluster(basis: &Basis<'_>) -> LocalCluster {
    let full = basis.full;
    let avoid = full.network.pods.iter().chain(&full.network.services);
    let spec = LocalClusterSpec {
        control_plane_endpoint: None,
        network: LocalNetworkSpec {
            zone: windlass_spec::names::zone(&basis.key.name),
            endpoint_port: i32::from(full.endpoint.port),
            endpoint_names: vec![full.endpoint.name.clone(), full.endpoint.internal_name.clone()],
            avoid: avoid.map(ToString::to_string).collect(),
        },
        failure_domains: full.control_plane.failure_domains.clone(),
    };
    let mut local = LocalCluster::new(&basis.key.name, spec);
    local.metadata = meta(basis, &basis.key.name);
    // The identity stands here too, so that what is at the provider can be taken away without our own Cluster.
    let identity = [names::CLUSTER_ID, names::OWNER, names::EPOCH]
        .into_iter()
        .filter_map(|name| objects::annotation(basis.object, name).map(|value| (name.to_owned(), value.to_owned())));
    local.metadata.annotations = Some(identity.collect());
    local
}

fn local_machine_template(basis: &Basis<'_>, group: &str) -> LocalMachineTemplate {
    let name = group_name(basis, group);
    let mut template = LocalMachineTemplate::new(&name, LocalMachineTemplateSpec::default());
    template.metadata = meta(basis, &name);
    template
}

fn node_config_spec(basis: &Basis<'_>, group: &str) -> NodeConfigSpec {
    NodeConfigSpec {
        group: group.to_owned(),
        slot: None,
        spec_hash: Some(spec_hash(basis.full, group)),
        join_nonce: None,
    }
}

fn node_config_template(basis: &Basis<'_>, group: &str) -> NodeConfigTemplate {
    let name = group_name(basis, group);
    let mut spec = NodeConfigTemplateSpec::default();
    spec.template.spec = node_config_spec(basis, group);
    let mut template = NodeConfigTemplate::new(&name, spec);
    template.metadata = meta(basis, &name);
    template
}

fn control_plane(basis: &Basis<'_>) -> ControlPlane {
    let asked = i32::try_from(basis.full.control_plane.slots.len()).unwrap_or(1);
    let there = basis.control_plane.as_ref();
    let live = there.map(|plane| (plane.spec.replicas, objects::annotation(&**plane, names::COUNT)));
    // A place is never taken away here: its member would go with it.
    let replicas = kept_count(asked, live).max(live.map_or(0, |(replicas, _)| replicas));
    let spec = ControlPlaneSpec {
        replicas,
        version: version(basis),
        machine_template: ControlPlaneMachineTemplate {
            metadata: None,
            spec: ControlPlaneMachineSpec {
                infrastructure_ref: ContractReference::windlass(
                    "LocalMachineTemplate",
                    group_name(basis, CONTROL_PLANE_GROUP),
                ),
                deletion: None,
                readiness_gates: Vec::new(),
                taints: Vec::new(),
            },
        },
        node_config: node_config_spec(basis, CONTROL_PLANE_GROUP),
        rollout: None,
    };
    let mut plane = ControlPlane::new(&basis.key.name, spec);
    plane.metadata = meta(basis, &basis.key.name);
    plane.metadata.annotations = Some([(names::COUNT.to_owned(), asked.to_string())].into());
    plane
}

/// The count to write: the spec's when it changed since it was last applied, else what somebody made of it since.
fn kept_count(asked: i32, live: Option<(i32, Option<&str>)>) -> i32 {
    match live {
        Some((replicas, Some(last))) if last.parse() == Ok(asked) => replicas,
        _ => asked,
    }
}

fn deployment(basis: &Basis<'_>, group: &WorkerGroup) -> MachineDeployment {
    let name = group_name(basis, &group.name);
    let cluster = basis.key.name.clone();
    let labels = BTreeMap::from([
        (names::CLUSTER_NAME.to_owned(), cluster.clone()),
        (names::DEPLOYMENT_NAME.to_owned(), name.clone()),
    ]);
    let asked = i32::try_from(group.count).unwrap_or(i32::MAX);
    let there = basis.deployments.iter().find(|deployment| deployment.name_any() == name);
    let live = there.map(|there| (there.spec.replicas.unwrap_or(1), objects::annotation(&**there, names::COUNT)));
    let mut template_labels = labels.clone();
    template_labels.insert(names::GROUP.to_owned(), group.name.clone());
    let spec = MachineDeploymentSpec {
        cluster_name: cluster.clone(),
        replicas: Some(kept_count(asked, live)),
        selector: LabelSelector { match_labels: labels, match_expressions: Vec::new() },
        template: MachineTemplate {
            metadata: Some(TemplateMetadata { labels: template_labels, annotations: BTreeMap::new() }),
            spec: MachineSpec {
                cluster_name: cluster,
                bootstrap: Bootstrap {
                    config_ref: Some(ContractReference::windlass("NodeConfigTemplate", &name)),
                    data_secret_name: None,
                },
                infrastructure_ref: ContractReference::windlass("LocalMachineTemplate", &name),
                version: Some(format!("v{}", group.version.trim_start_matches('v'))),
                provider_id: None,
                failure_domain: None,
                min_ready_seconds: None,
                readiness_gates: Vec::new(),
                deletion: None,
                taints: Vec::new(),
            },
        },
        rollout: Some(Rollout {
            after: None,
            strategy: Some(RolloutStrategy {
                type_: RolloutType::RollingUpdate,
                rolling_update: Some(RollingUpdate {
                    max_unavailable: Some(json!(group.max_unavailable)),
                    max_surge: Some(json!(group.max_surge)),
                }),
            }),
        }),
        machine_naming: None,
        remediation: None,
        deletion: None,
        paused: None,
    };
    let mut deployment = MachineDeployment::new(&name, spec);
    deployment.metadata = meta(basis, &name);
    // Made with somebody's `kubectl scale` in mind: refused if it changed since it was read.
    deployment.metadata.resource_version = there.and_then(|there| there.metadata.resource_version.clone());
    deployment.metadata.annotations = Some([(names::COUNT.to_owned(), asked.to_string())].into());
    deployment.metadata.labels.get_or_insert_default().insert(names::GROUP.to_owned(), group.name.clone());
    deployment
}

fn health_check(basis: &Basis<'_>, group: &str) -> MachineHealthCheck {
    let name = group_name(basis, group);
    let cluster = basis.key.name.clone();
    let chosen = if group == CONTROL_PLANE_GROUP {
        (names::CONTROL_PLANE.to_owned(), String::new())
    } else {
        (names::DEPLOYMENT_NAME.to_owned(), name.clone())
    };
    let not_ready = |status: &str| UnhealthyNodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        timeout_seconds: NOT_READY,
    };
    let spec = MachineHealthCheckSpec {
        cluster_name: cluster.clone(),
        selector: LabelSelector {
            match_labels: [(names::CLUSTER_NAME.to_owned(), cluster), chosen].into(),
            match_expressions: Vec::new(),
        },
        checks: Some(HealthChecks {
            node_startup_timeout_seconds: Some(STARTUP),
            unhealthy_node_conditions: vec![not_ready("Unknown"), not_ready("False")],
            unhealthy_machine_conditions: Vec::new(),
        }),
        remediation: None,
    };
    let mut check = MachineHealthCheck::new(&name, spec);
    check.metadata = meta(basis, &name);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_written_only_when_ours_changes() {
        assert_eq!(kept_count(2, None), 2);
        assert_eq!(kept_count(2, Some((5, Some("2")))), 5, "kubectl scale holds");
        assert_eq!(kept_count(3, Some((5, Some("2")))), 3, "a new count in the spec counts");
        assert_eq!(kept_count(2, Some((1, None))), 2, "one that was not ours becomes ours");
    }
}
