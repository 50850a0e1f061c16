//! `windlass machine`: the machines on this computer, by hand.

use std::os::unix::process::CommandExt;
use std::process::Command as Process;

use clap::Subcommand;

use windlass_providers::local::protocol::Power;
use windlass_providers::local::survey::{self, Found};
use windlass_providers::ports::MachineState;

use crate::exit::{Code, Failure, Outcome};
use crate::local::{block_on, client, failure, paths};
use crate::output::{Format, Table, print_value};

/// Arguments of `windlass machine`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "MACHINE is a machine's name, or CLUSTER/MACHINE where two clusters have one of that name.\n\nExit codes: 0 done, 1 failed, 3 no such machine; of shell: its command's own.\n\nExamples:\n  windlass machine ls\n  windlass machine logs lab-cp-a --unit agent -f\n  windlass machine shell lab-cp-a -- crictl ps"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List machines.
    #[command(visible_alias = "list", after_help = "Examples:\n  windlass machine ls -o wide")]
    Ls {
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Print a machine's journal, also after its death.
    #[command(
        after_help = "Examples:\n  windlass machine logs lab-cp-a --unit kubelet --tail 50\n  windlass machine logs lab-cp-a --console"
    )]
    Logs(Logs),
    /// Start a stopped machine.
    #[command(after_help = "Examples:\n  windlass machine start lab-md-1")]
    Start(Named),
    /// Stop a machine in order.
    #[command(after_help = "Examples:\n  windlass machine stop lab-md-1")]
    Stop(Named),
    /// Stop a machine in order and start it.
    #[command(after_help = "Examples:\n  windlass machine restart lab-md-1")]
    Restart(Named),
    /// Cut a machine's power.
    #[command(after_help = "Examples:\n  windlass machine kill lab-md-1")]
    Kill(Named),
    /// Run a command, or a shell, inside a machine; standard input, output and the exit code pass through.
    #[command(
        after_help = "Examples:\n  windlass machine shell lab-cp-a\n  windlass machine shell lab-cp-a -- journalctl -u kubelet -n 20\n  echo hello | windlass machine shell lab-cp-a -- tee /tmp/x"
    )]
    Shell(Shell),
}

#[derive(Debug, clap::Args)]
struct Named {
    /// The machine.
    machine: String,
}

#[derive(Debug, clap::Args)]
struct Logs {
    /// The machine.
    machine: String,
    /// Follow what is added.
    #[arg(short, long)]
    follow: bool,
    /// Only this unit: agent, kubelet, containerd, or any unit's name.
    #[arg(short, long)]
    unit: Option<String>,
    /// Only the last lines.
    #[arg(long, value_name = "LINES")]
    tail: Option<u32>,
    /// What its init and the sandbox itself printed, instead of the journal.
    #[arg(long, conflicts_with_all = ["unit"])]
    console: bool,
}

#[derive(Debug, clap::Args)]
struct Shell {
    /// The machine.
    machine: String,
    /// Command and arguments; a login shell when absent.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs the family.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Ls { output } => list(*output),
        Command::Logs(args) => logs(args),
        Command::Start(named) => switch(&named.machine, Power::Start),
        Command::Stop(named) => switch(&named.machine, Power::Stop),
        Command::Restart(named) => switch(&named.machine, Power::Restart),
        Command::Kill(named) => switch(&named.machine, Power::Kill),
        Command::Shell(args) => shell(args),
    }
}

fn list(output: Format) -> Outcome {
    let found = survey::machines(&paths()?).map_err(failure)?;
    match output {
        Format::Json | Format::Yaml => print_value(output, &found.iter().map(value).collect::<Vec<_>>())?,
        Format::Table | Format::Wide => print!("{}", table(&found, output == Format::Wide).render()),
    }
    Ok(Code::Ok)
}

fn value(found: &Found) -> serde_json::Value {
    serde_json::json!({
        "cluster": found.cluster,
        "clusterId": found.cluster_id,
        "pid": found.init,
        "machine": found.machine,
    })
}

fn table(found: &[Found], wide: bool) -> Table {
    let mut headings = vec!["NAME", "CLUSTER", "ROLE", "ADDRESS", "STATE", "STARTS"];
    if wide {
        headings.extend(["PID", "IMAGE", "VOLUMES", "BOOT-ID", "PROVIDER-ID"]);
    }
    let mut table = Table::new(&headings);
    let or_dash = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    for found in found {
        let machine = &found.machine;
        let mut row = vec![
            machine.name.clone(),
            found.cluster.clone(),
            or_dash(machine.role.map(|role| format!("{role:?}"))),
            machine.address.to_string(),
            state(&machine.state),
            machine.starts.to_string(),
        ];
        if wide {
            row.push(or_dash(found.init.map(|pid| pid.to_string())));
            row.push(or_dash(machine.image.clone()));
            row.push(or_dash(Some(machine.volumes.join(","))));
            row.push(or_dash(machine.boot_id.clone()));
            row.push(machine.provider_id.clone());
        }
        table.row(row);
    }
    table
}

fn state(state: &MachineState) -> String {
    match state {
        MachineState::Stopped { reason } => format!("Stopped ({reason})"),
        state => format!("{state:?}"),
    }
}

fn switch(machine: &str, power: Power) -> Outcome {
    block_on(async {
        let machine = client(&paths()?).await?.set_power(machine, power).await.map_err(failure)?;
        eprintln!("{}: {}", machine.name, state(&machine.state));
        Ok(Code::Ok)
    })
}

fn logs(args: &Logs) -> Outcome {
    let found = survey::machine(&paths()?, &args.machine).map_err(failure)?;
    let mut process = if args.console { tail(args, &found) } else { journal(args, &found) };
    // Becomes the other program: signals and exit codes are its own.
    Err(Failure::from(process.exec()))
}

fn tail(args: &Logs, found: &Found) -> Process {
    let mut process = Process::new("tail");
    process.arg("-n").arg(args.tail.map_or_else(|| "+1".to_owned(), |lines| lines.to_string()));
    if args.follow {
        process.arg("-F");
    }
    process.arg(&found.console);
    process
}

fn journal(args: &Logs, found: &Found) -> Process {
    let mut process = Process::new("journalctl");
    process.arg("--no-pager").arg("--quiet").arg("--directory").arg(&found.journal);
    if args.follow {
        process.arg("--follow");
    }
    if let Some(lines) = args.tail {
        process.arg("--lines").arg(lines.to_string());
    }
    if let Some(unit) = &args.unit {
        process.arg("--unit").arg(if unit == "agent" { "windlass-agent" } else { unit });
    }
    process
}

fn shell(args: &Shell) -> Outcome {
    let found = survey::machine(&paths()?, &args.machine).map_err(failure)?;
    let Some(init) = found.init else {
        let error = anyhow::anyhow!("machine {} does not run: {}", args.machine, state(&found.machine.state));
        return Err(Failure::new(Code::Failed, error).hint(format!("windlass machine start {}", args.machine)));
    };
    // First, so that what runs in the machine ends with it.
    found.join_cgroups()?;
    let mut process = Process::new("nsenter");
    process.arg("--target").arg(init.to_string());
    process.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--"]);
    process.args(["/usr/bin/env", "-i", "--chdir=/root", "HOME=/root", "USER=root", "LANG=C.UTF-8"]);
    process.arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    process.arg(format!("TERM={}", std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned())));
    if args.command.is_empty() {
        process.args(["/bin/bash", "-l"]);
    } else {
        process.args(&args.command);
    }
    Err(Failure::from(process.exec()))
}
