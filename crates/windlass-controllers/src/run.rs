//! Runs every controller in one process.

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_providers::ports::Provider;

use crate::context::Context;
use crate::index::Index;
use crate::runtime::events::Events;
use crate::runtime::lease::{Candidate, LeaseOptions};
use crate::runtime::metrics::{self, Metrics};
use crate::runtime::workers::{Queues, Thing, run as work};
use crate::runtime::workload::Workloads;
use crate::runtime::writer::Writer;
use crate::runtime::{watches, workers};

/// How the controllers run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where `/metrics` and `/healthz` are served; nowhere when absent.
    pub metrics: Option<SocketAddr>,
    /// The lease that lets one process act at a time; none where there is only one.
    pub lease: Option<LeaseOptions>,
    /// Who speaks in events; the machine's name.
    pub instance: Option<String>,
}

/// Why the controllers ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The metrics address is taken or not to be had.
    #[error("serving metrics at {at}: {source}")]
    Metrics {
        /// Where.
        at: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Another process took the lease; this one must not act and begins anew.
    #[error("the lease was lost to another process")]
    LeaseLost,
}

/// Runs every controller until told to stop, or until the lease is lost. Runs under way are ended, the lease is given
/// back.
///
/// # Errors
/// When metrics cannot be served, or the lease was lost.
pub async fn run(
    client: Client,
    provider: Arc<dyn Provider>,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let metrics = Arc::new(Metrics::new());
    let mut served = serve_metrics(&metrics, options.metrics);
    let Some(lease) = options.lease.clone() else {
        metrics.leads(true);
        return tokio::select! {
            () = act(client, provider, &options, metrics, shutdown.clone()) => Ok(()),
            failed = failure(&mut served) => Err(failed),
        };
    };
    let mut candidate = Candidate::new(client.clone(), lease);
    let leads = tokio::select! {
        leads = candidate.lead(&shutdown) => leads,
        failed = failure(&mut served) => return Err(failed),
    };
    if !leads {
        return Ok(());
    }
    tracing::info!("this process leads");
    metrics.leads(true);
    let stop = shutdown.child_token();
    let acting = act(client, provider, &options, metrics.clone(), stop.clone());
    let lost = tokio::select! {
        () = async { tokio::join!(acting, async { candidate.hold(&stop).await; stop.cancel(); }); } => {
            !shutdown.is_cancelled()
        }
        failed = failure(&mut served) => return Err(failed),
    };
    metrics.leads(false);
    if lost {
        return Err(RunError::LeaseLost);
    }
    candidate.release().await;
    Ok(())
}

type Served = JoinSet<(SocketAddr, std::io::Result<()>)>;

fn serve_metrics(metrics: &Arc<Metrics>, at: Option<SocketAddr>) -> Served {
    let mut served = JoinSet::new();
    if let Some(at) = at {
        let metrics = metrics.clone();
        served.spawn(async move { (at, metrics::serve(metrics, at).await) });
    }
    served
}

/// Waits for the metrics server to fail; for ever where there is none.
async fn failure(served: &mut Served) -> RunError {
    loop {
        match served.join_next().await {
            Some(Ok((at, Err(source)))) => return RunError::Metrics { at, source },
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Watches, then works.
async fn act(
    client: Client,
    provider: Arc<dyn Provider>,
    options: &Options,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let index = Arc::new(Index::default());
    let queues = Arc::new(Queues::default());
    let context = Arc::new(Context {
        writer: Writer::new(client.clone(), index.clone(), queues.clone(), metrics.clone()),
        events: Events::new(client.clone(), options.instance.clone()),
        workloads: Workloads::default(),
        node_deletions: crate::machine::NodeDeletions::default(),
        authorities: crate::control_plane::AuthorityCache::default(),
        inventories: crate::local_cluster::InventoryWatches::default(),
        client,
        provider,
        index,
        queues,
        metrics,
    });
    let mut tasks = JoinSet::new();
    // Adopt before create: nothing is decided before everything was listed once.
    if !watches::start(&context, &mut tasks, &stop).await {
        return;
    }
    tracing::info!("every object was listed; the controllers work");
    controllers(&context, &stop).await;
    context.inventories.clear();
    context.workloads.clear();
    tasks.shutdown().await;
}

async fn controllers(context: &Arc<Context>, stop: &CancellationToken) {
    let mut running = JoinSet::new();
    macro_rules! start {
        ($($thing:ident => $reconcile:path),* $(,)?) => {
            $(running.spawn(work(Thing::$thing, context.clone(), stop.clone(), $reconcile));)*
        };
    }
    start!(
        WindlassCluster => crate::windlass_cluster::reconcile,
        Cluster => crate::cluster::reconcile,
        ControlPlane => crate::control_plane::reconcile,
        MachineDeployment => crate::machine_deployment::reconcile,
        MachineSet => crate::machine_set::reconcile,
        Machine => crate::machine::reconcile,
        MachineHealthCheck => crate::machine_health_check::reconcile,
        NodeConfig => crate::node_config::reconcile,
        LocalCluster => crate::local_cluster::reconcile,
        LocalMachine => crate::local_machine::reconcile,
    );
    debug_assert_eq!(running.len(), workers::Thing::ALL.len());
    while running.join_next().await.is_some() {}
}
