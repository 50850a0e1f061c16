//! Three control planes and two workers: quorum, losing a control plane, losing power, losing disks.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use windlass_e2e::cluster::Cluster;
use windlass_e2e::runner::Runner;
use windlass_e2e::sandbox::Sandbox;
use windlass_e2e::wait;
use windlass_testkit::clusters;

use crate::one_and_one::{nothing_is_left, power_loss, voters};

const NODES: [&str; 5] = ["lab-cp-a", "lab-cp-b", "lab-cp-c", "lab-md-1", "lab-md-2"];

pub(crate) fn run(runner: &mut Runner) -> Result<()> {
    let sandbox = Sandbox::new("three-and-two")?;
    let cluster = Cluster::new(&sandbox, "lab");
    let file = sandbox.write("lab.yaml", &clusters::sized("lab", 3, 2))?;
    sandbox.ok(400, &["create", "cluster", "-f", &file.display().to_string()])?;

    runner.check("all_nodes_are_ready", || cluster.wait_for_nodes(&NODES, 5));
    runner.check("three_started_voters_each_on_its_own_volume", || {
        voters(&cluster, "lab-cp-a", 3)?;
        own_volumes(&cluster)
    });
    runner.check("losing_a_control_plane", || lose_one(&cluster));
    runner.check("power_loss", || power_loss(&cluster, 30));
    runner.check("two_blank_volumes_form_no_second_cluster", || two_blank_volumes(&cluster));
    runner.check("all_volumes_destroyed_then_delete", || destroyed(&cluster));
    Ok(())
}

/// Each member's data lies on a device of its own, labelled with the slot.
fn own_volumes(cluster: &Cluster<'_>) -> Result<()> {
    let mut devices = Vec::new();
    for slot in ["a", "b", "c"] {
        let machine = format!("lab-cp-{slot}");
        let at = "/var/lib/windlass/volumes/etcd-main";
        let source = cluster.sandbox.ok(30, &["machine", "shell", &machine, "--", "findmnt", "-no", "SOURCE", at])?;
        let label = cluster
            .sandbox
            .ok(30, &["machine", "shell", &machine, "--", "cat", &format!("{at}/windlass-volume.json")])?;
        let label: serde_json::Value = serde_json::from_str(&label)?;
        ensure!(label["slot"] == *slot, "{machine}: {label}");
        devices.push(source.trim().to_owned());
    }
    devices.sort();
    devices.dedup();
    ensure!(devices.len() == 3, "{devices:?}");
    Ok(())
}

/// One control plane's power is cut: every other node stays Ready, and a watch through a worker's balancer goes on within
/// five seconds.
fn lose_one(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    // The busiest victim: the one the worker's balancer talks to now is not known from outside, so lose each in turn.
    for (victim, others) in [("lab-cp-a", ["lab-cp-b", "lab-cp-c"]), ("lab-cp-b", ["lab-cp-a", "lab-cp-c"])] {
        let through = |request: &str| {
            let line = ["machine", "shell", "lab-md-1", "--", "kubectl", "--kubeconfig=/etc/kubernetes/kubelet.conf"];
            let line: Vec<&str> = line.into_iter().chain(["--request-timeout=2s", "get", "--raw", request]).collect();
            sandbox.ok(20, &line)
        };
        through("/readyz")?;
        sandbox.ok(20, &["machine", "kill", victim])?;
        let cut = Instant::now();
        wait::until("an answer through the worker's balancer", 20, || through("/readyz"))?;
        let resumed = cut.elapsed();
        ensure!(resumed < Duration::from_secs(5), "through the balancer again after {resumed:?}");
        wait::until("an answer at the endpoint", 10, || cluster.kubectl(&["get", "--raw", "/readyz"]))?;
        std::thread::sleep(Duration::from_secs(15).saturating_sub(cut.elapsed()));
        let ready = cluster.ready_nodes()?;
        for name in others.iter().chain(&["lab-md-1", "lab-md-2"]) {
            ensure!(ready.iter().any(|node| node == name), "{name} is not Ready: {ready:?}");
        }
        sandbox.ok(30, &["machine", "start", victim])?;
        wait::until("three voters again", 60, || voters(cluster, victim, 3))?;
        cluster.wait_for_nodes(&NODES, 60).with_context(|| cluster.say())?;
    }
    Ok(())
}

fn volumes(sandbox: &Sandbox) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for cluster in fs_err::read_dir(sandbox.state().join("hostd/clusters"))? {
        for volume in fs_err::read_dir(cluster?.path().join("volumes"))? {
            found.push(volume?.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Makes a volume blank, as a replaced disk would be.
fn blank(volume: &std::path::Path) -> Result<()> {
    let size = fs_err::metadata(volume)?.len();
    let file = fs_err::OpenOptions::new().write(true).open(volume)?;
    file.set_len(0)?;
    Ok(file.set_len(size)?)
}

/// Two of three disks come back blank and the survivor starts last: nobody forms a cluster anew, status says what is
/// missing.
fn two_blank_volumes(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    for machine in ["lab-cp-a", "lab-cp-b", "lab-cp-c"] {
        sandbox.ok(60, &["machine", "kill", machine])?;
    }
    let disks = volumes(sandbox)?;
    ensure!(disks.len() == 3, "{disks:?}");
    blank(&disks[0])?;
    blank(&disks[1])?;
    sandbox.ok(30, &["machine", "start", "lab-cp-a"])?;
    sandbox.ok(30, &["machine", "start", "lab-cp-b"])?;
    std::thread::sleep(Duration::from_secs(15));
    sandbox.ok(30, &["machine", "start", "lab-cp-c"])?;
    std::thread::sleep(Duration::from_secs(15));
    ensure!(cluster.kubectl(&["get", "--raw", "/readyz"]).is_err(), "an API answers: of which cluster?");
    let said = sandbox.windlass(60, &["status", "lab"])?;
    let status = format!("{}{}", said.out, said.err);
    for machine in ["lab-cp-a", "lab-cp-b"] {
        let line = status.lines().find(|line| line.contains(machine) && line.contains("etcd"));
        ensure!(line.is_some(), "status does not say what {machine} misses:\n{status}");
    }
    Ok(())
}

/// Every etcd volume is gone for good: delete ends in the same nothing.
fn destroyed(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    for machine in ["lab-cp-a", "lab-cp-b", "lab-cp-c"] {
        sandbox.ok(60, &["machine", "kill", machine])?;
    }
    for volume in volumes(sandbox)? {
        blank(&volume)?;
    }
    sandbox.ok(180, &["delete", "cluster", "lab", "--delete-volumes", "--yes"])?;
    nothing_is_left(sandbox)
}
