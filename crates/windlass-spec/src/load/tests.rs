//! Problems of the text, message for message.

use insta::assert_snapshot;

use super::{load, read};

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: lab}\n";

fn spec(fields: &str) -> String {
    format!("{HEAD}spec:\n  provider: {{local: {{}}}}\n{fields}")
}

fn said(text: &str) -> String {
    match load(text, "lab.yaml") {
        Ok(_) => "fine".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

/// The first line of each problem.
fn heads(text: &str) -> Vec<String> {
    said(text)
        .lines()
        .filter(|line| line.starts_with("error:") || line.starts_with("warning:"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_smallest_cluster_is_valid() {
    assert_eq!(said(&spec("")), "fine");
    assert_eq!(said(&format!("\u{feff}{}", spec("").replace('\n', "\r\n"))), "fine", "BOM and CRLF");
    assert_eq!(said(&format!("# only a comment\n---\n{}...\n---\n", spec(""))), "fine", "empty documents");
}

#[test]
fn everything_wrong_is_said_at_once_with_its_place() {
    let text = "apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata:
  name: lab
spec:
  provider: {local: {}}
  workres:
  - name: md
  controlPlane:
    count: 2
    Dedicated: true
  endpoint:
    port: 0x1F
  network:
    pods: [10.244.0.1/16]
  endpoint:
    port: 443
";
    assert_snapshot!(said(text));
}

#[test]
fn a_field_at_the_wrong_depth_is_told_where_it_belongs() {
    assert_snapshot!(said(&spec("  controlPlane:\n  count: 3\n")));
    assert_snapshot!(said(&spec("  controlPlane:\n    count: 3\n    workers: []\n")));
    assert_snapshot!(said(&format!("{HEAD}Spec: {{}}\nspec:\n  provider: {{local: {{}}}}\n  replicas: 3\n")));
}

#[test]
fn duplicate_keys_name_both_lines() {
    assert_snapshot!(said(&spec("  controlPlane: {count: 3}\n  workers: []\n  controlPlane: {count: 1}\n")));
    assert_snapshot!(said(&spec("  workers:\n  - name: md\n    labels: {a: x, b: y, a: z}\n")));
    assert_snapshot!(said(&spec(
        "  controlPlane: {labels: &l {a: x}}\n  workers:\n  - name: md\n    labels: {<<: *l, a: z}\n"
    )));
}

#[test]
fn versions_are_read_from_the_source_text() {
    let version = |text: &str| heads(&spec(&format!("  kubernetesVersion: {text}\n")));
    assert_eq!(version("1.37"), [""; 0]);
    assert_eq!(version("\"1.37\""), [""; 0]);
    assert_eq!(version("v1.37.2"), [""; 0]);
    assert_eq!(version("1.30"), ["error: Kubernetes 1.30 is not supported"]);
    assert_eq!(version("1.40"), ["error: Kubernetes 1.40 is not supported"]);
    for text in ["1.3e1", "0x1F", "1_36", "1", "latest", "1.37.2.1"] {
        assert_eq!(version(text).len(), 1, "{text}");
        assert!(version(text)[0].contains(text), "what was read is said: {text}");
    }
    assert_snapshot!(said(&spec("  kubernetesVersion: 1.30\n")));
}

#[test]
fn texts_stay_as_they_are_written() {
    let text = spec(
        "  files:\n  - {path: /etc/a, content: \"pa$$w0rd$HOME ${env:HOME} ^(.*)$1\", mode: 0644}\n  workers:\n  - {name: 2026-11-30, labels: {a: yes, b: 0x1F, c: 1.30, d: true, e: on}}\n",
    );
    let cluster = load(&text, "lab.yaml").unwrap();
    assert_eq!(cluster.spec.files[0].content, "pa$$w0rd$HOME ${env:HOME} ^(.*)$1");
    assert_eq!(cluster.spec.files[0].mode.as_deref(), Some("0644"));
    let group = &cluster.spec.workers[0];
    assert_eq!(group.name, "2026-11-30");
    let labels: Vec<&str> = group.labels.values().map(String::as_str).collect();
    assert_eq!(labels, ["yes", "0x1F", "1.30", "true", "on"]);
}

#[test]
fn null_takes_a_flag_away_and_means_nothing_else() {
    let text = spec("  components: {kubeApiserver: {flags: {profiling: null, v: 2, a: ~, b: \"\"}}}\n");
    let flags = load(&text, "lab.yaml").unwrap().spec.components.kube_apiserver.flags;
    assert_eq!((&flags["profiling"], &flags["a"]), (&None, &None));
    assert_eq!((flags["v"].as_deref(), flags["b"].as_deref()), (Some("2"), Some("")));
    for field in
        ["network:", "workers:", "kubernetesVersion: null", "controlPlane: {count: ~}", "audit: {policy: null}"]
    {
        let heads = heads(&spec(&format!("  {field}\n")));
        assert!(heads.len() == 1 && heads[0].contains("has no value"), "{field}: {heads:?}");
    }
}

#[test]
fn numbers_and_truth_are_strict() {
    for field in [
        "endpoint: {port: \"443\"}",
        "endpoint: {port: 0443}",
        "endpoint: {port: 70000}",
        "endpoint: {port: 4_43}",
        "controlPlane: {count: 99999999999999999999999}",
        "controlPlane: {count: -1}",
        "controlPlane: {dedicated: yes}",
        "controlPlane: {dedicated: True}",
        "controlPlane: [1]",
        "workers: {name: md}",
        "network: {cni: bridge}",
        "network: {pods: 10.244.0.0/16}",
    ] {
        assert_eq!(heads(&spec(&format!("  {field}\n"))).len(), 1, "{field}: {}", said(&spec(&format!("  {field}\n"))));
    }
}

#[test]
fn other_documents_are_told_apart() {
    assert_snapshot!(said(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: lab}\nspec: {paused: true}\n"
    ));
    assert_snapshot!(said("kind: cluster\napiVersion: windlass.dev/v1alpha1\nmetadata: {name: lab}\n"));
    assert_snapshot!(said("metadata: {name: lab}\n"));
    assert_snapshot!(said(""));
    assert_snapshot!(said("- a\n"));
    assert_snapshot!(said(&format!("{}---\n{}", spec(""), spec(""))));
}

#[test]
fn broken_text_is_told_with_its_place() {
    assert_snapshot!(said("apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nspec:\n\tprovider: {}\n"));
    assert_snapshot!(said("spec: {a: [1, 2\n"));
    assert_snapshot!(said("a: *nowhere\n"));
    assert_snapshot!(said("a: &x [*x]\n"));
    assert_snapshot!(said("a: !ruby/object x\n"));
    assert_snapshot!(said("a: {<<: 1}\n"));
    assert_snapshot!(said("? [a]\n: b\n"));
}

#[test]
fn aliases_work_but_do_not_explode() {
    let text = spec(
        "  controlPlane: {labels: &l {tier: x}}\n  workers:\n  - {name: a, labels: *l}\n  - {name: b, labels: {<<: *l, other: y}}\n",
    );
    let cluster = load(&text, "lab.yaml").unwrap();
    assert_eq!(cluster.spec.workers[1].labels["tier"], "x");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let began = std::time::Instant::now();
    assert!(heads(&bomb)[0].contains("more than 50000 values"), "{}", said(&bomb));
    assert!(began.elapsed().as_secs() < 2, "a bomb is refused at once");
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["[".repeat(1000), format!("{}1", "a: {".repeat(100)), "- ".repeat(300)] {
        assert_ne!(said(&text), "fine");
    }
}

#[test]
fn objects_of_other_apis_are_read_as_kubectl_reads_them() {
    let text = spec(
        "  components: {kubelet: {config: {maxPods: 60, podPidsLimit: -1, evictionHard: {memory.available: 5%}, a: null}}}\n",
    );
    let config = load(&text, "lab.yaml").unwrap().spec.components.kubelet.config;
    assert_eq!(
        serde_json::Value::Object(config).to_string(),
        r#"{"maxPods":60,"podPidsLimit":-1,"evictionHard":{"memory.available":"5%"},"a":null}"#
    );
    assert_snapshot!(said(&spec("  components: {kubelet: {config: {seccompDefault: yes, maxPods: 1, maxPods: 2}}}\n")));
}

#[test]
fn problems_are_data_too() {
    let problems = load(&spec("  workres: []\n"), "lab.yaml").unwrap_err();
    assert_snapshot!(serde_json::to_string_pretty(&problems.to_json()).unwrap());
}

#[test]
fn long_and_odd_lines_do_not_move_the_mark() {
    let text = spec(&format!("  files: [{{path: relative, content: \"{}\", mode: \"0999\"}}]\n", "ä\t".repeat(120)));
    assert_snapshot!(said(&text));
}

#[test]
fn warnings_do_not_refuse() {
    let document = read(&spec("  sysctls: {vm.max_map_count: 262144}\n"), "lab.yaml").unwrap();
    assert_snapshot!(document.warnings.to_string());
}
