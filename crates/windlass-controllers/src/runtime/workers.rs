//! Runs reconcilers: a queue a controller, several keys at once, one run a key at a time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;

/// The things that are controlled, each by a controller of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Thing {
    WindlassCluster,
    Cluster,
    ControlPlane,
    MachineDeployment,
    MachineSet,
    Machine,
    MachineHealthCheck,
    NodeConfig,
    LocalCluster,
    LocalMachine,
}

impl Thing {
    pub(crate) const ALL: [Self; 10] = [
        Self::WindlassCluster,
        Self::Cluster,
        Self::ControlPlane,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::Machine,
        Self::MachineHealthCheck,
        Self::NodeConfig,
        Self::LocalCluster,
        Self::LocalMachine,
    ];

    /// The controller's name; also its field manager.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WindlassCluster => "windlass-windlasscluster",
            Self::Cluster => "windlass-cluster",
            Self::ControlPlane => "windlass-controlplane",
            Self::MachineDeployment => "windlass-machinedeployment",
            Self::MachineSet => "windlass-machineset",
            Self::Machine => "windlass-machine",
            Self::MachineHealthCheck => "windlass-machinehealthcheck",
            Self::NodeConfig => "windlass-nodeconfig",
            Self::LocalCluster => "windlass-localcluster",
            Self::LocalMachine => "windlass-localmachine",
        }
    }

    /// Keys worked on at once. Machines wait for their provider, so many of them.
    fn concurrency(self) -> usize {
        match self {
            Self::LocalMachine => 32,
            Self::Machine | Self::NodeConfig => 16,
            _ => 8,
        }
    }
}

/// A queue a thing.
#[derive(Default)]
pub(crate) struct Queues([Queue<Key>; 10]);

impl Queues {
    pub(crate) fn of(&self, thing: Thing) -> &Queue<Key> {
        &self.0[thing as usize]
    }

    pub(crate) fn wake(&self, thing: Thing, key: Key) {
        self.of(thing).wake(key);
    }

    pub(crate) fn wake_all(&self, wakes: impl IntoIterator<Item = (Thing, Key)>) {
        for (thing, key) in wakes {
            self.wake(thing, key);
        }
    }
}

/// What a run leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until something changes.
    Await,
    /// Another run after this time, whatever changes.
    After(Duration),
}

impl Next {
    /// The earlier of two.
    pub(crate) fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Await, other) => other,
            (this, Self::Await) => this,
            (Self::After(one), Self::After(two)) => Self::After(one.min(two)),
        }
    }
}

/// Runs one controller until told to stop; runs under way are ended first.
pub(crate) async fn run<F, R>(thing: Thing, context: Arc<Context>, stop: CancellationToken, reconcile: F)
where
    F: Fn(Arc<Context>, Key) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Next, ReconcileError>> + Send,
{
    let mut workers = JoinSet::new();
    for _ in 0..thing.concurrency() {
        let (context, stop, reconcile) = (context.clone(), stop.clone(), reconcile.clone());
        workers.spawn(async move {
            loop {
                let key = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    key = context.queues.of(thing).next() => key,
                };
                once(thing, &context, key, &reconcile).await;
            }
        });
    }
    while workers.join_next().await.is_some() {}
}

async fn once<F, R>(thing: Thing, context: &Arc<Context>, key: Key, reconcile: &F)
where
    F: Fn(Arc<Context>, Key) -> R,
    R: Future<Output = Result<Next, ReconcileError>>,
{
    let queue = context.queues.of(thing);
    let begun = Instant::now();
    let outcome = reconcile(context.clone(), key.clone()).await;
    context.metrics.reconciled(thing, outcome.is_ok(), begun.elapsed(), queue.depth());
    match outcome {
        Ok(next) => {
            queue.done(&key);
            if let Next::After(delay) = next {
                queue.wake_after(key, delay);
            }
        }
        Err(error) => {
            let failures = queue.failed(&key);
            if matches!(error, ReconcileError::Conflict { .. }) {
                tracing::debug!(controller = thing.name(), %key, %error, "tried again");
            } else {
                tracing::warn!(controller = thing.name(), %key, %error, failures, "reconcile failed");
            }
        }
    }
}
