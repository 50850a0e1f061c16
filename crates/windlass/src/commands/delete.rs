//! `windlass delete`: a cluster and all that was made for it.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use clap::Subcommand;
use windlass_workflows::delete::{self, Belongings, Delete, Refusal, Way};
use windlass_workflows::folder::Life;

use crate::exit::{Code, Failure, Outcome};
use crate::local::{block_on, failure};
use crate::operation::{self, Record};
use crate::progress::Show;
use crate::recover;

/// Arguments of `windlass delete`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass delete cluster lab\n  windlass delete cluster lab --delete-volumes --yes"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Delete a cluster; its volumes are kept unless asked for.
    #[command(
        after_help = "Works from any directory, also when the cluster's API is gone for good or its creation did not end. Kept volumes are listed and removed by the same command with --delete-volumes.\n\nExit codes: 0 deleted (or nothing left to do), 1 failed, 3 no such cluster, 4 locked, 5 not confirmed, manages other clusters or is a newer Windlass's, 130 interrupted.\n\nExamples:\n  windlass delete cluster lab\n  windlass delete cluster lab --delete-volumes --yes"
    )]
    Cluster(ClusterArgs),
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// The cluster's name.
    name: String,
    /// Delete its volumes too: etcd's data is gone for good.
    #[arg(long)]
    delete_volumes: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// How progress is shown.
    #[arg(short, long, value_enum, default_value_t)]
    output: Show,
}

/// Runs the family.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Cluster(args) => block_on(cluster(args)),
    }
}

async fn cluster(args: &ClusterArgs) -> Outcome {
    let name = &args.name;
    let registry = operation::registry()?;
    let Some(pointer) = registry.find(name)? else { return gone(name) };
    operation::check_version(&pointer)?;
    if pointer.life != Life::Kept {
        must_be_confirmable(args)?;
    }
    let site = operation::site().await?;
    let there = Delete::belongings(&site, &pointer).await.map_err(failure)?;
    if pointer.life == Life::Kept && !args.delete_volumes && !there.volumes.is_empty() {
        eprintln!("cluster `{name}` is gone; kept volumes: {}", there.volumes.join(", "));
        eprintln!("hint: windlass delete cluster {name} --delete-volumes --yes");
        return Ok(Code::Ok);
    }
    let volumes = confirm(args, &there)?;
    let _lock = operation::lock(&registry.lock(name), &format!("delete cluster {name}"))?;
    // As it is now that nobody else changes it.
    let Some(pointer) = registry.find(name)? else { return gone(name) };
    recover::kubeconfig(&pointer).await;
    let delete = Delete::prepare(site, pointer, volumes).await.map_err(refused)?;
    lower(Arc::new(delete), name, args.output).await
}

async fn lower(delete: Arc<Delete>, name: &str, show: Show) -> Outcome {
    if let Way::Inventory { reason } = delete.way() {
        eprintln!("{name} is deleted from the provider's inventory: {reason}");
    }
    let folder = delete.folder().clone();
    // Not in the cluster's folder, which may be lost and must not be made anew for this.
    let journal = delete.journal_folder();
    let logs = if folder.root().is_dir() { folder.logs() } else { journal.join("logs") };
    let record = Record { journal: &journal, logs: &logs, subject: name, facts: delete.facts() };
    match operation::run(&delete::workflow(), Arc::clone(&delete), record, show).await {
        Ok(()) => Ok(Code::Ok),
        Err(broken) => Err(operation::explain(&delete::epilogue(&delete, broken).await)),
    }
}

/// Nothing is known of it: an error, unless a journal tells that it was deleted.
fn gone(name: &str) -> Outcome {
    if delete::was_deleted(&operation::state()?, name) {
        eprintln!("cluster `{name}` was deleted before: nothing to do");
        return Ok(Code::Ok);
    }
    Err(operation::unknown(name))
}

fn refused(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Newer(newer) => operation::keeps_off(newer),
        other => Failure::new(Code::Refused, other),
    }
}

/// Where nobody can be asked, the confirmation must be in the command.
fn must_be_confirmable(args: &ClusterArgs) -> Result<(), Failure> {
    if args.yes || std::io::stdin().is_terminal() {
        return Ok(());
    }
    let error = anyhow::anyhow!("deleting cluster `{}` needs a confirmation", args.name);
    Err(Failure::new(Code::Refused, error).hint("add --yes"))
}

/// Asks what must be asked; returns whether volumes go too.
fn confirm(args: &ClusterArgs, there: &Belongings) -> Result<bool, Failure> {
    if args.yes {
        return Ok(args.delete_volumes);
    }
    must_be_confirmable(args)?;
    eprintln!("Cluster {} has {} machine(s): {}", args.name, there.machines.len(), there.machines.join(", "));
    if ask("Type its name to delete it: ")? != args.name {
        return Err(Failure::new(Code::Refused, anyhow::anyhow!("not confirmed; nothing was touched")));
    }
    if args.delete_volumes || there.volumes.is_empty() {
        return Ok(args.delete_volumes);
    }
    let question = format!("Delete its volumes for good ({})? [y/N] ", there.volumes.join(", "));
    Ok(matches!(ask(&question)?.as_str(), "y" | "Y" | "yes"))
}

fn ask(question: &str) -> Result<String, Failure> {
    eprint!("{question}");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}
