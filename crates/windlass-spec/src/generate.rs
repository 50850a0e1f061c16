//! A spec to begin with.
//!
//! Input: a name and a few numbers. Output: text with comments that [`crate::load()`] takes as it is.

use crate::identity::Slot;
use crate::releases;
use crate::v1alpha1::{API_VERSION, KIND};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Cluster name.
    pub name: String,
    /// Control-plane machines.
    pub control_planes: u32,
    /// Workers.
    pub workers: u32,
    /// Kubernetes version; the newest supported minor unless set.
    pub kubernetes: Option<String>,
    /// Leave the comments out.
    pub bare: bool,
}

/// The spec.
pub fn cluster(wish: &Wish) -> String {
    let newest = releases::choose(None).map(|version| format!("{}.{}", version.major, version.minor));
    let kubernetes = wish.kubernetes.clone().or(newest).unwrap_or_default();
    let sections = [
        head(wish),
        format!("  kubernetesVersion: \"{kubernetes}\"  # the newest patch of this minor; 1.37.2 means that one\n"),
        "  provider:\n    local: {}  # machines are sandboxes on this computer\n".to_owned(),
        control_plane(wish),
        workers(wish),
        ETCD.to_owned(),
        NETWORK.to_owned(),
        REST.to_owned(),
    ];
    let text = sections.concat();
    if wish.bare { without_comments(&text) } else { text }
}

fn head(wish: &Wish) -> String {
    let name = &wish.name;
    format!(
        "# A Kubernetes cluster for `windlass create cluster -f FILE`. What is left out has a default;\n\
         # `windlass plan -f FILE --full` shows every value and who set it.\n\
         apiVersion: {API_VERSION}\nkind: {KIND}\nmetadata:\n  name: {}\nspec:\n",
        if name.starts_with(|first: char| first.is_ascii_digit()) { format!("\"{name}\"") } else { name.clone() }
    )
}

fn control_plane(wish: &Wish) -> String {
    let slots: Vec<String> = usize::try_from(wish.control_planes)
        .map(Slot::first)
        .unwrap_or_default()
        .iter()
        .map(|slot| format!("{}-cp-{slot}", wish.name))
        .collect();
    let dedicated = match wish.workers {
        0 => "# dedicated: false  # there are no workers to keep workloads for",
        _ => "dedicated: true  # workloads stay off while there are workers",
    };
    format!(
        "\n  # Machines that run etcd and the API: {}. An odd number; three survive the loss of one.\n  controlPlane:\n    count: {}\n    \
         {dedicated}\n    # labels: {{}}\n    # taints: []\n",
        slots.join(", "),
        wish.control_planes
    )
}

fn workers(wish: &Wish) -> String {
    if wish.workers == 0 {
        return "\n  # No workers: the control plane runs the workloads.\n  # workers:\n  # - name: md\n  #   count: 2\n".to_owned();
    }
    format!(
        "\n  # Groups of machines for workloads, called {}-md-1 and so on.\n  workers:\n  - name: md\n    count: {}\n    \
         # labels: {{tier: app, node-role.kubernetes.io/app: \"\"}}\n    # taints: [{{key: team, value: a, effect: NoSchedule}}]\n",
        wish.name, wish.workers
    )
}

const ETCD: &str = "
  # A member on each control-plane machine, each on a volume of its own that outlives the machine.
  etcd:
  - name: main
    volume:
      size: 2Gi
";

const NETWORK: &str = "
  # Ranges inside the cluster; clusters on one computer may share them.
  network:
    pods: [10.244.0.0/16]
    services: [10.96.0.0/16]
    cni: Bridge           # or None, for Cilium and the like
    kubeProxy: NFTables   # or IPTables, or None
    # dnsUpstreams: [192.0.2.53]  # who resolves names outside the cluster

  # Where clients find the API.
  endpoint:
    port: 6443
    # certSANs: [api.lab.example]
";

const REST: &str = "
  # Add-ons are on unless `enabled: false`.
  addons:
    coredns: {}
    localPath: {}         # the default StorageClass, on the machines' disks

  # More that may be set; the reference has every field.
  # components:
  #   kubeApiserver: {flags: {v: \"2\", profiling: null}}  # null takes a default away
  #   kubelet: {config: {maxPods: 60}}
  # files: [{path: /etc/motd, content: \"lab\", mode: \"0644\", roles: [Worker]}]
  # hooks: [{name: tune, when: BeforeKubelet, command: [/bin/true], timeout: 30s, onFailure: Stop}]
  # sysctls: {net.core.somaxconn: \"1024\"}
  # users: [{name: ops, sudo: true, sshAuthorizedKeys: []}]
  # proxy: {http: \"http://proxy.example:3128\", https: \"http://proxy.example:3128\", noProxy: [.example]}
  # registryMirrors: [{registry: docker.io, endpoints: [\"https://mirror.example\"]}]
  # trustedCAs: []
  # ntp: {servers: [ntp.example]}
";

/// Only what counts. Nothing in these texts has a `#` of its own.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    lines.filter(|line| !line.is_empty()).fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::{Wish, cluster};
    use crate::load;
    use crate::v1alpha1::Cluster;

    fn read(control_planes: u32, workers: u32, bare: bool) -> Cluster {
        let wish = Wish { name: "lab".to_owned(), control_planes, workers, kubernetes: None, bare };
        let text = cluster(&wish);
        load(&text, "lab.yaml").unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    }

    #[test]
    fn what_is_generated_is_valid() {
        for (control_planes, workers) in [(1, 0), (1, 1), (3, 2), (5, 0)] {
            let commented = read(control_planes, workers, false);
            assert_eq!(commented.spec.control_plane.count, Some(control_planes));
            assert_eq!(commented, read(control_planes, workers, true));
        }
    }

    #[test]
    fn what_is_commented_out_is_valid_too() {
        let wish = Wish { name: "lab".to_owned(), control_planes: 3, workers: 2, kubernetes: None, bare: false };
        let uncommented: String = cluster(&wish)
            .lines()
            .map(|line| match line.find("# ") {
                Some(at) if line[..at].trim().is_empty() && line[at + 2..].starts_with(is_field) => {
                    format!("{}{}\n", &line[..at], &line[at + 2..])
                }
                _ => format!("{line}\n"),
            })
            .collect();
        load(&uncommented, "lab.yaml").unwrap_or_else(|problems| panic!("{problems}\n{uncommented}"));
    }

    fn is_field(text: char) -> bool {
        text.is_ascii_lowercase() || text == ' '
    }
}
