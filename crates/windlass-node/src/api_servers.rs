//! The API servers of the cluster, as the cluster itself lists them.
//!
//! Inputs: the EndpointSlice of the `kubernetes` Service, watched with kubelet's identity. Outputs: the balancer's servers,
//! and in the ledger the last seen ones, with which the machine finds the API after a restart.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::runtime::watcher::watch_object;

use crate::balancer::Balancer;
use crate::error::PartError;
use crate::node_watch;
use crate::parts::Context;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const RETRY: Duration = Duration::from_secs(2);

/// Follows the list for ever.
pub async fn run(cx: &Context, balancer: &Balancer) {
    loop {
        if let Err(error) = follow(cx, balancer).await {
            tracing::debug!("API servers: {error}");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn follow(cx: &Context, balancer: &Balancer) -> Result<(), PartError> {
    let client = node_watch::client(cx).await;
    let slices = watch_object(Api::<EndpointSlice>::namespaced(client, NAMESPACE), NAME);
    pin_mut!(slices);
    while let Some(found) = slices.next().await {
        let found = found.map_err(|error| PartError::Api {
            operation: "watching the kubernetes Service".to_owned(),
            cause: error.to_string(),
        })?;
        let servers = found.as_ref().map(servers).unwrap_or_default();
        // An empty list is a starting cluster's, not a reason to forget where it was.
        if !servers.is_empty() {
            cx.ledger.update(|ledger| ledger.api_servers.clone_from(&servers))?;
            set(cx, balancer, servers);
        }
    }
    Ok(())
}

fn servers(slice: &EndpointSlice) -> Vec<String> {
    let ports = slice.ports.iter().flatten().filter_map(|port| port.port);
    let port = ports.min().unwrap_or(6443);
    let addresses = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses);
    let mut servers: Vec<String> =
        addresses.filter_map(|address| address.parse().ok()).map(|address| socket(address, port)).collect();
    servers.sort();
    servers
}

fn socket(address: std::net::IpAddr, port: i32) -> String {
    std::net::SocketAddr::new(address, u16::try_from(port).unwrap_or_default()).to_string()
}

/// Gives the balancer the servers seen and those of the configuration.
pub fn set(cx: &Context, balancer: &Balancer, seen: Vec<String>) {
    let config = &cx.config().balancer;
    let mut servers = config.servers.clone();
    servers.extend(seen);
    servers.sort();
    servers.dedup();
    let own = cx.config().cluster_duties.as_ref().and_then(|_| config.servers.first().cloned());
    balancer.pool().set_when_different(servers, own, Some(config.fallback.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_the_slice() {
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "addressType": "IPv4",
            "endpoints": [{ "addresses": ["10.77.0.12"] }, { "addresses": ["10.77.0.11"] }],
            "ports": [{ "port": 443 }],
        }))
        .unwrap();
        assert_eq!(servers(&slice), ["10.77.0.11:443", "10.77.0.12:443"]);
    }
}
