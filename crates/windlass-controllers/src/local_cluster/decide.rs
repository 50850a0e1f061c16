//! The next step of a LocalCluster.

use crate::api::names;
use crate::api::windlass::LocalCluster;
use crate::objects;

/// What is looked at.
pub(super) struct Observed<'a> {
    pub(super) local: &'a LocalCluster,
    /// LocalMachines of the cluster that are still there.
    pub(super) machines_left: usize,
    /// Volumes at the provider, where they are to go.
    pub(super) volumes: Vec<String>,
    pub(super) delete_volumes: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Somebody else provides it.
    External,
    EnsureNetwork,
    WaitForMachines {
        left: usize,
    },
    DeleteVolumes(Vec<String>),
    DeleteNetwork,
}

/// Decides: the network as long as it is wanted; then machines, volumes (only if asked for), network.
pub(super) fn decide(seen: &Observed<'_>) -> Step {
    if objects::has_annotation(seen.local, names::MANAGED_BY) {
        return Step::External;
    }
    if !objects::is_deleting(seen.local) {
        return Step::EnsureNetwork;
    }
    if seen.machines_left > 0 {
        return Step::WaitForMachines { left: seen.machines_left };
    }
    if seen.delete_volumes && !seen.volumes.is_empty() {
        return Step::DeleteVolumes(seen.volumes.clone());
    }
    Step::DeleteNetwork
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::api::windlass::LocalClusterSpec;

    fn step(deleting: bool, machines_left: usize, volumes: &[&str], delete_volumes: bool) -> Step {
        let mut local = LocalCluster::new("lab", LocalClusterSpec::default());
        local.metadata.deletion_timestamp = deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        let volumes = volumes.iter().map(|&name| name.to_owned()).collect();
        decide(&Observed { local: &local, machines_left, volumes, delete_volumes })
    }

    #[test]
    fn volumes_go_only_when_asked_for_and_never_before_machines() {
        assert_eq!(step(false, 3, &["etcd-main-a"], true), Step::EnsureNetwork);
        assert_eq!(step(true, 1, &["etcd-main-a"], true), Step::WaitForMachines { left: 1 });
        assert_eq!(step(true, 0, &["etcd-main-a"], true), Step::DeleteVolumes(vec!["etcd-main-a".to_owned()]));
        assert_eq!(step(true, 0, &["etcd-main-a"], false), Step::DeleteNetwork);
        assert_eq!(step(true, 0, &[], true), Step::DeleteNetwork);
    }
}
