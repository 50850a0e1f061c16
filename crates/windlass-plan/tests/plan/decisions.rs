//! Plans, taints and lint.

use std::collections::BTreeMap;

use crate::fixture::{World, full};
use crate::render_all;
use windlass_plan::decide::{control_plane_taint, managed_node, wanted_machines};
use windlass_plan::lint::lint;
use windlass_plan::preview::ObservedMachine;
use windlass_plan::{ChangeClass, Observed, Plan, plan};
use windlass_spec::full::FullCluster;
use windlass_spec::identity::Role;

fn shown(plan: &Plan) -> String {
    let line = |action: &windlass_plan::preview::Action| {
        format!("{:?} {}: {} ({})\n", action.class, action.target, action.action, action.reason)
    };
    let drift = plan.drift.iter().map(|drift| format!("{drift}\n"));
    plan.actions.iter().map(line).chain(drift).collect()
}

fn running(full: &FullCluster) -> Observed {
    let machine = |wanted: windlass_plan::decide::WantedMachine| ObservedMachine {
        name: wanted.name,
        role: wanted.role,
        group: wanted.group,
        slot: wanted.slot,
    };
    Observed {
        applied: Some(full.clone()),
        machines: wanted_machines(full).into_iter().map(machine).collect(),
        volumes: ["etcd-main-a", "etcd-main-b", "etcd-main-c"].map(str::to_owned).to_vec(),
        replicas: BTreeMap::new(),
    }
}

#[test]
fn a_new_cluster() {
    insta::assert_snapshot!(shown(&plan(&full(3, 2, ""), &Observed::default())), @r"
    Create cluster lab: make the network and the endpoint api.lab.windlass.internal:6443 (the cluster does not exist)
    Create volume etcd-main-a: make 2048 MiB, format it where it is blank (its slot has no volume)
    Create volume etcd-main-b: make 2048 MiB, format it where it is blank (its slot has no volume)
    Create volume etcd-main-c: make 2048 MiB, format it where it is blank (its slot has no volume)
    Create machine lab-cp-a: make it, Kubernetes 1.37.2, slot a (cp has 0 of 3 machines)
    Create machine lab-cp-b: make it, Kubernetes 1.37.2, slot b (cp has 0 of 3 machines)
    Create machine lab-cp-c: make it, Kubernetes 1.37.2, slot c (cp has 0 of 3 machines)
    Create machine lab-md-1: make it, Kubernetes 1.37.2 (md has 0 of 2 machines)
    Create machine lab-md-2: make it, Kubernetes 1.37.2 (md has 0 of 2 machines)
    Create add-on coredns: apply it (it is on and not there)
    Create add-on kube-proxy: apply it (it is on and not there)
    Create add-on local-path: apply it (it is on and not there)
    ");
}

#[test]
fn nothing_to_do() {
    let full = full(3, 2, "");
    assert!(plan(&full, &running(&full)).is_empty());
    // As an API gives it back: its keys in another order.
    let mut kept = serde_json::to_value(&full).unwrap();
    kept.sort_all_objects();
    let applied = serde_json::from_value(kept).unwrap();
    assert!(plan(&full, &running(&applied)).is_empty());
}

#[test]
fn changes_carry_their_class_and_reason() {
    let before = full(3, 2, "");
    let after = full(
        3,
        1,
        "  components: {kubeApiserver: {flags: {v: \"2\"}}, kubelet: {config: {maxPods: 60}}}\n  \
         addons: {localPath: {enabled: false}}\n  registryMirrors: [{registry: docker.io, endpoints: [\"https://m.example\"]}]\n",
    );
    let plan = plan(&after, &running(&before));
    insta::assert_snapshot!(shown(&plan), @r#"
    Restart control planes: restart what it concerns, one machine after the other (components.kubeApiserver.set.v becomes "2")
    Restart every machine: restart what it concerns, one machine after the other (components.kubeletConfig.maxPods changes from 110 to 60)
    Reload every machine: take it up (registryMirrors changes from [] to [{"registry":"docker.io","endpoints":["https://m.example"],"caCert":""}])
    Delete machine lab-md-2: remove it (md has 2 machines, the spec asks for 1)
    Delete add-on local-path: remove it (it is off)
    "#);
    assert_eq!(plan.class(), ChangeClass::Delete);
}

fn worker(name: &str, group: &str) -> ObservedMachine {
    ObservedMachine { name: name.to_owned(), role: Role::Worker, group: group.to_owned(), slot: None }
}

/// The cluster of `full(3, 2, "")` with these workers, asked for so many (none: its API does not answer).
fn scaled(workers: &[&str], replicas: Option<u32>) -> Observed {
    let mut observed = running(&full(3, 2, ""));
    observed.machines.retain(|machine| machine.role == Role::ControlPlane);
    observed.machines.extend(workers.iter().map(|name| worker(name, "md")));
    observed.replicas = replicas.map(|count| ("md".to_owned(), count)).into_iter().collect();
    observed
}

#[test]
fn what_was_scaled_by_hand_is_drift_until_the_specs_own_count_changes() {
    let three = ["lab-md-1", "lab-md-2", "lab-md-3"];
    let table: [(u32, &[&str], Option<u32>, &str); 9] = [
        (2, &three, Some(3), "workers md: 3 in the cluster, 2 in the spec: scaled by hand, kept\n"),
        (2, &three, None, "workers md: 3 in the cluster, 2 in the spec: scaled by hand, kept\n"),
        (2, &three[..1], Some(1), "workers md: 1 in the cluster, 2 in the spec: scaled by hand, kept\n"),
        (2, &three[1..], Some(2), ""),
        // On their way, by the cluster's own doing.
        (2, &three, Some(2), ""),
        (2, &three[1..2], None, "Create machine lab-md-1: make it, Kubernetes 1.37.2 (md has 1 of 2 machines)\n"),
        (
            2,
            &three,
            Some(4),
            "Create machine lab-md-4: make it, Kubernetes 1.37.2 (md has 3 of 4 machines)\n\
             workers md: 4 in the cluster, 2 in the spec: scaled by hand, kept\n",
        ),
        // Another count in the spec counts, whatever it was scaled to.
        (1, &three[..2], Some(2), "Delete machine lab-md-2: remove it (md has 2 machines, the spec asks for 1)\n"),
        (4, &three, Some(3), "Create machine lab-md-4: make it, Kubernetes 1.37.2 (md has 3 of 4 machines)\n"),
    ];
    for (spec, workers, replicas, wanted) in table {
        assert_eq!(
            shown(&plan(&full(3, spec, ""), &scaled(workers, replicas))),
            wanted,
            "{spec} {workers:?} {replicas:?}"
        );
    }
}

#[test]
fn only_groups_of_the_spec_are_taken_away() {
    let mut observed = scaled(&["lab-md-1", "lab-md-2"], Some(2));
    observed.machines.push(worker("lab-own-1", "own"));
    assert!(plan(&full(3, 2, ""), &observed).is_empty(), "a group that people made stays");
    insta::assert_snapshot!(shown(&plan(&full(3, 0, ""), &observed)), @r#"
    Reload control planes: take it up (controlPlane.taints changes from [{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}] to [])
    Delete machine lab-md-1: remove it (md has 2 machines, the spec asks for 0)
    Delete machine lab-md-2: remove it (md has 2 machines, the spec asks for 0)
    "#);
    let mut more = running(&full(3, 2, ""));
    more.machines.retain(|machine| machine.name == "lab-cp-a");
    more.applied = Some(full(1, 0, ""));
    more.machines.extend(["b", "c"].map(|slot| ObservedMachine {
        name: format!("lab-cp-{slot}"),
        role: Role::ControlPlane,
        group: "cp".to_owned(),
        slot: None,
    }));
    assert_eq!(
        shown(&plan(&full(1, 0, ""), &more)),
        "control planes: 3 in the cluster, 1 in the spec: scaled by hand, kept\n"
    );
}

#[test]
fn passwords_of_proxies_are_compared_and_never_shown() {
    let with =
        |password: &str| full(1, 0, &format!("  proxy: {{http: \"http://ops:{password}@proxy.example:3128\"}}\n"));
    let of = |applied: &FullCluster, wanted: &FullCluster| {
        let mut observed = running(applied);
        observed.applied = Some(applied.clone());
        shown(&plan(wanted, &observed))
    };
    assert_eq!(of(&with("one"), &with("one")), "");
    insta::assert_snapshot!(of(&with("one"), &with("two")), @"Restart every machine: restart what it concerns, one machine after the other (the password in proxy changes)");
    let kept = windlass_spec::annotate::redacted(&with("one"));
    assert_eq!(of(&kept, &with("two")), "", "the folder keeps no passwords to compare with");
    let first = of(&full(1, 0, ""), &with("one"));
    assert!(first.contains("http://ops:***@proxy.example:3128") && !first.contains("one@"), "{first}");
}

#[test]
fn a_groups_values_are_told_apart_from_its_count() {
    let before = full(1, 2, "");
    let mut after = before.clone();
    after.workers[0].count = 3;
    after.workers[0].labels.insert("tier".to_owned(), "app".to_owned());
    insta::assert_snapshot!(shown(&plan(&after, &running(&before))), @r#"
    Reload machines of its group: take it up (workers.md.labels.tier becomes "app")
    Create machine lab-md-3: make it, Kubernetes 1.37.2 (md has 2 of 3 machines)
    "#);
}

#[test]
fn the_taint_follows_the_workers() {
    let dedicated = full(3, 2, "");
    assert!(control_plane_taint(&dedicated, 2));
    assert!(!control_plane_taint(&dedicated, 0), "with no worker left, control planes carry the load");
    assert!(!control_plane_taint(&full(1, 0, ""), 0));
    let address = "10.77.0.21".parse().expect("an address");
    assert_eq!(managed_node(&dedicated, "lab-md-1", Role::Worker, "md", address, 2).control_plane_taint, None);
}

#[test]
fn b10_role_labels_are_a_managers_work() {
    let mut full = full(1, 1, "");
    full.workers[0].labels = [("node-role.kubernetes.io/worker", ""), ("tier", "app")]
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .into();
    let world = World::of(full);
    let kubelet = &world.render("lab-md-1").config.units[1].content.clone();
    assert!(kubelet.contains("--node-labels=tier=app,windlass.dev/group=md"), "{kubelet}");
    let duties = world.render("lab-cp-a").config.cluster_duties.expect("duties");
    let node = duties.nodes.iter().find(|node| node.name == "lab-md-1").expect("the worker");
    assert_eq!(node.labels.keys().collect::<Vec<_>>(), ["node-role.kubernetes.io/worker"]);
}

#[test]
fn lint_names_what_is_wrong() {
    let world = World::of(full(3, 1, ""));
    let mut configs = render_all(&world);
    assert!(lint(&configs).is_empty());
    configs[1].config.machine.address = configs[0].config.machine.address;
    configs[2].secrets.authority_keys.clear();
    configs[3].config.etcd = configs[0].config.etcd.clone();
    let faults = lint(&configs).join("\n");
    assert!(faults.contains("10.77.0.11 is the address of lab-cp-a, lab-cp-b"), "{faults}");
    assert!(faults.contains("lab-cp-c: certificate apiserver has no authority to sign it"), "{faults}");
    assert!(faults.contains("lab-md-1: etcd-a is not among its own cluster's members"), "{faults}");
    assert!(faults.contains("lab-cp-b: the hash does not fit the content"), "{faults}");
}
