//! Each rule with the right value: what is refused, and what is not.

use std::collections::BTreeSet;

use super::{rules, validate_ground};
use crate::full::{CgroupMode, Facts};
use crate::load;
use crate::problems::Problems;
use crate::v1alpha1::Cluster;
use crate::values::Version;

fn document(name: &str, fields: &str) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  provider: {{local: {{}}}}\n{fields}\n"
    )
}

fn judged(text: &str) -> Problems {
    match load::read(text, "lab.yaml") {
        Ok(document) => document.warnings,
        Err(problems) => problems,
    }
}

/// Rules a spec with these fields breaks, warnings in brackets.
fn broken(fields: &str) -> Vec<String> {
    rules_of(&judged(&document("lab", &indented(fields))))
}

fn indented(fields: &str) -> String {
    fields.lines().map(|line| format!("  {line}\n")).collect()
}

fn rules_of(problems: &Problems) -> Vec<String> {
    let errors = problems.errors().map(|problem| problem.rule.clone());
    let warnings = problems.warnings().map(|problem| format!("({})", problem.rule));
    errors.chain(warnings).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Each line of fields breaks exactly these rules.
fn table(rows: &[(&str, &[&str])]) {
    for (fields, wanted) in rows {
        assert_eq!(&broken(fields), wanted, "{fields}\n{}", judged(&document("lab", &indented(fields))));
    }
}

const FINE: &[&str] = &[];

#[test]
fn counts() {
    table(&[
        ("controlPlane: {count: 1}", FINE),
        ("controlPlane: {count: 3}", FINE),
        ("controlPlane: {count: 7}", FINE),
        ("controlPlane: {count: 0}", &["control-plane-count"]),
        ("controlPlane: {count: 2}", &["control-plane-count"]),
        ("controlPlane: {count: 4}", &["control-plane-count"]),
        ("controlPlane: {count: 9}", &["control-plane-count"]),
        ("workers: [{name: md, count: 234}]", FINE),
        ("workers: [{name: md, count: 0}]", FINE),
        ("workers: [{name: md, count: 235}]", &["worker-count"]),
        ("workers: [{name: md, rollout: {maxSurge: 0}}]", &["rollout"]),
        ("workers: [{name: md, rollout: {maxSurge: 0, maxUnavailable: 1}}]", FINE),
        ("controlPlane: {failureDomains: [a]}", &["(failure-domains)"]),
        ("controlPlane: {failureDomains: [a, a]}", &["(failure-domains)", "duplicate-name"]),
    ]);
}

#[test]
fn names() {
    table(&[
        ("workers: [{name: md}, {name: md}]", &["duplicate-name"]),
        ("workers: [{name: Md}]", &["name"]),
        ("workers: [{name: cp}]", &["reserved-name"]),
        ("workers: [{name: \"\"}]", &["name"]),
        ("etcd: [{name: events}]", &["etcd"]),
        ("etcd: [{name: main}, {name: events}]", &["etcd"]),
        ("etcd: [{name: main}, {name: main}]", &["duplicate-name", "etcd"]),
    ]);
    for name in ["Lab", "a_b", "-a", "a.b", "\"\""] {
        assert_eq!(rules_of(&judged(&document(name, ""))), ["name"], "{name}");
    }
}

#[test]
fn the_longest_legal_name_and_one_more() {
    let cluster = |length: usize| rules_of(&judged(&document(&"a".repeat(length), "")));
    assert_eq!(cluster(45), FINE);
    assert_eq!(cluster(58), ["(name-length)"], "CLUSTER-cp-a has 63 characters");
    assert_eq!(cluster(59), ["name-length"]);
    assert_eq!(cluster(64), ["name"]);
    let group = |length: usize| {
        rules_of(&judged(&document(&"a".repeat(40), &format!("  workers: [{{name: {}}}]", "b".repeat(length)))))
    };
    assert_eq!(group(13), FINE, "40 + 1 + 13 + 9 characters are 63");
    assert_eq!(group(14), ["name-length"]);
    assert_eq!(group(64), ["name"]);
}

#[test]
fn ranges() {
    table(&[
        ("network: {pods: [10.0.0.0/12], services: [10.96.0.0/12]}", FINE),
        ("network: {pods: [10.244.0.0/16], services: [10.244.0.0/20]}", &["range-overlap"]),
        ("network: {services: [10.0.0.0/8]}", &["range-overlap", "range-size"]),
        ("network: {pods: [10.244.0.1/16]}", &["host-bits"]),
        ("network: {pods: [10.244.0.0]}", &["range"]),
        ("network: {pods: [10.244.0.0/33]}", &["range"]),
        ("network: {services: [10.96.0.0/28]}", FINE),
        ("network: {services: [10.96.0.0/29]}", &["range-size"]),
        ("network: {services: [10.96.0.0/11]}", &["range-size"]),
        ("network: {pods: [10.244.0.0/25]}", &["range-size"]),
        ("network: {pods: [10.244.0.0/24]}", FINE),
        ("network: {pods: [10.244.0.0/24]}\nworkers: [{name: md}]", &["range-size"]),
        ("network: {pods: [10.240.0.0/12], nodeMaskSize: 28}", FINE),
        ("network: {pods: [16.0.0.0/6], nodeMaskSize: 24}", &["range-size"]),
        ("network: {nodeMaskSize: 29}", &["node-mask"]),
        ("network: {pods: [127.0.0.0/16]}", &["range-overlap"]),
        ("network: {pods: [169.254.0.0/16]}", &["range-overlap"]),
        ("network: {services: [239.0.0.0/16]}", &["range-overlap"]),
        ("network: {pods: [10.77.128.0/17]}", &["range-overlap"]),
        ("network: {pods: [10.244.0.0/16, 10.245.0.0/16], services: [10.96.0.0/16, 10.97.0.0/16]}", &["families"]),
        ("network: {dnsUpstreams: [192.0.2.53]}", FINE),
        ("network: {dnsUpstreams: [127.0.0.53]}", &["dns-upstream"]),
        ("network: {dnsUpstreams: [\"::1\"]}", &["dns-upstream"]),
        ("network: {dnsUpstreams: [dns.example]}", &["dns-upstream"]),
        ("network: {dnsUpstreams: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4]}", &["dns-upstream"]),
        ("network: {cni: None, nodeMaskSize: 24}", &["(node-mask)"]),
    ]);
}

/// The local provider has no IPv6 addresses to give; without it only the relations of the lists count.
#[test]
fn dual_stack_lists_agree_in_count_order_and_size() {
    let without_provider = |pods: &str, services: &str| {
        let text = document("lab", &format!("  network: {{pods: [{pods}], services: [{services}]}}"))
            .replace("{local: {}}", "{}");
        let mut rules = rules_of(&judged(&text));
        rules.retain(|rule| rule != "provider");
        rules
    };
    let (four, six) = ("10.42.0.0/16", "\"2001:db8:42::/56\"");
    let (service4, service6) = ("10.43.0.0/16", "\"2001:db8:43::/112\"");
    assert_eq!(without_provider(&format!("{four}, {six}"), &format!("{service4}, {service6}")), FINE);
    assert_eq!(without_provider(&format!("{six}, {four}"), &format!("{service6}, {service4}")), FINE);
    assert_eq!(without_provider(&format!("{four}, {six}"), &format!("{service6}, {service4}")), ["families"]);
    assert_eq!(without_provider(&format!("{four}, {six}"), service4), ["families"]);
    assert_eq!(without_provider(six, "\"2001:db8:43::/64\""), ["range-size"]);
    table(&[(
        "network: {pods: [10.42.0.0/16, \"2001:db8:42::/56\"], services: [10.43.0.0/16, \"2001:db8:43::/112\"]}",
        &["families"],
    )]);
}

#[test]
fn host_routes_are_kept_clear_of() {
    let facts = |routes: &[&str]| Facts {
        cgroup: CgroupMode::V1,
        oom_score_adjustable: false,
        conntrack_writable: false,
        shared_disk: true,
        host_routes: routes.iter().map(|route| route.parse().unwrap()).collect(),
    };
    let cluster: Cluster = load(&document("lab", ""), "lab.yaml").unwrap();
    let broken = |routes: &[&str]| rules_of(&validate_ground(&cluster, &facts(routes)));
    assert_eq!(broken(&["0.0.0.0/0", "192.0.2.0/24"]), FINE, "a default route is none to keep clear of");
    assert_eq!(broken(&["10.77.3.0/24"]), FINE, "another cluster's bridge");
    assert_eq!(broken(&["10.244.7.0/24"]), ["host-route"]);
    assert_eq!(broken(&["10.0.0.0/8"]), ["host-route"]);
}

#[test]
fn versions() {
    table(&[
        ("kubernetesVersion: 1.37", FINE),
        ("kubernetesVersion: 1.37.2", FINE),
        ("kubernetesVersion: 1.38", &["version"]),
        ("kubernetesVersion: 1.37.0-rc.1", &["version"]),
        ("workers: [{name: md, version: 1.37.2}]", FINE),
        ("workers: [{name: md, version: 1.35}]", &["version"]),
    ]);
    let version = |minor: u32, patch: u32| Version { major: 1, minor, patch };
    let skew = |cluster, group| super::versions::skew("p", cluster, group).is_some();
    assert!(!skew(version(37, 2), version(34, 9)) && skew(version(37, 2), version(33, 9)));
    assert!(skew(version(37, 2), version(37, 3)) && !skew(version(37, 2), version(37, 1)));
}

#[test]
fn labels_and_taints() {
    let label = |key: &str| broken(&format!("workers: [{{name: md, labels: {{\"{key}\": x}}}}]"));
    for key in [
        "tier",
        "node-role.kubernetes.io/worker",
        "node.kubernetes.io/a",
        "example.com/a",
        "topology.kubernetes.io/zone",
        "node-restriction.kubernetes.io/a",
    ] {
        assert_eq!(label(key), FINE, "{key}");
    }
    for key in [
        "kubernetes.io/foo",
        "kubernetes.io/hostname",
        "foo.k8s.io/a",
        "windlass.dev/a",
        "cluster.x-k8s.io/a",
        "node-role.kubernetes.io/control-plane",
        "beta.kubernetes.io/arch",
    ] {
        assert_eq!(label(key), ["reserved-label"], "{key}");
    }
    for key in ["a/b/c", "", &"a".repeat(64), "-a"] {
        assert_eq!(label(key), ["label"], "{key}");
    }
    table(&[
        ("workers: [{name: md, labels: {a: x/y}}]", &["label"]),
        ("workers: [{name: md, labels: {node-role.kubernetes.io/web: \"\"}}]", FINE),
        (
            "workers: [{name: md, taints: [{key: k, value: \"true:NoSchedule\", effect: NoExecute}]}, {name: b}]",
            &["taint"],
        ),
        ("workers: [{name: md, taints: [{key: k, effect: NoSchedul}]}]", &["type"]),
        (
            "workers: [{name: md, taints: [{key: k, effect: NoExecute}, {key: k, value: b, effect: NoExecute}]}, {name: b}]",
            &["taint"],
        ),
        ("workers: [{name: md, taints: [{key: k, effect: NoExecute}, {key: k, effect: NoSchedule}]}, {name: b}]", FINE),
        ("workers: [{name: md, taints: [{key: \"k=v\", effect: NoSchedule}]}, {name: b}]", &["taint"]),
        (
            "workers: [{name: md, taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}]}, {name: b}]",
            &["reserved-taint"],
        ),
        (
            "controlPlane: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}\nworkers: [{name: b}]",
            &["reserved-taint"],
        ),
    ]);
}

#[test]
fn something_must_be_schedulable() {
    let tainted = "workers: [{name: md, taints: [{key: team, effect: NoSchedule}]}]";
    let control_plane = "controlPlane: {taints: [{key: a, effect: NoExecute}]}";
    let without_addons = "addons: {coredns: {enabled: false}, localPath: {enabled: false}}";
    table(&[
        // Pods may tolerate what a person chose; add-ons run on the control plane.
        (tainted, &["(unschedulable)"]),
        (&format!("{tainted}\ncontrolPlane: {{count: 3, dedicated: true}}"), &["(unschedulable)"]),
        (&tainted.replace("}]}]", "}]}, {name: none, count: 0}]"), &["(unschedulable)"]),
        (&format!("{tainted}\ncontrolPlane: {{dedicated: false}}"), FINE),
        (&tainted.replace("}]}]", "}]}, {name: plain}]"), FINE),
        (&tainted.replace("NoSchedule", "PreferNoSchedule"), FINE),
        // Kept free for workers that are not there.
        ("controlPlane: {dedicated: true}", &["unschedulable"]),
        ("controlPlane: {dedicated: true}\nworkers: [{name: md, count: 0}]", &["unschedulable"]),
        ("controlPlane: {dedicated: false}", FINE),
        ("workers: [{name: md, count: 0}]", FINE),
        // Add-ons tolerate the control plane's own taint only.
        (control_plane, &["unschedulable"]),
        (&format!("{control_plane}\n{tainted}"), &["unschedulable"]),
        (&format!("{control_plane}\nworkers: [{{name: md}}]"), FINE),
        (&format!("{control_plane}\n{without_addons}"), &["(unschedulable)"]),
    ]);
}

#[test]
fn endpoint_and_etcd() {
    table(&[
        (
            "endpoint: {port: 443, name: api.lab.example, certSANs: [api.lab.example, 192.0.2.7, \"*.lab.example\"]}",
            FINE,
        ),
        ("endpoint: {port: 0}", &["port"]),
        ("endpoint: {port: 10250}", &["port"]),
        ("endpoint: {port: 2379}", &["port"]),
        ("endpoint: {port: 7444}", &["port"]),
        ("endpoint: {port: 10259}", &["port"]),
        ("endpoint: {port: 30001}", &["port"]),
        ("endpoint: {name: localhost}", &["endpoint-name"]),
        ("endpoint: {mode: VirtualIP}", &["endpoint-mode"]),
        ("endpoint: {mode: Provider}", FINE),
        ("endpoint: {certSANs: [\"https://api.lab.example\"]}", &["cert-san"]),
        ("endpoint: {certSANs: [a.example, A.example]}", &["duplicate-name"]),
        ("etcd: [{name: main, topology: External}]", &["etcd"]),
        ("etcd: [{name: main, topology: Stacked, members: [a], volume: {size: 512Mi}}]", FINE),
        ("etcd: [{name: main, members: [a, b]}]", &["etcd"]),
        ("controlPlane: {count: 3}\netcd: [{name: main, members: [c, a, b]}]", FINE),
        ("etcd: [{name: main, volume: {size: 1Mi}}]", &["size"]),
        ("etcd: [{name: main, volume: {size: 2GB}}]", &["size"]),
    ]);
}

#[test]
fn flags() {
    table(&[
        ("components: {kubeApiserver: {flags: {v: \"2\", no-such-flag: x}}}", FINE),
        ("components: {kubeApiserver: {flags: {--v: \"2\"}}}", &["flag"]),
        ("components: {kubeApiserver: {flags: {etcd-servers: x}}}", &["reserved-flag"]),
        ("components: {kubeApiserver: {flags: {tls-cert-file: null}}}", &["reserved-flag"]),
        ("components: {kubeApiserver: {flags: {anonymous-auth: \"true\"}}}", &["reserved-flag"]),
        ("components: {kubeApiserver: {flags: {audit-policy-file: null}}}", FINE),
        ("components: {kubeApiserver: {flags: {audit-policy-file: /x}}}", &["reserved-flag"]),
        ("components: {kubeApiserver: {flags: {authorization-mode: RBAC}}}", &["reserved-flag"]),
        ("components: {kubeApiserver: {flags: {authorization-mode: \"Node,RBAC,Webhook\"}}}", FINE),
        ("components: {kubeApiserver: {flags: {enable-admission-plugins: PodNodeSelector}}}", &["reserved-flag"]),
        ("components: {kubeApiserver: {flags: {enable-admission-plugins: \"NodeRestriction,PodNodeSelector\"}}}", FINE),
        ("components: {etcd: {flags: {initial-cluster: x}}}", &["reserved-flag"]),
        ("components: {etcd: {flags: {heartbeat-interval: \"200\"}}}", FINE),
        ("components: {kubelet: {flags: {node-labels: a=b}}}", &["reserved-flag"]),
        ("components: {kubelet: {config: {cgroupDriver: systemd}}}", &["reserved-flag"]),
        ("components: {kubelet: {config: {kind: KubeletConfiguration, maxPods: 60}}}", FINE),
        ("components: {kubelet: {config: {kind: Pod}}}", &["kubelet-config"]),
        ("components: {kubelet: {config: {authentication: {anonymous: {enabled: true}}}}}", &["(kubelet-config)"]),
        ("components: {kubelet: {config: {authentication: {x509: {clientCAFile: /x}}}}}", &["reserved-flag"]),
        ("components: {containerd: {flags: {log-level: debug}}}", FINE),
        ("components: {kubeProxy: {flags: {proxy-mode: ipvs}}}", &["reserved-flag"]),
        ("components: {kubeScheduler: {flags: {kubeconfig: x}}}", &["reserved-flag"]),
        ("components: {kubeControllerManager: {flags: {cluster-cidr: x}}}", &["reserved-flag"]),
    ]);
}

#[test]
fn policies() {
    table(&[
        ("audit: {policy: {}}", FINE),
        ("audit: {policy: {rules: [{level: Metadata}]}}", FINE),
        ("audit: {policy: {kind: Pod, rules: [{level: Metadata}]}}", &["policy"]),
        ("audit: {policy: {rules: []}}", &["policy"]),
        ("audit: {policy: {rules: [{level: Everything}]}}", &["policy"]),
        ("audit: {policy: {rule: [{level: Metadata}]}}", &["policy"]),
        ("authentication: {configuration: {jwt: []}}", FINE),
        ("authentication: {configuration: {anonymous: {enabled: false}}}", &["anonymous"]),
        ("authentication: {configuration: {anonymous: {enabled: true, conditions: [{path: /livez}]}}}", &["anonymous"]),
        ("authentication: {configuration: {apiVersion: v1}}", &["policy"]),
    ]);
}

#[test]
fn machines() {
    table(&[
        ("files: [{path: /etc/motd, content: a}]", FINE),
        ("files: [{path: etc/motd, content: a}]", &["file-path"]),
        ("files: [{path: /etc/../x, content: a}]", &["file-path"]),
        ("files: [{path: /etc/kubernetes/x, content: a}]", &["file-path"]),
        ("files: [{path: /etc/kubernetes-like, content: a}]", FINE),
        ("files: [{path: /etc/hosts, content: a}]", &["file-path"]),
        ("files: [{path: /etc/passwd, content: a}]", &["file-path"]),
        ("files: [{path: /usr/local/bin/kubelet, content: a}]", &["file-path"]),
        ("files: [{path: /usr/local/bin/own, content: a}]", FINE),
        ("files: [{path: /etc/systemd/system/kubelet.service, content: a}]", &["file-path"]),
        ("files: [{path: /etc/systemd/system/kubelet.service.d/own.conf, content: a}]", FINE),
        ("files: [{path: /etc/sudoers.d/windlass-ops, content: a}]", &["file-path"]),
        ("files: [{path: /usr/local/bin, content: a}]", &["file-path"]),
        ("files: [{path: /home/ops/.ssh/authorized_keys, content: a}]", FINE),
        ("files: [{path: /home/ops/.ssh/authorized_keys, content: a}]\nusers: [{name: ops}]", &["file-path"]),
        ("files: [{path: /a, content: a, mode: \"0999\"}]", &["file-mode"]),
        ("files: [{path: /a, content: a, mode: 4755}]", FINE),
        ("files: [{path: /a, content: a}, {path: /a, content: b}]", &["duplicate-name"]),
        ("files: [{path: /a, content: a, roles: [Worker]}, {path: /a, content: b, roles: [ControlPlane]}]", FINE),
        ("staticPods: [{name: a, manifest: {spec: {containers: [{name: a, image: b}]}}}]", FINE),
        ("staticPods: [{name: etcd, manifest: {spec: {containers: [{name: a}]}}}]", &["reserved-name"]),
        ("staticPods: [{name: a, manifest: {kind: Job, spec: {containers: [{name: a}]}}}]", &["static-pod"]),
        ("staticPods: [{name: a, manifest: {}}]", &["static-pod"]),
        (&pod("a", "{name: a, namespace: kube-system}"), FINE),
        (&pod("a", "{labels: {x: why}}"), FINE),
        (&pod("a", "{name: b}"), &["static-pod"]),
        (&pod("a", "{name: 1}"), &["static-pod"]),
        (&pod("a", "[]"), &["static-pod"]),
        (&pod("a", "{namespace: Kube}"), &["static-pod"]),
        (&pod("a", "{namespace: \"\"}"), &["static-pod"]),
        (&pod("a", "{namespace: later}"), &["(static-pod)"]),
        ("hooks: [{name: a, when: BeforeKubelet, command: [/bin/true], timeout: 30s}]", FINE),
        ("hooks: [{name: a, when: BeforeKubelet, command: [true]}]", &["hook"]),
        ("hooks: [{name: a, when: BeforeKubelet, command: []}]", &["hook"]),
        ("hooks: [{name: a, when: BeforeKubelet, command: [/bin/true], timeout: 30}]", &["duration"]),
        ("hooks: [{name: a, when: BeforeKubelet, command: [/bin/true], timeout: 2h}]", &["duration"]),
        ("extraUserData: [{name: a, script: \"#!/bin/sh\\ntrue\\n\"}]", FINE),
        ("extraUserData: [{name: a, script: \"true\"}]", &["script"]),
        (
            "users: [{name: ops, sudo: true, sshAuthorizedKeys: [\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4= ops\"]}]",
            FINE,
        ),
        ("users: [{name: root}]", &["reserved-name"]),
        ("users: [{name: Ops}]", &["user"]),
        ("users: [{name: ops, sshAuthorizedKeys: [AAAA]}]", &["ssh-key"]),
        ("users: [{name: ops, sshAuthorizedKeys: [\"-----BEGIN OPENSSH PRIVATE KEY-----\"]}]", &["ssh-key"]),
        ("sysctls: {net.core.somaxconn: 1024}", FINE),
        ("sysctls: {vm.max_map_count: 262144}", &["(sysctl)"]),
        ("sysctls: {max_map_count: 1}", &["sysctl"]),
        ("sysctls: {net.ipv4.ip_forward: 0}", &["sysctl"]),
        ("sysctls: {net.a: \"\"}", &["sysctl"]),
    ]);
}

/// A static pod whose manifest has this metadata.
fn pod(name: &str, metadata: &str) -> String {
    format!(
        "staticPods: [{{name: {name}, manifest: {{metadata: {metadata}, spec: {{containers: [{{name: a, image: b}}]}}}}}}]"
    )
}

#[test]
fn what_is_refused_says_where_and_what_to_write_instead() {
    let fields = "\
staticPods:
- name: proxy
  manifest:
    kind: Deployment
    metadata: {name: my-proxy}
    spec: {containers: [{name: a, image: b}]}
files:
- {path: /usr/local/bin/kubelet, content: \"\"}
- {path: /etc/passwd, content: \"\"}
endpoint: {port: 7444}";
    insta::assert_snapshot!(judged(&document("lab", &indented(fields))));
}

#[test]
fn mirrors_have_one_shape() {
    let mirror = |registry: &str, endpoint: &str| {
        broken(&format!("registryMirrors: [{{registry: \"{registry}\", endpoints: [\"{endpoint}\"]}}]"))
    };
    assert_eq!(mirror("docker.io", "https://mirror.example"), FINE);
    assert_eq!(mirror("docker.io", "http://192.0.2.10:5000/cache"), FINE);
    assert_eq!(mirror("https://docker.io", "https://mirror.example"), ["registry"]);
    assert_eq!(mirror("docker.io/library", "https://mirror.example"), ["registry"]);
    assert_eq!(mirror("docker.io", "mirror.example"), ["mirror"]);
    assert_eq!(mirror("docker.io", "https://mirror.example/"), ["mirror"]);
    assert_eq!(mirror("docker.io", "https://mirror.example/v2"), ["mirror"]);
    assert_eq!(mirror("docker.io", "https://ops:secret@mirror.example"), ["mirror"]);
    assert_eq!(mirror("docker.io", "https://registry-1.docker.io"), ["mirror"]);
    assert_eq!(mirror("docker.io", "oci://mirror.example"), ["mirror"]);
    table(&[
        ("registryMirrors: [{registry: docker.io, endpoints: []}]", &["mirror"]),
        ("registryMirrors: [{registry: docker.io, endpoints: [\"https://a.example\"], auth: {}}]", &["unknown-field"]),
        (
            "registryMirrors: [{registry: docker.io, endpoints: [\"https://a.example\"], caCert: nonsense}]",
            &["certificate"],
        ),
        (
            "registryMirrors: [{registry: a.example, endpoints: [\"https://b.example\"]}, {registry: a.example, endpoints: [\"https://c.example\"]}]",
            &["duplicate-name"],
        ),
    ]);
    let said = judged(&document(
        "lab",
        "  registryMirrors: [{registry: docker.io, endpoints: [\"https://mirror.example/v2/\"]}]",
    ))
    .to_string();
    assert!(said.contains("write `https://mirror.example`"), "{said}");
}

#[test]
fn site() {
    table(&[
        (
            "proxy: {http: \"http://proxy.example:3128\", https: \"http://u:p@proxy.example:3128\", noProxy: [.example, 192.0.2.0/24, \"*.a.example\", localhost]}",
            FINE,
        ),
        ("proxy: {http: \"proxy.example:3128\"}", &["proxy"]),
        ("proxy: {https: \"socks5://proxy.example\"}", &["proxy"]),
        ("proxy: {noProxy: [.example]}", &["(proxy)"]),
        ("proxy: {http: \"http://p.example\", noProxy: [\"https://a.example\"]}", &["proxy"]),
        ("trustedCAs: [nonsense]", &["certificate"]),
        ("trustedCAs: [\"-----BEGIN PRIVATE KEY-----\"]", &["certificate"]),
        ("trustedCAs: [\"-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\"]", &["certificate"]),
        ("ntp: {servers: [ntp.example, 192.0.2.1]}", FINE),
        ("ntp: {servers: [\"ntp://x\"]}", &["ntp"]),
        ("provider: {}", &["duplicate-field"]),
    ]);
}

#[test]
fn every_rule_is_listed_once() {
    let names: Vec<&str> = rules::all().map(|rule| rule.name).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), unique.len());
    let sources = [
        include_str!("components.rs"),
        include_str!("endpoint.rs"),
        include_str!("ground.rs"),
        include_str!("labels.rs"),
        include_str!("machine.rs"),
        include_str!("metadata.rs"),
        include_str!("mirrors.rs"),
        include_str!("mod.rs"),
        include_str!("network.rs"),
        include_str!("policies.rs"),
        include_str!("site.rs"),
        include_str!("topology.rs"),
        include_str!("versions.rs"),
        include_str!("../load/check.rs"),
        include_str!("../load/tree.rs"),
        include_str!("../load/mod.rs"),
        include_str!("../resolve/mod.rs"),
    ];
    let used =
        sources.iter().flat_map(|source| ["Problem::error(\"", "Problem::warning(\""].map(|call| (source, call)));
    for (source, call) in used {
        for rest in source.split(call).skip(1) {
            let rule = rest.split('"').next().unwrap_or_default();
            assert!(unique.contains(rule), "{rule} is in no list");
        }
    }
}
