//! Nodes as kubelet's own identity may see them.
//!
//! Inputs: kubelet's kubeconfig, the Nodes of the cluster. Outputs: routes to other machines' pods, and
//! whether this machine's Node is Ready with this boot.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};

use windlass_spec::report::PartState;

use crate::boot_id;
use crate::error::PartError;
use crate::network::masquerade;
use crate::network::routes::{Routes, Table};
use crate::parts::Context;
use crate::{kubernetes, paths};

/// Part that says whether routes and masquerade are in place.
pub const NETWORK_PART: &str = "pod-network";
/// Part that says whether the Node is Ready.
pub const NODE_PART: &str = "node";

const PAUSE: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_secs(1);

/// What is kept of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    address: Option<IpAddr>,
    pods: Vec<IpNet>,
    boot_id: String,
    ready: Result<(), String>,
}

fn facts(node: &Node) -> Facts {
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    let spec = node.spec.as_ref();
    Facts {
        address: addresses
            .filter(|address| address.type_ == "InternalIP")
            .find_map(|address| address.address.parse().ok()),
        pods: spec
            .and_then(|spec| spec.pod_cidrs.as_ref())
            .into_iter()
            .flatten()
            .filter_map(|cidr| cidr.parse().ok())
            .collect(),
        boot_id: status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.boot_id.clone())
            .unwrap_or_default(),
        ready: readiness(node),
    }
}

fn readiness(node: &Node) -> Result<(), String> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    match ready {
        None => Err("kubelet has not said yet whether it is ready".to_owned()),
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => {
            Err(ready.message.clone().or_else(|| ready.reason.clone()).unwrap_or_else(|| "not ready".to_owned()))
        }
    }
}

/// Routes to every other machine's pods.
fn routes(nodes: &BTreeMap<String, Facts>, own: &str, ranges: &[IpNet]) -> Routes {
    let others = nodes.iter().filter(|(name, _)| *name != own);
    let pairs = others.flat_map(|(_, facts)| {
        let address = facts.address;
        facts.pods.iter().filter_map(move |pods| Some((*pods, address?)))
    });
    // A PodCIDR outside the cluster's ranges is not ours to route.
    pairs
        .filter(|(pods, via)| pods.addr().is_ipv4() == via.is_ipv4() && ranges.iter().any(|range| range.contains(pods)))
        .collect()
}

/// Follows the Nodes for ever.
pub async fn run(cx: &Context) {
    loop {
        if let Err(error) = follow(cx).await {
            tracing::info!("nodes: {error}");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn follow(cx: &Context) -> Result<(), PartError> {
    set_masquerade(cx).await?;
    if cx.board.state(NODE_PART) != Some(PartState::Done) {
        cx.board.waiting(NODE_PART, "kubelet to get its client certificate");
    }
    let client = client(cx).await;
    let events = watcher(Api::<Node>::all(client), watcher::Config::default());
    pin_mut!(events);
    let mut nodes = BTreeMap::new();
    let mut listed = BTreeMap::new();
    let mut table = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(node)) => {
                listed.insert(node.name_any(), facts(&node));
                continue;
            }
            Ok(Event::InitDone) => nodes = std::mem::take(&mut listed),
            Ok(Event::Apply(node)) => {
                nodes.insert(node.name_any(), facts(&node));
            }
            Ok(Event::Delete(node)) => {
                nodes.remove(&node.name_any());
            }
            Err(error) => {
                let cause = error.to_string();
                return Err(PartError::Api { operation: "watching Nodes".to_owned(), cause });
            }
        }
        take_up(cx, &nodes, &mut table).await;
    }
    Ok(())
}

/// A client with kubelet's identity, once kubelet has it.
pub async fn client(cx: &Context) -> Client {
    let path = cx.host.root.at(paths::KUBELET_KUBECONFIG);
    loop {
        if path.exists()
            && let Ok(client) = kubernetes::client(&path).await
        {
            return client;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn set_masquerade(cx: &Context) -> Result<(), PartError> {
    match masquerade::apply(cx.host.commands.as_ref(), &cx.config().pod_network).await {
        Ok(changes) if !cx.config().pod_network.routes => cx.board.done(NETWORK_PART, changes),
        Ok(_) => {}
        Err(error) => {
            cx.board.failed(NETWORK_PART, error.to_string(), error.log());
            return Err(error);
        }
    }
    Ok(())
}

async fn take_up(cx: &Context, nodes: &BTreeMap<String, Facts>, table: &mut Option<Table>) {
    say_ready(cx, nodes);
    if cx.config().pod_network.routes {
        match set_routes(cx, nodes, table).await {
            Ok(0) => cx.board.done(NETWORK_PART, Vec::new()),
            Ok(count) => cx.board.done(NETWORK_PART, vec![format!("{count} routes changed")]),
            Err(error) => {
                *table = None;
                cx.board.failed(NETWORK_PART, error.to_string(), Vec::new());
            }
        }
    }
}

async fn set_routes(
    cx: &Context,
    nodes: &BTreeMap<String, Facts>,
    table: &mut Option<Table>,
) -> Result<usize, PartError> {
    let wanted = routes(nodes, &cx.config().machine.name, &cx.config().pod_network.pods);
    let table = match table {
        Some(table) => table,
        None => table.insert(Table::open()?),
    };
    table.apply(&wanted).await
}

fn say_ready(cx: &Context, nodes: &BTreeMap<String, Facts>) {
    let own = nodes.get(&cx.config().machine.name);
    let missing = match own {
        None => Some("the Node to register".to_owned()),
        Some(facts) => facts.ready.clone().err().or_else(|| {
            let this = boot_id::of_kernel(&cx.host.root)?;
            (facts.boot_id != this).then(|| "kubelet to report this boot".to_owned())
        }),
    };
    cx.board.change(|report| report.node_ready = missing.is_none());
    match missing {
        None => cx.board.done(NODE_PART, Vec::new()),
        Some(missing) => cx.board.waiting(NODE_PART, missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(address: &str, pods: &str) -> Facts {
        Facts {
            address: address.parse().ok(),
            pods: pods.parse().into_iter().collect(),
            boot_id: String::new(),
            ready: Ok(()),
        }
    }

    #[test]
    fn routes_go_to_others_within_the_cluster() {
        let nodes = BTreeMap::from([
            ("a".to_owned(), node("10.77.0.11", "10.244.0.0/24")),
            ("b".to_owned(), node("10.77.0.21", "10.244.1.0/24")),
            ("odd".to_owned(), node("10.77.0.22", "10.99.0.0/24")),
            ("new".to_owned(), node("10.77.0.23", "")),
        ]);
        let ranges = ["10.244.0.0/16".parse().unwrap()];
        let wanted = routes(&nodes, "a", &ranges);
        assert_eq!(wanted, Routes::from([("10.244.1.0/24".parse().unwrap(), "10.77.0.21".parse().unwrap())]));
    }
}
