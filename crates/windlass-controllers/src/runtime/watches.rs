//! Keeps the index by watches, one a kind, and wakes whom a change concerns.

use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::routes::Routed;
use crate::api::names;
use crate::context::Context;
use crate::index::{Index, Key, Table};

/// Starts a watch a kind, and waits until each has listed once. False when told to stop before.
pub(crate) async fn start(context: &Arc<Context>, tasks: &mut JoinSet<()>, stop: &CancellationToken) -> bool {
    let mut all = Vec::new();
    macro_rules! follow {
        ($($table:ident),*) => {
            $(all.push(follow(context, tasks, kind(&context.client), |index| &index.$table));)*
        };
    }
    follow!(
        windlass_clusters,
        clusters,
        machines,
        machine_sets,
        machine_deployments,
        health_checks,
        control_planes,
        node_configs,
        node_config_templates,
        local_clusters,
        local_machines,
        local_machine_templates
    );
    let secrets: Api<PartialObjectMeta<Secret>> = Api::all(context.client.clone());
    let config = watcher::Config::default().labels(names::CLUSTER_NAME);
    all.push(follow(context, tasks, watcher(secrets, config), |index| &index.secrets));
    for mut listed in all {
        tokio::select! {
            () = stop.cancelled() => return false,
            _ = listed.wait_for(|listed| *listed) => {}
        }
    }
    true
}

fn kind<K>(client: &Client) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watcher(Api::<K>::all(client.clone()), watcher::Config::default())
}

/// Follows one stream into one table; the receiver turns true when all objects were listed.
fn follow<K, S>(
    context: &Arc<Context>,
    tasks: &mut JoinSet<()>,
    stream: S,
    table: fn(&Index) -> &Table<K>,
) -> watch::Receiver<bool>
where
    K: Routed,
    S: Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
{
    let (listed, receiver) = watch::channel(false);
    let context = context.clone();
    tasks.spawn(async move {
        let mut stream = pin!(stream.default_backoff());
        let mut seen = HashSet::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(object)) => {
                    seen.insert(Key::of(&object));
                    apply(&context, table, object);
                }
                Ok(Event::InitDone) => {
                    for key in table(&context.index).keys().into_iter().filter(|key| !seen.contains(key)) {
                        forget(&context, table, &key, None);
                    }
                    listed.send_replace(true);
                }
                Ok(Event::Apply(object)) => apply(&context, table, object),
                Ok(Event::Delete(object)) => {
                    forget(&context, table, &Key::of(&object), object.meta().resource_version.as_deref());
                }
                Err(error) => {
                    context.metrics.watch_broke();
                    tracing::debug!(kind = %K::kind(&()), %error, "a watch begins anew");
                }
            }
        }
    });
    receiver
}

fn apply<K: Routed>(context: &Context, table: fn(&Index) -> &Table<K>, object: K) {
    let key = Key::of(&object);
    if let Some(change) = table(&context.index).observe(object) {
        wake(context, &change, &key);
    }
}

fn forget<K: Routed>(context: &Context, table: fn(&Index) -> &Table<K>, key: &Key, version: Option<&str>) {
    context.writer.forget(&K::kind(&()), key);
    if let Some(change) = table(&context.index).forget(key, version) {
        wake(context, &change, key);
    }
}

fn wake<K: Routed>(context: &Context, change: &crate::index::Change<K>, key: &Key) {
    context.queues.wake_all(K::wakes(change, key, &context.index));
}
