//! The definitions by themselves: labels, names, columns, size.

use std::collections::BTreeSet;

use kube::ResourceExt;
use windlass_controllers::{crds, providers};

#[test]
fn every_definition_carries_what_clusterctl_reads() {
    let all = crds();
    let names: BTreeSet<String> = all.iter().map(|crd| crd.name_any()).collect();
    insta::assert_debug_snapshot!(names, @r#"
    {
        "clusters.cluster.x-k8s.io",
        "clusters.windlass.dev",
        "controlplanes.windlass.dev",
        "localclusters.windlass.dev",
        "localmachines.windlass.dev",
        "localmachinetemplates.windlass.dev",
        "machinedeployments.cluster.x-k8s.io",
        "machinehealthchecks.cluster.x-k8s.io",
        "machinepools.cluster.x-k8s.io",
        "machines.cluster.x-k8s.io",
        "machinesets.cluster.x-k8s.io",
        "nodeconfigs.windlass.dev",
        "nodeconfigtemplates.windlass.dev",
        "providers.clusterctl.cluster.x-k8s.io",
    }
    "#);
    for crd in &all {
        let labels = crd.labels();
        assert!(labels.contains_key("clusterctl.cluster.x-k8s.io"), "{}", crd.name_any());
        let is_inventory = crd.name_any().starts_with("providers.");
        assert_eq!(labels.contains_key("cluster.x-k8s.io/v1beta2"), !is_inventory, "{}", crd.name_any());
        assert!(crd.spec.scope == "Namespaced");
        assert!(is_inventory || crd.spec.names.categories.iter().flatten().any(|one| one == "cluster-api"));
        let size = serde_json::to_string(crd).map(|text| text.len()).unwrap_or_default();
        assert!(size < 200_000, "{} has {size} bytes", crd.name_any());
    }
}

#[test]
fn the_inventory_keeps_clusterctl_init_away() {
    let all = providers("0.1.0");
    let core = all.iter().find(|entry| entry.spec.type_.as_deref() == Some("CoreProvider"));
    let core = core.map(|entry| (entry.spec.provider_name.clone(), entry.spec.version.clone()));
    assert_eq!(core, Some((Some("windlass".to_owned()), Some("v0.1.0".to_owned()))));
    assert!(all.iter().all(|entry| entry.spec.provider_name.as_deref() != Some("cluster-api")));
}
