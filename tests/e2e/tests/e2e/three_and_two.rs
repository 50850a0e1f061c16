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

/// Each control plane's power is cut in turn: every other node stays Ready, and a watch through a worker's balancer shows
/// what changes within five seconds. One of them is the server that the watch was on.
fn lose_one(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    start_watch(sandbox)?;
    see_change(cluster, "before", Instant::now(), 20)?;
    for victim in ["lab-cp-a", "lab-cp-b", "lab-cp-c"] {
        sandbox.ok(20, &["machine", "kill", victim])?;
        let cut = Instant::now();
        let seen = see_change(cluster, victim, cut, 30)?;
        println!("     {victim} lost: the watch goes on after {:.1} s", seen.as_secs_f32());
        // Longer than kubelets may be silent before their Node is NotReady would be 40 s; their leases tell sooner.
        let lost = cut.elapsed();
        let beats = |name: &str| {
            let path = "jsonpath={.spec.renewTime}";
            cluster.kubectl(&["-n", "kube-node-lease", "get", "lease", name, "-o", path])
        };
        for name in NODES.iter().filter(|name| **name != victim) {
            let before = beats(name)?;
            wait::until(&format!("a heartbeat of {name} with {victim} gone"), 30, || {
                ensure!(beats(name)? != before, "none");
                Ok(())
            })?;
            ensure!(cluster.ready_nodes()?.iter().any(|node| node == name), "{name} is not Ready after {lost:?}");
        }
        sandbox.ok(30, &["machine", "start", victim])?;
        wait::until("three voters again", 60, || voters(cluster, victim, 3))?;
        cluster.wait_for_nodes(&NODES, 60).with_context(|| cluster.say())?;
        ensure!(seen < Duration::from_secs(5), "{victim} lost: the watch went on only after {seen:?}");
    }
    Ok(())
}

/// On a worker, as its kubelet, through its balancer: a watch that is asked again when it ends, as every client does.
fn start_watch(sandbox: &Sandbox) -> Result<()> {
    let watch = "kubectl --kubeconfig=/etc/kubernetes/kubelet.conf get node lab-md-1 --watch \
                 -o 'jsonpath={.metadata.annotations.tick}{\"\\n\"}'";
    let script = format!(
        "systemd-run --quiet --unit=watch sh -c 'while :; do {} >> /tmp/watch.log 2>> /tmp/watch.err; sleep 0.2; done'",
        watch.replace('\'', "'\\''")
    );
    sandbox.ok(20, &["machine", "shell", "lab-md-1", "--", "sh", "-c", &script])?;
    Ok(())
}

/// Annotates the worker's Node through the endpoint until the watch has shown it; how long after `since` that was.
fn see_change(cluster: &Cluster<'_>, what: &str, since: Instant, seconds: u64) -> Result<Duration> {
    let mut tick = 0;
    let deadline = since + Duration::from_secs(seconds);
    loop {
        tick += 1;
        let change = format!("tick={what}-{tick}");
        let changed =
            cluster.try_kubectl(&["annotate", "node", "lab-md-1", "--overwrite", "--request-timeout=2s", &change])?;
        let log = cluster.sandbox.ok(20, &["machine", "shell", "lab-md-1", "--", "cat", "/tmp/watch.log"])?;
        if log.lines().any(|line| line.starts_with(&format!("{what}-"))) {
            return Ok(since.elapsed());
        }
        ensure!(Instant::now() < deadline, "no change seen in {seconds} s; at last: {}", changed.err);
        std::thread::sleep(Duration::from_millis(100));
    }
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
