//! `windlass completion`: scripts for shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::{Code, Outcome};

/// Arguments of `windlass completion`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass completion bash > /etc/bash_completion.d/windlass\n  source <(windlass completion zsh)"
)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Outcome {
    clap_complete::generate(args.shell, &mut super::Cli::command(), "windlass", &mut std::io::stdout());
    Ok(Code::Ok)
}
