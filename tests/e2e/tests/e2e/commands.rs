//! Commands beside create and delete: what they print, their exit codes, what they leave alone.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use windlass_e2e::cluster::Cluster;
use windlass_e2e::sandbox::Sandbox;
use windlass_e2e::wait;

use crate::everything::{CONTROL_PLANE, WORKER};

fn data(sandbox: &Sandbox, arguments: &[&str]) -> Result<Value> {
    let line: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
    let said = sandbox.ok(30, &line)?;
    serde_json::from_str(&said).with_context(|| said)
}

pub(crate) fn plan_is_empty(sandbox: &Sandbox, file: &str) -> Result<()> {
    let said = sandbox.windlass(30, &["plan", "-f", file, "--detailed-exitcode"])?;
    said.expect(0).context("of the file that the cluster was made from")?;
    let text = fs_err::read_to_string(file)?;
    ensure!(text.contains("\"maxPods\":60"), "the spec is written otherwise");
    let other = sandbox.write("other.yaml", &text.replace("\"maxPods\":60", "\"maxPods\":61"))?;
    let other = other.display().to_string();
    sandbox.windlass(30, &["plan", "-f", &other, "--detailed-exitcode"])?.expect(2).context("of another file")?;
    Ok(())
}

pub(crate) fn lists(sandbox: &Sandbox) -> Result<()> {
    let clusters = data(sandbox, &["get", "clusters"])?;
    let lab = clusters.as_array().and_then(|clusters| clusters.iter().find(|cluster| cluster["name"] == "lab"));
    let lab = lab.with_context(|| format!("{clusters}"))?;
    ensure!(lab["api"]["answers"] == true && lab["api"]["workers"] == "1/1", "{lab}");
    let machines = data(sandbox, &["get", "machines", "lab"])?;
    let machines = machines.as_array().context("a list")?;
    let names: BTreeSet<&str> = machines.iter().filter_map(|machine| machine["name"].as_str()).collect();
    ensure!(names == BTreeSet::from([CONTROL_PLANE, WORKER]), "{machines:?}");
    ensure!(machines.iter().all(|machine| machine["nodeReady"] == true), "{machines:?}");
    let spec = data(sandbox, &["get", "cluster", "lab"])?;
    ensure!(spec["spec"]["components"]["kubelet"]["config"]["maxPods"] == 60, "{spec}");
    ensure!(data(sandbox, &["get", "cluster", "lab", "--full"])?.to_string().contains("origins"), "no origins");
    Ok(())
}

pub(crate) fn logs(sandbox: &Sandbox) -> Result<()> {
    let asked: [&[&str]; 5] = [
        &[],
        &["--machine", WORKER, "--component", "kubelet"],
        &["--component", "kube-apiserver"],
        &["--component", "etcd"],
        &["--component", "controller"],
    ];
    for arguments in asked {
        let line: Vec<&str> = ["logs", "lab", "--tail", "20"].iter().chain(arguments).copied().collect();
        let lines = sandbox.ok(30, &line)?.lines().count();
        ensure!((1..=100).contains(&lines), "{} printed {lines} lines", line.join(" "));
    }
    let unknown = sandbox.windlass(30, &["logs", "lab", "--component", "nonsense"])?;
    ensure!(unknown.code != 0, "{unknown:?}");
    Ok(())
}

/// Another tool's entries stay, and so does the file as it was, beside it.
pub(crate) fn kubeconfig_merges(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    let path = sandbox.home().join(".kube/config");
    let foreign = "apiVersion: v1\nkind: Config\npreferences: {colors: true}\nclusters:\n- name: work\n  cluster: {server: \
                   \"https://work.example\"}\nusers:\n- name: me\n  user: {token: mine}\ncontexts:\n- name: work\n  \
                   context: {cluster: work, user: me}\ncurrent-context: work\n";
    fs_err::create_dir_all(path.parent().context("a folder")?)?;
    fs_err::write(&path, foreign)?;
    sandbox.ok(30, &["kubeconfig", "lab", "--merge"])?;
    ensure!(fs_err::read_to_string(format!("{}.windlass-backup", path.display()))? == foreign, "the backup differs");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs_err::metadata(&path)?.permissions()) & 0o777;
    ensure!(mode == 0o600, "mode {mode:o}");
    let merged = Cluster::new(sandbox, "lab").with_kubeconfig(path);
    let view = merged.kubectl(&["config", "view", "--raw", "-o", "json"])?;
    for kept in ["https://work.example", "\"mine\"", "\"work\""] {
        ensure!(view.contains(kept), "{kept} is gone:\n{view}");
    }
    ensure!(merged.ready_nodes()?.len() == 2, "the merged context does not lead to the cluster");
    sandbox.ok(30, &["kubeconfig", "lab", "--merge"]).context("a second time")?;
    ensure!(merged.kubectl(&["config", "get-contexts", "-o", "name"])?.lines().count() == 2);
    Ok(())
}

pub(crate) fn shell(sandbox: &Sandbox) -> Result<()> {
    let line = ["machine", "shell", WORKER, "--", "sh", "-c", "cat; echo said >&2; exit 7"];
    let said = sandbox.feed(20, &line, b"hello\0there\n")?.expect(7)?;
    ensure!(said.out == "hello\0there\n" && said.err.trim() == "said", "{said:?}");
    Ok(())
}

/// Name, process and boot of every machine.
fn machines(sandbox: &Sandbox) -> Result<Vec<String>> {
    let found = data(sandbox, &["machine", "ls"])?;
    let found = found.as_array().context("a list")?;
    let line = |one: &Value| format!("{} {} {}", one["machine"]["name"], one["pid"], one["machine"]["bootId"]);
    Ok(found.iter().map(line).collect())
}

/// A command of another build makes hostd that build, in the same process, and machines do not notice.
pub(crate) fn another_build(sandbox: &Sandbox) -> Result<()> {
    let other = sandbox.work().join("another-windlass");
    fs_err::copy(sandbox.binary(), &other)?;
    fs_err::OpenOptions::new().append(true).open(&other)?.write_all(b"\0")?;
    let daemon = || anyhow::Ok(data(sandbox, &["hostd", "status"])?["daemon"].clone());
    let (hostd, before) = (daemon()?, machines(sandbox)?);
    ensure!(before.len() == 2 && !before.iter().any(|machine| machine.contains("null")), "{before:?}");
    let agent = sandbox.daemon("agent").context("an agent runs")?;

    sandbox.run(&other, 60, &["hostd", "start"], &[])?.expect(0)?;
    let after = daemon()?;
    ensure!(after["build"] != hostd["build"] && after["pid"] == hostd["pid"], "{hostd} became {after}");
    ensure!(machines(sandbox)? == before, "{before:?} became {:?}", machines(sandbox)?);
    ensure!(sandbox.daemon("agent") == Some(agent), "an agent was started again");

    sandbox.ok(60, &["hostd", "start"]).context("and back")?;
    ensure!(daemon()?["build"] == hostd["build"], "{} became {hostd}", daemon()?);
    ensure!(machines(sandbox)? == before, "{before:?} became {:?}", machines(sandbox)?);
    Ok(())
}

pub(crate) fn stop_and_start(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    let before = machines(sandbox)?;
    sandbox.ok(60, &["machine", "stop", WORKER])?;
    let list = sandbox.ok(20, &["machine", "ls"])?;
    let line = list.lines().find(|line| line.starts_with(WORKER)).with_context(|| list.clone())?;
    ensure!(line.contains("Stopped"), "{line}");
    let shell = sandbox.windlass(20, &["machine", "shell", WORKER, "--", "true"])?;
    ensure!(shell.code == 1 && shell.err.contains(&format!("windlass machine start {WORKER}")), "{shell:?}");
    sandbox.ok(60, &["machine", "start", WORKER])?;
    heartbeat(cluster)?;
    let after = machines(sandbox)?;
    let same = before.iter().filter(|machine| after.contains(machine)).count();
    ensure!(same == 1, "the worker alone starts anew: {before:?} became {after:?}");
    Ok(())
}

/// Waits until the worker's kubelet, as it runs now, has renewed its lease, and its Node is Ready.
fn heartbeat(cluster: &Cluster<'_>) -> Result<()> {
    let path = "jsonpath={.spec.renewTime}";
    let lease = || cluster.kubectl(&["-n", "kube-node-lease", "get", "lease", WORKER, "-o", path]);
    let before = lease()?;
    wait::until(&format!("a heartbeat of {WORKER}"), 60, || {
        ensure!(lease()? != before, "none");
        Ok(())
    })
    .with_context(|| cluster.say())?;
    cluster.wait_for_nodes(&[CONTROL_PLANE, WORKER], 60).with_context(|| cluster.say())
}

/// One bit of a program that kubelet's runtime would run: the machine says which file it is and starts nothing of the
/// bundle, until the file is whole again.
pub(crate) fn swapped_file(cluster: &Cluster<'_>) -> Result<()> {
    const PROGRAM: &str = "/opt/cni/bin/ptp";
    let sandbox = cluster.sandbox;
    let flip = format!(
        "cp -p {PROGRAM} /root/whole && byte=$(od -An -tu1 -j1000 -N1 {PROGRAM}) && \
         printf \"\\\\$(printf %o $((byte ^ 1)))\" | dd of={PROGRAM} bs=1 seek=1000 conv=notrunc status=none"
    );
    cluster.inside(WORKER, &["sh", "-c", &flip])?;
    sandbox.ok(90, &["machine", "restart", WORKER])?;
    let named = format!("{PROGRAM} was changed");
    wait::until("the agent names the file", 60, || {
        let status = cluster.inside(WORKER, &["windlass", "agent", "status", "-o", "json"])?;
        ensure!(status.contains(&named), "{status}");
        Ok(())
    })?;
    wait::until("windlass status names the file", 60, || {
        let status = data(sandbox, &["status", "lab"])?.to_string();
        ensure!(status.contains(&named), "{status}");
        Ok(())
    })?;
    for unit in ["containerd", "kubelet"] {
        ensure!(cluster.inside(WORKER, &["systemctl", "is-active", unit]).is_err(), "{unit} runs all the same");
    }
    cluster.inside(WORKER, &["cp", "-p", "/root/whole", PROGRAM])?;
    heartbeat(cluster)
}
