//! `windlass controller`: the controllers of a management cluster, run by the image Windlass makes of itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Subcommand;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use windlass_controllers::api::names::SYSTEM_NAMESPACE;
use windlass_controllers::{LeaseOptions, Options};
use windlass_providers::local;
use windlass_providers::ports::{OwnerCredential, Provider};

use crate::exit::{Code, Outcome};

/// The Secret with this cluster's credential at its machine provider.
const CREDENTIAL: &str = "provider-local";
/// The lease by which one of several processes acts.
const LEASE: &str = "windlass-controller";
/// How often a credential that is not there yet is looked for.
const RETRY: Duration = Duration::from_secs(2);

/// Arguments of `windlass controller`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass controller run\n  windlass controller run --kubeconfig lab/lab.kubeconfig --metrics 127.0.0.1:7441"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every controller until stopped; one process of several acts at a time.
    Run(RunArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The management cluster; in a pod, its service account's when absent.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where Prometheus metrics and `/healthz` are served.
    #[arg(long, default_value = "0.0.0.0:7441", value_name = "ADDRESS:PORT")]
    metrics: SocketAddr,
}

impl Default for RunArgs {
    fn default() -> Self {
        Self { kubeconfig: None, metrics: SocketAddr::from(([0, 0, 0, 0], 7441)) }
    }
}

/// Runs the controllers.
pub(crate) fn run(args: Args) -> Outcome {
    let arguments = match args.command {
        Some(Command::Run(arguments)) => arguments,
        None => RunArgs::default(),
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: RunArgs) -> Outcome {
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let client = client(arguments.kubeconfig).await?;
    let provider = tokio::select! {
        () = shutdown.cancelled() => return Ok(Code::Ok),
        provider = provider(&client) => provider?,
    };
    let identity = identity();
    let options = Options {
        metrics: Some(arguments.metrics),
        lease: Some(LeaseOptions {
            namespace: SYSTEM_NAMESPACE.to_owned(),
            name: LEASE.to_owned(),
            identity: identity.clone(),
        }),
        instance: Some(identity),
    };
    windlass_controllers::run(client, provider, options, shutdown).await?;
    Ok(Code::Ok)
}

fn stop_on_signal(shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    });
    Ok(())
}

/// A client of the management cluster. Proxies of the surroundings are for others: this is the cluster's own API.
async fn client(kubeconfig: Option<PathBuf>) -> anyhow::Result<Client> {
    let mut config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(&path).with_context(|| path.display().to_string())?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None => Config::incluster_env().context("not in a pod; name a --kubeconfig")?,
    };
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

/// The machine provider, by the credential that was laid for this cluster. It is waited for: the controllers may run
/// before the cluster is handed to them.
async fn provider(client: &Client) -> anyhow::Result<Arc<dyn Provider>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    loop {
        match secrets.get_opt(CREDENTIAL).await {
            Ok(Some(secret)) => {
                let credential = credential(&secret)?;
                return Ok(Arc::new(local::Client::with_credential(&credential)?));
            }
            Ok(None) => tracing::info!("Secret {SYSTEM_NAMESPACE}/{CREDENTIAL} is not there yet"),
            Err(error) => tracing::warn!(%error, "Secret {SYSTEM_NAMESPACE}/{CREDENTIAL} cannot be read"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn credential(secret: &Secret) -> anyhow::Result<OwnerCredential> {
    let entry = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key));
        let value = value.ok_or_else(|| anyhow!("Secret {SYSTEM_NAMESPACE}/{CREDENTIAL} has no {key}"))?;
        String::from_utf8(value.0.clone()).with_context(|| format!("{key} of Secret {CREDENTIAL} is no text"))
    };
    Ok(OwnerCredential { url: entry("url")?, ca: entry("ca")?, certificate: entry("certificate")?, key: entry("key")? })
}

/// Who this process is, among those that want the lease.
fn identity() -> String {
    let named = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("windlass-{}", std::process::id()))
}
