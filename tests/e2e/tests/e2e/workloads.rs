//! What people do with a cluster: pods, Services, names, volumes, exec, logs, forwarded and host ports.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use windlass_e2e::cluster::Cluster;
use windlass_e2e::wait;

/// Two pods on two machines, each behind a Service.
pub(crate) fn start(cluster: &Cluster<'_>, one: &str, two: &str) -> Result<()> {
    cluster.load_probe(crate::probe(), &[one, two])?;
    let port = "ports: [{containerPort: 8080, hostPort: 18080}]";
    cluster.run_probe("one", one, port, "")?;
    cluster.run_probe("two", two, "", "")?;
    for name in ["one", "two"] {
        cluster.apply(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{selector: {{app: {name}}}, ports: [{{port: 80, targetPort: 8080}}]}}}}"
        ))?;
    }
    cluster.wait_for_pod("one", 60)?;
    cluster.wait_for_pod("two", 60)
}

/// Pods reach pods of the other machine by address.
pub(crate) fn pods_reach_pods(cluster: &Cluster<'_>) -> Result<()> {
    for (from, to) in [("one", "two"), ("two", "one")] {
        let address = cluster.kubectl(&["get", "pod", to, "-o", "jsonpath={.status.podIP}"])?;
        ensure!(cluster.probe(from, &["get", &address, "8080"])?.trim() == to, "{from} to {to} ({address})");
    }
    Ok(())
}

/// Pods reach Services of the other machine by name, and the API by its name.
pub(crate) fn pods_reach_services_by_name(cluster: &Cluster<'_>) -> Result<()> {
    for (from, to) in [("one", "two"), ("two", "one")] {
        for name in [to.to_owned(), format!("{to}.default.svc.cluster.local")] {
            let said = wait::until(&format!("{from} to {name}"), 20, || cluster.probe(from, &["get", &name, "80"]))?;
            ensure!(said.trim() == to, "{said:?}");
        }
    }
    let address = cluster.probe("one", &["resolve", "kubernetes.default"])?;
    ensure!(address.lines().any(|line| line.trim() == "10.96.0.1"), "kubernetes.default is {address:?}");
    Ok(())
}

/// `kubectl exec` passes output and exit code through, `kubectl logs` shows what was said.
pub(crate) fn exec_and_logs(cluster: &Cluster<'_>) -> Result<()> {
    for pod in ["one", "two"] {
        ensure!(cluster.kubectl(&["logs", pod])?.contains("serving on 8080"), "logs of {pod}");
        let said = cluster.try_kubectl(&["exec", pod, "--", "/probe", "nonsense"])?;
        ensure!(said.code == 1 && said.err.contains("usage: probe"), "{said:?}");
    }
    Ok(())
}

/// `kubectl port-forward`.
pub(crate) fn port_forward(cluster: &Cluster<'_>) -> Result<()> {
    let kubectl = cluster.sandbox.kubectl_program()?;
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let mut command = cluster.sandbox.command(&kubectl, &[&kubeconfig, "port-forward", "pod/two", ":8080"]);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let asked = ask_forwarded(&mut child);
    child.kill()?;
    child.wait()?;
    ensure!(asked?.ends_with("two"), "the answer came from another pod");
    Ok(())
}

fn ask_forwarded(child: &mut std::process::Child) -> Result<String> {
    let mut out = std::io::BufReader::new(child.stdout.take().context("piped")?);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line)?;
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
    http_get("127.0.0.1", port.with_context(|| format!("no port in {line:?}"))?.parse()?)
}

/// A Pod with a host port is reached at its machine's address.
pub(crate) fn host_port(cluster: &Cluster<'_>) -> Result<()> {
    let address = cluster.kubectl(&["get", "pod", "one", "-o", "jsonpath={.status.hostIP}"])?;
    let answer = wait::until("the host port", 20, || http_get(&address, 18080))?;
    ensure!(answer.ends_with("one"), "{answer:?}");
    Ok(())
}

/// A claim binds to the default StorageClass, and what was written survives the pod.
pub(crate) fn volume_survives_its_pod(cluster: &Cluster<'_>, node: &str) -> Result<()> {
    cluster.apply(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}}",
    )?;
    let mount = "volumeMounts: [{name: data, mountPath: /data}]";
    let volume = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]";
    // Bound by the scheduler, since the class waits for the first consumer: chosen by affinity, not by nodeName.
    let pod = |name: &str| {
        let node = format!("nodeSelector: {{kubernetes.io/hostname: {node}}}\n  {volume}");
        cluster.run_probe_anywhere(name, mount, &node)?;
        cluster.wait_for_pod(name, 90)
    };
    pod("writer")?;
    cluster.probe("writer", &["write", "/data/kept", "it is kept"])?;
    cluster.kubectl(&["delete", "pod", "writer", "--wait"])?;
    pod("reader")?;
    ensure!(cluster.probe("reader", &["read", "/data/kept"])?.trim() == "it is kept");
    cluster.kubectl(&["delete", "pod", "reader", "--wait"])?;
    cluster.kubectl(&["delete", "pvc", "data", "--wait"])?;
    Ok(())
}

fn http_get(host: &str, port: u16) -> Result<String> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
