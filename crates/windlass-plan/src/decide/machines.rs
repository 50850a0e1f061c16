//! Which machines a cluster has.

use std::collections::BTreeSet;

use windlass_spec::full::FullCluster;
use windlass_spec::identity::{Role, Slot};
use windlass_spec::names;

use super::spread;

/// A machine the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedMachine {
    /// Name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Instance group.
    pub group: String,
    /// The control-plane place it claims.
    pub slot: Option<Slot>,
    /// Where it goes, where the spec names domains.
    pub failure_domain: Option<String>,
}

/// The machines a new cluster begins with: control planes by slot, then workers by group.
pub fn wanted_machines(full: &FullCluster) -> Vec<WantedMachine> {
    let domains = spread(&full.control_plane.slots, &full.control_plane.failure_domains);
    let control_planes = full.control_plane.slots.iter().map(|&slot| WantedMachine {
        name: names::control_plane_machine(&full.name, slot),
        role: Role::ControlPlane,
        group: names::CONTROL_PLANE_GROUP.to_owned(),
        slot: Some(slot),
        failure_domain: domains.get(&slot).cloned(),
    });
    let workers = full.workers.iter().flat_map(|group| {
        (1..=group.count).map(|number| WantedMachine {
            name: names::worker_machine(&full.name, &group.name, number),
            role: Role::Worker,
            group: group.name.clone(),
            slot: None,
            failure_domain: None,
        })
    });
    control_planes.chain(workers).collect()
}

/// The first wanted place nobody claims.
pub fn free_slot(wanted: &[Slot], claimed: &BTreeSet<Slot>) -> Option<Slot> {
    wanted.iter().copied().find(|slot| !claimed.contains(slot))
}

/// The lowest number from one that no machine of the group has.
pub fn next_worker_number(cluster: &str, group: &str, existing: &BTreeSet<String>) -> u32 {
    (1..).find(|&number| !existing.contains(&names::worker_machine(cluster, group, number))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_numbers_are_filled_from_the_front() {
        let claimed = BTreeSet::from([Slot::A, Slot::C]);
        assert_eq!(free_slot(Slot::first(3), &claimed), Some(Slot::B));
        assert_eq!(free_slot(Slot::first(1), &claimed), None);
        let existing = ["lab-md-1", "lab-md-3"].map(str::to_owned).into();
        assert_eq!(next_worker_number("lab", "md", &existing), 2);
        assert_eq!(next_worker_number("lab", "gpu", &existing), 1);
    }
}
