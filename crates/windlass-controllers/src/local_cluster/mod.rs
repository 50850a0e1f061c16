//! LocalClusters: network, zone and endpoint of a cluster on this computer.
//!
//! Inputs: the LocalCluster, what its cluster's machines still hold. Outputs: the network at the provider, the endpoint
//! in the spec; on deletion volumes (if asked for) and network taken away.

mod decide;
mod inventory;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::json;
use windlass_providers::ports::{Network, NetworkWanted, ProviderError, Scope};

use crate::api::cluster_api::shared::{ApiEndpoint, FailureDomain};
use crate::api::names;
use crate::api::windlass::local_cluster::{LocalInitialization, LocalNetworkStatus};
use crate::api::windlass::{LocalCluster, LocalClusterStatus};
use crate::conditions::{self, Judged, settle};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;
use decide::{Observed, Step, decide};

pub(crate) use inventory::InventoryWatches;

const MANAGER: &str = "windlass-localcluster";
const RETRY: Duration = Duration::from_secs(2);

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(local) = index.local_clusters.get(&key) else {
        context.inventories.forget(&key);
        return Ok(Next::Await);
    };
    let cluster = key.sibling(objects::cluster_name(&*local).unwrap_or(&key.name));
    if index.is_paused(&cluster) || objects::has_annotation(&*local, names::PAUSED) {
        context.inventories.forget(&cluster);
        return pause(&context, &local).await;
    }
    let Some(scope) = context.scope(&cluster) else {
        let why = Judged::no(types::READY, Reason::Waiting, "the cluster's identity is not known yet");
        return say(&context, &local, None, why, None).await;
    };
    let mut local = local;
    if !objects::is_deleting(&*local) && !objects::has_finalizer(&*local, names::LOCAL_CLUSTER_FINALIZER) {
        let table = &index.local_clusters;
        local = context.writer.add_finalizer(table, &local, names::LOCAL_CLUSTER_FINALIZER).await?;
    }
    let step = decide(&Observed {
        local: &local,
        machines_left: index.local_machines.of_cluster(&cluster).len(),
        volumes: volumes(&context, &cluster, &scope, &local).await?,
        delete_volumes: wants_volumes_deleted(&context, &cluster, &local),
    });
    act(&context, &local, &cluster, &scope, step).await
}

async fn pause(context: &Context, local: &LocalCluster) -> Result<Next, ReconcileError> {
    let before = local.status.clone().unwrap_or_default();
    let generation = objects::generation(local);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = LocalClusterStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.local_clusters, MANAGER, local, &status).await?;
    Ok(Next::Await)
}

fn wants_volumes_deleted(context: &Context, cluster: &Key, local: &LocalCluster) -> bool {
    let said = |value: Option<&str>| value.is_some_and(|value| value != "false");
    let by_cluster = context.index.windlass_clusters.get(cluster);
    said(objects::annotation(local, names::DELETE_VOLUMES))
        || by_cluster.is_some_and(|object| said(objects::annotation(&*object, names::DELETE_VOLUMES)))
}

/// The volumes that are left; only asked for when the cluster goes.
async fn volumes(
    context: &Context,
    cluster: &Key,
    scope: &Scope,
    local: &LocalCluster,
) -> Result<Vec<String>, ReconcileError> {
    if !objects::is_deleting(local) || !wants_volumes_deleted(context, cluster, local) {
        return Ok(Vec::new());
    }
    match context.provider.inventory(scope).await {
        Ok(inventory) => Ok(inventory.volumes.into_iter().map(|volume| volume.name).collect()),
        Err(ProviderError::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

async fn act(
    context: &Arc<Context>,
    local: &LocalCluster,
    cluster: &Key,
    scope: &Scope,
    step: Step,
) -> Result<Next, ReconcileError> {
    match step {
        Step::External => {
            let why = Judged::yes(types::READY, Reason::ManagedExternally);
            say(context, local, None, why, None).await
        }
        Step::EnsureNetwork => ensure_network(context, local, cluster, scope).await,
        Step::WaitForMachines { left } => {
            let message = format!("{left} machines left");
            let why = Judged::no(types::READY, Reason::WaitingForMachinesDeletion, &message);
            say(context, local, None, why, Some((Reason::WaitingForMachinesDeletion, message))).await
        }
        Step::DeleteVolumes(volumes) => {
            for volume in volumes {
                context.metrics.called_provider("delete_volume");
                ignore_missing(context.provider.delete_volume(scope, &volume).await)?;
                context.events.say(local, Reason::Deleted, format!("deleted volume {volume} with its content"));
            }
            Ok(Next::After(Duration::ZERO))
        }
        Step::DeleteNetwork => {
            context.inventories.forget(cluster);
            context.metrics.called_provider("delete_network");
            ignore_missing(context.provider.delete_network(scope).await)?;
            context.index.inventories.forget(cluster);
            let table = &context.index.local_clusters;
            context.writer.remove_finalizer(table, local, names::LOCAL_CLUSTER_FINALIZER).await?;
            Ok(Next::Await)
        }
    }
}

fn ignore_missing<T>(answer: Result<T, ProviderError>) -> Result<(), ProviderError> {
    match answer {
        Ok(_) | Err(ProviderError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn ensure_network(
    context: &Arc<Context>,
    local: &LocalCluster,
    cluster: &Key,
    scope: &Scope,
) -> Result<Next, ReconcileError> {
    let wanted = network_wanted(local);
    context.metrics.called_provider("ensure_network");
    match context.provider.ensure_network(scope, &wanted).await {
        Ok(network) => {
            context.inventories.ensure(context, cluster, scope);
            let fields = json!({"spec": {"controlPlaneEndpoint": ApiEndpoint {
                host: network.endpoint.to_string(),
                port: Some(i32::from(wanted.endpoint_port)),
            }}});
            let table = &context.index.local_clusters;
            let fields_manager = "windlass-localcluster-endpoint";
            let local = context.writer.apply_fields(table, fields_manager, local, fields).await?;
            say(context, &local, Some(&network), Judged::yes(types::READY, Reason::Provisioned), None).await
        }
        Err(error) => {
            let reason = reason_of(&error);
            context.events.warn(local, reason, error.to_string());
            let why = Judged::no(types::READY, reason, error.to_string());
            say(context, local, None, why, None).await?;
            Ok(Next::After(RETRY))
        }
    }
}

/// The reason that stands for a provider's failure.
pub(crate) fn reason_of(error: &ProviderError) -> Reason {
    if matches!(error, ProviderError::Fenced { .. }) { Reason::Fenced } else { Reason::ProviderFailed }
}

fn network_wanted(local: &LocalCluster) -> NetworkWanted {
    let network = &local.spec.network;
    NetworkWanted {
        endpoint_port: u16::try_from(network.endpoint_port).unwrap_or(6443),
        endpoint_names: network.endpoint_names.clone(),
        zone: network.zone.clone(),
        avoid: network.avoid.iter().filter_map(|range| range.parse::<IpNet>().ok()).collect(),
    }
}

async fn say(
    context: &Context,
    local: &LocalCluster,
    network: Option<&Network>,
    ready: Judged,
    deleting: Option<(Reason, String)>,
) -> Result<Next, ReconcileError> {
    let before = local.status.clone().unwrap_or_default();
    let generation = objects::generation(local);
    let judged = [ready, Judged::deleting(deleting), Judged::paused(false)];
    let provisioned =
        network.is_some() || before.initialization.as_ref().is_some_and(|reached| reached.provisioned == Some(true));
    let domains = local.spec.failure_domains.iter().map(|name| FailureDomain {
        name: name.clone(),
        control_plane: Some(true),
        attributes: std::collections::BTreeMap::default(),
    });
    let status = LocalClusterStatus {
        conditions: settle(&before.conditions, &judged, generation, context.now()),
        initialization: Some(LocalInitialization { provisioned: Some(provisioned) }),
        network: network.map(network_status).or(before.network),
        failure_domains: domains.collect(),
        observed_generation: generation,
    };
    context.writer.apply_status(&context.index.local_clusters, MANAGER, local, &status).await?;
    Ok(Next::Await)
}

fn network_status(network: &Network) -> LocalNetworkStatus {
    LocalNetworkStatus {
        subnet: network.subnet.to_string(),
        gateway: network.gateway.to_string(),
        endpoint: network.endpoint.to_string(),
        bridge: network.bridge.clone(),
        zone: network.zone.clone(),
        api_url: network.api_url.clone(),
    }
}
