//! Windlass's side: `windlass create cluster`, timed by its own events.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use windlass_e2e::cluster::Cluster;
use windlass_e2e::sandbox::Sandbox;
use windlass_testkit::clusters;

use crate::proof;

/// Seconds of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// From the first machine asked for to the proof.
    pub(crate) cluster: f64,
    /// From the command to its end.
    pub(crate) command: f64,
}

/// The step in which the first machine is asked for.
const FIRST_MACHINE: &str = "cluster-objects";

/// Creates a cluster in a sandbox of its own, and deletes it.
pub(crate) fn run(control_planes: u32, workers: u32) -> Result<Times> {
    let sandbox = Sandbox::new("bench-windlass")?;
    let times = create(&sandbox, control_planes, workers)?;
    sandbox.ok(300, &["delete", "cluster", "bench", "--delete-volumes", "--yes"])?;
    Ok(times)
}

/// Creates the cluster `bench`.
pub(crate) fn create(sandbox: &Sandbox, control_planes: u32, workers: u32) -> Result<Times> {
    let file = sandbox.write("bench.yaml", &clusters::sized("bench", control_planes, workers))?;
    let file = file.display().to_string();
    let image = image(sandbox)?;
    let mut command = sandbox.command(sandbox.binary(), &["create", "cluster", "-f", &file, "-o", "json"]);
    let began = Timestamp::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let events = BufReader::new(child.stdout.take().context("piped")?);
    let nodes = (control_planes + workers) as usize;
    let (asked, proven) = std::thread::scope(|scope| {
        let proof = scope.spawn(move || prove(sandbox, nodes, &image));
        let asked = first_machine(events);
        (asked, proof.join())
    });
    ensure!(child.wait()?.success(), "create failed; see {}", sandbox.work().display());
    let command = seconds(began, Timestamp::now());
    let proven = proven.map_err(|_| anyhow::anyhow!("the proof panicked"))??;
    Ok(Times { cluster: seconds(asked?, proven), command })
}

fn prove(sandbox: &Sandbox, nodes: usize, image: &str) -> Result<Timestamp> {
    let cluster = Cluster::new(sandbox, "bench");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(proof::wait(cluster.kubeconfig(), nodes, image, Duration::from_secs(300)))?;
    Ok(Timestamp::now())
}

/// Reads every event to the end; the time at which the first machine was asked for.
fn first_machine(events: impl BufRead) -> Result<Timestamp> {
    let mut asked = None;
    for line in events.lines() {
        let event: Value = serde_json::from_str(&line?)?;
        if event["event"]["type"] == "stepStarted" && event["event"]["step"] == FIRST_MACHINE && asked.is_none() {
            asked = Some(event["at"].as_str().context("events have a time")?.parse()?);
        }
    }
    asked.context("no machine was asked for")
}

/// The controllers' image, which is in every machine's store.
pub(crate) fn image(sandbox: &Sandbox) -> Result<String> {
    let digest = std::process::Command::new("sha256sum").arg(sandbox.binary()).output()?;
    let digest = String::from_utf8(digest.stdout)?;
    Ok(format!("windlass.dev/windlass:{}", digest.get(..12).context("a digest")?))
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
