//! Nodes as the lease holder sees them, and what only a manager may set on them.
//!
//! Inputs: the cluster's Nodes, the machines of the configuration. Outputs: a [`View`] for the other duties; labels such as
//! `node-role.kubernetes.io/…` and the control-plane taint.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_spec::node_config::ManagedNode;

use crate::kubernetes::FIELD_MANAGER;

/// What is kept of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Is it Ready?
    pub ready: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<(String, String, Option<String>)>,
}

/// Nodes by name.
pub type View = BTreeMap<String, NodeView>;

/// The Nodes once they are known: nothing is decided on an empty list that only means "not yet asked".
pub async fn known(view: &mut watch::Receiver<Option<View>>) -> Option<View> {
    let nodes = view.wait_for(Option::is_some).await.ok()?.clone();
    view.mark_unchanged();
    nodes
}

const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";
const NO_SCHEDULE: &str = "NoSchedule";
const RETRY: Duration = Duration::from_secs(1);

/// Follows the Nodes for ever.
pub async fn follow(client: &Client, view: &watch::Sender<Option<View>>) {
    loop {
        let events = watcher(Api::<Node>::all(client.clone()), watcher::Config::default());
        pin_mut!(events);
        let mut listed = View::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(node)) => {
                    listed.insert(node.name_any(), summary(&node));
                }
                Ok(Event::InitDone) => set(view, |nodes| *nodes = std::mem::take(&mut listed)),
                Ok(Event::Apply(node)) => set(view, |nodes| {
                    nodes.insert(node.name_any(), summary(&node));
                }),
                Ok(Event::Delete(node)) => set(view, |nodes| {
                    nodes.remove(&node.name_any());
                }),
                Err(error) => {
                    tracing::info!("watching Nodes: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// Heartbeats change nothing that is kept, and wake nobody.
fn set(view: &watch::Sender<Option<View>>, change: impl FnOnce(&mut View)) {
    view.send_if_modified(|nodes| {
        let before = nodes.clone();
        change(nodes.get_or_insert_default());
        before != *nodes
    });
}

fn summary(node: &Node) -> NodeView {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    NodeView {
        ready: conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        labels: node.labels().clone(),
        taints: taints.into_iter().map(|Taint { key, effect, value, .. }| (key, effect, value)).collect(),
    }
}

/// What a Node lacks, as a merge patch; none when it is as wanted.
fn patch(found: &NodeView, wanted: &ManagedNode) -> Option<Value> {
    let labels: BTreeMap<_, _> =
        wanted.labels.iter().filter(|(name, value)| found.labels.get(*name) != Some(*value)).collect();
    let is_tainted = found.taints.iter().any(|(key, effect, _)| key == CONTROL_PLANE_TAINT && effect == NO_SCHEDULE);
    let mut patch = json!({});
    if !labels.is_empty() {
        patch["metadata"] = json!({ "labels": labels });
    }
    if wanted.control_plane_taint.is_some_and(|wanted| wanted != is_tainted) {
        let kept =
            found.taints.iter().filter(|(key, effect, _)| !(key == CONTROL_PLANE_TAINT && effect == NO_SCHEDULE));
        let mut taints: Vec<Value> =
            kept.map(|(key, effect, value)| json!({ "key": key, "effect": effect, "value": value })).collect();
        if !is_tainted {
            taints.push(json!({ "key": CONTROL_PLANE_TAINT, "effect": NO_SCHEDULE }));
        }
        patch["spec"] = json!({ "taints": taints });
    }
    (patch != json!({})).then_some(patch)
}

/// Sets what lacks, for ever.
pub async fn keep(client: &Client, machines: &[ManagedNode], mut view: watch::Receiver<Option<View>>) {
    let api: Api<Node> = Api::all(client.clone());
    loop {
        let Some(nodes) = known(&mut view).await else { return };
        let mut failed = false;
        for machine in machines {
            let Some(patch) = nodes.get(&machine.name).and_then(|node| patch(node, machine)) else { continue };
            let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            if let Err(error) = api.patch(&machine.name, &params, &Patch::Merge(&patch)).await {
                tracing::warn!("labels and taints of {}: {error}", machine.name);
                failed = true;
            }
        }
        if failed {
            tokio::time::sleep(RETRY).await;
        } else if view.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_spec::identity::Role;

    fn machine(taint: Option<bool>) -> ManagedNode {
        ManagedNode {
            name: "lab-cp-a".into(),
            role: Role::ControlPlane,
            address: "10.77.0.11".parse().unwrap(),
            labels: [(CONTROL_PLANE_TAINT.to_owned(), String::new())].into(),
            control_plane_taint: taint,
        }
    }

    #[test]
    fn b10_role_labels_are_set_by_the_manager() {
        let patch = patch(&NodeView::default(), &machine(None)).unwrap();
        assert_eq!(patch, json!({ "metadata": { "labels": { CONTROL_PLANE_TAINT: "" } } }));
    }

    #[test]
    fn the_taint_comes_and_goes_and_others_stay() {
        let foreign = ("mine".to_owned(), "NoExecute".to_owned(), Some("v".to_owned()));
        let mut node = NodeView { labels: machine(None).labels, taints: vec![foreign], ready: true };
        let added = patch(&node, &machine(Some(true))).unwrap();
        assert_eq!(added["spec"]["taints"].as_array().unwrap().len(), 2);
        assert_eq!(patch(&node, &machine(Some(false))), None);
        node.taints.push((CONTROL_PLANE_TAINT.into(), NO_SCHEDULE.into(), None));
        let removed = patch(&node, &machine(Some(false))).unwrap();
        assert_eq!(removed["spec"]["taints"], json!([{ "key": "mine", "effect": "NoExecute", "value": "v" }]));
        assert_eq!(patch(&node, &machine(None)), None);
    }
}
