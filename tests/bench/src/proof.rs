//! When the clock stops: every Node Ready, and a pod has resolved a Service's name.
//!
//! Both sides are asked the same questions with the same client at the same pace.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use windlass_e2e::cluster::{Cluster, condition};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: resolves}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - {name: resolve, image: IMAGE, imagePullPolicy: Never, args: [dev, resolve, kubernetes.default.svc.cluster.local, --for, "120"]}
"#;

/// Waits until both are proven.
pub(crate) fn wait(cluster: &Cluster<'_>, nodes: usize, image: &str, deadline: Duration) -> Result<()> {
    let started = std::time::Instant::now();
    let pod = POD.replace("IMAGE", image);
    let mut asked = false;
    loop {
        // Refused until the API is there and the namespace has its account.
        asked = asked || cluster.apply(&pod).is_ok();
        match proven(cluster, nodes) {
            Ok(()) => return Ok(()),
            Err(error) if started.elapsed() > deadline => bail!("not proven in {} s: {error:#}", deadline.as_secs()),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn proven(cluster: &Cluster<'_>, nodes: usize) -> Result<()> {
    let pod = cluster.get(&["pod", "resolves"])?;
    ensure!(pod["status"]["phase"] == "Succeeded", "the pod is {}", pod["status"]["phase"]);
    let list = cluster.get(&["nodes"])?;
    let ready = list["items"].as_array().into_iter().flatten().filter(|node| condition(node, "Ready") == Some("True"));
    let count = ready.count();
    ensure!(count == nodes, "{count} of {nodes} nodes are Ready");
    Ok(())
}
