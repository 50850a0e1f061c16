//! One long poll a cluster: what the provider holds goes into the index, and whom a change concerns is woken.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_providers::ports::{Inventory, ProviderError, Scope};

use crate::context::Context;
use crate::index::Key;
use crate::runtime::workers::Thing;

/// First and longest wait after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Watches by cluster.
#[derive(Default)]
pub(crate) struct InventoryWatches {
    tasks: Mutex<HashMap<Key, (Scope, CancellationToken)>>,
}

impl InventoryWatches {
    /// Keeps a watch by this right; begun anew when the right changes.
    pub(crate) fn ensure(&self, context: &Arc<Context>, cluster: &Key, scope: &Scope) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.get(cluster).is_some_and(|(known, _)| known == scope) {
            return;
        }
        let stop = CancellationToken::new();
        if let Some((_, old)) = tasks.insert(cluster.clone(), (scope.clone(), stop.clone())) {
            old.cancel();
        }
        let (context, cluster, scope) = (context.clone(), cluster.clone(), scope.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = follow(&context, &cluster, &scope) => {}
            }
        });
    }

    /// Ends a cluster's watch.
    pub(crate) fn forget(&self, cluster: &Key) {
        let task = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
        if let Some((_, stop)) = task {
            stop.cancel();
        }
    }

    /// Ends every watch.
    pub(crate) fn clear(&self) {
        for (_, (_, stop)) in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            stop.cancel();
        }
    }
}

async fn follow(context: &Arc<Context>, cluster: &Key, scope: &Scope) {
    let mut seen = 0;
    let mut wait = RETRY.0;
    loop {
        match context.provider.watch(scope, seen).await {
            Ok(inventory) => {
                seen = inventory.revision;
                wait = RETRY.0;
                observe(context, cluster, inventory);
            }
            Err(error) => {
                if !matches!(error, ProviderError::NotFound { .. }) {
                    tracing::debug!(%cluster, %error, "the machine provider does not answer");
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    }
}

/// Takes an inventory up and wakes whom it concerns.
fn observe(context: &Context, cluster: &Key, inventory: Inventory) {
    for machine in context.index.inventories.observe(cluster, inventory) {
        context.queues.wake(Thing::LocalMachine, cluster.sibling(&machine));
    }
}
