//! LocalMachines: systemd machines on this computer.
//!
//! Inputs: the LocalMachine, the provider's inventory, the bootstrap Secret. Outputs: address kept, volumes and machine
//! made at once (nothing waits for the configuration), the configuration laid when it is there; what the agent reports
//! as conditions; on deletion the machine taken away, its volumes kept.

mod decide;
mod report;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use windlass_providers::ports::{MachineState, MachineWanted, ProviderError, Reservation, Scope, VolumeWanted};
use windlass_spec::identity::Role;
use windlass_spec::node_config::SealedNodeConfig;

use crate::api::cluster_api::shared::{AddressType, MachineAddress};
use crate::api::names;
use crate::api::windlass::local_cluster::LocalInitialization;
use crate::api::windlass::{LocalMachine, LocalMachineStatus};
use crate::conditions::{self, Judged, settle};
use crate::context::Context;
use crate::error::{ReconcileError, is_not_found};
use crate::index::Key;
use crate::local_cluster::reason_of;
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;
use decide::{Observed, Step, decide};

const MANAGER: &str = "windlass-localmachine";
const RETRY: Duration = Duration::from_secs(2);

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(local) = index.local_machines.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(objects::cluster_name(&*local).unwrap_or_default());
    if index.is_paused(&cluster) || objects::has_annotation(&*local, names::PAUSED) {
        return pause(&context, &local).await;
    }
    let Some(scope) = context.scope(&cluster) else { return without_scope(&context, &local).await };
    if objects::is_deleting(&*local) {
        return delete(&context, &local, &scope).await;
    }
    let mut local = local;
    if !objects::has_finalizer(&*local, names::LOCAL_MACHINE_FINALIZER) {
        let table = &index.local_machines;
        local = context.writer.add_finalizer(table, &local, names::LOCAL_MACHINE_FINALIZER).await?;
    }
    advance(&context, local, &cluster, &scope).await
}

async fn pause(context: &Context, local: &LocalMachine) -> Result<Next, ReconcileError> {
    let before = local.status.clone().unwrap_or_default();
    let generation = objects::generation(local);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = LocalMachineStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.local_machines, MANAGER, local, &status).await?;
    Ok(Next::Await)
}

/// Nobody knows the cluster at any provider: what is being deleted may go.
async fn without_scope(context: &Context, local: &LocalMachine) -> Result<Next, ReconcileError> {
    if objects::is_deleting(local) {
        let table = &context.index.local_machines;
        context.writer.remove_finalizer(table, local, names::LOCAL_MACHINE_FINALIZER).await?;
    }
    Ok(Next::Await)
}

async fn delete(context: &Context, local: &LocalMachine, scope: &Scope) -> Result<Next, ReconcileError> {
    let name = local.metadata.name.clone().unwrap_or_default();
    if objects::has_finalizer(local, names::LOCAL_MACHINE_FINALIZER) {
        context.metrics.called_provider("delete_machine");
        match context.provider.delete_machine(scope, &name).await {
            Ok(()) | Err(ProviderError::NotFound { .. }) => {}
            Err(error) => {
                context.events.warn(local, reason_of(&error), error.to_string());
                return Err(error.into());
            }
        }
        let table = &context.index.local_machines;
        context.writer.remove_finalizer(table, local, names::LOCAL_MACHINE_FINALIZER).await?;
    }
    Ok(Next::Await)
}

/// Takes every step that can be taken now, then says how things are.
async fn advance(
    context: &Context,
    local: Arc<LocalMachine>,
    cluster: &Key,
    scope: &Scope,
) -> Result<Next, ReconcileError> {
    let key = Key::of(&*local);
    let mut local = local;
    let mut delivered = local.status.as_ref().and_then(|status| status.delivered_config_hash.clone());
    let mut kept: Option<Reservation> = None;
    let mut volumes_made = false;
    let mut machine_made = false;
    let trouble = loop {
        let secret = context.index.secrets.get(&key);
        let inventory = context.index.inventories.get(cluster);
        let step = decide(&Observed {
            local: &local,
            network_ready: network_ready(context, cluster),
            reserved: kept.is_some(),
            volumes_made,
            machine_made,
            inventory: inventory.as_deref(),
            wanted_config: secret.as_ref().and_then(|secret| objects::annotation(&**secret, names::CONFIG_HASH)),
            delivered: delivered.as_deref(),
        });
        let done = match step {
            Step::Nothing => break None,
            Step::WaitForNetwork => {
                break Some((Reason::WaitingForNetwork, "the cluster's network is not there".into()));
            }
            Step::Reserve => reserve(context, scope, &mut local, &mut kept).await,
            Step::MakeVolumes => make_volumes(context, scope, &local).await.map(|()| volumes_made = true),
            Step::MakeMachine => make_machine(context, scope, &local).await.map(|()| machine_made = true),
            Step::Deliver => deliver(context, scope, &key).await.map(|hash| delivered = hash),
        };
        if let Err(error) = done {
            let ReconcileError::Provider(error) = error else { return Err(error) };
            context.events.warn(&*local, reason_of(&error), error.to_string());
            break Some((reason_of(&error), error.to_string()));
        }
    };
    let failed = trouble.as_ref().is_some_and(|(reason, _)| *reason != Reason::WaitingForNetwork);
    say(context, &local, cluster, kept.as_ref(), delivered, trouble).await?;
    Ok(if failed { Next::After(RETRY) } else { Next::Await })
}

fn network_ready(context: &Context, cluster: &Key) -> bool {
    let locals = context.index.local_clusters.of_cluster(cluster);
    locals.iter().any(|local| local.status.as_ref().is_some_and(|status| status.network.is_some()))
}

/// Keeps name and address, and writes both down where others wait for them.
async fn reserve(
    context: &Context,
    scope: &Scope,
    local: &mut Arc<LocalMachine>,
    kept: &mut Option<Reservation>,
) -> Result<(), ReconcileError> {
    let name = local.metadata.name.clone().unwrap_or_default();
    context.metrics.called_provider("reserve");
    let reservation = context.provider.reserve(scope, &name, local.spec.slot).await?;
    let table = &context.index.local_machines;
    if local.spec.provider_id.as_deref() != Some(&reservation.provider_id) {
        let spec = json!({"providerID": reservation.provider_id});
        *local = context.writer.merge_spec(table, &**local, spec).await?;
    }
    let before = local.status.clone().unwrap_or_default();
    let status = LocalMachineStatus {
        addresses: addresses(&name, Some(&reservation), &before),
        failure_domain: reservation.failure_domain.clone().or(before.failure_domain.clone()),
        ..before
    };
    context.writer.apply_status(table, MANAGER, &**local, &status).await?;
    *kept = Some(reservation);
    if let Some(newer) = table.get(&Key::of(&**local)) {
        *local = newer;
    }
    Ok(())
}

async fn make_volumes(context: &Context, scope: &Scope, local: &LocalMachine) -> Result<(), ReconcileError> {
    for volume in &local.spec.volumes {
        let bytes = u64::try_from(volume.bytes).unwrap_or_default();
        let wanted = VolumeWanted { name: volume.name.clone(), bytes, slot: local.spec.slot };
        context.metrics.called_provider("ensure_volume");
        context.provider.ensure_volume(scope, &wanted).await?;
    }
    Ok(())
}

async fn make_machine(context: &Context, scope: &Scope, local: &LocalMachine) -> Result<(), ReconcileError> {
    let name = local.metadata.name.clone().unwrap_or_default();
    let wanted = MachineWanted {
        name: name.clone(),
        role: if local.spec.slot.is_some() { Role::ControlPlane } else { Role::Worker },
        slot: local.spec.slot,
        image: local.spec.image.clone().unwrap_or_default(),
        volumes: local.spec.volumes.iter().map(|volume| volume.name.clone()).collect(),
        dns_names: local.spec.dns_names.clone(),
    };
    context.metrics.called_provider("ensure_machine");
    context.provider.ensure_machine(scope, &wanted).await?;
    context.events.say(local, Reason::Created, format!("machine {name} was made and starts"));
    Ok(())
}

/// Lays the configuration in the Secret; returns its hash.
async fn deliver(context: &Context, scope: &Scope, key: &Key) -> Result<Option<String>, ReconcileError> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &key.namespace);
    let what = || format!("Secret {key}");
    let secret = match secrets.get(&key.name).await {
        Ok(secret) => secret,
        Err(error) if is_not_found(&error) => return Ok(None),
        Err(error) => {
            return Err(ReconcileError::Api { operation: "get", what: what(), source: Box::new(error) });
        }
    };
    let value = secret.data.as_ref().and_then(|data| data.get("value"));
    let Some(value) = value else { return Ok(None) };
    let config: SealedNodeConfig =
        serde_json::from_slice(&value.0).map_err(|source| ReconcileError::Encode { what: what(), source })?;
    context.metrics.called_provider("put_config");
    context.provider.put_config(scope, &key.name, &config).await?;
    // The hash on the Secret is the one that was read, even if the index is older.
    Ok(Some(config.hash))
}

fn addresses(name: &str, kept: Option<&Reservation>, before: &LocalMachineStatus) -> Vec<MachineAddress> {
    match kept {
        None => before.addresses.clone(),
        Some(reservation) => vec![
            MachineAddress { type_: AddressType::InternalIP, address: reservation.address.to_string() },
            MachineAddress { type_: AddressType::Hostname, address: name.to_owned() },
        ],
    }
}

async fn say(
    context: &Context,
    local: &LocalMachine,
    cluster: &Key,
    kept: Option<&Reservation>,
    delivered: Option<String>,
    trouble: Option<(Reason, String)>,
) -> Result<(), ReconcileError> {
    let name = local.metadata.name.clone().unwrap_or_default();
    let machine = context.index.inventories.machine(cluster, &name);
    let before = local.status.clone().unwrap_or_default();
    let secret = context.index.secrets.get(&Key::of(local));
    let wanted = secret.as_ref().and_then(|secret| objects::annotation(&**secret, names::CONFIG_HASH));
    let generation = objects::generation(local);
    let running = report::running(machine.as_ref(), trouble.as_ref());
    let config = report::delivered(wanted, delivered.as_deref());
    let converged = report::converged(machine.as_ref(), wanted);
    let ready = Judged { type_: types::READY, ..running.clone() };
    let judged = [ready, running, config, converged, Judged::deleting(None), Judged::paused(false)];
    let made = machine.as_ref().is_some_and(|machine| machine.state != MachineState::Reserved);
    let provisioned = made || before.initialization.as_ref().is_some_and(|reached| reached.provisioned == Some(true));
    let status = LocalMachineStatus {
        conditions: settle(&before.conditions, &judged, generation, context.now()),
        initialization: Some(LocalInitialization { provisioned: Some(provisioned) }),
        addresses: addresses(&name, kept, &before),
        failure_domain: kept.and_then(|kept| kept.failure_domain.clone()).or(before.failure_domain),
        state: machine.as_ref().map(|machine| report::state(&machine.state).to_owned()).or(before.state),
        starts: machine.as_ref().map(|machine| i64::from(machine.starts)).or(before.starts),
        delivered_config_hash: delivered,
        agent: machine.as_ref().and_then(|machine| machine.report.as_ref()).map(report::agent).or(before.agent),
        observed_generation: generation,
    };
    context.writer.apply_status(&context.index.local_machines, MANAGER, local, &status).await
}
