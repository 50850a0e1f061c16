//! What is known of a cluster.
//!
//! Inputs: the registry, the cluster's API or folder, the provider's holdings. Output: what a plan is compared with; nothing for
//! a cluster that does not exist.

use std::collections::BTreeMap;

use windlass_plan::Observed;
use windlass_plan::preview::ObservedMachine;
use windlass_providers::local::survey;
use windlass_spec::full::FullCluster;
use windlass_spec::identity::Role;
use windlass_spec::names;
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};
use windlass_workflows::management::{self, AskError};

use crate::exit::{Code, Failure};
use crate::local::{failure, paths};
use crate::operation;
use crate::recover;

/// Observes the cluster of this name.
pub(crate) async fn observe(cluster: &str) -> Result<Observed, Failure> {
    let pointer = operation::registry()?.find(cluster)?;
    let Some(pointer) = pointer.filter(|pointer| pointer.life != Life::Kept) else {
        return Ok(Observed::default());
    };
    let applied = applied(&pointer).await?;
    let volumes = applied.full.iter().flat_map(volumes).collect();
    Ok(Observed { machines: machines(&pointer)?, volumes, applied: applied.full, replicas: applied.replicas })
}

/// What a cluster was asked for last.
#[derive(Default)]
struct Applied {
    /// None while it is being made for the first time.
    full: Option<FullCluster>,
    replicas: BTreeMap<String, u32>,
}

/// By the cluster's own API; where that does not answer, by its folder.
async fn applied(pointer: &Pointer) -> Result<Applied, Failure> {
    let folder = ClusterFolder::new(&pointer.scope.cluster, pointer.folder.clone());
    if pointer.life != Life::Created {
        return Ok(Applied { full: folder.read_full()?, ..Applied::default() });
    }
    recover::kubeconfig(pointer).await;
    match of_api(pointer).await {
        Ok(applied) => Ok(applied),
        Err(error) => {
            eprintln!("warning: {:#}; the spec is compared with what the folder has", anyhow::Error::from(error));
            let lost = || anyhow::anyhow!("neither the cluster's API nor {} tells what was applied", folder.full());
            let full = folder.read_full()?.ok_or_else(|| Failure::new(Code::Failed, lost()))?;
            Ok(Applied { full: Some(full), ..Applied::default() })
        }
    }
}

async fn of_api(pointer: &Pointer) -> Result<Applied, AskError> {
    let held = management::ask(pointer).await?;
    Ok(Applied { full: Some(held.full()?), replicas: held.replicas().await? })
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
