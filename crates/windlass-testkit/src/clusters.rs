//! Example documents, as people write them.
//!
//! Output: YAML text for `windlass_spec::load`; names are the caller's so that tests do not meet.

/// The smallest legal document.
pub fn smallest(name: &str) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  provider: {{local: {{}}}}\n"
    )
}

/// Control planes and one group `md` of workers.
pub fn sized(name: &str, control_planes: u32, workers: u32) -> String {
    let mut text = smallest(name);
    text.push_str(&format!("  controlPlane: {{count: {control_planes}}}\n"));
    if workers > 0 {
        text.push_str(&format!("  workers:\n  - {{name: md, count: {workers}}}\n"));
    }
    text
}

/// A document that uses every field.
pub fn everything(name: &str) -> String {
    format!(
        r#"apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata: {{name: {name}}}
spec:
  kubernetesVersion: "1.37"
  provider: {{local: {{}}}}
  controlPlane: {{count: 3, dedicated: true, labels: {{zone: x}}, taints: [], failureDomains: []}}
  workers:
  - {{name: md, count: 2, labels: {{tier: app}}, taints: [{{key: team, value: a, effect: NoSchedule}}]}}
  - {{name: plain, count: 1}}
  etcd: [{{name: main, topology: Stacked, volume: {{size: 2Gi}}}}]
  network: {{pods: [10.244.0.0/16], services: [10.96.0.0/16], nodeMaskSize: 24, cni: Bridge, kubeProxy: NFTables, dnsUpstreams: []}}
  endpoint: {{port: 6443, certSANs: [api.lab.example]}}
  components:
    kubeApiserver: {{flags: {{v: "2", profiling: null}}}}
    kubelet: {{config: {{maxPods: 60}}}}
  addons: {{coredns: {{}}, localPath: {{}}}}
  audit: {{policy: {{}}}}
  files: [{{path: /etc/motd, content: "lab costs $5 at $HOME", mode: "0644", roles: [Worker]}}]
  staticPods: []
  hooks: [{{name: tune, when: BeforeKubelet, command: [/bin/true], timeout: 30s, onFailure: Stop, roles: [ControlPlane, Worker]}}]
  sysctls: {{vm.max_map_count: "262144"}}
  users: [{{name: ops, sshAuthorizedKeys: []}}]
  proxy: {{http: "", https: "", noProxy: []}}
  registryMirrors: [{{registry: docker.io, endpoints: ["https://mirror.example"], caCert: ""}}]
  trustedCAs: []
  ntp: {{servers: []}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sized_documents_say_their_numbers() {
        let text = sized("lab", 3, 2);
        assert!(text.contains("controlPlane: {count: 3}") && text.contains("{name: md, count: 2}"), "{text}");
        assert!(!sized("lab", 1, 0).contains("workers"));
    }
}
