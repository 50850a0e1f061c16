//! What a cluster needs to live by itself, kept by one control-plane agent at a time.
//!
//! Inputs: [`windlass_spec::node_config::ClusterDuties`], join tokens, the cluster's API. Outputs: bootstrap RBAC, join
//! tokens, certificate approvals, labels and taints only a manager may set, add-ons. All but the first under the lease
//! `kube-system/windlass-cluster`.

use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_spec::node_config::{Addon, ClusterDuties};

use crate::error::PartError;
use crate::kubernetes;
use crate::parts::Context;

pub mod addons;
pub mod approver;
pub mod bootstrap;
pub mod lease;
pub mod nodes;
pub mod tokens;

use lease::Lease;
use nodes::View;

/// Part that says who holds the lease.
pub const PART: &str = "cluster-duties";
/// Part of the bootstrap objects.
pub const BOOTSTRAP_PART: &str = "cluster-bootstrap";

const RETRY: Duration = Duration::from_millis(500);

/// Name of an add-on's part.
pub fn addon_part(addon: &str) -> String {
    format!("addon-{addon}")
}

/// Keeps the duties until `shutdown`, then lets the lease go.
pub async fn run(cx: &Context, duties: &ClusterDuties, shutdown: &CancellationToken) {
    bootstrap::run(cx, duties).await;
    loop {
        match client(cx, duties).await {
            Ok(client) => {
                let lease = Lease::new(client.clone(), identity(cx));
                let work = || under_lease(cx, duties, &client);
                Box::pin(lease.hold(|holder| say_holder(cx, duties, holder), work, shutdown)).await;
            }
            Err(error) => cx.board.waiting(PART, error.to_string()),
        }
        if shutdown.is_cancelled() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn client(cx: &Context, duties: &ClusterDuties) -> Result<Client, PartError> {
    kubernetes::client(&cx.host.root.at(&duties.kubeconfig)).await
}

fn identity(cx: &Context) -> String {
    format!("{}_{}", cx.config().machine.name, cx.board.report().boot_id)
}

fn say_holder(cx: &Context, duties: &ClusterDuties, holder: &str) {
    let is_own = holder == identity(cx);
    let machine = holder.split_once('_').map_or(holder, |(machine, _)| machine);
    if !is_own {
        duties.addons.iter().for_each(|addon| cx.board.remove(&addon_part(&addon.name)));
    }
    cx.board.done(PART, vec![if is_own { "held here".to_owned() } else { format!("held by {machine}") }]);
}

async fn under_lease(cx: &Context, duties: &ClusterDuties, client: &Client) {
    let view: watch::Sender<Option<View>> = watch::Sender::new(None);
    let addons = duties.addons.iter().map(|addon| keep_addon(cx, client, addon));
    tokio::join!(
        nodes::follow(client, &view),
        nodes::keep(client, &duties.nodes, view.subscribe()),
        tokens::keep(client, &cx.secrets().join_tokens, view.subscribe()),
        approver::keep(client, &duties.nodes, &cx.secrets().join_tokens, view.subscribe()),
        join_all(addons),
    );
}

async fn keep_addon(cx: &Context, client: &Client, addon: &Addon) {
    addons::keep(client, addon, &cx.board, &addon_part(&addon.name)).await;
}
