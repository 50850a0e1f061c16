//! `windlass dev`: commands for developers, hidden from help. A whole cluster raised without controllers, and lowered.

mod assets;
mod configs;
mod lower;
mod names;
mod progress;
mod proof;
mod raise;
mod state;
mod timing;

use clap::Subcommand;

use crate::exit::Outcome;

/// Arguments of `windlass dev`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  windlass dev raise -f lab.yaml\n  windlass dev lower lab")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Raise a cluster from a spec: machines and their configurations, no management plane.
    Raise(raise::Args),
    /// Remove a cluster made by `dev raise`, volumes included.
    Lower(lower::Args),
    /// Resolve a DNS name as a pod does, again and again until it answers.
    Resolve(names::Args),
}

/// Runs the chosen command.
pub(crate) fn run(args: Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.command {
        Command::Raise(args) => runtime.block_on(raise::run(args)),
        Command::Lower(args) => runtime.block_on(lower::run(args)),
        Command::Resolve(args) => names::run(&args),
    }
}
