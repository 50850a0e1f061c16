//! The full spec, value for value.

use std::net::IpAddr;

use super::{origin_at, resolve};
use crate::full::{CgroupMode, Facts, FullCluster, Origin};
use crate::releases;
use crate::v1alpha1::{Cluster, ClusterSpec, LocalProvider, Provider};

fn facts() -> Facts {
    Facts {
        cgroup: CgroupMode::V1,
        oom_score_adjustable: false,
        conntrack_writable: false,
        shared_disk: true,
        host_routes: Vec::new(),
    }
}

fn smallest() -> Cluster {
    let provider = Provider { local: Some(LocalProvider {}) };
    Cluster::new("lab", ClusterSpec { provider, ..ClusterSpec::default() })
}

fn resolved(cluster: &Cluster, facts: &Facts) -> FullCluster {
    let release = releases::choose(None).and_then(releases::planned).unwrap();
    resolve(cluster, &release, facts).unwrap()
}

#[test]
fn the_smallest_cluster_has_every_default() {
    let full = resolved(&smallest(), &facts());
    assert_eq!(full.namespace, "default");
    assert_eq!(full.release.kubernetes, "1.37.2");
    assert_eq!(full.control_plane.slots.len(), 1);
    assert!(full.control_plane.taints.is_empty(), "without workers nothing keeps workloads off");
    assert_eq!(full.network.cluster_dns, "10.96.0.10".parse::<IpAddr>().unwrap());
    assert_eq!(full.network.kubernetes_service, "10.96.0.1".parse::<IpAddr>().unwrap());
    assert_eq!(full.endpoint.name, "api.lab.windlass.internal");
    assert_eq!(full.etcd[0].volume_bytes, 2 << 30);
    assert_eq!(full.components.etcd.set["quota-backend-bytes"], (1_u64 << 30).to_string());
    assert_eq!(full.components.kube_apiserver.set["service-cluster-ip-range"], "10.96.0.0/16");
    assert_eq!(origin_at(&full.origins, "network.pods[0]"), Origin::Default);
    assert_eq!(origin_at(&full.origins, "network.clusterDns"), Origin::Derived);
    assert_eq!(origin_at(&full.origins, "name"), Origin::User);
}

fn loaded(fields: &str) -> Cluster {
    let text = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: lab}}\nspec:\n  provider: {{local: {{}}}}\n{fields}"
    );
    loaded_text(&text)
}

fn loaded_text(text: &str) -> Cluster {
    crate::load(text, "lab.yaml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// Every value of the smallest cluster, for the eye: a changed default shows here.
#[test]
fn every_default() {
    let mut full = resolved(&smallest(), &facts());
    full.release.versions.clear();
    insta::assert_snapshot!(crate::annotate::annotated_yaml(&full));
}

/// How people write a spec, with "not set" written out.
const SAMPLE: &str = include_str!("../../tests/fixtures/sample.yaml");

#[test]
fn the_sample_is_valid_and_means_what_it_says() {
    let document = crate::load::read(SAMPLE, "lab.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    let warned: Vec<&str> = document.warnings.iter().map(|problem| problem.rule.as_str()).collect();
    // Pods must tolerate the workers' taint; the kernel parameter is one of the whole computer.
    assert_eq!(warned, ["unschedulable", "sysctl"]);
    let mut full = resolved(&document.cluster, &facts());
    full.release.versions.clear();
    insta::assert_snapshot!(crate::annotate::annotated_yaml(&full));
}

#[test]
fn what_is_empty_is_not_set() {
    let sample = resolved(&loaded_text(SAMPLE), &facts());
    let smallest = resolved(&smallest(), &facts());
    assert_eq!(sample.audit_policy, smallest.audit_policy);
    assert!(sample.audit_policy.is_some());
    assert_eq!(sample.proxy, None);
    assert_eq!((sample.trusted_cas, sample.ntp_servers), (Vec::new(), Vec::new()));
    assert_eq!(sample.network, smallest.network);
}

#[test]
fn flags_are_set_overridden_and_taken_away() {
    let full = resolved(
        &loaded("  components: {kubeApiserver: {flags: {v: \"2\", profiling: null, tls-min-version: VersionTLS13}}}\n"),
        &facts(),
    );
    let flags = &full.components.kube_apiserver;
    assert_eq!((flags.set["v"].as_str(), flags.set["tls-min-version"].as_str()), ("2", "VersionTLS13"));
    assert!(!flags.set.contains_key("profiling") && flags.unset.contains("profiling"));
    let origin = |flag: &str| origin_at(&full.origins, &format!("components.kubeApiserver.set.{flag}"));
    assert_eq!(origin("v"), Origin::User);
    assert_eq!(origin("tls-min-version"), Origin::User);
    assert_eq!(origin("authorization-mode"), Origin::Default);
    assert_eq!(origin("secure-port"), Origin::Derived);
}

#[test]
fn kubelet_configuration_is_merged_field_by_field() {
    let full = resolved(
        &loaded(
            "  components: {kubelet: {config: {maxPods: 60, seccompDefault: null, evictionHard: {memory.available: 5%}}}}\n",
        ),
        &facts(),
    );
    let config = &full.components.kubelet_config;
    assert_eq!(config["maxPods"], 60);
    assert!(config.get("seccompDefault").is_none());
    assert_eq!(config["evictionHard"]["memory.available"], "5%");
    assert_eq!(config["evictionHard"]["nodefs.available"], "0%", "what is not said stays");
    assert_eq!(origin_at(&full.origins, "components.kubeletConfig.maxPods"), Origin::User);
    assert_eq!(origin_at(&full.origins, "components.kubeletConfig.evictionHard[\"memory.available\"]"), Origin::User);
}

/// One fact decides both sides: kubelet's driver and the runtime's.
#[test]
fn facts_decide_cgroups_scores_and_conntrack() {
    let driver = |facts: &Facts| {
        let components = resolved(&smallest(), facts).components;
        let runtime = "/plugins/io.containerd.cri.v1.runtime";
        (
            components.kubelet_config["cgroupDriver"].as_str().unwrap().to_owned(),
            components.kubelet_config["failCgroupV1"].as_bool().unwrap(),
            components
                .containerd_config
                .pointer(&format!("{runtime}/containerd/runtimes/runc/options/SystemdCgroup"))
                .unwrap()
                == true,
            components.containerd_config.pointer(&format!("{runtime}/restrict_oom_score_adj")).unwrap() == true,
            components.kubelet_config["oomScoreAdj"].as_i64().unwrap(),
            components.kube_proxy_config["conntrack"]["maxPerCore"].as_i64().unwrap(),
            components.kubelet_config["imageGCHighThresholdPercent"].as_i64().unwrap(),
        )
    };
    assert_eq!(driver(&facts()), ("cgroupfs".to_owned(), false, false, true, 0, 0, 100));
    let host = Facts {
        cgroup: CgroupMode::V2,
        oom_score_adjustable: true,
        conntrack_writable: true,
        shared_disk: false,
        host_routes: Vec::new(),
    };
    assert_eq!(driver(&host), ("systemd".to_owned(), true, true, false, -999, 32768, 85));
}

#[test]
fn a_proxy_never_stands_before_the_cluster_itself() {
    assert_eq!(resolved(&smallest(), &facts()).proxy, None);
    let cluster = loaded("  proxy: {https: \"http://127.0.0.1:9\", noProxy: [.corp.example, localhost]}\n");
    let no_proxy = resolved(&cluster, &facts()).proxy.unwrap().no_proxy;
    assert_eq!(no_proxy[..2], [".corp.example", "localhost"], "the user's come first");
    for exempt in [
        "127.0.0.1",
        "10.77.0.0/16",
        "10.244.0.0/16",
        "10.96.0.0/16",
        ".svc",
        ".cluster.local",
        ".lab.windlass.internal",
        "api.lab.windlass.internal",
        "api.internal.lab.windlass.internal",
    ] {
        assert!(no_proxy.iter().any(|entry| entry == exempt), "{exempt}: {no_proxy:?}");
    }
    assert_eq!(no_proxy.iter().filter(|entry| *entry == "localhost").count(), 1);
}

#[test]
fn the_control_plane_taint_comes_with_workers() {
    let taints = |fields: &str| resolved(&loaded(fields), &facts()).control_plane.taints.len();
    assert_eq!(taints("  workers: [{name: md}]\n"), 1);
    assert_eq!(taints("  workers: [{name: md, count: 0}]\n"), 0);
    assert_eq!(taints("  workers: [{name: md}]\n  controlPlane: {dedicated: false}\n"), 0);
}

#[test]
fn the_audit_log_and_anonymous_requests() {
    let full = resolved(&loaded("  components: {kubeApiserver: {flags: {audit-policy-file: null}}}\n"), &facts());
    assert_eq!(full.audit_policy, None);
    assert!(!full.components.kube_apiserver.set.keys().any(|flag| flag.starts_with("audit-log")));
    let full = resolved(
        &loaded("  audit: {policy: {rules: [{level: Metadata}]}}\n  authentication: {configuration: {jwt: []}}\n"),
        &facts(),
    );
    let policy = full.audit_policy.unwrap();
    assert_eq!((&policy["kind"], policy["rules"].as_array().unwrap().len()), (&"Policy".into(), 1));
    let anonymous = &full.authentication_configuration["anonymous"];
    assert_eq!(anonymous["conditions"].as_array().unwrap().len(), super::HEALTH_PATHS.len());
}

#[test]
fn small_pod_ranges_carry_fewer_pods() {
    let pods = |mask: u8| {
        let fields = format!("  network: {{nodeMaskSize: {mask}}}\n");
        resolved(&loaded(&fields), &facts()).components.kubelet_config["maxPods"].as_u64().unwrap()
    };
    assert_eq!((pods(24), pods(26), pods(28)), (110, 61, 13));
}

#[test]
fn dual_stack_keeps_the_first_family_primary_everywhere() {
    let mut cluster = smallest();
    cluster.spec.network.pods = vec!["2001:db8:42::/56".to_owned(), "10.42.0.0/16".to_owned()];
    cluster.spec.network.services = vec!["2001:db8:43::/112".to_owned(), "10.43.0.0/16".to_owned()];
    let full = resolved(&cluster, &facts());
    assert_eq!(full.network.cluster_dns, "2001:db8:43::a".parse::<IpAddr>().unwrap());
    assert_eq!(full.network.kubernetes_service, "2001:db8:43::1".parse::<IpAddr>().unwrap());
    let flags = &full.components.kube_controller_manager.set;
    assert_eq!(flags["cluster-cidr"], "2001:db8:42::/56,10.42.0.0/16");
    assert_eq!((flags["node-cidr-mask-size-ipv4"].as_str(), flags["node-cidr-mask-size-ipv6"].as_str()), ("24", "64"));
    assert_eq!(full.components.kubelet_config["clusterDNS"][0], "2001:db8:43::a");
}

#[test]
fn what_cannot_be_understood_has_a_path() {
    let mut cluster = smallest();
    cluster.spec.network.pods = vec!["nonsense".to_owned()];
    cluster.spec.kubernetes_version = Some("1.36".to_owned());
    let release = releases::choose(None).and_then(releases::planned).unwrap();
    let problems = resolve(&cluster, &release, &facts()).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["spec.kubernetesVersion", "spec.network.pods[0]"]);
}
