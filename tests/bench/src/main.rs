//! Windlass against kubeadm, side by side in one run: same binaries, same prefilled machine images, same pod network and
//! add-ons, alternating.
//!
//! Clocks start where the first machine is asked for (for the management row: at the command) and stop when every Node is
//! Ready and a pod has resolved a Service's name through CoreDNS (for the management row: when the command ends, with
//! that proven too). Output: a table of medians with their spread, and `bench.json`.

mod kubeadm;
mod ours;
mod proof;
mod resident;
mod table;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use windlass_e2e::sandbox::Sandbox;

use table::Results;

/// Measures Windlass against kubeadm on this computer.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  windlass-bench --output target/bench.json\n  windlass-bench --runs 1 --ha-runs 0 --idle 30 --output /tmp/bench.json"
)]
struct Arguments {
    /// Runs of each side with one machine.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Runs of each side with three control planes and two workers; slow, so fewer.
    #[arg(long, default_value_t = 3)]
    ha_runs: u32,
    /// Seconds without work over which CPU is measured; 0 leaves it out.
    #[arg(long, default_value_t = 300)]
    idle: u64,
    /// kubeadm, from `windlass bundle build --extra kubeadm`.
    #[arg(long)]
    kubeadm: PathBuf,
    /// Where the numbers go.
    #[arg(long, default_value = "target/bench.json")]
    output: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut results = Results::default();
    let peer = Sandbox::new("bench-kubeadm")?;
    let mut peer = kubeadm::Peer::new(peer, &arguments.kubeadm)?;
    for run in 1..=arguments.runs {
        eprintln!("one machine, run {run} of {}", arguments.runs);
        let times = ours::run(1, 0)?;
        results.add("one_machine", "windlass", times.cluster);
        results.add("management", "windlass", times.command);
        let seconds = peer.run(1, 0)?;
        results.add("one_machine", "kubeadm", seconds);
        results.add("management", "kubeadm", seconds);
    }
    for run in 1..=arguments.ha_runs {
        eprintln!("three control planes and two workers, run {run} of {}", arguments.ha_runs);
        results.add("three_plus_two", "windlass", ours::run(3, 2)?.cluster);
        results.add("three_plus_two", "kubeadm", peer.run(3, 2)?);
    }
    if arguments.idle > 0 {
        eprintln!("idle with 20 pods for {} s", arguments.idle);
        results.resident = resident::measure(arguments.idle)?;
    }
    results.binary_mb = table::megabytes(fs_err::metadata(peer.windlass())?.len());
    drop(peer);
    print!("{}", results.table());
    if let Some(folder) = arguments.output.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::write(&arguments.output, serde_json::to_string_pretty(&results.document())? + "\n")?;
    eprintln!("written to {}", arguments.output.display());
    Ok(())
}
