//! What the daemons take while nothing happens: memory, and CPU over some minutes with twenty pods.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use windlass_e2e::cluster::Cluster;
use windlass_e2e::sandbox::Sandbox;
use windlass_e2e::wait;

use crate::ours;
use crate::table::{Resident, megabytes};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle}
spec:
  replicas: 20
  selector: {matchLabels: {app: idle}}
  template:
    metadata: {labels: {app: idle}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: idle, image: "windlass.dev/pause:3.10.2", imagePullPolicy: Never}]
"#;

/// Words of each daemon's command line.
const DAEMONS: [(&str, &str); 3] = [("agent", "agent"), ("controller", "controller"), ("hostd", "hostd")];

/// One machine with twenty pods, watched for some seconds.
pub(crate) fn measure(seconds: u64) -> Result<BTreeMap<&'static str, Resident>> {
    let sandbox = Sandbox::new("bench-idle")?;
    ours::create(&sandbox, 1, 0)?;
    let cluster = Cluster::new(&sandbox, "bench");
    cluster.apply(DEPLOYMENT)?;
    wait::until("twenty pods", 120, || {
        cluster.kubectl(&["wait", "--for=condition=Available", "deployment/idle", "--timeout=10s"])
    })?;
    std::thread::sleep(Duration::from_secs(20));
    let daemons = DAEMONS.map(|(name, word)| (name, sandbox.daemon(word)));
    let pids: Vec<(&str, i32)> = daemons.iter().filter_map(|(name, pid)| Some((*name, (*pid)?))).collect();
    let before: Vec<f64> = pids.iter().map(|(_, pid)| cpu_seconds(*pid)).collect::<Result<_>>()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let mut found = BTreeMap::new();
    for ((name, pid), before) in pids.into_iter().zip(before) {
        let cpu_percent = (cpu_seconds(pid)? - before) / seconds as f64 * 100.0;
        found.insert(name, Resident { rss_mb: rss_mb(pid)?, cpu_percent });
    }
    sandbox.ok(300, &["delete", "cluster", "bench", "--delete-volumes", "--yes"])?;
    Ok(found)
}

/// User and system time so far; a tick is a hundredth of a second.
fn cpu_seconds(pid: i32) -> Result<f64> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = text.rsplit_once(')').context("a name")?.1.split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().filter_map(|&at| fields.get(at)?.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

fn rss_mb(pid: i32) -> Result<f64> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(megabytes(kilobytes * 1024))
}
