//! Labels of Nodes against a real API server: whose they are is the API's own record.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use windlass_node::duties::nodes::{self, NodeView, View};
use windlass_spec::identity::Role;
use windlass_spec::node_config::ManagedNode;
use windlass_testkit::api::TestApi;

const NODE: &str = "lab-md-1";
const ROLE: &str = "node-role.kubernetes.io/worker";

fn managed(labels: &[(&str, &str)]) -> ManagedNode {
    ManagedNode {
        name: NODE.into(),
        role: Role::Worker,
        address: "10.77.0.21".parse().expect("an address"),
        labels: labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        control_plane_taint: None,
    }
}

/// The labels a Node has once they are so; the duty is kept meanwhile.
async fn kept(client: &Client, wanted: ManagedNode, expected: &[(&str, &str)]) -> BTreeMap<String, String> {
    let view: watch::Sender<Option<View>> = watch::Sender::new(None);
    let machines = [wanted];
    let expected: BTreeMap<String, String> =
        expected.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let until_so = async {
        let api: Api<Node> = Api::all(client.clone());
        loop {
            let labels = api.get(NODE).await.expect("the Node").labels().clone();
            if labels == expected {
                return labels;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = nodes::follow(client, &view) => unreachable!("it follows for ever"),
        () = nodes::keep(client, &machines, view.subscribe()) => unreachable!("it keeps for ever"),
        labels = tokio::time::timeout(Duration::from_secs(10), until_so) => labels.unwrap_or_default(),
    }
}

#[tokio::test]
async fn what_windlass_set_goes_when_it_is_no_longer_wanted_and_what_others_set_stays() {
    let test_api = TestApi::start().await.expect("an API server");
    let client = test_api.client().await;
    let api: Api<Node> = Api::all(client.clone());
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": NODE, "labels": {"kubelets": "own"}}})).expect("a Node");
    api.create(&PostParams::default(), &node).await.expect("registered, as a kubelet does");

    let two = [(ROLE, ""), ("pool.example/tier", "app")];
    let expected = [("kubelets", "own"), two[0], two[1]];
    assert_eq!(kept(&client, managed(&two), &expected).await.len(), 3);

    // A person adds a label of their own and writes over one of Windlass's, which wins.
    let by_hand = json!({"metadata": {"labels": {"mine": "v", "pool.example/tier": "db"}}});
    let params = PatchParams { field_manager: Some("kubectl-label".to_owned()), ..PatchParams::default() };
    api.patch(NODE, &params, &Patch::Merge(by_hand)).await.expect("labelled");
    let expected = [("kubelets", "own"), ("mine", "v"), two[0], two[1]];
    assert_eq!(kept(&client, managed(&two), &expected).await.len(), 4);

    let expected = [("kubelets", "own"), ("mine", "v"), two[0]];
    assert_eq!(kept(&client, managed(&two[..1]), &expected).await.len(), 3, "one is no longer wanted");
    let expected = [("kubelets", "own"), ("mine", "v")];
    assert_eq!(kept(&client, managed(&[]), &expected).await.len(), 2, "none is");

    // A Node that went away since it was seen is not made again by a label.
    let seen = NodeView { uid: api.get(NODE).await.expect("the Node").uid().expect("a UID"), ..NodeView::default() };
    api.delete(NODE, &DeleteParams::default()).await.expect("deleted");
    let view = watch::Sender::new(Some(View::from([(NODE.to_owned(), seen)])));
    let machines = [managed(&two)];
    let keep = nodes::keep(&client, &machines, view.subscribe());
    assert!(tokio::time::timeout(Duration::from_millis(1500), keep).await.is_err(), "it is tried again and again");
    assert!(api.get_opt(NODE).await.expect("an answer").is_none());
}
