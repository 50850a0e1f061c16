//! How many Machines each MachineSet of a deployment gets.
//!
//! A rolling update keeps two bounds at every step: never more Machines than wanted + maxSurge, never fewer available
//! ones than wanted − maxUnavailable, even if each Machine taken away is an available one.

use std::cmp::Reverse;
use std::sync::Arc;

use kube::ResourceExt;

use crate::api::cluster_api::machine_deployment::{MachineDeploymentPhase, RolloutType};
use crate::api::cluster_api::shared::resolve_share;
use crate::api::cluster_api::{Machine, MachineDeployment, MachineDeploymentStatus, MachineSet};
use crate::api::{Time, names};
use crate::conditions::{Judged, settle};
use crate::machine_set::decide::{Counts, machines_judged, versions};
use crate::objects;
use crate::reasons::{Reason, types};

/// What is looked at.
pub(crate) struct Observed<'a> {
    pub(crate) deployment: &'a MachineDeployment,
    /// Hash of the template as it is now; none while a template is missing.
    pub(crate) hash: Option<String>,
    /// Every set of the cluster.
    pub(crate) sets: &'a [Arc<MachineSet>],
    /// Every Machine of the cluster.
    pub(crate) machines: &'a [Arc<Machine>],
    pub(crate) now: Time,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) adopt: Vec<String>,
    /// A set to make: hash and size.
    pub(crate) create: Option<(String, i32)>,
    /// Its place in the count of revisions.
    pub(crate) revision: u64,
    pub(crate) resize: Vec<(String, i32)>,
    pub(crate) delete: Vec<String>,
    /// The deployment is deleted and nothing of it is left.
    pub(crate) finished: bool,
    pub(crate) status: MachineDeploymentStatus,
}

/// A set in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Size {
    name: String,
    wanted: i32,
    there: i32,
    available: i32,
}

/// Bounds of a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    wanted: i32,
    surge: i32,
    unavailable: i32,
}

/// Decides.
pub(crate) fn decide(seen: &Observed<'_>) -> Plan {
    let deployment = seen.deployment;
    let adopt = orphans(seen);
    let mine: Vec<&MachineSet> = seen
        .sets
        .iter()
        .map(|set| &**set)
        .filter(|set| objects::is_controlled_by(*set, deployment) || adopt.contains(&set.name_any()))
        .collect();
    let machines: Vec<&Machine> = seen
        .machines
        .iter()
        .map(|machine| &**machine)
        .filter(|machine| mine.iter().any(|set| objects::is_controlled_by(*machine, *set)))
        .collect();
    let mut plan = Plan {
        adopt,
        create: None,
        revision: next_revision(&mine),
        resize: Vec::new(),
        delete: Vec::new(),
        finished: false,
        status: MachineDeploymentStatus::default(),
    };
    if objects::is_deleting(deployment) {
        plan.adopt.clear();
        plan.delete = mine.iter().filter(|set| !objects::is_deleting(**set)).map(|set| set.name_any()).collect();
        plan.finished = mine.is_empty();
    } else {
        size_sets(seen, &mine, &machines, &mut plan);
    }
    plan.status = status(seen, &mine, &machines);
    plan
}

fn orphans(seen: &Observed<'_>) -> Vec<String> {
    let name = seen.deployment.name_any();
    seen.sets
        .iter()
        .filter(|set| objects::controller_of(&***set).is_none() && !objects::is_deleting(&***set))
        .filter(|set| objects::label(&***set, names::DEPLOYMENT_NAME) == Some(&name))
        .map(|set| set.name_any())
        .collect()
}

fn next_revision(sets: &[&MachineSet]) -> u64 {
    let revisions = sets.iter().filter_map(|set| objects::annotation(*set, names::REVISION)?.parse::<u64>().ok());
    revisions.max().unwrap_or(0) + 1
}

/// Fills in what happens to the sets.
fn size_sets(seen: &Observed<'_>, mine: &[&MachineSet], machines: &[&Machine], plan: &mut Plan) {
    let deployment = seen.deployment;
    let Some(hash) = seen.hash.as_deref() else { return };
    let live: Vec<&MachineSet> = mine.iter().copied().filter(|set| !objects::is_deleting(*set)).collect();
    let is_new = |set: &MachineSet| objects::label(set, names::TEMPLATE_HASH) == Some(hash);
    let mut sizes: Vec<(bool, Size)> = live.iter().map(|set| (is_new(set), size(set, machines))).collect();
    // The most available ones last: broken Machines of old templates go first.
    sizes.sort_by_key(|(new, size)| (*new, Reverse(size.there - size.available), size.name.clone()));
    let old: Vec<Size> = sizes.iter().filter(|(new, _)| !new).map(|(_, size)| size.clone()).collect();
    let new: Option<Size> = sizes.iter().find(|(new, _)| *new).map(|(_, size)| size.clone());
    let bounds = bounds(deployment);
    if deployment.spec.paused == Some(true) && !old.is_empty() {
        return;
    }
    let (new_size, old_sizes) = match rollout_type(deployment) {
        RolloutType::RollingUpdate => roll(bounds, new.as_ref(), &old),
        RolloutType::OnDelete => on_delete(bounds, &old),
    };
    match &new {
        None => plan.create = Some((hash.to_owned(), new_size)),
        Some(set) if set.wanted != new_size => plan.resize.push((set.name.clone(), new_size)),
        Some(_) => {}
    }
    for (set, size) in old.iter().zip(old_sizes) {
        if size == 0 && set.wanted == 0 && set.there == 0 {
            plan.delete.push(set.name.clone());
        } else if size != set.wanted {
            plan.resize.push((set.name.clone(), size));
        }
    }
}

fn size(set: &MachineSet, machines: &[&Machine]) -> Size {
    let own: Vec<&Machine> =
        machines.iter().copied().filter(|machine| objects::is_controlled_by(*machine, set)).collect();
    let active: Vec<&Machine> = own.iter().copied().filter(|machine| !objects::is_deleting(*machine)).collect();
    Size {
        name: set.name_any(),
        wanted: set.spec.replicas.unwrap_or(1),
        there: Counts::of(&own).there,
        available: Counts::of(&active).available,
    }
}

fn rollout_type(deployment: &MachineDeployment) -> RolloutType {
    let strategy = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
    strategy.map_or(RolloutType::RollingUpdate, |strategy| strategy.type_)
}

fn bounds(deployment: &MachineDeployment) -> Bounds {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let strategy = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
    let update = strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default();
    let surge = update.max_surge.as_ref().and_then(|share| resolve_share(share, wanted, true)).unwrap_or(1);
    let unavailable =
        update.max_unavailable.as_ref().and_then(|share| resolve_share(share, wanted, false)).unwrap_or(0);
    // With neither, nothing could ever move.
    let unavailable = if surge <= 0 && unavailable <= 0 { 1 } else { unavailable };
    Bounds { wanted, surge: surge.max(0), unavailable: unavailable.max(0) }
}

/// The next step of a rolling update: the new set's size and the old ones', in their order.
fn roll(bounds: Bounds, new: Option<&Size>, old: &[Size]) -> (i32, Vec<i32>) {
    let old_wanted: i32 = old.iter().map(|set| set.wanted).sum();
    let new_wanted = new.map_or(0, |set| set.wanted);
    if old_wanted == 0 {
        return (bounds.wanted, old.iter().map(|_| 0).collect());
    }
    let room = (bounds.wanted + bounds.surge - new_wanted - old_wanted).max(0);
    let new_size = bounds.wanted.min(new_wanted + room);
    let new_size = if new_wanted > bounds.wanted { bounds.wanted } else { new_size };
    let old_available: i32 = old.iter().map(|set| set.available).sum();
    let new_available = new.map_or(0, |set| set.available);
    let least = bounds.wanted - bounds.unavailable;
    // Broken Machines of old sets cost nothing; of the rest, only what the bound allows.
    let mut spare = (old_available + new_available - least).max(0);
    let sizes = old
        .iter()
        .map(|set| {
            let healthy = set.available.min(set.wanted);
            let go = spare.min(healthy);
            spare -= go;
            healthy - go
        })
        .collect();
    (new_size, sizes)
}

/// Only where somebody deletes one: old sets keep what is there, the new set fills up.
fn on_delete(bounds: Bounds, old: &[Size]) -> (i32, Vec<i32>) {
    let kept: Vec<i32> = old.iter().map(|set| set.there.min(set.wanted)).collect();
    ((bounds.wanted - kept.iter().sum::<i32>()).max(0), kept)
}

fn status(seen: &Observed<'_>, sets: &[&MachineSet], machines: &[&Machine]) -> MachineDeploymentStatus {
    let deployment = seen.deployment;
    let before = deployment.status.clone().unwrap_or_default();
    let counts = Counts::of(machines);
    let bounds = bounds(deployment);
    let wanted = if objects::is_deleting(deployment) { 0 } else { bounds.wanted };
    let conditions = judge(seen, sets, machines, counts, Bounds { wanted, ..bounds });
    let phase = match counts.there.cmp(&wanted) {
        std::cmp::Ordering::Less => MachineDeploymentPhase::ScalingUp,
        std::cmp::Ordering::Greater => MachineDeploymentPhase::ScalingDown,
        std::cmp::Ordering::Equal if counts.ready < wanted => MachineDeploymentPhase::ScalingUp,
        std::cmp::Ordering::Equal => MachineDeploymentPhase::Running,
    };
    let generation = objects::generation(deployment);
    MachineDeploymentStatus {
        conditions: settle(&before.conditions, &conditions, generation, seen.now),
        selector: Some(deployment.spec.selector.to_string()).filter(|text| !text.is_empty()),
        replicas: Some(counts.there),
        ready_replicas: Some(counts.ready),
        available_replicas: Some(counts.available),
        up_to_date_replicas: Some(counts.up_to_date),
        versions: versions(machines),
        phase: Some(phase),
        observed_generation: generation,
    }
}

fn judge(
    seen: &Observed<'_>,
    sets: &[&MachineSet],
    machines: &[&Machine],
    counts: Counts,
    bounds: Bounds,
) -> [Judged; 9] {
    let least = (bounds.wanted - bounds.unavailable).max(0);
    let available = if counts.available >= least {
        Judged::yes(types::AVAILABLE, Reason::Available)
    } else {
        let message = format!("{} of {} Machines available", counts.available, bounds.wanted);
        Judged::no(types::AVAILABLE, Reason::NotAvailable, message)
    };
    let outdated = counts.there - counts.up_to_date;
    let old_there = sets.iter().any(|set| {
        objects::label(*set, names::TEMPLATE_HASH) != seen.hash.as_deref() && set.spec.replicas.unwrap_or(1) > 0
    });
    let rolling =
        (old_there && outdated > 0).then(|| (Reason::RollingOut, format!("{outdated} Machines of an old template")));
    let up = (counts.there < bounds.wanted)
        .then(|| (Reason::ScalingUp, format!("{} of {} Machines", counts.there, bounds.wanted)));
    let down = (counts.there > bounds.wanted)
        .then(|| (Reason::ScalingDown, format!("{} Machines, {} wanted", counts.there, bounds.wanted)));
    let deleting = objects::is_deleting(seen.deployment)
        .then(|| (Reason::WaitingForMachinesDeletion, format!("{} Machines left", counts.there)));
    [
        available,
        machines_judged(types::MACHINES_READY, types::READY, machines, Reason::Ready, Reason::NotReady),
        machines_judged(types::MACHINES_UP_TO_DATE, types::UP_TO_DATE, machines, Reason::UpToDate, Reason::NotUpToDate),
        Judged::trouble(types::ROLLING_OUT, rolling, Reason::NotRollingOut),
        Judged::trouble(types::SCALING_UP, up, Reason::NotScalingUp),
        Judged::trouble(types::SCALING_DOWN, down, Reason::NotScalingDown),
        Judged::trouble(types::REMEDIATING, None, Reason::NotRemediating),
        Judged::deleting(deleting),
        Judged::paused(false),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(name: &str, wanted: i32, available: i32) -> Size {
        Size { name: name.to_owned(), wanted, there: wanted, available }
    }

    #[test]
    fn the_first_set_gets_all_at_once() {
        let bounds = Bounds { wanted: 3, surge: 1, unavailable: 0 };
        assert_eq!(roll(bounds, None, &[]), (3, vec![]));
    }

    #[test]
    fn one_new_before_one_old_goes() {
        let bounds = Bounds { wanted: 3, surge: 1, unavailable: 0 };
        assert_eq!(roll(bounds, None, &[set("old", 3, 3)]), (1, vec![3]));
        assert_eq!(roll(bounds, Some(&set("new", 1, 0)), &[set("old", 3, 3)]), (1, vec![3]));
        assert_eq!(roll(bounds, Some(&set("new", 1, 1)), &[set("old", 3, 3)]), (1, vec![2]));
        assert_eq!(roll(bounds, Some(&set("new", 1, 1)), &[set("old", 2, 2)]), (2, vec![2]));
    }

    #[test]
    fn broken_machines_of_old_templates_go_first_and_free() {
        let bounds = Bounds { wanted: 3, surge: 0, unavailable: 1 };
        assert_eq!(roll(bounds, None, &[set("old", 3, 2)]), (0, vec![2]));
    }

    #[test]
    fn on_delete_fills_up_what_somebody_took() {
        let bounds = Bounds { wanted: 3, surge: 1, unavailable: 0 };
        let old = Size { name: "old".to_owned(), wanted: 3, there: 2, available: 2 };
        assert_eq!(on_delete(bounds, &[old]), (1, vec![2]));
    }

    proptest! {
        /// However the Machines fare, the bounds hold at each step, and once all are available the roll-out ends.
        #[test]
        fn rolling_keeps_its_bounds_and_ends(
            wanted in 0..12i32, surge in 0..4i32, unavailable in 0..4i32, start in 0..12i32, luck in any::<u64>(),
        ) {
            let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
            let bounds = Bounds { wanted, surge, unavailable };
            let mut old = set("old", start, start);
            let mut new: Option<Size> = None;
            let mut luck = luck;
            for _ in 0..200 {
                let before = old.available + new.as_ref().map_or(0, |set| set.available);
                let (new_size, old_sizes) = roll(bounds, new.as_ref(), std::slice::from_ref(&old));
                let old_size = old_sizes[0];
                prop_assert!(new_size + old_size <= (wanted + surge).max(new.as_ref().map_or(0, |set| set.wanted) + old.wanted));
                let lost = (old.available - old_size).max(0);
                let least = (wanted - unavailable).max(0);
                prop_assert!(before - lost >= least || lost == 0);
                old = set("old", old_size, old.available.min(old_size));
                let there = new.as_ref().map_or(0, |set| set.available).min(new_size);
                luck = luck.rotate_left(7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let came = if luck.is_multiple_of(3) && there < new_size { there + 1 } else { there };
                new = Some(set("new", new_size, came));
                if old_size == 0 && new_size == wanted && came == wanted {
                    return Ok(());
                }
            }
            prop_assert!(false, "did not end: {old:?} {new:?}");
        }
    }
}
