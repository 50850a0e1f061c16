//! What this computer knows of a cluster.
//!
//! Inputs: the registry, the cluster's folder, the provider's holdings. Output: what a plan is compared with; nothing for
//! a cluster that does not exist.

use windlass_plan::Observed;
use windlass_plan::preview::ObservedMachine;
use windlass_providers::local::survey;
use windlass_spec::full::FullCluster;
use windlass_spec::identity::Role;
use windlass_spec::names;
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};

use crate::exit::Failure;
use crate::local::{failure, paths};
use crate::operation;

/// Observes the cluster of the full spec's name.
pub(crate) fn observe(full: &FullCluster) -> Result<Observed, Failure> {
    let pointer = operation::registry()?.find(&full.name)?;
    let Some(pointer) = pointer.filter(|pointer| pointer.life != Life::Kept) else {
        return Ok(Observed::default());
    };
    let applied = applied(&pointer)?;
    let volumes = applied.iter().flat_map(volumes).collect();
    Ok(Observed { applied, machines: machines(&pointer)?, volumes })
}

/// The full spec the cluster was made from; not there while it is being made for the first time.
fn applied(pointer: &Pointer) -> Result<Option<FullCluster>, Failure> {
    let folder = ClusterFolder::new(&pointer.scope.cluster, pointer.folder.clone());
    let early = folder.generated().join("cluster.full.yaml");
    let Some(path) = [folder.full(), early].into_iter().find(|path| path.exists()) else { return Ok(None) };
    Ok(Some(serde_saphyr::from_str(&fs_err::read_to_string(path)?)?))
}

fn volumes(applied: &FullCluster) -> Vec<String> {
    let all = applied.etcd.iter().flat_map(|etcd| etcd.members.iter().map(move |slot| (etcd, *slot)));
    all.map(|(etcd, slot)| names::etcd_volume(&etcd.name, slot)).collect()
}

fn machines(pointer: &Pointer) -> Result<Vec<ObservedMachine>, Failure> {
    let all = survey::machines(&paths()?).map_err(failure)?;
    let own = all.into_iter().filter(|found| found.cluster_id == pointer.scope.cluster_id);
    Ok(own
        .map(|found| ObservedMachine {
            group: group(&pointer.scope.cluster, &found.machine.name),
            role: found.machine.role.unwrap_or(Role::Worker),
            slot: found.machine.slot,
            name: found.machine.name,
        })
        .collect())
}

/// The group in `CLUSTER-GROUP-N` or `CLUSTER-cp-SLOT`.
fn group(cluster: &str, machine: &str) -> String {
    let rest = machine.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-')).unwrap_or(machine);
    rest.rsplit_once('-').map_or(rest, |(group, _)| group).to_owned()
}

#[cfg(test)]
mod tests {
    use super::group;

    #[test]
    fn groups_are_read_from_names() {
        assert_eq!(group("lab", "lab-cp-a"), "cp");
        assert_eq!(group("lab", "lab-md-two-12"), "md-two");
    }
}
