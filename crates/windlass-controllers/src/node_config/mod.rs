//! NodeConfigs: one sealed node config a machine, rendered as soon as addresses are known.
//!
//! Inputs: the complete spec, the cluster's machines and their addresses, the permit to form etcd, the authorities.
//! Outputs: the bootstrap Secret, with a new generation whenever the content is another. Nothing waits for "control
//! plane initialized": every machine's configuration is rendered at once.

mod decide;
mod inputs;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use windlass_spec::identity::Generation;
use windlass_spec::node_config::SealedNodeConfig;

use crate::api::names;
use crate::api::windlass::node_config::NodeConfigInitialization;
use crate::api::windlass::{NodeConfig, NodeConfigStatus};
use crate::conditions::{self, Judged, settle};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;
use decide::{Turn, turn};
use inputs::{Inputs, Wait};

pub(crate) use inputs::address;

const MANAGER: &str = "windlass-nodeconfig";

/// What the Secret holds, by its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    generation: Option<u64>,
    hash: Option<String>,
    spec_hash: Option<String>,
}

/// One run.
pub(crate) async fn reconcile(context: Arc<Context>, key: Key) -> Result<Next, ReconcileError> {
    let index = &context.index;
    let Some(config) = index.node_configs.get(&key) else { return Ok(Next::Await) };
    let cluster = key.sibling(objects::cluster_name(&*config).unwrap_or_default());
    if index.is_paused(&cluster) || objects::has_annotation(&*config, names::PAUSED) {
        return pause(&context, &config).await;
    }
    if objects::is_deleting(&*config) {
        return Ok(Next::Await);
    }
    let config = note_joined(&context, config, &key).await?;
    let held = held(&context, &key);
    let (ready, again) = match inputs::gather(&context, &config, &cluster).await? {
        Ok(inputs) => {
            let (judged, again) = advance(&context, &config, &cluster, &held, &inputs).await?;
            (judged, again.sooner(inputs.again))
        }
        Err(Wait { reason, message, again }) => {
            let judged = if held.hash.is_some() {
                // What was rendered stays good.
                Judged::yes(types::READY, Reason::Ready)
            } else {
                Judged::no(types::READY, reason, message)
            };
            (judged, again)
        }
    };
    say(&context, &config, ready).await?;
    Ok(again)
}

async fn pause(context: &Context, config: &NodeConfig) -> Result<Next, ReconcileError> {
    let before = config.status.clone().unwrap_or_default();
    let generation = objects::generation(config);
    let conditions = conditions::settle_paused(&before.conditions, generation, context.now());
    let status = NodeConfigStatus { conditions, observed_generation: generation, ..before };
    context.writer.apply_status(&context.index.node_configs, MANAGER, config, &status).await?;
    Ok(Next::Await)
}

/// Writes down that the Node was Ready once: from then on no token is kept for it, whatever becomes of the Node.
async fn note_joined(context: &Context, config: Arc<NodeConfig>, key: &Key) -> Result<Arc<NodeConfig>, ReconcileError> {
    let machine = context.index.machines.get(key);
    let healthy = machine.is_some_and(|machine| {
        machine.status.as_ref().is_some_and(|status| status.conditions.is_true(types::NODE_HEALTHY))
    });
    if !healthy || objects::has_annotation(&*config, names::JOINED) {
        return Ok(config);
    }
    context
        .writer
        .record(&context.index.node_configs, &config, &[(names::JOINED, &jiff::Timestamp::now().to_string())])
        .await
}

fn held(context: &Context, key: &Key) -> Held {
    let Some(secret) = context.index.secrets.get(key) else { return Held::default() };
    let text = |name| objects::annotation(&*secret, name).map(str::to_owned);
    Held {
        generation: text(names::CONFIG_GENERATION).and_then(|text| text.parse().ok()),
        hash: text(names::CONFIG_HASH),
        spec_hash: text(names::SPEC_HASH),
    }
}

async fn advance(
    context: &Context,
    config: &NodeConfig,
    cluster: &Key,
    held: &Held,
    inputs: &Inputs,
) -> Result<(Judged, Next), ReconcileError> {
    let others = decide::others(&context.index, cluster, config);
    let name = config.metadata.name.as_deref().unwrap_or_default();
    match turn(name, config.spec.slot.is_some(), held.spec_hash.as_deref(), &inputs.spec_hash, &others) {
        Turn::Now => {}
        Turn::Never => return Ok((Judged::yes(types::READY, Reason::Ready), Next::Await)),
        Turn::After(machine) => {
            let message = format!("a newer spec is laid on one control plane at a time; {machine} is not ready");
            return Ok((Judged::active(types::READY, Reason::WaitingForTurn, message), Next::Await));
        }
    }
    let rendered = match inputs.render(Generation(held.generation.unwrap_or(1))) {
        Ok(rendered) if Some(&rendered.hash) == held.hash.as_ref() => {
            return Ok((Judged::yes(types::READY, Reason::Ready), Next::Await));
        }
        Ok(first) if held.generation.is_none() => Ok(first),
        Ok(_) => inputs.render(Generation(held.generation.unwrap_or(0) + 1)),
        Err(error) => Err(error),
    };
    match rendered {
        Ok(sealed) => {
            write(context, config, cluster, &sealed, &inputs.spec_hash).await?;
            Ok((Judged::yes(types::READY, Reason::Ready), Next::Await))
        }
        Err(error) => {
            context.events.warn(config, Reason::RenderFailed, error.to_string());
            Ok((Judged::no(types::READY, Reason::RenderFailed, error.to_string()), Next::Await))
        }
    }
}

async fn write(
    context: &Context,
    config: &NodeConfig,
    cluster: &Key,
    sealed: &SealedNodeConfig,
    spec_hash: &str,
) -> Result<(), ReconcileError> {
    let name = config.metadata.name.clone().unwrap_or_default();
    let value = serde_json::to_vec(sealed)
        .map_err(|source| ReconcileError::Encode { what: format!("node config {name}"), source })?;
    let owners = vec![objects::owner(config, true)];
    let mut metadata = objects::meta(&cluster.namespace, &name, &cluster.name, owners);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(names::GROUP.to_owned(), config.spec.group.clone());
    let generation = sealed.config.generation;
    metadata.annotations = Some(BTreeMap::from([
        (names::CONFIG_GENERATION.to_owned(), generation.to_string()),
        (names::CONFIG_HASH.to_owned(), sealed.hash.clone()),
        (names::SPEC_HASH.to_owned(), spec_hash.to_owned()),
    ]));
    let secret = Secret {
        metadata,
        type_: Some(names::SECRET_TYPE.to_owned()),
        data: Some(BTreeMap::from([("value".to_owned(), ByteString(value))])),
        ..Secret::default()
    };
    context.writer.apply_secret(MANAGER, &secret).await?;
    context.events.say(config, Reason::Rendered, format!("node config of generation {generation}"));
    Ok(())
}

async fn say(context: &Context, config: &NodeConfig, ready: Judged) -> Result<(), ReconcileError> {
    let key = Key::of(config);
    let held = held(context, &key);
    let before = config.status.clone().unwrap_or_default();
    let generation = objects::generation(config);
    // A True summary is silent; what an old configuration waits for is told by the Machine's UpToDate.
    let ready = match ready.status {
        crate::api::condition::Truth::True => Judged { message: String::new(), ..ready },
        _ => ready,
    };
    let judged = [ready, Judged::deleting(None), Judged::paused(false)];
    let there = held.hash.is_some();
    let status = NodeConfigStatus {
        conditions: settle(&before.conditions, &judged, generation, context.now()),
        initialization: Some(NodeConfigInitialization { data_secret_created: Some(there) }),
        data_secret_name: there.then(|| key.name.clone()),
        config_generation: held.generation.and_then(|number| i64::try_from(number).ok()),
        config_hash: held.hash,
        observed_generation: generation,
    };
    context.writer.apply_status(&context.index.node_configs, MANAGER, config, &status).await
}
