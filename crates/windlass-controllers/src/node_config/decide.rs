//! Whether a machine's configuration may follow a newer spec now.
//!
//! What changes with the cluster's machines (hosts, tokens, wanted Nodes) is laid at once. What changes with the spec
//! is laid on one control plane at a time, and never on a worker: a worker is replaced by its MachineDeployment.

use kube::ResourceExt;

use crate::api::names;
use crate::api::windlass::{LocalMachine, NodeConfig};
use crate::index::{Index, Key};
use crate::objects;

/// May it be rendered?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// Not before this machine is ready.
    After(String),
    /// It keeps the spec it was made from.
    Never,
}

/// Another control-plane machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Other {
    pub(super) name: String,
    /// Does it run its newest configuration, and is its Node Ready?
    pub(super) settled: bool,
    /// The spec its configuration was rendered from.
    pub(super) spec_hash: Option<String>,
}

/// Decides. Among control planes that are behind, the first by name goes first.
pub(super) fn turn(name: &str, is_control_plane: bool, held: Option<&str>, wanted: &str, others: &[Other]) -> Turn {
    let Some(held) = held else { return Turn::Now };
    if held == wanted {
        return Turn::Now;
    }
    if !is_control_plane {
        return Turn::Never;
    }
    let goes_first = |other: &Other| other.name.as_str() < name && other.spec_hash.as_deref() != Some(wanted);
    match others.iter().find(|other| !other.settled || goes_first(other)) {
        Some(other) => Turn::After(other.name.clone()),
        None => Turn::Now,
    }
}

/// The other control-plane machines of the cluster.
pub(super) fn others(index: &Index, cluster: &Key, config: &NodeConfig) -> Vec<Other> {
    let name = config.name_any();
    let configs = index.node_configs.of_cluster(cluster);
    let planes = configs.iter().filter(|other| other.spec.slot.is_some() && other.name_any() != name);
    planes
        .map(|other| {
            let key = Key::of(&**other);
            let secret = index.secrets.get(&key);
            let text = |annotation| secret.as_ref().and_then(|secret| objects::annotation(&**secret, annotation));
            Other {
                name: other.name_any(),
                settled: is_settled(index.local_machines.get(&key).as_deref(), text(names::CONFIG_HASH)),
                spec_hash: text(names::SPEC_HASH).map(str::to_owned),
            }
        })
        .collect()
}

fn is_settled(local: Option<&LocalMachine>, wanted: Option<&str>) -> bool {
    let agent = local.and_then(|local| local.status.as_ref()?.agent.as_ref());
    agent.is_some_and(|agent| {
        agent.node_ready && agent.unfinished.is_empty() && wanted.is_some() && agent.config_hash.as_deref() == wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(name: &str, settled: bool, spec_hash: &str) -> Other {
        Other { name: name.to_owned(), settled, spec_hash: Some(spec_hash.to_owned()) }
    }

    #[test]
    fn the_first_configuration_and_changes_of_machines_wait_for_nobody() {
        assert_eq!(turn("a", true, None, "new", &[other("b", false, "old")]), Turn::Now);
        assert_eq!(turn("a", true, Some("old"), "old", &[other("b", false, "old")]), Turn::Now);
        assert_eq!(turn("md-1", false, Some("old"), "old", &[]), Turn::Now);
    }

    #[test]
    fn a_newer_spec_goes_to_one_control_plane_at_a_time_and_to_no_worker() {
        let (a, b, c) = (other("a", true, "old"), other("b", true, "old"), other("c", true, "old"));
        assert_eq!(turn("a", true, Some("old"), "new", &[b.clone(), c.clone()]), Turn::Now);
        assert_eq!(turn("b", true, Some("old"), "new", &[a, c.clone()]), Turn::After("a".to_owned()));
        let busy = other("a", false, "new");
        assert_eq!(turn("b", true, Some("old"), "new", &[busy, c.clone()]), Turn::After("a".to_owned()));
        let done = other("a", true, "new");
        assert_eq!(turn("b", true, Some("old"), "new", &[done, c]), Turn::Now);
        assert_eq!(turn("md-1", false, Some("old"), "new", &[b]), Turn::Never);
    }
}
