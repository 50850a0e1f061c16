//! Proof from outside: the API says every Node is Ready, and a pod resolves a Service's name.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;

const PAUSE: Duration = Duration::from_millis(100);
const NAMESPACE: &str = "default";
const PROBE: &str = "windlass-dns-probe";

/// A client that goes through no proxy.
pub(super) async fn client(kubeconfig: &str) -> anyhow::Result<Client> {
    let mut config =
        kube::Config::from_custom_kubeconfig(Kubeconfig::from_yaml(kubeconfig)?, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(2));
    Ok(Client::try_from(config)?)
}

/// Waits until the API answers this client.
pub(super) async fn api_answers(client: &Client) {
    while Api::<Node>::all(client.clone()).list(&ListParams::default()).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until each of these Nodes is Ready.
pub(super) async fn nodes_ready(client: &Client, wanted: &BTreeSet<String>) {
    let nodes = Api::<Node>::all(client.clone());
    loop {
        if let Ok(list) = nodes.list(&ListParams::default()).await {
            let ready: BTreeSet<String> =
                list.items.into_iter().filter(is_ready).filter_map(|node| node.metadata.name).collect();
            if wanted.is_subset(&ready) {
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Runs a pod that resolves the API's Service name through the cluster's DNS; waits until it did.
pub(super) async fn pod_resolves(client: &Client, image: &str, domain: &str) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let probe = probe(image, domain)?;
    // The namespace's account appears a moment after the API.
    while let Err(error) = pods.create(&PostParams::default(), &probe).await {
        if matches!(&error, kube::Error::Api(status) if status.code == 409) {
            break;
        }
        tracing::debug!("the probe was not taken yet: {error}");
        tokio::time::sleep(PAUSE).await;
    }
    loop {
        let phase = pods.get_opt(PROBE).await.ok().flatten().and_then(|pod| pod.status?.phase);
        match phase.as_deref() {
            Some("Succeeded") => break,
            Some("Failed") => anyhow::bail!("no pod could resolve kubernetes.default.svc.{domain}"),
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    pods.delete(PROBE, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

fn probe(image: &str, domain: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": PROBE, "namespace": NAMESPACE },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "probe",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["dev", "resolve", format!("kubernetes.default.svc.{domain}"), "--for", "120"],
            }],
        },
    }))?)
}
