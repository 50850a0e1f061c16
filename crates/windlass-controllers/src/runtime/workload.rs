//! Connections to workload clusters: one client a cluster, its Nodes watched, and whether it answers.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use tokio_util::sync::CancellationToken;

use super::workers::Thing;
use crate::api::names;
use crate::context::Context;
use crate::index::{Connection, Key};

/// How often a connection that should be up is proven.
const PROBE: Duration = Duration::from_secs(10);
/// How long a probe may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// First and longest wait before a broken connection is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Connections by cluster.
#[derive(Default)]
pub(crate) struct Workloads {
    tasks: Mutex<HashMap<Key, Task>>,
}

struct Task {
    /// Version of the kubeconfig Secret it was made from.
    version: Option<String>,
    stop: CancellationToken,
    client: Arc<Mutex<Option<Client>>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Workloads {
    /// Keeps a connection with the kubeconfig in its Secret; made anew when that changes.
    pub(crate) fn ensure(&self, context: &Arc<Context>, cluster: &Key) {
        let secret = cluster.sibling(&names::kubeconfig_secret(&cluster.name));
        let Some(secret) = context.index.secrets.get(&secret) else { return };
        let version = secret.metadata.resource_version.clone();
        let mut tasks = self.lock();
        if tasks.get(cluster).is_some_and(|task| task.version == version) {
            return;
        }
        let task = Task { version, stop: CancellationToken::new(), client: Arc::default() };
        let (stop, client) = (task.stop.clone(), task.client.clone());
        tasks.insert(cluster.clone(), task);
        drop(tasks);
        let (context, cluster) = (context.clone(), cluster.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = keep(&context, &cluster, &client) => {}
            }
        });
    }

    /// A client of the cluster, once it answered.
    pub(crate) fn client(&self, cluster: &Key) -> Option<Client> {
        let client = self.lock().get(cluster)?.client.clone();
        let client = client.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone()
    }

    /// Ends the connection of a cluster that is gone.
    pub(crate) fn forget(&self, cluster: &Key) {
        self.lock().remove(cluster);
    }

    /// Ends every connection.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep(context: &Arc<Context>, cluster: &Key, shared: &Mutex<Option<Client>>) {
    let mut wait = RETRY.0;
    loop {
        let cause = match connect(context, cluster).await {
            Ok(client) => {
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
                tokio::select! {
                    cause = follow(context, cluster, client.clone(), &mut wait) => cause,
                    cause = probe(&client) => cause,
                }
            }
            Err(cause) => cause,
        };
        tracing::debug!(%cluster, cause, "the workload cluster does not answer");
        let down = Connection::Down { since: jiff::Timestamp::now(), cause };
        if context.index.nodes.set_connection(cluster, down) {
            wake(context, cluster, true);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
    }
}

/// A client from the kubeconfig Secret. No proxy of this process's surroundings is used for a cluster's own API.
async fn connect(context: &Context, cluster: &Key) -> Result<Client, String> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), &cluster.namespace);
    let secret = secrets.get(&names::kubeconfig_secret(&cluster.name)).await.map_err(|error| error.to_string())?;
    let value = secret.data.as_ref().and_then(|data| data.get("value")).ok_or("the kubeconfig Secret has no value")?;
    let text = std::str::from_utf8(&value.0).map_err(|error| error.to_string())?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| error.to_string())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| error.to_string())?;
    config.connect_timeout = Some(PATIENCE);
    config.proxy_url = None;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// Watches Nodes until the watch breaks; returns why.
async fn follow(context: &Arc<Context>, cluster: &Key, client: Client, wait: &mut Duration) -> String {
    let nodes = &context.index.nodes;
    let mut stream = pin!(watcher(Api::<Node>::all(client), watcher::Config::default()));
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => seen.clear(),
            Ok(Event::InitApply(node)) => {
                seen.push(node.metadata.name.clone().unwrap_or_default());
                observe(context, cluster, node);
            }
            Ok(Event::InitDone) => {
                *wait = RETRY.0;
                for gone in nodes.names(cluster).into_iter().filter(|name| !seen.contains(name)) {
                    nodes.remove(cluster, &gone);
                    context.queues.wake(Thing::Machine, cluster.sibling(&gone));
                }
                if nodes.set_connection(cluster, Connection::Up) {
                    wake(context, cluster, true);
                }
            }
            Ok(Event::Apply(node)) => observe(context, cluster, node),
            Ok(Event::Delete(node)) => {
                let name = node.metadata.name.unwrap_or_default();
                nodes.remove(cluster, &name);
                context.queues.wake(Thing::Machine, cluster.sibling(&name));
                wake(context, cluster, false);
            }
            Err(error) => return error.to_string(),
        }
    }
    "the watch of Nodes ended".to_owned()
}

/// Proves that the API answers; a watch over a dead connection would notice only after minutes.
async fn probe(client: &Client) -> String {
    loop {
        tokio::time::sleep(PROBE).await;
        match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "no answer to a probe".to_owned(),
        }
    }
}

fn observe(context: &Context, cluster: &Key, node: Node) {
    let name = node.metadata.name.clone().unwrap_or_default();
    if context.index.nodes.observe(cluster, node) {
        context.queues.wake(Thing::Machine, cluster.sibling(&name));
        wake(context, cluster, false);
    }
}

fn wake(context: &Context, cluster: &Key, machines: bool) {
    if machines {
        context.queues.wake(Thing::Cluster, cluster.clone());
        for machine in context.index.machines.of_cluster(cluster) {
            context.queues.wake(Thing::Machine, Key::of(&*machine));
        }
    }
    for check in context.index.health_checks.of_cluster(cluster) {
        context.queues.wake(Thing::MachineHealthCheck, Key::of(&*check));
    }
}
