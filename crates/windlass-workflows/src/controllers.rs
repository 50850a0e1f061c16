//! Windlass's controllers run inside this process while a bootstrap plane holds a cluster's management.
//!
//! Inputs: a client of the plane, a provider. Output: a running set of controllers that can be stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_controllers::Options;
use windlass_providers::ports::Provider;

/// How long controllers may take to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// Running controllers. Dropped, they are stopped.
#[derive(Debug)]
pub struct Controllers {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Controllers {
    /// Starts them.
    pub fn start(client: kube::Client, provider: Arc<dyn Provider>) -> Self {
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        // One process on a plane of its own: no lease, no metrics port.
        let options = Options { metrics: None, lease: None, ..Options::default() };
        let task = tokio::spawn(async move {
            if let Err(error) = windlass_controllers::run(client, provider, options, stop).await {
                tracing::error!(%error, "controllers ended");
            }
        });
        Self { shutdown, task }
    }

    /// Did they end by themselves?
    pub fn ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Stops them and waits for their end.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        if tokio::time::timeout(PATIENCE, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
