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
