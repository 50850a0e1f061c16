//! What nobody has to ask for: defaults an auditor would look for, and what the cluster keeps by itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use windlass_e2e::cluster::Cluster;
use windlass_e2e::wait;

use crate::everything::{CONTROL_PLANE, WORKER};
use crate::site::address;

const TAINT: &str = "node-role.kubernetes.io/control-plane";

/// What the policy names is in the log, what it leaves out is not.
pub(crate) fn audit(cluster: &Cluster<'_>) -> Result<()> {
    cluster.kubectl(&["create", "configmap", "audited", "--from-literal=a=b"])?;
    cluster.kubectl(&["create", "serviceaccount", "unaudited"])?;
    let log = wait::until("the audit log", 20, || {
        let log = cluster.file(CONTROL_PLANE, "/var/log/kubernetes/audit/audit.log")?;
        ensure!(log.contains("\"name\":\"audited\""), "it does not tell of the ConfigMap");
        Ok(log)
    })?;
    // The last line may be half written.
    let (whole, _) = log.rsplit_once('\n').unwrap_or_default();
    for line in whole.lines() {
        let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        ensure!(event["objectRef"]["resource"] == "configmaps" && event["level"] == "Metadata", "{line}");
    }
    Ok(())
}

pub(crate) fn secrets_at_rest(cluster: &Cluster<'_>) -> Result<()> {
    cluster.kubectl(&["create", "secret", "generic", "plain", "--from-literal=word=sesame-open"])?;
    let stored = cluster.etcdctl(CONTROL_PLANE, &["get", "/registry/secrets/default/plain", "--print-value-only"])?;
    ensure!(stored.starts_with("k8s:enc:"), "it is stored as {stored:?}");
    ensure!(!stored.contains("sesame-open"), "the word is in clear");
    Ok(())
}

/// Without a credential: health and nothing else.
pub(crate) fn anonymous(cluster: &Cluster<'_>) -> Result<()> {
    let server = server(cluster)?;
    let codes = [("/healthz", "200"), ("/livez", "200"), ("/readyz", "200")]
        .into_iter()
        .chain(["/", "/api", "/version", "/metrics", "/api/v1/nodes", "/readyz/etcd"].map(|path| (path, "401")));
    for (path, expected) in codes {
        let url = format!("{server}{path}");
        let line = ["-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}", &url];
        let code = cluster.sandbox.run(Path::new("curl"), 20, &line, &[])?.expect(0)?.out;
        ensure!(code == expected, "{path} answers {code}, not {expected}");
    }
    Ok(())
}

fn server(cluster: &Cluster<'_>) -> Result<String> {
    let config = cluster.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    ensure!(config.starts_with("https://"), "{config}");
    Ok(config)
}

/// With the worker's own credential, on the worker.
pub(crate) fn node_restriction(cluster: &Cluster<'_>) -> Result<()> {
    let as_kubelet = |arguments: &[&str]| {
        let kubectl = ["kubectl", "--kubeconfig=/etc/kubernetes/kubelet.conf"];
        cluster.inside(WORKER, &kubectl.into_iter().chain(arguments.iter().copied()).collect::<Vec<_>>())
    };
    as_kubelet(&["label", "node", WORKER, "mine=1"]).context("its own Node")?;
    as_kubelet(&["label", "node", WORKER, "mine-"])?;
    let forbidden: [&[&str]; 5] = [
        &["label", "node", CONTROL_PLANE, "mine=1"],
        &["label", "node", WORKER, "node-role.kubernetes.io/control-plane="],
        &["taint", "node", CONTROL_PLANE, "mine=1:NoSchedule"],
        &["get", "secrets", "-A"],
        &["get", "secret", "plain"],
    ];
    for arguments in forbidden {
        let Err(error) = as_kubelet(arguments) else { anyhow::bail!("a kubelet may {}", arguments.join(" ")) };
        let said = format!("{error:#}");
        ensure!(said.contains("orbidden") || said.contains("is not allowed to"), "{}: {said}", arguments.join(" "));
    }
    Ok(())
}

/// Once its Node is Ready, a worker's token is good for nothing.
pub(crate) fn join_tokens(cluster: &Cluster<'_>) -> Result<()> {
    let path = "jsonpath={range .items[?(@.type==\"bootstrap.kubernetes.io/token\")]}{.metadata.name} {end}";
    wait::until("no join token", 60, || {
        let tokens = cluster.kubectl(&["-n", "kube-system", "get", "secrets", "-o", path])?;
        ensure!(tokens.trim().is_empty(), "{tokens}");
        Ok(())
    })?;
    let with_token = ["kubectl", "--kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "get", "--raw", "/api"];
    let Err(error) = cluster.inside(WORKER, &with_token) else { anyhow::bail!("the token is still taken") };
    let said = format!("{error:#}");
    ensure!(said.contains("nauthorized") || said.contains("provide credentials"), "{said}");
    Ok(())
}

pub(crate) fn metrics(cluster: &Cluster<'_>) -> Result<()> {
    let sandbox = cluster.sandbox;
    let curl = |line: &[&str]| {
        let line: Vec<&str> = ["-s", "--fail", "--max-time", "10"].iter().chain(line).copied().collect();
        anyhow::Ok(sandbox.run(Path::new("curl"), 20, &line, &[])?.expect(0)?.out)
    };
    let ask = "exec 3<>/dev/tcp/127.0.0.1/7442; printf 'GET /metrics HTTP/1.0\\r\\nHost: a\\r\\n\\r\\n' >&3; cat <&3";
    let socket = format!("/run/windlass/{}/hostd.sock", sandbox.id());
    let controllers = format!("http://{}:7441/metrics", address(sandbox, CONTROL_PLANE)?);
    let told = [
        ("agent", cluster.inside(WORKER, &["timeout", "10", "bash", "-c", ask])?),
        ("controllers", curl(&[&controllers])?),
        ("hostd", curl(&["--unix-socket", &socket, "http://hostd/metrics"])?),
    ];
    for (daemon, text) in told {
        let values = text.lines().filter(|line| line.starts_with("windlass_")).count();
        ensure!(values > 0, "the {daemon}'s metrics:\n{text}");
    }
    Ok(())
}

/// Without a worker the control plane takes workloads; with one again it does not.
pub(crate) fn taint_follows_workers(cluster: &Cluster<'_>) -> Result<()> {
    let scale =
        |replicas: u32| cluster.kubectl(&["scale", "machinedeployment", "lab-md", &format!("--replicas={replicas}")]);
    let tainted = |wanted: bool| {
        wait::until(&format!("the control plane's taint to be {wanted}"), 60, || {
            let taints = cluster.get(&["node", CONTROL_PLANE])?["spec"]["taints"].clone();
            let found = taints.as_array().into_iter().flatten().any(|taint| taint["key"] == TAINT);
            ensure!(found == wanted, "{taints}");
            Ok(())
        })
    };
    tainted(true)?;
    scale(0)?;
    wait::until("no worker", 120, || {
        let ready = cluster.ready_nodes()?;
        ensure!(ready == [CONTROL_PLANE], "{ready:?}");
        Ok(())
    })
    .with_context(|| cluster.say())?;
    tainted(false)?;
    scale(1)?;
    wait::until("a worker", 120, || {
        let ready = cluster.ready_nodes()?;
        ensure!(ready.len() == 2, "{ready:?}");
        Ok(())
    })
    .with_context(|| cluster.say())?;
    tainted(true)?;
    std::thread::sleep(Duration::from_secs(2));
    tainted(true)
}

/// People who `kubectl describe machine` see what happened to it.
pub(crate) fn events(cluster: &Cluster<'_>) -> Result<()> {
    let ready = cluster.ready_nodes()?;
    let worker = ready.iter().find(|name| *name != CONTROL_PLANE).context("there is a worker")?;
    wait::until(&format!("events of machine {worker}"), 20, || {
        let selector = format!("involvedObject.kind=Machine,involvedObject.name={worker}");
        let events = cluster.get(&["events", "-A", "--field-selector", &selector])?;
        ensure!(events["items"].as_array().is_some_and(|items| !items.is_empty()), "none");
        Ok(())
    })
}
