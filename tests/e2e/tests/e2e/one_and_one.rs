//! One control plane and one worker: everything people do with a cluster, healing, power loss, a second cluster with the
//! longest legal name beside it, and nothing left at the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use windlass_e2e::cluster::Cluster;
use windlass_e2e::runner::Runner;
use windlass_e2e::sandbox::Sandbox;
use windlass_e2e::wait;
use windlass_testkit::clusters;

use crate::workloads;

pub(crate) fn run(runner: &mut Runner) -> Result<()> {
    let sandbox = Sandbox::new("one-and-one")?;
    let cluster = Cluster::new(&sandbox, "lab");
    let file = sandbox.write("lab.yaml", &clusters::sized("lab", 1, 1))?;
    let file = file.display().to_string();
    sandbox.ok(300, &["create", "cluster", "-f", &file])?;

    runner.check("all_nodes_are_ready", || cluster.wait_for_nodes(&["lab-cp-a", "lab-md-1"], 5));
    runner.check("nothing_of_the_bootstrap_plane_remains", || bootstrap_plane_is_gone(&sandbox));
    runner.check("it_manages_itself", || {
        let names = cluster.kubectl(&["get", "clusters,machines,wcl", "-A", "-o", "name"])?;
        ensure!(names.contains("machine.cluster.x-k8s.io/lab-md-1"), "{names}");
        Ok(())
    });
    runner.check("creating_what_exists_does_nothing", || {
        sandbox.ok(60, &["create", "cluster", "-f", &file])?;
        let other = sandbox.write("other.yaml", &clusters::sized("lab", 1, 2))?;
        sandbox.windlass(60, &["create", "cluster", "-f", &other.display().to_string()])?.expect(5)?;
        Ok(())
    });
    runner.check("etcd_has_one_started_voter", || voters(&cluster, "lab-cp-a", 1));
    if workloads::start(&cluster, "lab-cp-a", "lab-md-1").map(|()| true).or_else(|error| {
        runner.check("pods_run", || Err(error));
        anyhow::Ok(false)
    })? {
        runner.check("pods_reach_pods", || workloads::pods_reach_pods(&cluster));
        runner.check("pods_reach_services_by_name", || workloads::pods_reach_services_by_name(&cluster));
        runner.check("exec_and_logs", || workloads::exec_and_logs(&cluster));
        runner.check("port_forward", || workloads::port_forward(&cluster));
        runner.check("host_port", || workloads::host_port(&cluster));
    }
    runner.check("volume_survives_its_pod", || workloads::volume_survives_its_pod(&cluster, "lab-md-1"));
    runner.check("a_deleted_machine_is_replaced", || replaced(&cluster));
    runner.check("scaling_holds", || scaling_holds(&cluster));
    runner.check("a_second_cluster_beside_it", || second_cluster(&cluster));
    runner.check("power_loss", || power_loss(&cluster, 15));
    runner.check("delete_leaves_nothing", || delete(&cluster));
    runner.check("deleting_again_does_nothing", || {
        let said = sandbox.windlass(30, &["delete", "cluster", "lab", "--yes"])?;
        ensure!(said.code == 0, "{said:?}");
        sandbox.windlass(30, &["delete", "cluster", "never-was", "--yes"])?.expect(3)?;
        Ok(())
    });
    Ok(())
}

/// `etcdctl member list` shows this many started voters.
pub(crate) fn voters(cluster: &Cluster<'_>, machine: &str, count: usize) -> Result<()> {
    let list = cluster.etcdctl(machine, &["member", "list", "-w", "simple"])?;
    let started = list.lines().filter(|line| line.contains("started") && line.trim_end().ends_with("false")).count();
    ensure!(started == count && list.lines().count() == count, "{list}");
    Ok(())
}

fn bootstrap_plane_is_gone(sandbox: &Sandbox) -> Result<()> {
    let left = sandbox.left();
    let plane = |line: &&String| {
        line.starts_with("processes:")
            && ["etcd", "kube-apiserver", "kube-controller-manager"].iter().any(|name| line.contains(name))
            && line.contains("127.0.0.1")
            && line.contains(&sandbox.work().display().to_string())
    };
    let running: Vec<&String> = left.iter().filter(plane).collect();
    ensure!(running.is_empty(), "{running:#?}");
    ensure!(!sandbox.work().join("lab/generated").exists(), "lab/generated is still there");
    Ok(())
}

fn replaced(cluster: &Cluster<'_>) -> Result<()> {
    cluster.kubectl(&["delete", "machine", "lab-md-1", "--wait=false"])?;
    wait::until("lab-md-1 is gone and another worker is Ready", 120, || {
        let ready = cluster.ready_nodes()?;
        ensure!(ready.iter().any(|name| name.starts_with("lab-md-") && name != "lab-md-1"), "{ready:?}");
        ensure!(!ready.iter().any(|name| name == "lab-md-1"), "{ready:?}");
        Ok(())
    })
    .with_context(|| cluster.say())
}

fn scaling_holds(cluster: &Cluster<'_>) -> Result<()> {
    let workers = |count: usize| {
        wait::until(&format!("{count} workers"), 120, || {
            let ready = cluster.ready_nodes()?;
            let found = ready.iter().filter(|name| name.starts_with("lab-md-")).count();
            ensure!(found == count, "{ready:?}");
            Ok(())
        })
    };
    cluster.kubectl(&["scale", "machinedeployment", "lab-md", "--replicas=2"])?;
    workers(2).with_context(|| cluster.say())?;
    std::thread::sleep(Duration::from_secs(5));
    workers(2)?;
    cluster.kubectl(&["scale", "machinedeployment", "lab-md", "--replicas=1"])?;
    workers(1).with_context(|| cluster.say())
}

/// The longest name that is legal, in the same state folder, with the same pod and service ranges.
fn second_cluster(first: &Cluster<'_>) -> Result<()> {
    let sandbox = first.sandbox;
    let name = longest_legal_name(sandbox)?;
    let file = sandbox.write("second.yaml", &clusters::sized(&name, 1, 1))?;
    sandbox.ok(300, &["create", "cluster", "-f", &file.display().to_string()])?;
    let second = Cluster::new(sandbox, &name);
    let nodes = [format!("{name}-cp-a"), format!("{name}-md-1")];
    second.wait_for_nodes(&[&nodes[0], &nodes[1]], 5)?;
    ensure!(first.ready_nodes()?.len() == 2, "the first cluster was disturbed");
    workloads::start(&second, &nodes[0], &nodes[1])?;
    workloads::pods_reach_services_by_name(&second)?;
    sandbox.ok(120, &["delete", "cluster", &name, "--delete-volumes", "--yes"])?;
    let journal = |line: &String| line.starts_with("files:") && line.contains("/journal/");
    let left: Vec<String> = sandbox.left().into_iter().filter(|line| line.contains(&name) && !journal(line)).collect();
    ensure!(left.is_empty(), "{left:#?}");
    ensure!(first.ready_nodes()?.len() == 2, "the first cluster was disturbed by the delete");
    Ok(())
}

fn longest_legal_name(sandbox: &Sandbox) -> Result<String> {
    let legal = |length: usize| -> Result<bool> {
        let file = sandbox.write("name.yaml", &clusters::sized(&"n".repeat(length), 1, 1))?;
        Ok(sandbox.windlass(10, &["validate", "-f", &file.display().to_string()])?.code == 0)
    };
    let lengths = (1..=70).rev().map(|length| Ok((length, legal(length)?)));
    let longest = lengths.collect::<Result<Vec<_>>>()?.into_iter().find(|(_, legal)| *legal);
    Ok("n".repeat(longest.context("no name is legal")?.0))
}

/// Every machine and hostd killed at once; brought back by one command.
pub(crate) fn power_loss(cluster: &Cluster<'_>, seconds: u64) -> Result<()> {
    let sandbox = cluster.sandbox;
    let addresses = |cluster: &Cluster<'_>| {
        let path =
            "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.addresses[0].address}{\"\\n\"}{end}";
        cluster.kubectl(&["get", "nodes", "-o", path])
    };
    let before = addresses(cluster)?;
    cluster.kubectl(&["create", "configmap", "kept", "--from-literal=a=b"])?;
    let nodes = cluster.ready_nodes()?;
    sandbox.kill_everything()?;
    let lost = Instant::now();
    sandbox.ok(60, &["hostd", "start"])?;
    wait::until("the API", 60, || cluster.kubectl(&["get", "--raw", "/readyz"]))?;
    let back = lost.elapsed();
    println!("     the API answers {:.1} s after the power loss", back.as_secs_f32());
    cluster.kubectl(&["get", "configmap", "kept"])?;
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    wait_for_fresh_nodes(cluster, &names)?;
    ensure!(addresses(cluster)? == before, "nodes or addresses changed: {before}");
    ensure!(back < Duration::from_secs(seconds), "the API came back after {back:?}");
    Ok(())
}

/// Ready, and said so by a kubelet that lives now (its lease is fresh).
fn wait_for_fresh_nodes(cluster: &Cluster<'_>, names: &[&str]) -> Result<()> {
    let lease = |name: &str| {
        cluster.kubectl(&["-n", "kube-node-lease", "get", "lease", name, "-o", "jsonpath={.spec.renewTime}"])
    };
    for name in names {
        let seen = lease(name)?;
        wait::until(&format!("a heartbeat of {name}"), 60, || {
            ensure!(lease(name)? != seen, "none yet");
            Ok(())
        })?;
    }
    cluster.wait_for_nodes(names, 60).with_context(|| cluster.say())
}

/// Delete, and before equals after.
pub(crate) fn delete(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    sandbox.ok(180, &["delete", "cluster", &cluster.name, "--delete-volumes", "--yes"])?;
    nothing_is_left(sandbox)
}

/// hostd has stopped by itself and the host is as it was.
pub(crate) fn nothing_is_left(sandbox: &Sandbox) -> Result<()> {
    wait::until("nothing left", 20, || {
        let left: Vec<String> = sandbox
            .left()
            .into_iter()
            .filter(|line| !line.starts_with("files:") || line.contains("/clusters/"))
            .collect();
        ensure!(left.is_empty(), "{left:#?}");
        Ok(())
    })
}
