//! Every CustomResourceDefinition of a management cluster, with the labels clusterctl and references read and the
//! printer columns people know; and Windlass's entries in clusterctl's inventory.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt;
use kube::core::ObjectMeta;

use super::cluster_api::{
    Cluster, Machine, MachineDeployment, MachineHealthCheck, MachinePool, MachineSet, Provider, ProviderSpec,
};
use super::windlass::{
    ControlPlane, LocalCluster, LocalMachine, LocalMachineTemplate, NodeConfig, NodeConfigTemplate, WindlassCluster,
};
use super::{names, schemas};

const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
const CLUSTERCTL_CORE: &str = "clusterctl.cluster.x-k8s.io/core";
const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
const PROVIDER: &str = "cluster.x-k8s.io/provider";

/// A printer column: heading, type, JSON path; wide columns are shown by `-o wide`.
#[derive(Clone, Copy)]
struct Column(&'static str, &'static str, &'static str, Shown);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always,
    Wide,
}
use Shown::{Always, Wide};

const AGE: Column = Column("Age", "date", ".metadata.creationTimestamp", Always);
const PAUSED: Column = Column("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status", Wide);
const READY: Column = Column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", Always);
const REASON: Column = Column("Reason", "string", ".status.conditions[?(@.type==\"Ready\")].reason", Always);
const AVAILABLE: Column = Column("Available", "string", ".status.conditions[?(@.type==\"Available\")].status", Always);
const CLUSTER: Column = Column("Cluster", "string", ".spec.clusterName", Always);
const CLUSTER_LABEL: Column =
    Column("Cluster", "string", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", Always);
const PHASE: Column = Column("Phase", "string", ".status.phase", Always);

/// Counts of machines, as every kind that keeps a number of them shows them.
const COUNTS: [Column; 5] = [
    Column("Desired", "integer", ".spec.replicas", Always),
    Column("Current", "integer", ".status.replicas", Always),
    Column("Ready", "integer", ".status.readyReplicas", Always),
    Column("Available", "integer", ".status.availableReplicas", Always),
    Column("Up-to-date", "integer", ".status.upToDateReplicas", Always),
];

fn around_counts(before: &[Column], after: &[Column]) -> Vec<Column> {
    [before, &COUNTS, after].concat()
}

/// Every definition, in an order in which they can be installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all = cluster_api_kinds();
    all.extend(windlass_kinds());
    all.push(inventory_kind());
    all
}

/// Windlass's entries in clusterctl's inventory. With a core provider there, the real `clusterctl init` and `upgrade`
/// find nothing of their own to install.
pub fn providers(version: &str) -> Vec<Provider> {
    let entry = |(name, type_): (&str, &str)| Provider {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(names::SYSTEM_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([
                (CLUSTERCTL.to_owned(), String::new()),
                (CLUSTERCTL_CORE.to_owned(), "inventory".to_owned()),
                (PROVIDER.to_owned(), name.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        spec: ProviderSpec {
            provider_name: Some("windlass".to_owned()),
            type_: Some(type_.to_owned()),
            version: Some(format!("v{version}")),
            watched_namespace: None,
        },
    };
    [
        ("windlass", "CoreProvider"),
        ("bootstrap-windlass", "BootstrapProvider"),
        ("control-plane-windlass", "ControlPlaneProvider"),
        ("infrastructure-windlass", "InfrastructureProvider"),
    ]
    .map(entry)
    .into()
}

fn cluster_api_kinds() -> Vec<CustomResourceDefinition> {
    let kinds = [
        (Cluster::crd(), cluster_columns()),
        (Machine::crd(), machine_columns()),
        (MachineSet::crd(), around_counts(&[CLUSTER], &[PAUSED, AGE, TEMPLATE_VERSION])),
        (MachineDeployment::crd(), around_counts(&[CLUSTER, AVAILABLE], &[PAUSED, PHASE, AGE, TEMPLATE_VERSION])),
        (
            MachineHealthCheck::crd(),
            vec![
                CLUSTER,
                Column("Replicas", "integer", ".status.expectedMachines", Always),
                Column("Healthy", "integer", ".status.currentHealthy", Always),
                PAUSED,
                AGE,
            ],
        ),
        (MachinePool::crd(), around_counts(&[CLUSTER], &[PAUSED, PHASE, AGE, TEMPLATE_VERSION])),
    ];
    kinds.into_iter().map(|(crd, columns)| finish(crd, &columns, "cluster-api", Some("v1beta2"))).collect()
}

const TEMPLATE_VERSION: Column = Column("Version", "string", ".spec.template.spec.version", Always);

fn windlass_kinds() -> Vec<CustomResourceDefinition> {
    let provider_id = Column("Provider ID", "string", ".spec.providerID", Wide);
    let kinds = [
        (WindlassCluster::crd(), windlass_cluster_columns(), "windlass"),
        (ControlPlane::crd(), control_plane_columns(), "control-plane-windlass"),
        (
            NodeConfig::crd(),
            vec![
                CLUSTER_LABEL,
                Column("Group", "string", ".spec.group", Always),
                Column("Generation", "integer", ".status.configGeneration", Always),
                READY,
                REASON,
                PAUSED,
                AGE,
            ],
            "bootstrap-windlass",
        ),
        (NodeConfigTemplate::crd(), vec![CLUSTER_LABEL, AGE], "bootstrap-windlass"),
        (
            LocalCluster::crd(),
            vec![
                CLUSTER_LABEL,
                Column("Endpoint", "string", ".spec.controlPlaneEndpoint.host", Always),
                Column("Subnet", "string", ".status.network.subnet", Always),
                READY,
                REASON,
                PAUSED,
                AGE,
            ],
            "infrastructure-windlass",
        ),
        (
            LocalMachine::crd(),
            vec![
                CLUSTER_LABEL,
                Column("State", "string", ".status.state", Always),
                Column("Address", "string", ".status.addresses[?(@.type==\"InternalIP\")].address", Always),
                Column("Part", "string", ".status.agent.part", Always),
                Column("Waits for", "string", ".status.agent.message", Always),
                READY,
                provider_id,
                PAUSED,
                AGE,
            ],
            "infrastructure-windlass",
        ),
        (LocalMachineTemplate::crd(), vec![CLUSTER_LABEL, AGE], "infrastructure-windlass"),
    ];
    kinds.into_iter().map(|(crd, columns, provider)| finish(crd, &columns, provider, Some("v1alpha1"))).collect()
}

fn inventory_kind() -> CustomResourceDefinition {
    let columns = vec![
        AGE,
        Column("Type", "string", ".type", Always),
        Column("Provider", "string", ".providerName", Always),
        Column("Version", "string", ".version", Always),
    ];
    let mut crd = finish(Provider::crd(), &columns, "cluster-api", None);
    crd.metadata.labels.get_or_insert_default().insert(CLUSTERCTL_CORE.to_owned(), "inventory".to_owned());
    crd
}

fn cluster_columns() -> Vec<Column> {
    vec![
        Column("ClusterClass", "string", ".spec.topology.classRef.name", Always),
        AVAILABLE,
        Column("CP Desired", "integer", ".status.controlPlane.desiredReplicas", Always),
        Column("CP Current", "integer", ".status.controlPlane.replicas", Wide),
        Column("CP Ready", "integer", ".status.controlPlane.readyReplicas", Wide),
        Column("CP Available", "integer", ".status.controlPlane.availableReplicas", Always),
        Column("CP Up-to-date", "integer", ".status.controlPlane.upToDateReplicas", Always),
        Column("W Desired", "integer", ".status.workers.desiredReplicas", Always),
        Column("W Current", "integer", ".status.workers.replicas", Wide),
        Column("W Ready", "integer", ".status.workers.readyReplicas", Wide),
        Column("W Available", "integer", ".status.workers.availableReplicas", Always),
        Column("W Up-to-date", "integer", ".status.workers.upToDateReplicas", Always),
        PAUSED,
        PHASE,
        AGE,
        Column("Version", "string", ".status.controlPlane.versions[0].version", Always),
    ]
}

fn machine_columns() -> Vec<Column> {
    vec![
        CLUSTER,
        Column("Node Name", "string", ".status.nodeRef.name", Always),
        Column("Provider ID", "string", ".spec.providerID", Wide),
        Column("Failure domain", "string", ".status.failureDomain", Always),
        READY,
        AVAILABLE,
        Column("Up-to-date", "string", ".status.conditions[?(@.type==\"UpToDate\")].status", Always),
        Column("Internal-IP", "string", ".status.addresses[?(@.type==\"InternalIP\")].address", Wide),
        Column("External-IP", "string", ".status.addresses[?(@.type==\"ExternalIP\")].address", Wide),
        Column("OS-Image", "string", ".status.nodeInfo.osImage", Wide),
        PAUSED,
        PHASE,
        AGE,
        Column("Version", "string", ".spec.version", Always),
    ]
}

fn windlass_cluster_columns() -> Vec<Column> {
    vec![
        AVAILABLE,
        Column("Control planes", "string", ".status.controlPlanes", Always),
        Column("Workers", "string", ".status.workers", Always),
        Column("Endpoint", "string", ".status.endpoint", Always),
        Column("Self-managed", "string", ".metadata.annotations['windlass\\.dev/self-managed']", Wide),
        PAUSED,
        PHASE,
        AGE,
        Column("Version", "string", ".status.kubernetesVersion", Always),
    ]
}

fn control_plane_columns() -> Vec<Column> {
    let initialized = ".status.initialization.controlPlaneInitialized";
    around_counts(
        &[CLUSTER_LABEL, AVAILABLE],
        &[
            Column("Initialized", "boolean", initialized, Always),
            PAUSED,
            AGE,
            Column("Version", "string", ".spec.version", Always),
        ],
    )
}

/// Adds labels and columns and tidies the schema.
fn finish(
    mut crd: CustomResourceDefinition,
    columns: &[Column],
    provider: &str,
    contract: Option<&str>,
) -> CustomResourceDefinition {
    let labels = crd.metadata.labels.get_or_insert_default();
    labels.insert(CLUSTERCTL.to_owned(), String::new());
    labels.insert(PROVIDER.to_owned(), provider.to_owned());
    if let Some(version) = contract {
        labels.insert(CONTRACT.to_owned(), version.to_owned());
    }
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.iter().map(column).collect());
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            schemas::tidy(schema);
        }
    }
    crd
}

fn column(Column(name, type_, path, shown): &Column) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: (*name).to_owned(),
        type_: (*type_).to_owned(),
        json_path: (*path).to_owned(),
        priority: (*shown == Wide).then_some(10),
        ..CustomResourceColumnDefinition::default()
    }
}
