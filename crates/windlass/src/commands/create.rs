//! `windlass create`: a cluster from a file.

use std::sync::Arc;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use clap::{Subcommand, ValueEnum};
use windlass_spec::v1alpha1::Cluster;
use windlass_workflows::create::{self, Create, Found, Request};
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};
use windlass_workflows::status;

use crate::document;
use crate::exit::{Code, Failure, Outcome};
use crate::local::block_on;
use crate::operation::{self, Record};
use crate::progress::Show;
use crate::recover;

/// Arguments of `windlass create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  windlass create cluster -f lab.yaml")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Create a cluster that manages itself.
    #[command(
        after_help = "Files go into a folder named after the cluster, in the working directory: NAME-cluster.yaml, NAME-cluster.full.yaml, NAME.kubeconfig, journal/.\n\nCreating a cluster that exists: the same spec is verified and there is nothing to do; another spec is refused. A create that did not end is not taken up again: delete the cluster, then create it.\n\nExit codes: 0 created (or there already), 1 failed, 2 bad spec, 4 locked, 5 exists and differs, is unfinished or a newer Windlass's, 6 this computer lacks something, 130 interrupted.\n\nExamples:\n  windlass create cluster -f lab.yaml\n  windlass create cluster -f lab.yaml -o json | jq .event.type\n  windlass generate cluster lab | windlass create cluster -f -"
    )]
    Cluster(ClusterArgs),
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// The cluster's document; `-` reads standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: String,
    /// What the bootstrap plane is made of.
    #[arg(long, value_enum, default_value_t)]
    bootstrap: Bootstrap,
    /// Folder in which the cluster's own folder is made; the working directory unless set.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<Utf8PathBuf>,
    /// How progress is shown.
    #[arg(short, long, value_enum, default_value_t)]
    output: Show,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Bootstrap {
    /// etcd, kube-apiserver and a garbage collector as child processes on loopback.
    #[default]
    Processes,
}

/// Runs the family.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Cluster(args) => match args.bootstrap {
            Bootstrap::Processes => block_on(cluster(args)),
        },
    }
}

async fn cluster(args: &ClusterArgs) -> Outcome {
    let (text, cluster) = document::read(&args.file)?;
    let name = cluster.metadata.name.clone();
    let spec_hash = create::spec_hash(&cluster).map_err(|broken| operation::explain(&broken))?;
    let registry = operation::registry()?;
    if let Some(code) = existing(registry.find(&name)?.as_ref(), &cluster, &spec_hash, &args.file).await? {
        return Ok(code);
    }
    let _lock = operation::lock(&registry.lock(&name), &format!("create cluster {name}"))?;
    let pointer = registry.find(&name)?;
    // Someone may have been faster.
    if let Some(code) = existing(pointer.as_ref(), &cluster, &spec_hash, &args.file).await? {
        return Ok(code);
    }
    let Found::Nothing { kept } = create::judge(pointer.as_ref(), &spec_hash) else { return Ok(Code::Failed) };
    let kubernetes = document::kubernetes_version(&cluster)?;
    let request = Request { text, cluster, kubernetes, spec_hash, folder: folder(args, &name)?, kept };
    let result = raise(request, args.output).await;
    if result.is_err() && registry.find(&name)?.is_none() {
        // Refused before anything was made: not even the lock's folder is left.
        registry.forget(&name)?;
    }
    result
}

async fn raise(request: Request, show: Show) -> Outcome {
    let site = operation::site().await?;
    let create = Arc::new(Create::new(site, request));
    let folder = create.folder().clone();
    let name = create.name().to_owned();
    let (journal, logs) = (folder.journal(), folder.logs());
    let record = Record { journal: &journal, logs: &logs, subject: &name, facts: create.facts() };
    match operation::run(&create::workflow(), Arc::clone(&create), record, show).await {
        Ok(()) => {
            welcome(&folder, &name);
            Ok(Code::Ok)
        }
        Err(broken) => Err(operation::explain(&create::epilogue(&create, broken).await)),
    }
}

fn welcome(folder: &ClusterFolder, name: &str) {
    eprintln!("\nThe cluster {name} is ready and manages itself. Try:");
    eprintln!("  kubectl --kubeconfig {} get nodes,clusters,machines -A", shorten(&folder.kubeconfig()));
    eprintln!("  windlass status {name}");
    eprintln!("  windlass delete cluster {name}");
}

/// Relative to the working directory where that is shorter.
fn shorten(path: &camino::Utf8Path) -> String {
    let here = std::env::current_dir().ok().and_then(|here| Utf8PathBuf::from_path_buf(here).ok());
    here.and_then(|here| path.strip_prefix(here).ok().map(ToString::to_string)).unwrap_or_else(|| path.to_string())
}

fn folder(args: &ClusterArgs, name: &str) -> Result<Utf8PathBuf, Failure> {
    let base = match &args.dir {
        Some(dir) => dir.clone(),
        None => operation::utf8(&std::env::current_dir().context("there is no working directory")?)?,
    };
    operation::utf8(&std::path::absolute(base.join(name))?)
}

/// What to do about a cluster of that name that is there: nothing, refuse, or (none) go on.
async fn existing(
    pointer: Option<&Pointer>,
    cluster: &Cluster,
    spec_hash: &str,
    file: &str,
) -> Result<Option<Code>, Failure> {
    let name = &cluster.metadata.name;
    let refused = |text: String| Failure::new(Code::Refused, anyhow::anyhow!(text));
    if let Some(pointer) = pointer.filter(|pointer| pointer.life != Life::Kept) {
        operation::check_version(pointer)?;
    }
    match (create::judge(pointer, spec_hash), pointer) {
        (Found::Nothing { .. }, _) | (_, None) => Ok(None),
        (Found::Same, Some(pointer)) => verify(pointer, name).await.map(Some),
        (Found::Other, Some(_)) => Err(refused(format!("cluster `{name}` exists and its spec differs"))
            .hint(format!("windlass plan -f {file}"))
            .hint(format!("windlass apply -f {file}"))),
        (Found::Unfinished(life), Some(_)) => {
            let what = if life == Life::Creating { "create" } else { "delete" };
            Err(refused(format!("an earlier {what} of cluster `{name}` did not end"))
                .hint(format!("windlass delete cluster {name} --delete-volumes --yes")))
        }
    }
}

/// The same spec: verified against the living cluster.
async fn verify(pointer: &Pointer, name: &str) -> Outcome {
    recover::kubeconfig(pointer).await;
    let status = status::of_api(pointer).await;
    match status.and_then(|status| if status.ready { Ok(()) } else { Err(status.reason) }) {
        Ok(()) => {
            eprintln!("cluster `{name}` exists with this spec and is ready: nothing to do");
            Ok(Code::Ok)
        }
        Err(why) => {
            Err(Failure::new(Code::Failed, anyhow::anyhow!("cluster `{name}` exists with this spec, but {why}"))
                .hint(format!("windlass status {name}")))
        }
    }
}
