//! One file a command or family of commands: arguments as types, and `run`.

use clap::{Parser, Subcommand};

use crate::exit::Outcome;

mod agent;
mod bundle;
mod completion;
mod hostd;
mod machine;
mod reference;

/// Raises, runs, upgrades, heals and lowers Kubernetes clusters on machines you hold.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build, list, verify and carry about the files and images of a Kubernetes release.
    Bundle(bundle::Args),
    /// Run the agent of a machine, or show what it is doing.
    Agent(agent::Args),
    /// Print a shell completion script.
    Completion(completion::Args),
    /// The daemon that keeps machines on this computer.
    Hostd(hostd::Args),
    /// Machines on this computer: list, logs, start, stop, restart, kill, shell.
    Machine(machine::Args),
    /// Print a generated page of the reference.
    #[command(hide = true)]
    Reference(reference::Args),
}

impl Cli {
    /// Runs the chosen command.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Bundle(args) => bundle::run(&args),
            Command::Agent(args) => agent::run(&args),
            Command::Completion(args) => completion::run(&args),
            Command::Hostd(args) => hostd::run(&args),
            Command::Machine(args) => machine::run(&args),
            Command::Reference(args) => reference::run(&args),
        }
    }
}
