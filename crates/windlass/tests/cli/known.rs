//! Commands on a cluster this computer knows, with an API in small and no machine that runs.

use std::sync::OnceLock;

use serde_json::{Value, json};
use windlass_spec::load;
use windlass_workflows::create;

use crate::api::{self, Api};
use crate::runner::{Home, Ran};

const SPEC: &str = "apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata: {name: lab}
spec:
  provider: {local: {}}
  workers: [{name: md, count: 2}]
  proxy: {http: \"http://ops:hunter2@proxy.example:3128\", noProxy: [.example]}
";
const ID: &str = "0123456789abcdef";
const CLUSTER: &str = "/apis/windlass.dev/v1alpha1/namespaces/default/clusters/lab";
const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines";
const NODES: &str = "/api/v1/nodes";

/// A cluster as create leaves it, on this computer and in its API.
struct World {
    home: Home,
    api: Api,
    full: Value,
}

impl World {
    fn new() -> Self {
        let api = Api::start();
        let world = Self { full: full(), home: Home::new(), api };
        world.home.write("lab.yaml", SPEC);
        world.home.write("lab/lab-cluster.yaml", SPEC);
        world.home.write("lab/lab.kubeconfig", &world.api.kubeconfig());
        world.home.write("lab/lab-cluster.full.yaml", &world.full.to_string().replace("hunter2", "***"));
        world.note("created", "0.1.0");
        world.hold(&["lab-md-1", "lab-md-2"]);
        world.serve("0.1.0", &json!([{"type": "Available", "status": "True"}]));
        world.scale(2);
        world.api.set_list(MACHINES, &["lab-cp-a", "lab-md-1", "lab-md-2"].map(machine));
        world.api.set_list(NODES, &["lab-cp-a", "lab-md-1", "lab-md-2"].map(|name| node(name, "True")));
        world.api.set_list("/apis/apps/v1/deployments", &[]);
        world.api.set_list("/apis/apps/v1/daemonsets", &[]);
        world
    }

    /// What this computer knows.
    fn note(&self, life: &str, version: &str) {
        let cluster = load(SPEC, "lab.yaml").expect("valid");
        let pointer = json!({
            "format": 1,
            "scope": {"clusterId": ID, "cluster": "lab", "ownership": {"owner": ID, "epoch": 1}},
            "namespace": "default",
            "folder": self.home.path().join("lab"),
            "life": life,
            "created": "2026-11-30T17:00:00Z",
            "bundle": "sha256:00",
            "specHash": create::spec_hash(&cluster).expect("a hash"),
            "kept": [],
            "version": version,
        });
        self.home.write("state/windlass/clusters/lab/cluster.json", &pointer.to_string());
    }

    /// What the local provider holds: a control plane and these workers.
    fn hold(&self, workers: &[&str]) {
        let held = |name: &str, address: usize, slot: Value, role: &str| {
            let wanted = json!({
                "name": name, "role": role, "slot": slot, "image": "1.37.2-aa", "volumes": [], "dnsNames": [],
            });
            let machine = json!({
                "address": format!("10.77.0.{address}"), "providerId": format!("windlass-local://host/{name}"),
                "machineId": "0000000000000000000000000000000b", "slot": slot, "wanted": wanted, "image": "1.37.2-aa",
                "power": "on", "state": "running", "bootId": null, "starts": 1, "laid": null,
            });
            (name.to_owned(), machine)
        };
        let workers = workers.iter().enumerate().map(|(index, name)| held(name, 21 + index, Value::Null, "Worker"));
        let machines: serde_json::Map<String, Value> =
            std::iter::once(held("lab-cp-a", 11, json!("a"), "ControlPlane")).chain(workers).collect();
        let document = json!({"format": 1, "holdings": {
            "scope": {"clusterId": ID, "cluster": "lab", "ownership": {"owner": ID, "epoch": 1}},
            "network": null, "slots": {"a": "10.77.0.11"}, "machines": machines, "volumes": {},
        }});
        self.home.write(&format!("state/windlass/hostd/clusters/{ID}/cluster.json"), &document.to_string());
    }

    /// Windlass's Cluster in the API.
    fn serve(&self, version: &str, conditions: &Value) {
        let spec = serde_json::to_value(&load(SPEC, "lab.yaml").expect("valid").spec).expect("JSON");
        self.api.set(
            CLUSTER,
            json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "lab", "namespace": "default", "annotations": {"windlass.dev/version": version}},
                "spec": spec,
                "status": {
                    "full": self.full, "conditions": conditions, "endpoint": "https://10.77.0.2:6443",
                    "controlPlanes": "1/1", "workers": "2/2",
                },
            }),
        );
    }

    /// Machines asked for of the group `md`.
    fn scale(&self, replicas: u32) {
        let deployment = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "lab-md", "namespace": "default", "labels": {"windlass.dev/group": "md"}},
            "spec": {
                "clusterName": "lab", "replicas": replicas, "selector": {},
                "template": {"spec": {
                    "clusterName": "lab", "bootstrap": {},
                    "infrastructureRef": {"apiGroup": "windlass.dev", "kind": "LocalMachineTemplate", "name": "lab-md"},
                }},
            },
        });
        self.api.set_list(DEPLOYMENTS, &[deployment]);
    }

    /// The API is gone: nobody listens.
    fn without_api(self) -> Self {
        self.home.write("lab/lab.kubeconfig", &api::kubeconfig(9));
        self
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.home.run(arguments, "")
    }

    fn plan(&self, spec: &str, more: &[&str]) -> Ran {
        self.home.run(&[&["plan", "-f", "-", "--detailed-exitcode"], more].concat(), spec)
    }
}

/// Every value as create resolves it with this binary and a bundle, which need not be in the cache any more.
fn full() -> Value {
    static FULL: OnceLock<Value> = OnceLock::new();
    let full = FULL.get_or_init(|| {
        let mut full = Home::new().run(&["plan", "-f", "-", "--full", "-o", "json"], SPEC).json();
        let image = full["release"]["images"]["windlass"].as_str().expect("the binary's own image");
        assert!(image.starts_with("windlass.dev/windlass:"), "{image}");
        full["release"]["bundle"] = "sha256:0123".into();
        serde_json::from_str(&full.to_string().replace("***", "hunter2")).expect("JSON")
    });
    full.clone()
}

fn machine(name: &str) -> Value {
    let label =
        if name.contains("-cp-") { "cluster.x-k8s.io/control-plane" } else { "cluster.x-k8s.io/deployment-name" };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "default", "labels": {label: ""}},
        "spec": {
            "clusterName": "lab", "bootstrap": {}, "version": "v1.37.2",
            "infrastructureRef": {"apiGroup": "windlass.dev", "kind": "LocalMachine", "name": name},
        },
        "status": {"phase": "Running"},
    })
}

fn node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "addresses": [{"type": "InternalIP", "address": "10.77.0.11"}],
        },
    })
}

#[test]
fn an_unchanged_cluster_has_nothing_to_do() {
    let world = World::new();
    let plan = world.plan(SPEC, &[]);
    assert_eq!((plan.code, plan.err.as_str()), (0, ""), "{}", plan.out);
    insta::assert_snapshot!(plan.out, @r"
    Cluster lab (Kubernetes 1.37.2) is as the spec says: nothing to do.

    MACHINE    ROLE            GROUP   KUBERNETES   ADDRESS   VOLUMES       NOW
    lab-cp-a   control-plane   cp      1.37.2       -         etcd-main-a   exists
    lab-md-1   worker          md      1.37.2       -         -             exists
    lab-md-2   worker          md      1.37.2       -         -             exists

    VOLUME        SIZE   MACHINE    NOW
    etcd-main-a   2Gi    lab-cp-a   exists, kept

    NETWORK    VALUE
    pods       10.244.0.0/16
    services   10.96.0.0/16
    zone       lab.windlass.internal
    endpoint   https://api.lab.windlass.internal:6443
    ");
    let view = world.plan(SPEC, &["-o", "json"]).json();
    assert_eq!((&view["exists"], &view["plan"]), (&true.into(), &json!({"actions": [], "drift": []})));
    let world = world.without_api();
    let plan = world.plan(SPEC, &[]);
    assert_eq!(plan.code, 0, "{}", plan.out);
    assert!(
        plan.err.starts_with("warning: ") && plan.err.contains("compared with what the folder has"),
        "{}",
        plan.err
    );
}

#[test]
fn what_was_scaled_by_hand_is_shown_and_kept() {
    let world = World::new();
    world.scale(3);
    world.hold(&["lab-md-1", "lab-md-2", "lab-md-3"]);
    let plan = world.plan(SPEC, &[]);
    assert_eq!(plan.code, 0, "{}", plan.out);
    insta::assert_snapshot!(plan.out, @r"
    Cluster lab (Kubernetes 1.37.2) was changed by hand, the spec was not: nothing to do.

    MACHINE    ROLE            GROUP   KUBERNETES   ADDRESS   VOLUMES       NOW
    lab-cp-a   control-plane   cp      1.37.2       -         etcd-main-a   exists
    lab-md-1   worker          md      1.37.2       -         -             exists
    lab-md-2   worker          md      1.37.2       -         -             exists
    lab-md-3   worker          md      1.37.2       -         -             exists

    VOLUME        SIZE   MACHINE    NOW
    etcd-main-a   2Gi    lab-cp-a   exists, kept

    NETWORK    VALUE
    pods       10.244.0.0/16
    services   10.96.0.0/16
    zone       lab.windlass.internal
    endpoint   https://api.lab.windlass.internal:6443

    workers md: 3 in the cluster, 2 in the spec: scaled by hand, kept
    ");
    let fewer = SPEC.replace("count: 2", "count: 1");
    let plan = world.plan(&fewer, &[]);
    assert_eq!(plan.code, 2, "{}", plan.out);
    insta::assert_snapshot!(plan.out, @r"
    Cluster lab (Kubernetes 1.37.2) differs from the spec: 2 changes.

    MACHINE    ROLE            GROUP   KUBERNETES   ADDRESS   VOLUMES       NOW
    lab-cp-a   control-plane   cp      1.37.2       -         etcd-main-a   exists
    lab-md-1   worker          md      1.37.2       -         -             exists
    lab-md-2   worker          md      1.37.2       -         -             goes
    lab-md-3   worker          md      1.37.2       -         -             goes

    VOLUME        SIZE   MACHINE    NOW
    etcd-main-a   2Gi    lab-cp-a   exists, kept

    NETWORK    VALUE
    pods       10.244.0.0/16
    services   10.96.0.0/16
    zone       lab.windlass.internal
    endpoint   https://api.lab.windlass.internal:6443

    CLASS    TARGET             ACTION      REASON
    Delete   machine lab-md-2   remove it   md has 3 machines, the spec asks for 1
    Delete   machine lab-md-3   remove it   md has 3 machines, the spec asks for 1
    `windlass apply` carries out new counts of worker groups; it refuses the rest.
    ");
}

#[test]
fn a_change_is_told_with_its_class() {
    let plan = World::new().plan(&SPEC.replace("hunter2", "hunter3"), &[]);
    assert_eq!(plan.code, 2);
    assert!(plan.out.contains("the password in proxy changes") && !plan.out.contains("hunter"), "{}", plan.out);
}

#[test]
fn the_full_spec_is_printed_without_passwords_from_wherever_it_comes() {
    let world = World::new();
    let yaml = world.run(&["get", "cluster", "lab", "--full"]);
    assert_eq!((yaml.code, yaml.err.as_str()), (0, ""));
    assert!(
        yaml.out.lines().any(|line| line == "  http: \"http://ops:***@proxy.example:3128\"  # yours"),
        "{}",
        yaml.out
    );
    let json = world.run(&["get", "cluster", "lab", "--full", "-o", "json"]);
    assert_eq!(json.json()["origins"]["proxy.http"], "user");
    assert_eq!(yaml.out, world.plan(SPEC, &["--full"]).out, "plan and get print one form");
    let kept = world.without_api().run(&["get", "cluster", "lab", "--full"]);
    assert_eq!((kept.code, &kept.out), (0, &yaml.out));
    assert!(![yaml.out, json.out, kept.out].concat().contains("hunter2"));
}

#[test]
fn data_formats_can_be_read_everywhere() {
    let world = World::new();
    let commands: [&[&str]; 7] = [
        &["get", "clusters"],
        &["get", "cluster", "lab"],
        &["get", "machines", "lab"],
        &["status", "lab"],
        &["plan", "-f", "lab.yaml"],
        &["validate", "-f", "lab.yaml"],
        &["machine", "ls"],
    ];
    for command in commands {
        let json = world.run(&[command, &["-o", "json"]].concat());
        assert_eq!(json.code, 0, "{command:?}: {}", json.err);
        let yaml = world.run(&[command, &["-o", "yaml"]].concat());
        let read: Value = serde_saphyr::from_str(&yaml.out).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert_eq!(read, json.json(), "{command:?}");
    }
}

#[test]
fn b20_status_says_ready_and_why_not() {
    let world = World::new();
    let status = world.run(&["status", "lab", "-o", "json"]).json();
    assert_eq!((&status["ready"], &status["reason"]), (&true.into(), &"".into()), "{status}");
    assert_eq!(status["machines"][1]["ready"], true);
    world.api.set_list(NODES, &[node("lab-cp-a", "True"), node("lab-md-1", "False")]);
    let status = world.run(&["status", "lab", "-o", "json"]);
    assert_eq!(status.code, 0, "the state is told, whatever it is");
    let status = status.json();
    assert_eq!((&status["ready"], &status["reason"]), (&false.into(), &"lab-md-1: its Node is not Ready".into()));
    assert_eq!(status["machines"][2]["reason"], "its Node is not there yet");
    insta::assert_snapshot!(world.run(&["status", "lab"]).out, @r"
    Cluster:          lab
    State:            NotReady
    API:              https://10.77.0.2:6443 (v1.37.2)
    Control planes:   1/1
    Workers:          2/2
    Waits for:        lab-md-1: its Node is not Ready

    NAME       ROLE           PHASE     ADDRESS      NODE       VERSION   ETCD MEMBER   DOES
    lab-cp-a   ControlPlane   Running   10.77.0.11   Ready      -         -             -
    lab-md-1   Worker         Running   10.77.0.11   NotReady   -         -             -
    lab-md-2   Worker         Running   -            -          v1.37.2   -             -
    ");
    world.serve("0.1.0", &json!([{"type": "Available", "status": "False", "message": "etcd has 1 of 3 members"}]));
    world.api.set_list(NODES, &["lab-cp-a", "lab-md-1", "lab-md-2"].map(|name| node(name, "True")));
    let status = world.run(&["status", "lab", "-o", "json"]).json();
    assert_eq!(status["reason"], "it is not available: etcd has 1 of 3 members");
    let status = world.without_api().run(&["status", "lab", "-o", "json"]);
    assert_eq!((status.code, &status.json()["ready"]), (0, &false.into()));
}

#[test]
fn create_of_what_exists_verifies_or_refuses() {
    let world = World::new();
    let create = |world: &World, spec: &str| world.home.run(&["create", "cluster", "-f", "-"], spec);
    let same = create(&world, SPEC);
    let said = "cluster `lab` exists with this spec and is ready: nothing to do\n";
    assert_eq!((same.code, same.err.as_str()), (0, said));
    insta::assert_snapshot!(create(&world, &SPEC.replace("count: 2", "count: 3")).refusal(), @r"
    5
    error: cluster `lab` exists and its spec differs
    hint: windlass plan -f -
    hint: windlass apply -f -
    ");
    world.note("creating", "0.1.0");
    insta::assert_snapshot!(create(&world, SPEC).refusal(), @r"
    5
    error: an earlier create of cluster `lab` did not end
    hint: windlass delete cluster lab --delete-volumes --yes
    ");
    world.note("created", "0.1.0");
    let dead = create(&world.without_api(), SPEC);
    assert_eq!(dead.code, 1);
    assert!(dead.err.contains("exists with this spec, but its API does not answer"), "{}", dead.err);
}

#[test]
fn apply_changes_a_count_and_the_folder_follows() {
    let world = World::new();
    let three = SPEC.replace("count: 2", "count: 3");
    let applied = world.home.run(&["apply", "-f", "-"], &three);
    assert_eq!(applied.code, 0, "{}", applied.err);
    let patches = world.api.asked(&format!("PATCH {CLUSTER}"));
    assert_eq!(patches, [json!({"spec": {"workers": [{"name": "md", "count": 3}]}})]);
    let kept = fs_err::read_to_string(world.home.path().join("lab/lab-cluster.full.yaml")).expect("there");
    let kept: Value = serde_saphyr::from_str(&kept).expect("YAML");
    assert_eq!(
        (&kept["workers"][0]["count"], &kept["proxy"]["http"]),
        (&3.into(), &"http://ops:***@proxy.example:3128".into())
    );
    insta::assert_snapshot!(world.home.run(&["apply", "-f", "-"], &SPEC.replace("hunter2", "x")).refusal(), @r"
    5
    error: this build changes worker counts only; these differ too: spec.proxy.http
    hint: windlass plan -f -
    ");
}

#[test]
fn a_delete_that_nobody_can_confirm_is_refused() {
    let world = World::new();
    insta::assert_snapshot!(world.run(&["delete", "cluster", "lab"]).refusal(), @r"
    5
    error: deleting cluster `lab` needs a confirmation
    hint: add --yes
    ");
    assert!(!world.home.state().join("hostd/hostd.log").exists(), "nothing was started for it");
}

#[test]
fn an_older_windlass_keeps_off() {
    let world = World::new();
    world.note("created", "99.0.0");
    let three = SPEC.replace("count: 2", "count: 3");
    let commands: [&[&str]; 3] =
        [&["delete", "cluster", "lab", "--yes"], &["apply", "-f", "-"], &["create", "cluster", "-f", "-"]];
    for command in commands {
        let refusal = world.home.run(command, &three).refusal().replace(env!("CARGO_PKG_VERSION"), "OWN");
        insta::allow_duplicates! { insta::assert_snapshot!(refusal, @r"
        5
        error: cluster `lab` was changed by Windlass 99.0.0; this one (OWN) is older and keeps off
        hint: use Windlass 99.0.0 or a later one
        "); }
    }
    // Another computer's Windlass: only the cluster itself tells.
    world.note("created", "0.1.0");
    world.serve("99.0.0", &json!([]));
    let refusal = world.home.run(&["apply", "-f", "-"], &three);
    assert_eq!(refusal.code, 5, "{}", refusal.err);
    assert!(world.api.asked(&format!("PATCH {CLUSTER}")).is_empty());
}

#[test]
fn a_pointer_of_a_later_format_is_told_as_such() {
    let world = World::new();
    world.home.write("state/windlass/clusters/lab/cluster.json", "{\"format\": 9, \"more\": true}");
    let refusal = world.run(&["delete", "cluster", "lab", "--yes"]);
    assert_eq!(refusal.code, 1);
    assert!(refusal.err.contains("was written by a newer Windlass (format 9, this one knows 1)"), "{}", refusal.err);
}

#[test]
fn b08_a_dead_proxy_in_the_environment_is_never_asked() {
    let mut world = World::new();
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        world.home.set(variable, "http://127.0.0.1:9");
    }
    world.home.set("NO_PROXY", "localhost");
    let document = world.run(&["get", "cluster", "lab", "-o", "json"]);
    assert_eq!((document.code, document.err.as_str()), (0, ""), "its API was reached directly");
    let status = world.run(&["status", "lab", "-o", "json"]).json();
    assert_eq!((&status["ready"], &status["api"]["error"]), (&true.into(), &Value::Null));
    assert_eq!(world.plan(SPEC, &[]).code, 0);
}

/// A journal in place of `journalctl`, which may not be there and would need machines.
fn with_journal(world: &mut World) {
    let script = world.home.write(
        "bin/journalctl",
        "#!/bin/sh\nfor argument; do case $argument in */machines/*) machine=${argument#*/machines/} ;; esac; done\n\
         echo \"first of ${machine%%/*}\"; echo \"last of ${machine%%/*}\"\n",
    );
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&script, executable).expect("executable");
    let path = format!("{}:/usr/bin:/bin", world.home.path().join("bin").display());
    world.home.set("PATH", &path);
}

#[test]
fn logs_of_one_machine_or_of_all() {
    let mut world = World::new();
    with_journal(&mut world);
    assert_eq!(world.run(&["logs", "lab"]).out, "first of lab-cp-a\nlast of lab-cp-a\n");
    assert_eq!(world.run(&["logs", "lab", "-m", "lab-md-2"]).out, "first of lab-md-2\nlast of lab-md-2\n");
    let all = world.run(&["logs", "lab", "--all"]);
    assert_eq!((all.code, all.err.as_str()), (0, ""));
    insta::assert_snapshot!(all.out, @r"
    lab-cp-a | first of lab-cp-a
    lab-cp-a | last of lab-cp-a
    lab-md-1 | first of lab-md-1
    lab-md-1 | last of lab-md-1
    lab-md-2 | first of lab-md-2
    lab-md-2 | last of lab-md-2
    ");
    let mut followed: Vec<String> = world.run(&["logs", "lab", "--all", "-f"]).out.lines().map(str::to_owned).collect();
    followed.sort();
    let mut sorted: Vec<&str> = all.out.lines().collect();
    sorted.sort_unstable();
    assert_eq!(followed, sorted, "all at once, in whatever order");
    assert_eq!(world.run(&["logs", "lab", "-m", "lab-md-9"]).code, 3);
    insta::assert_snapshot!(world.run(&["logs", "lab", "--all", "-c", "nonsense"]).refusal(), @r"
    2
    error: no component `nonsense`
    hint: one of: agent, kubelet, containerd, etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, coredns, local-path-provisioner, controller
    ");
}
