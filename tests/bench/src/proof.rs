//! When the clock stops: every Node Ready, and a pod has resolved a Service's name.
//!
//! Both sides are asked the same questions at the same pace over one connection that stays open: what the asking costs
//! comes off what is measured.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::time::{sleep, timeout};

const PACE: Duration = Duration::from_millis(250);
const ANSWER: Duration = Duration::from_secs(5);
const POD: &str = "resolves";

/// Waits until both are proven; the kubeconfig may come later.
pub(crate) async fn wait(kubeconfig: &Path, nodes: usize, image: &str, deadline: Duration) -> Result<()> {
    let mut last = None;
    let proving = async {
        let mut client = None;
        while let Err(error) = step(kubeconfig, nodes, image, &mut client).await {
            last = Some(error);
            sleep(PACE).await;
        }
    };
    let proven = timeout(deadline, proving).await;
    match (proven, last) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(error)) => Err(error.context(format!("not proven in {} s", deadline.as_secs()))),
        (Err(_), None) => bail!("no answer in {} s", deadline.as_secs()),
    }
}

async fn step(kubeconfig: &Path, nodes: usize, image: &str, client: &mut Option<Client>) -> Result<()> {
    let client = match client {
        Some(client) => client,
        None => client.insert(connect(kubeconfig).await?),
    };
    timeout(ANSWER, proven(client, nodes, image)).await?
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

async fn proven(client: &Client, nodes: usize, image: &str) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let Some(found) = pods.get_opt(POD).await? else {
        // Refused until the namespace is there.
        pods.create(&PostParams::default(), &pod(image)?).await?;
        bail!("the pod is new");
    };
    let phase = found.status.and_then(|status| status.phase).context("the pod has no phase")?;
    ensure!(phase == "Succeeded", "the pod is {phase}");
    let list = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let count = list.items.iter().filter(|node| is_ready(node)).count();
    ensure!(count == nodes, "{count} of {nodes} nodes are Ready");
    Ok(())
}

fn pod(image: &str) -> Result<Pod> {
    let arguments = ["dev", "resolve", "kubernetes.default.svc.cluster.local", "--for", "120"];
    Ok(serde_json::from_value(json!({
        "metadata": {"name": POD},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{"name": "resolve", "image": image, "imagePullPolicy": "Never", "args": arguments}],
        },
    }))?)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
