//! `windlass status`: one cluster, all that matters.

use std::io::IsTerminal;
use std::time::Duration;

use windlass_workflows::status::Status;

use super::get::{gather, machine_table, or_dash, state};
use crate::exit::{Code, Failure, Outcome};
use crate::local::block_on;
use crate::operation;
use crate::output::{Format, Table, print_text, print_value};

/// Pause between two looks of `--watch`.
const TICK: Duration = Duration::from_secs(2);

/// Arguments of `windlass status`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Works without the cluster's API too: its machines' own reports are kept by the provider.\nIn JSON and YAML the cluster and each machine have `ready` and, while that is false, `reason`: what is waited for.\n\nExit codes: 0 the state is printed, ready or not, 1 failed, 3 no such cluster.\n\nExamples:\n  windlass status lab\n  windlass status lab --watch\n  windlass status lab -o json | jq -e .ready"
)]
pub(crate) struct Args {
    /// The cluster's name.
    name: String,
    /// Print again whenever something changes.
    #[arg(short, long)]
    watch: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let mut last = String::new();
        loop {
            let status = gather(&operation::known(&args.name)?).await?;
            match args.output {
                Format::Json | Format::Yaml => print_value(args.output, &status)?,
                Format::Table | Format::Wide => show(&status, args, &mut last)?,
            }
            if !args.watch {
                return Ok(Code::Ok);
            }
            tokio::time::sleep(TICK).await;
        }
    })
}

fn show(status: &Status, args: &Args, last: &mut String) -> Result<(), Failure> {
    let text = render(status, args.output == Format::Wide);
    if text == *last {
        return Ok(());
    }
    let lead = match (args.watch && std::io::stdout().is_terminal(), last.is_empty()) {
        (true, _) => "\x1b[2J\x1b[H",
        (false, true) => "",
        (false, false) => "\n",
    };
    print_text(&format!("{lead}{text}"))?;
    *last = text;
    Ok(())
}

fn render(status: &Status, wide: bool) -> String {
    let mut text = head(status).render();
    if !status.machines.is_empty() {
        text += &format!("\n{}", machine_table(status, wide).render());
    }
    if wide && !status.volumes.is_empty() {
        let mut table = Table::new(&["VOLUME", "SIZE", "ATTACHED TO", "LOCATION"]);
        for volume in &status.volumes {
            let size = format!("{} MiB", volume.bytes >> 20);
            table.row([volume.name.clone(), size, or_dash(volume.attached_to.clone()), volume.location.clone()]);
        }
        text += &format!("\n{}", table.render());
    }
    if !status.addons.is_empty() {
        let mut table = Table::new(&["ADD-ON", "NAMESPACE", "VERSION", "READY"]);
        for addon in &status.addons {
            let ready = format!("{}/{}", addon.ready, addon.wanted);
            table.row([addon.name.clone(), addon.namespace.clone(), or_dash(Some(addon.version.clone())), ready]);
        }
        text += &format!("\n{}", table.render());
    }
    text
}

/// Facts of the cluster itself, a line each.
fn head(status: &Status) -> Table {
    let mut table = Table::new(&["Cluster:", &status.name]);
    let mut line = |label: &str, value: String| table.row([label.to_owned(), value]);
    line("State:", state(status));
    if let Some(operation) = &status.operation {
        line("At work:", operation.clone());
    }
    match &status.api.error {
        None => {
            line("API:", format!("{} ({})", or_dash(status.api.endpoint.clone()), or_dash(status.api.version.clone())));
            line("Control planes:", or_dash(status.api.control_planes.clone()));
            line("Workers:", or_dash(status.api.workers.clone()));
        }
        Some(error) => line("API:", format!("does not answer: {error}")),
    }
    if !status.ready {
        line("Waits for:", status.reason.clone());
    }
    table
}
