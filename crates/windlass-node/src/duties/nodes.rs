//! Nodes as the lease holder sees them, and what only a manager may set on them.
//!
//! Inputs: the cluster's Nodes, the machines of the configuration. Outputs: a [`View`] for the other duties; labels such as
//! `node-role.kubernetes.io/…` and the control-plane taint.
//!
//! Labels are applied server-side by a field manager of their own, so that the Node itself records which are Windlass's:
//! one that is no longer wanted goes, one that a person or kubelet set stays. A Node's taints are one list to the API, which
//! can have one owner only; so only the control-plane taint is put in and taken out, and the others stay as found.

use std::collections::{BTreeMap, BTreeSet};
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

/// Who owns the labels set here.
const LABELS_MANAGER: &str = "windlass-node-labels";

/// What is kept of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Which object of that name it is.
    pub uid: String,
    /// Is it Ready?
    pub ready: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Names of those labels that were set here.
    pub own_labels: BTreeSet<String>,
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
        uid: node.uid().unwrap_or_default(),
        ready: conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        labels: node.labels().clone(),
        own_labels: own_labels(node),
        taints: taints.into_iter().map(|Taint { key, effect, value, .. }| (key, effect, value)).collect(),
    }
}

/// The labels that the Node says are owned by [`LABELS_MANAGER`].
fn own_labels(node: &Node) -> BTreeSet<String> {
    let entries = node.managed_fields().iter();
    let own = entries.filter(|entry| entry.manager.as_deref() == Some(LABELS_MANAGER));
    let fields = own.filter_map(|entry| entry.fields_v1.as_ref()?.0.pointer("/f:metadata/f:labels")?.as_object());
    fields.flat_map(|labels| labels.keys()).filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
}

/// All labels a Node must carry, to be applied; none when it is as wanted. The UID keeps a Node that was deleted meanwhile
/// from being made anew.
fn labels(found: &NodeView, wanted: &ManagedNode) -> Option<Value> {
    let is_there = wanted.labels.iter().all(|(name, value)| found.labels.get(name) == Some(value));
    let is_wanted = |name: &String| wanted.labels.contains_key(name);
    (!is_there || !found.own_labels.iter().all(is_wanted)).then(|| {
        let metadata = json!({ "name": wanted.name, "uid": found.uid, "labels": wanted.labels });
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata })
    })
}

/// A Node's taints with the control-plane taint as wanted, as a merge patch; none when it is so.
fn taints(found: &NodeView, wanted: &ManagedNode) -> Option<Value> {
    let is_ours = |key: &str, effect: &str| key == CONTROL_PLANE_TAINT && effect == NO_SCHEDULE;
    let is_tainted = found.taints.iter().any(|(key, effect, _)| is_ours(key, effect));
    let must_be_tainted = wanted.control_plane_taint.filter(|wanted| *wanted != is_tainted)?;
    let kept = found.taints.iter().filter(|(key, effect, _)| !is_ours(key, effect));
    let kept = kept.map(|(key, effect, value)| json!({ "key": key, "effect": effect, "value": value }));
    let own = must_be_tainted.then(|| json!({ "key": CONTROL_PLANE_TAINT, "effect": NO_SCHEDULE }));
    Some(json!({ "spec": { "taints": kept.chain(own).collect::<Vec<_>>() } }))
}

/// Makes one Node be as wanted.
async fn set_node(api: &Api<Node>, found: &NodeView, wanted: &ManagedNode) -> Result<(), kube::Error> {
    if let Some(labels) = labels(found, wanted) {
        let params = PatchParams::apply(LABELS_MANAGER).force();
        api.patch_metadata(&wanted.name, &params, &Patch::Apply(labels)).await?;
    }
    if let Some(taints) = taints(found, wanted) {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        api.patch_metadata(&wanted.name, &params, &Patch::Merge(taints)).await?;
    }
    Ok(())
}

/// Sets what lacks, takes away what is no longer wanted, for ever.
pub async fn keep(client: &Client, machines: &[ManagedNode], mut view: watch::Receiver<Option<View>>) {
    let api: Api<Node> = Api::all(client.clone());
    loop {
        let Some(nodes) = known(&mut view).await else { return };
        let mut failed = false;
        for machine in machines {
            let Some(found) = nodes.get(&machine.name) else { continue };
            if let Err(error) = set_node(&api, found, machine).await {
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

    /// The Node as it is when the labels were applied.
    fn labelled() -> NodeView {
        let labels = machine(None).labels;
        NodeView { uid: "1".into(), ready: true, own_labels: labels.keys().cloned().collect(), labels, taints: vec![] }
    }

    #[test]
    fn b10_role_labels_are_set_by_the_manager() {
        let applied = labels(&NodeView { uid: "1".into(), ..NodeView::default() }, &machine(None)).unwrap();
        let metadata = json!({ "name": "lab-cp-a", "uid": "1", "labels": { CONTROL_PLANE_TAINT: "" } });
        assert_eq!(applied["metadata"], metadata);
        assert_eq!(labels(&labelled(), &machine(None)), None);
    }

    #[test]
    fn a_label_that_is_no_longer_wanted_is_taken_off_and_those_of_others_stay() {
        let mut node = labelled();
        node.labels.insert("mine".into(), "v".into());
        assert_eq!(labels(&node, &machine(None)), None, "somebody else's label is nothing to do");
        node.labels.insert("tier".into(), "app".into());
        node.own_labels.insert("tier".into());
        let applied = labels(&node, &machine(None)).unwrap();
        assert_eq!(applied["metadata"]["labels"], json!({ CONTROL_PLANE_TAINT: "" }));
    }

    #[test]
    fn the_node_tells_which_labels_are_ours() {
        let fields = |name: &str| json!({ "f:metadata": { "f:labels": { ".": {}, format!("f:{name}"): {} } } });
        let entry =
            |manager: &str, label: &str| json!({ "manager": manager, "operation": "Apply", "fieldsV1": fields(label) });
        let managed = [entry(LABELS_MANAGER, "tier"), entry("kubectl-label", "mine")];
        let node: Node = serde_json::from_value(json!({ "metadata": { "managedFields": managed } })).unwrap();
        assert_eq!(own_labels(&node), ["tier".to_owned()].into());
    }

    #[test]
    fn the_taint_comes_and_goes_and_others_stay() {
        let foreign = ("mine".to_owned(), "NoExecute".to_owned(), Some("v".to_owned()));
        let mut node = NodeView { taints: vec![foreign], ..labelled() };
        let added = taints(&node, &machine(Some(true))).unwrap();
        assert_eq!(added["spec"]["taints"].as_array().unwrap().len(), 2);
        assert_eq!(taints(&node, &machine(Some(false))), None);
        node.taints.push((CONTROL_PLANE_TAINT.into(), NO_SCHEDULE.into(), None));
        let removed = taints(&node, &machine(Some(false))).unwrap();
        assert_eq!(removed["spec"]["taints"], json!([{ "key": "mine", "effect": "NoExecute", "value": "v" }]));
        assert_eq!(taints(&node, &machine(None)), None);
    }
}
