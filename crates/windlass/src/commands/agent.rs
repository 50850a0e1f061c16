//! `windlass agent`: the daemon of each machine, and what it says of itself.

use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use windlass_node::agent::{self, AgentOptions};
use windlass_spec::report::{NodeReport, PartState};

use crate::exit::{Code, Failure, Outcome};
use crate::output::{Format, Table, print_value};

/// The agent of a machine.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  windlass machine shell lab-cp-a -- windlass agent status")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the agent in the foreground, as its systemd unit does.
    #[command(after_help = "Examples:\n  systemctl status windlass-agent\n  windlass agent run")]
    Run,
    /// Show what this machine is doing and what it waits for.
    #[command(
        after_help = "Exit codes: 0 printed, 1 failed, 3 no agent has reported on this machine.\n\nExamples:\n  windlass agent status\n  windlass agent status -o json"
    )]
    Status(StatusArgs),
}

#[derive(Debug, Parser)]
struct StatusArgs {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Runs a subcommand.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Run => run_agent(),
        Command::Status(args) => status(args),
    }
}

fn run_agent() -> Outcome {
    let filter = EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    // The journal adds the time.
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build()?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let told = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            told.cancel();
        });
        agent::run(AgentOptions::default(), shutdown).await?;
        Ok(Code::Ok)
    })
}

fn status(args: &StatusArgs) -> Outcome {
    let path = windlass_node::paths::REPORT;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let failure =
                Failure::new(Code::NotFound, anyhow::anyhow!("this machine has no report of an agent ({path})"));
            return Err(
                failure.hint("run this inside a machine: windlass machine shell MACHINE -- windlass agent status")
            );
        }
        Err(error) => return Err(error.into()),
    };
    let report: NodeReport = serde_json::from_str(&text)?;
    match args.output {
        Format::Json | Format::Yaml => print_value(args.output, &report)?,
        Format::Table | Format::Wide => print!("{}", table(&report, matches!(args.output, Format::Wide))),
    }
    Ok(Code::Ok)
}

fn table(report: &NodeReport, is_wide: bool) -> String {
    let mut table = Table::new(if is_wide {
        &["PART", "STATE", "SINCE", "MESSAGE", "CHANGES"]
    } else {
        &["PART", "STATE", "MESSAGE"]
    });
    for part in &report.parts {
        let (state, message) = match &part.state {
            PartState::Pending => ("Pending", String::new()),
            PartState::Waiting { reason } => ("Waiting", reason.clone()),
            PartState::Done => ("Done", String::new()),
            PartState::Failed { message, .. } => ("Failed", message.clone()),
        };
        let cells = [part.part.clone(), state.to_owned()];
        if is_wide {
            table.row(cells.into_iter().chain([part.since.to_string(), message, part.changes.join("; ")]));
        } else {
            table.row(cells.into_iter().chain([message]));
        }
    }
    let logs = report.parts.iter().filter_map(|part| match &part.state {
        PartState::Failed { log, .. } if !log.is_empty() => Some((part.part.as_str(), log)),
        _ => None,
    });
    logs.fold(table.render(), |text, (part, log)| format!("{text}\nlast lines of {part}:\n  {}\n", log.join("\n  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_its_last_lines() {
        let board = windlass_node::board::Board::new("lab-cp-a", "boot");
        board.done("files", Vec::new());
        board.failed("kube-apiserver", "it keeps ending", vec!["Error: unknown flag: --nonsense".to_owned()]);
        insta::assert_snapshot!(table(&board.report(), false), @r"
        PART             STATE    MESSAGE
        files            Done
        kube-apiserver   Failed   it keeps ending

        last lines of kube-apiserver:
          Error: unknown flag: --nonsense
        ");
    }
}
