//! `windlass hostd`: the daemon that keeps machines on this computer.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use tracing_subscriber::EnvFilter;

use windlass_providers::local::hostd::{self, Options};
use windlass_providers::local::{self, Client, Paths, survey};
use windlass_providers::ports::{MachineState, ProviderError};

use crate::exit::{Code, Failure, Outcome};
use crate::local::{block_on, client, failure, paths};
use crate::output::{Format, Table, print_value};

/// Arguments of `windlass hostd`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Commands that need hostd start it. It runs detached, or as a systemd unit where systemd runs the host,\nand ends by itself when it holds no cluster. Killing it does not touch machines.\n\nExamples:\n  windlass hostd start     # after a reboot of the host: bring every machine back\n  windlass hostd status -o json\n  windlass hostd stop --machines"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground.
    #[command(after_help = "Examples:\n  RUST_LOG=debug windlass hostd run")]
    Run(Run),
    /// Start the daemon, and every machine that shall run and does not; wait for them.
    #[command(after_help = "Examples:\n  windlass hostd start")]
    Start,
    /// Show whether it runs, and what it holds.
    #[command(
        after_help = "Exit codes: 0 it runs, 1 failed, 3 it does not run.\n\nExamples:\n  windlass hostd status\n  windlass hostd status -o yaml"
    )]
    Status {
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// End the daemon. Machines go on; the next command that needs it starts it again.
    #[command(
        after_help = "Examples:\n  windlass hostd stop\n  windlass hostd stop --machines    # before a shutdown of the host"
    )]
    Stop {
        /// Stop every machine first, in order; they come back with `windlass hostd start`.
        #[arg(long)]
        machines: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Run {
    /// State folder [default: $XDG_STATE_HOME/windlass].
    #[arg(long)]
    state: Option<PathBuf>,
    /// Cache folder with machine images [default: $XDG_CACHE_HOME/windlass].
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Leave the caller's session.
    #[arg(long, hide = true)]
    detach: bool,
    /// Goes on for another build in the same process.
    #[arg(long, hide = true)]
    resume: bool,
}

/// Runs the family.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Run(args) => run_daemon(args),
        Command::Start => block_on(start()),
        Command::Status { output } => block_on(status(*output)),
        Command::Stop { machines } => block_on(stop(*machines)),
    }
}

fn run_daemon(args: &Run) -> Outcome {
    if args.detach {
        rustix::process::setsid().map_err(std::io::Error::from)?;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,hickory_server=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let paths = match (&args.state, &args.cache) {
        (Some(state), Some(cache)) => Paths::new(state, cache)?,
        (state, cache) => {
            let usual = paths()?;
            Paths::new(state.as_deref().unwrap_or(usual.state()), cache.as_deref().unwrap_or(usual.cache()))?
        }
    };
    let build = local::own_build().map_err(failure)?;
    block_on(async {
        hostd::run(Options { paths, build, resume: args.resume }).await?;
        Ok(Code::Ok)
    })
}

async fn start() -> Outcome {
    let paths = paths()?;
    let ran_before = Client::socket(paths.clone()).hello().await.is_ok();
    let client = client(&paths).await?;
    if ran_before {
        client.bring_up().await.map_err(failure)?;
    }
    while client.hello().await.map_err(failure)?.starting {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let machines = survey::machines(&paths).map_err(failure)?;
    let dead: Vec<String> = machines
        .iter()
        .filter_map(|found| match &found.machine.state {
            MachineState::Stopped { reason } if reason != "stopped by request" => {
                Some(format!("{}: {reason}", found.machine.name))
            }
            _ => None,
        })
        .collect();
    let running = machines.iter().filter(|found| found.machine.state == MachineState::Running).count();
    eprintln!("hostd runs, and {running} of {} machines", machines.len());
    let follow: Vec<&str> = machines
        .iter()
        .filter(|found| found.machine.state == MachineState::Starting)
        .map(|found| found.machine.name.as_str())
        .collect();
    if !follow.is_empty() {
        eprintln!("{} will start when an API server of their cluster answers", follow.join(", "));
    }
    if dead.is_empty() {
        return Ok(Code::Ok);
    }
    Err(Failure::new(Code::Failed, anyhow::anyhow!("not running: {}", dead.join("; ")))
        .hint(format!("hostd's log is {}", paths.log().display())))
}

async fn status(output: Format) -> Outcome {
    let paths = paths()?;
    let hello = match Client::socket(paths.clone()).hello().await {
        Ok(hello) => Some(hello),
        Err(ProviderError::Unreachable { .. }) => None,
        Err(error) => return Err(failure(error)),
    };
    if let Format::Json | Format::Yaml = output {
        let value = serde_json::json!({
            "running": hello.is_some(),
            "daemon": hello,
            "state": paths.state(),
            "socket": paths.socket(),
            "log": paths.log(),
        });
        print_value(output, &value)?;
    } else {
        let mut table = Table::new(&["STATE", "PID", "VERSION", "BUILD", "CLUSTERS", "MACHINES", "FOLDER"]);
        let state = match &hello {
            Some(hello) if hello.starting => "Starting",
            Some(_) => "Running",
            None => "Stopped",
        };
        let text =
            |read: fn(&local::protocol::Hello) -> String| hello.as_ref().map(read).unwrap_or_else(|| "-".to_owned());
        table.row([
            state.to_owned(),
            text(|hello| hello.pid.to_string()),
            text(|hello| hello.version.clone()),
            text(|hello| hello.build.clone()),
            text(|hello| hello.clusters.to_string()),
            text(|hello| hello.machines.to_string()),
            paths.state().display().to_string(),
        ]);
        print!("{}", table.render());
    }
    Ok(if hello.is_some() { Code::Ok } else { Code::NotFound })
}

async fn stop(machines: bool) -> Outcome {
    let client = Client::socket(paths()?);
    let pid = match client.hello().await {
        Ok(hello) => hello.pid,
        Err(ProviderError::Unreachable { .. }) => {
            eprintln!("hostd does not run");
            return Ok(Code::Ok);
        }
        Err(error) => return Err(failure(error)),
    };
    client.stop(machines).await.map_err(failure)?;
    while client.hello().await.is_ok_and(|hello| hello.pid == pid) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!("hostd ended");
    Ok(Code::Ok)
}
