//! Rendered configurations: goldens of one machine and of three plus two, flags, agreement among machines.

use std::collections::BTreeSet;

use crate::fixture::{World, full};
use crate::render_all;
use proptest::prelude::*;
use serde_json::Value;
use windlass_plan::lint::lint;
use windlass_spec::identity::FormAttempt;
use windlass_spec::node_config::{Content, EtcdPermit, NodeConfig, SealedNodeConfig};
use windlass_spec::v1alpha1::{Cluster, ClusterSpec, Endpoint};

fn file<'a>(config: &'a NodeConfig, path: &str) -> &'a str {
    let found = config.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no file {path}"));
    match &found.content {
        Content::Text(text) => text,
        other => panic!("{path} is {other:?}"),
    }
}

fn pod<'a>(config: &'a NodeConfig, name: &str) -> &'a str {
    &config.static_pods.iter().find(|pod| pod.name == name).expect("a static pod").manifest
}

/// Certificates differ in each run: their text is left out.
fn overview(sealed: &SealedNodeConfig) -> Value {
    let mut config = serde_json::to_value(&sealed.config).expect("json");
    for list in ["files", "units", "staticPods"] {
        let names: Vec<Value> = config[list]
            .as_array()
            .into_iter()
            .flatten()
            .map(|item| item.get("path").or_else(|| item.get("name")).cloned().unwrap_or_default())
            .collect();
        config[list] = names.into();
    }
    if let Some(duties) = config.get_mut("clusterDuties").and_then(Value::as_object_mut) {
        for list in ["bootstrap", "addons"] {
            let count = duties[list].as_array().map_or(0, Vec::len);
            duties.insert(list.to_owned(), count.into());
        }
    }
    for manifest in ["formManifest", "manifest"] {
        if let Some(etcd) = config.get_mut("etcd").and_then(Value::as_object_mut) {
            etcd.remove(manifest);
        }
    }
    config
}

#[test]
fn one_machine() {
    let sealed = World::of(full(1, 0, "")).render("lab-cp-a");
    insta::assert_yaml_snapshot!("one-machine", overview(&sealed));
    let etcd = sealed.config.etcd.expect("a member");
    insta::assert_snapshot!("one-machine-etcd-form", etcd.form_manifest.expect("a permit to form"));
}

#[test]
fn three_and_two() {
    let world = World::of(full(3, 2, ""));
    let control_plane = world.render("lab-cp-b");
    insta::assert_yaml_snapshot!("three-and-two-control-plane", overview(&control_plane));
    let config = &control_plane.config;
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        insta::assert_snapshot!(format!("three-and-two-{name}"), pod(config, name));
    }
    insta::assert_snapshot!("three-and-two-etcd", &config.etcd.as_ref().expect("a member").manifest);
    insta::assert_snapshot!("three-and-two-kubelet", file(config, "/var/lib/kubelet/config.yaml"));
    insta::assert_snapshot!("three-and-two-containerd", file(config, "/etc/containerd/config.toml"));
    let units: Vec<&str> = config.units.iter().map(|unit| unit.content.as_str()).collect();
    insta::assert_snapshot!("three-and-two-units", units.join("\n---\n"));
    let duties = config.cluster_duties.as_ref().expect("duties");
    insta::assert_snapshot!("bootstrap", duties.bootstrap.join("---\n"));
    for addon in &duties.addons {
        insta::assert_snapshot!(format!("addon-{}", addon.name), addon.objects.join("---\n"));
    }
    let worker = world.render("lab-md-2");
    insta::assert_yaml_snapshot!("three-and-two-worker", overview(&worker));
}

#[test]
fn a_worker_holds_no_key_and_only_its_own_token() {
    let world = World::of(full(1, 2, ""));
    let worker = world.render("lab-md-1");
    let text = serde_json::to_string(&worker).expect("json");
    assert!(!text.contains("PRIVATE KEY"));
    assert!(!text.contains(&world.authorities.encryption_key));
    assert!(worker.secrets.join_tokens.is_empty());
    assert!(worker.secrets.authority_keys.is_empty());
    assert!(worker.config.cluster_duties.is_none());
    let public = serde_json::to_string(&world.render("lab-cp-a").config).expect("json");
    assert!(
        !public.contains("PRIVATE KEY") && !public.contains(&world.authorities.encryption_key),
        "secrets lie apart"
    );
    assert!(!public.contains("abcdef.0123456789abcdef"));
}

#[test]
fn flags_are_set_overridden_and_taken_away() {
    let more = "  components: {kubeApiserver: {flags: {v: \"2\", profiling: null, advertise-address: 192.0.2.1, \
                etcd-servers: \"https://etcd.example:2379\"}}, etcd: {flags: {snapshot-count: null, \
                heartbeat-interval: \"200\"}}, kubelet: {config: {maxPods: 60}, flags: {v: \"3\"}}, \
                kubeProxy: {flags: {v: \"4\"}}}\n";
    let sealed = World::of(full(1, 0, more)).render("lab-cp-a");
    let config = &sealed.config;
    let server = pod(config, "kube-apiserver");
    assert!(server.contains("- --v=2\n") && !server.contains("profiling"), "{server}");
    assert!(server.contains("- --advertise-address=192.0.2.1\n"));
    assert!(server.contains("- --etcd-servers=https://etcd.example:2379\n"));
    let etcd = &config.etcd.as_ref().expect("a member").manifest;
    assert!(etcd.contains("--heartbeat-interval=200") && !etcd.contains("snapshot-count"), "{etcd}");
    assert!(file(config, "/var/lib/kubelet/config.yaml").contains("maxPods: 60\n"));
    let kubelet = &config.units[1].content;
    assert!(kubelet.contains("--v=3"), "{kubelet}");
    let duties = config.cluster_duties.as_ref().expect("duties");
    assert!(duties.addons[0].objects.iter().any(|object| object.contains("--v=4")));
}

#[test]
fn what_the_spec_carries_reaches_the_machines_it_names() {
    let more = "  files:\n  - {path: /etc/admission.yaml, content: \"pa$$w0rd$HOME\", mode: \"0600\", roles: [ControlPlane]}\n  \
                - {path: /etc/motd, content: lab, mode: \"0644\", roles: [Worker]}\n  \
                components: {kubeApiserver: {flags: {admission-control-config-file: /etc/admission.yaml}}}\n  \
                staticPods: [{name: web, manifest: {metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}, roles: [Worker]}]\n  \
                hooks: [{name: tune, when: BeforeKubelet, command: [/bin/true], timeout: 30s, onFailure: Stop, roles: [Worker]}]\n  \
                registryMirrors: [{registry: docker.io, endpoints: [\"https://mirror.example\"], caCert: \"\"}]\n  \
                proxy: {https: \"http://127.0.0.1:9\"}\n  \
                sysctls: {vm.max_map_count: \"262144\"}\n  \
                users: [{name: ops, sshAuthorizedKeys: [k]}]\n  ntp: {servers: [ntp.example]}\n";
    let world = World::of(full(1, 1, more));
    let (server, worker) = (world.render("lab-cp-a").config, world.render("lab-md-1").config);
    assert_eq!(file(&server, "/etc/admission.yaml"), "pa$$w0rd$HOME");
    assert!(pod(&server, "kube-apiserver").contains("path: /etc/admission.yaml"), "the flag's file is mounted");
    assert_eq!(file(&worker, "/etc/motd"), "lab");
    assert!(!server.files.iter().any(|file| file.path == "/etc/motd"));
    assert!(pod(&worker, "web").starts_with("apiVersion: v1\nkind: Pod\n"));
    assert_eq!((server.hooks.len(), worker.hooks.len()), (0, 1));
    assert!(file(&worker, "/etc/containerd/certs.d/docker.io/hosts.toml").contains("https://mirror.example"));
    assert!(file(&worker, "/etc/windlass/proxy.env").contains("10.96.0.0/16"));
    assert!(worker.units.iter().all(|unit| unit.content.contains("EnvironmentFile=/etc/windlass/proxy.env\n")));
    assert_eq!(worker.sysctls["vm.max_map_count"], "262144");
    assert_eq!((worker.users[0].name.as_str(), worker.ntp_servers[0].as_str()), ("ops", "ntp.example"));
}

#[test]
fn b15_coredns_forwards_only_where_told() {
    let corefile = |more: &str| {
        let sealed = World::of(full(1, 0, more)).render("lab-cp-a");
        let duties = sealed.config.cluster_duties.expect("duties");
        let coredns = duties.addons.into_iter().find(|addon| addon.name == "coredns").expect("coredns");
        coredns.objects.into_iter().find(|object| object.contains("Corefile: |")).expect("its configuration")
    };
    assert!(!corefile("").contains("forward"));
    assert!(corefile("  network: {dnsUpstreams: [192.0.2.53]}\n").contains("forward . 192.0.2.53 {"));
}

#[test]
fn b14_conntrack_is_left_alone_where_it_cannot_be_written() {
    let sealed = World::of(full(1, 0, "")).render("lab-cp-a");
    let duties = sealed.config.cluster_duties.expect("duties");
    let proxy = duties.addons.iter().find(|addon| addon.name == "kube-proxy").expect("kube-proxy");
    assert!(proxy.objects.iter().any(|object| object.contains("maxPerCore: 0\n") && object.contains("min: 0\n")));
}

#[test]
fn b16_runtime_and_kubelet_agree_on_the_cgroup_driver() {
    let config = World::of(full(1, 0, "")).render("lab-cp-a").config;
    assert!(file(&config, "/var/lib/kubelet/config.yaml").contains("cgroupDriver: cgroupfs\n"));
    assert!(file(&config, "/etc/containerd/config.toml").contains("SystemdCgroup = false"));
}

#[test]
fn forming_is_permitted_once() {
    let mut world = World::of(full(3, 0, ""));
    world.permit = EtcdPermit::Join { formed_by: FormAttempt::from("attempt-1") };
    let etcd = world.render("lab-cp-a").config.etcd.expect("a member");
    assert!(etcd.form_manifest.is_none());
    assert!(etcd.manifest.contains("--initial-cluster-state=existing") && !etcd.manifest.contains("attempt-1"));
}

#[test]
fn inputs_that_contradict_each_other_are_refused() {
    let world = World::of(full(1, 1, ""));
    let mut stranger = world.machines[0].clone();
    stranger.name = "lab-cp-x".to_owned();
    let error = world.try_render(&stranger).expect_err("not a wanted control plane").to_string();
    assert_eq!(error, "slot a of lab-cp-x is not among the wanted control planes");
    stranger.slot = None;
    assert!(world.try_render(&stranger).is_err());
}

/// Every YAML text of a configuration.
fn documents(config: &NodeConfig) -> Vec<String> {
    let mut all: Vec<String> = config.static_pods.iter().map(|pod| pod.manifest.clone()).collect();
    all.extend(config.etcd.iter().flat_map(|etcd| etcd.form_manifest.iter().chain([&etcd.manifest]).cloned()));
    all.extend(config.cluster_duties.iter().flat_map(|duties| {
        duties.bootstrap.iter().chain(duties.addons.iter().flat_map(|addon| &addon.objects)).cloned()
    }));
    let yaml = config.files.iter().filter(|file| file.path.ends_with(".yaml"));
    all.extend(yaml.filter_map(|file| match &file.content {
        Content::Text(text) => Some(text.clone()),
        _ => None,
    }));
    all
}

/// Every path that Windlass writes is one that files of the spec are kept from.
#[test]
fn whatever_is_rendered_lies_where_no_file_of_the_spec_may() {
    let world = World::of(full(3, 1, "  proxy: {http: \"http://proxy.example:3128\"}\n"));
    for name in ["lab-cp-a", "lab-md-1"] {
        let config = world.render(name).config;
        let files = config.files.iter().map(|file| file.path.clone());
        let units = config.units.iter().map(|unit| format!("/etc/systemd/system/{}", unit.name));
        let certificates =
            config.certificates.iter().flat_map(|each| [each.certificate_path.clone(), each.key_path.clone()]);
        let kubeconfigs = config.kubeconfigs.iter().map(|each| each.path.clone());
        for path in files.chain(units).chain(certificates).chain(kubeconfigs).filter(|path| !path.is_empty()) {
            assert!(
                windlass_spec::paths::owner_of(&path).is_some(),
                "{path} could be overwritten by a file of the spec"
            );
        }
    }
}

/// No port that machines listen on can be the API's.
#[test]
fn ports_of_the_balancer_are_refused_as_the_endpoints() {
    let world = World::of(full(1, 0, ""));
    let config = world.render("lab-cp-a").config;
    for listen in [Some(&config.balancer.listen), config.balancer.own_listen.as_ref()].into_iter().flatten() {
        let port = listen.rsplit(':').next().and_then(|port| port.parse().ok());
        let endpoint = Endpoint { port, ..Endpoint::default() };
        let cluster = Cluster::new("lab", ClusterSpec { endpoint, ..ClusterSpec::default() });
        let problems = windlass_spec::validate::validate(&cluster);
        assert!(problems.errors().any(|problem| problem.rule == "port"), "{listen}");
    }
}

#[test]
fn a_static_pod_is_called_as_its_entry_is() {
    let spec = "  staticPods: [{name: web, manifest: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: b}]}}}]\n";
    let config = World::of(full(1, 0, spec)).render("lab-cp-a").config;
    insta::assert_snapshot!(pod(&config, "web"), @r"
    apiVersion: v1
    kind: Pod
    metadata:
      labels:
        app: web
      name: web
    spec:
      containers:
      - name: a
        image: b
    ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn b02_configurations_agree_and_hold_no_key_twice(
        control_planes in prop::sample::select(vec![1_u32, 3, 5, 7]),
        workers in 0_u32..4,
        port in prop::sample::select(vec![443_u16, 6443, 8443]),
        upstreams in prop::sample::select(vec!["[]", "[192.0.2.53]"]),
        kube_proxy in prop::sample::select(vec!["NFTables", "IPTables", "None"]),
        cni in prop::sample::select(vec!["Bridge", "None"]),
    ) {
        let more = format!(
            "  endpoint: {{port: {port}}}\n  network: {{dnsUpstreams: {upstreams}, kubeProxy: {kube_proxy}, cni: {cni}}}\n"
        );
        let world = World::of(full(control_planes, workers, &more));
        let configs = render_all(&world);
        prop_assert_eq!(&lint(&configs), &Vec::<String>::new());
        prop_assert_eq!(&render_all(&world), &configs, "the same inputs, the same bytes");
        let members: BTreeSet<String> = configs
            .iter()
            .filter_map(|sealed| sealed.config.etcd.as_ref())
            .map(|etcd| serde_json::to_string(&etcd.members).expect("json"))
            .collect();
        prop_assert_eq!(members.len(), 1);
        for text in configs.iter().flat_map(|sealed| documents(&sealed.config)) {
            // The reader refuses a key that stands twice.
            let read: Result<Value, _> = serde_saphyr::from_str(&text);
            prop_assert!(read.is_ok(), "{:?}\n{}", read.err().map(|error| error.to_string()), text);
        }
    }
}
