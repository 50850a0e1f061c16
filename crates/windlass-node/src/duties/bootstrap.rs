//! What must be in the cluster before the first kubelet joins.
//!
//! Inputs: documents of the configuration, the break-glass kubeconfig of the own API server. Output: each applied, as soon
//! as that server answers; namespaces first, the rest at once.

use std::time::Duration;

use futures::future::try_join_all;
use kube::Client;
use kube::api::DynamicObject;
use windlass_spec::node_config::ClusterDuties;

use super::BOOTSTRAP_PART;
use crate::error::PartError;
use crate::kubernetes;
use crate::parts::Context;

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Failures that are the normal course of a starting API server, at the first pause.
const PATIENCE: u32 = 300;

/// Applies everything; returns when all is there.
pub async fn run(cx: &Context, duties: &ClusterDuties) {
    cx.board.waiting(BOOTSTRAP_PART, "the own API server");
    let mut pause = PAUSE;
    let mut prepared = None;
    for failures in 0.. {
        match try_once(cx, duties, &mut prepared).await {
            Ok(count) => return cx.board.done(BOOTSTRAP_PART, vec![format!("applied {count} objects")]),
            Err(error) if failures < PATIENCE => tracing::debug!("{error}"),
            Err(error) => {
                prepared = None;
                cx.board.failed(BOOTSTRAP_PART, error.to_string(), Vec::new());
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Objects and client, kept from try to try.
type Prepared = Option<(Client, Vec<DynamicObject>)>;

async fn try_once(cx: &Context, duties: &ClusterDuties, prepared: &mut Prepared) -> Result<usize, PartError> {
    let (client, objects) = match prepared {
        Some(prepared) => prepared,
        None => {
            let objects = kubernetes::objects(&duties.bootstrap)?;
            let client = kubernetes::client(&cx.host.root.at(&duties.bootstrap_kubeconfig)).await?;
            prepared.insert((client, objects))
        }
    };
    let (first, then): (Vec<_>, Vec<_>) = objects.iter().partition(|object| kubernetes::is_foundation(object));
    for group in [first, then] {
        try_join_all(group.into_iter().map(|object| apply(client, object))).await?;
    }
    Ok(objects.len())
}

async fn apply(client: &Client, object: &DynamicObject) -> Result<(), PartError> {
    let applied = kubernetes::apply(client, object).await;
    applied.map(drop).map_err(PartError::api(format!("applying {}", kubernetes::title(object))))
}
