//! The pivot between two real APIs, each a bootstrap plane of its own: nothing is lost or doubled, one side acts at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use windlass_testkit::binaries;
use windlass_workflows::apply;
use windlass_workflows::pivot::{Pivot, PivotError};
use windlass_workflows::plane::{Places, Plane, Programs};

const PATIENCE: Duration = Duration::from_secs(20);

fn programs() -> Programs {
    let path = |name: &str| Utf8PathBuf::from_path_buf(binaries::find(name).expect("built")).expect("utf-8");
    Programs {
        etcd: path("etcd"),
        apiserver: path("kube-apiserver"),
        controller_manager: path("kube-controller-manager"),
    }
}

fn places(dir: &Utf8Path, name: &str) -> Places {
    let folder = dir.join(name);
    Places { state: folder.join("plane"), sockets: folder.join("s"), logs: folder.join("logs") }
}

async fn plane(dir: &Utf8Path, name: &str) -> Plane {
    // A second call finds the first one's provider, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Plane::start(&programs(), &places(dir, name)).await.expect("a plane")
}

const KINDS: [(&str, &str, &str); 4] = [
    ("cluster.x-k8s.io", "v1beta2", "Cluster"),
    ("cluster.x-k8s.io", "v1beta2", "Machine"),
    ("windlass.dev", "v1alpha1", "Cluster"),
    ("windlass.dev", "v1alpha1", "LocalMachineTemplate"),
];

fn kind(group: &str, kind: &str) -> ApiResource {
    let (group, version, kind) =
        KINDS.into_iter().find(|known| (known.0, known.2) == (group, kind)).expect("a kind of this test");
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn definition(group: &str, version: &str, kind: &str) -> CustomResourceDefinition {
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"clusterctl.cluster.x-k8s.io": ""}},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    }))
    .expect("a definition")
}

async fn install(client: &Client) {
    let wanted: Vec<_> = KINDS.into_iter().map(|(group, version, kind)| definition(group, version, kind)).collect();
    apply::definitions(client, &wanted).await.expect("served");
}

fn api(client: &Client, group: &str, of: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &kind(group, of))
}

/// Stands for controllers: sees the Cluster's pause and reports it on every object that controllers report on.
async fn controllers(client: Client, deaf: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if deaf.load(Ordering::Relaxed) {
            continue;
        }
        let Ok(cluster) = api(&client, "cluster.x-k8s.io", "Cluster").get("lab").await else { continue };
        let paused = cluster.data["spec"]["paused"] == true;
        for (group, _, of) in KINDS.into_iter().filter(|(_, _, of)| !of.ends_with("Template")) {
            let api = api(&client, group, of);
            for object in api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
                let condition = json!([{
                    "type": "Paused", "status": if paused { "True" } else { "False" },
                    "observedGeneration": object.metadata.generation, "reason": "x", "message": "",
                }]);
                if object.data["status"]["conditions"] != condition {
                    let patch = Patch::Merge(json!({"status": {"conditions": condition}}));
                    let _ = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await;
                }
            }
        }
    }
}

/// Stands for controllers on the target that report again and again while objects appear.
async fn restless(client: Client) {
    let api = api(&client, "cluster.x-k8s.io", "Machine");
    for tick in 0_u64.. {
        for number in 1..=3 {
            let patch = Patch::Merge(json!({"status": {"tick": tick}}));
            let _ = api.patch_status(&format!("lab-md-{number}"), &PatchParams::default(), &patch).await;
        }
    }
}

async fn make(client: &Client, group: &str, of: &str, name: &str, owner: Option<&DynamicObject>) -> DynamicObject {
    let api = api(client, group, of);
    let mut object = DynamicObject::new(name, &kind(group, of)).data(json!({"spec": {"of": name}}));
    object.metadata.labels = Some([("cluster.x-k8s.io/cluster-name".to_owned(), "lab".to_owned())].into());
    object.metadata.annotations = Some([("note".to_owned(), "kept".to_owned())].into());
    object.metadata.owner_references = owner.map(|owner| vec![reference(owner)]);
    let mut made = api.create(&PostParams::default(), &object).await.expect("made");
    made.data["status"] = json!({"phase": "Running", "nested": {"member": "8e9e05c52164694d"}});
    api.replace_status(name, &PostParams::default(), &made).await.expect("has a status")
}

fn reference(owner: &DynamicObject) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    let types = owner.types.clone().expect("typed");
    k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        api_version: types.api_version,
        kind: types.kind,
        name: owner.name_any(),
        uid: owner.uid().expect("made"),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

async fn populate(client: &Client) {
    let root = make(client, "cluster.x-k8s.io", "Cluster", "lab", None).await;
    make(client, "windlass.dev", "Cluster", "lab", Some(&root)).await;
    make(client, "windlass.dev", "LocalMachineTemplate", "lab-md", Some(&root)).await;
    for number in 1..=3 {
        let machine = make(client, "cluster.x-k8s.io", "Machine", &format!("lab-md-{number}"), Some(&root)).await;
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": format!("lab-md-{number}"), "ownerReferences": [reference(&machine)]},
            "stringData": {"value": "secret"},
        }))
        .expect("a Secret");
        apply::namespaced(client, &secret).await.expect("made");
    }
    let stranger: Secret = serde_json::from_value(json!({"metadata": {"name": "stranger"}})).expect("a Secret");
    apply::namespaced(client, &stranger).await.expect("made");
}

async fn paused(client: &Client) -> bool {
    api(client, "cluster.x-k8s.io", "Cluster").get("lab").await.expect("there").data["spec"]["paused"] == true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn management_moves_whole_and_one_side_acts_at_most() {
    let folder = tempfile::Builder::new().prefix("wl").tempdir().expect("folder");
    let dir = Utf8Path::from_path(folder.path()).expect("utf-8");
    let (one, two) = tokio::join!(plane(dir, "one"), plane(dir, "two"));
    let (source, target) = (one.client(), two.client());
    tokio::join!(install(&source), install(&target));
    populate(&source).await;
    let deaf = Arc::new(AtomicBool::new(true));
    tokio::spawn(controllers(source.clone(), Arc::clone(&deaf)));
    tokio::spawn(controllers(target.clone(), Arc::default()));
    let pivot = |patience| Pivot::new(source.clone(), target.clone(), "lab", "default", patience);

    // Controllers that do not report stop the move, and the way back is open.
    let error = pivot(Duration::from_millis(500)).pause_source().await.expect_err("nobody reports");
    assert!(matches!(&error, PivotError::NotReported { objects, .. } if objects.len() == 5), "{error}");
    pivot(PATIENCE).resume_source().await.expect("resumed");
    assert!(!paused(&source).await);
    deaf.store(false, Ordering::Relaxed);

    // Done to the end, with the copy twice: what an earlier attempt left is no hindrance.
    let pivot = pivot(PATIENCE);
    let layers: Vec<usize> = pivot.check().await.expect("movable").iter().map(Vec::len).collect();
    assert_eq!(layers, [1, 5, 3]);
    pivot.pause_source().await.expect("paused");
    let restless = tokio::spawn(restless(target.clone()));
    assert_eq!(pivot.copy().await.expect("copied").objects, 9);
    assert_eq!(pivot.copy().await.expect("copied again").objects, 9);
    restless.abort();
    assert!(paused(&source).await && paused(&target).await, "nobody acts while both are paused");
    pivot.switch().await.expect("switched");
    assert!(paused(&source).await && !paused(&target).await);

    // Whole: status kept, owners rebuilt, strangers left alone.
    let machine = api(&target, "cluster.x-k8s.io", "Machine").get("lab-md-2").await.expect("copied");
    assert_eq!(machine.data["status"]["nested"]["member"], "8e9e05c52164694d");
    assert_eq!(machine.annotations()["note"], "kept");
    let secrets: Api<Secret> = Api::namespaced(target.clone(), "default");
    let secret = secrets.get("lab-md-2").await.expect("copied");
    assert_eq!(secret.owner_references()[0].uid, machine.uid().expect("made"));
    assert!(secrets.get_opt("stranger").await.expect("asked").is_none());

    // An owner that does not move: refused before anything is touched.
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "0-0-0"});
    // Held by a finalizer: the garbage collector would take it away for want of its owner.
    let held = json!({"ownerReferences": [ghost], "finalizers": ["example.test/held"]});
    let patch = Patch::Merge(json!({"metadata": held}));
    let template = api(&source, "windlass.dev", "LocalMachineTemplate");
    template.patch("lab-md", &PatchParams::default(), &patch).await.expect("patched");
    assert!(matches!(pivot.check().await, Err(PivotError::Owner(_))));

    // A plane keeps its data over a stop, and leaves nothing when destroyed.
    let before = machine.uid();
    two.stop().await;
    let two = plane(dir, "two").await;
    let machine = api(&two.client(), "cluster.x-k8s.io", "Machine").get("lab-md-2").await.expect("still there");
    assert_eq!(machine.uid(), before);
    one.destroy().await.expect("destroyed");
    two.destroy().await.expect("destroyed");
    for name in ["one", "two"] {
        let Places { state, sockets, .. } = places(dir, name);
        assert!(!state.exists() && !sockets.exists());
    }
}
