//! One file a command or family of commands: arguments as types, and `run`.

use clap::{Parser, Subcommand};

use crate::exit::Outcome;

mod agent;
mod apply;
mod bundle;
mod completion;
mod controller;
mod create;
mod delete;
mod dev;
mod generate;
mod get;
mod hostd;
mod kubeconfig;
mod logs;
mod machine;
pub(crate) mod plan;
mod reference;
mod status;
mod validate;

/// Raises, runs, upgrades, heals and lowers Kubernetes clusters on machines you hold.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    about,
    max_term_width = 110,
    after_help = "Exit codes: 0 it worked or there was nothing to do, 1 failed, 2 bad usage or a bad document, 3 nothing of that name, 4 locked, 5 refused, 6 this computer lacks something, 130 interrupted.\n\nExamples:\n  windlass generate cluster lab --control-planes 3 --workers 2 > lab.yaml\n  windlass create cluster -f lab.yaml\n  windlass status lab\n  windlass delete cluster lab"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a cluster from a file.
    Create(create::Args),
    /// Change a cluster that is there.
    Apply(apply::Args),
    /// Delete a cluster and all that was made for it.
    Delete(delete::Args),
    /// List clusters and machines, print a cluster's document.
    Get(get::Args),
    /// Show one cluster: control plane, machines, add-ons, and what they wait for.
    Status(status::Args),
    /// Print what the parts of a cluster say.
    Logs(logs::Args),
    /// Print a cluster's kubeconfig, or merge it into your own.
    Kubeconfig(kubeconfig::Args),
    /// Build, list, verify and carry about the files and images of a Kubernetes release.
    Bundle(bundle::Args),
    /// Run the agent of a machine, or show what it is doing.
    Agent(agent::Args),
    /// Raise and lower clusters without controllers, for developers.
    #[command(hide = true)]
    Dev(dev::Args),
    /// Print a shell completion script.
    Completion(completion::Args),
    /// Run the controllers of a management cluster.
    #[command(hide = true)]
    Controller(controller::Args),
    /// The daemon that keeps machines on this computer.
    Hostd(hostd::Args),
    /// Machines on this computer: list, logs, start, stop, restart, kill, shell.
    Machine(machine::Args),
    /// Print a spec to begin with.
    Generate(generate::Args),
    /// Show what a spec would make or change, before anything is done.
    Plan(plan::Args),
    /// Judge a spec: every problem at once, with its place.
    Validate(validate::Args),
    /// Print a generated page of the reference.
    #[command(hide = true)]
    Reference(reference::Args),
}

impl Cli {
    /// Runs the chosen command.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Create(args) => create::run(&args),
            Command::Apply(args) => apply::run(&args),
            Command::Delete(args) => delete::run(&args),
            Command::Get(args) => get::run(&args),
            Command::Status(args) => status::run(&args),
            Command::Logs(args) => logs::run(&args),
            Command::Kubeconfig(args) => kubeconfig::run(&args),
            Command::Bundle(args) => bundle::run(&args),
            Command::Agent(args) => agent::run(&args),
            Command::Dev(args) => dev::run(args),
            Command::Completion(args) => completion::run(&args),
            Command::Controller(args) => controller::run(args),
            Command::Hostd(args) => hostd::run(&args),
            Command::Machine(args) => machine::run(&args),
            Command::Generate(args) => generate::run(args),
            Command::Plan(args) => plan::run(&args),
            Command::Validate(args) => validate::run(&args),
            Command::Reference(args) => reference::run(&args),
        }
    }
}
