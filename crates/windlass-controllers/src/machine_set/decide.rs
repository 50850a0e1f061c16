//! Which Machines of a set are adopted, made or deleted.
//!
//! Adopt before create: a Machine that matches and has no controller is taken over and counts. Names are ordinals:
//! the lowest free number, so that a create repeated after a crash meets the first one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;

use crate::api::cluster_api::shared::{DeletionOrder, VersionCount};
use crate::api::cluster_api::{Machine, MachineSet, MachineSetStatus};
use crate::api::{Conditions, Time, names};
use crate::conditions::{Judged, settle};
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;

/// What is looked at.
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a MachineSet,
    /// Every Machine of the cluster.
    pub(crate) machines: &'a [Arc<Machine>],
    /// Names a new Machine must keep clear of.
    pub(crate) taken: &'a BTreeSet<String>,
    /// May Machines be made, or why not?
    pub(crate) can_create: Result<(), String>,
    pub(crate) now: Time,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) adopt: Vec<String>,
    pub(crate) create: Vec<String>,
    /// Machines whose NodeConfig or LocalMachine may be missing.
    pub(crate) complete: Vec<String>,
    pub(crate) delete: Vec<String>,
    /// The set is deleted and nothing of it is left.
    pub(crate) finished: bool,
    pub(crate) status: MachineSetStatus,
    pub(crate) again: Next,
}

/// Decides.
pub(crate) fn decide(seen: &Observed<'_>) -> Plan {
    let set = seen.set;
    let adopted = orphans(seen);
    let mine: Vec<&Machine> = seen
        .machines
        .iter()
        .map(|machine| &**machine)
        .filter(|machine| objects::is_controlled_by(*machine, set) || adopted.contains(&machine.name_any()))
        .collect();
    let active: Vec<&Machine> = mine.iter().copied().filter(|machine| !objects::is_deleting(*machine)).collect();
    let deleting = objects::is_deleting(set);
    let wanted = if deleting { 0 } else { usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0) };
    let create = if seen.can_create.is_ok() && !deleting {
        free_names(seen, wanted.saturating_sub(active.len()))
    } else {
        Vec::new()
    };
    let delete = victims(set, &active, active.len().saturating_sub(wanted));
    let kept = active.iter().map(|machine| machine.name_any()).filter(|name| !delete.contains(name));
    Plan {
        adopt: if deleting { Vec::new() } else { adopted },
        complete: kept.collect(),
        create,
        delete,
        finished: deleting && mine.is_empty(),
        status: status(seen, &mine, wanted),
        again: Next::Await,
    }
}

/// Machines that match and that nobody controls.
fn orphans(seen: &Observed<'_>) -> Vec<String> {
    let empty = BTreeMap::new();
    seen.machines
        .iter()
        .filter(|machine| objects::controller_of(&***machine).is_none() && !objects::is_deleting(&***machine))
        .filter(|machine| seen.set.spec.selector.matches(machine.metadata.labels.as_ref().unwrap_or(&empty)))
        .map(|machine| machine.name_any())
        .collect()
}

/// The instance group Machines of this set are named by.
pub(crate) fn group(set: &MachineSet) -> String {
    let of_template = set.spec.template.metadata.as_ref().and_then(|given| given.labels.get(names::GROUP));
    match objects::label(set, names::GROUP).or(of_template.map(String::as_str)) {
        Some(group) => group.to_owned(),
        None => {
            let name = set.name_any();
            let prefix = format!("{}-", set.spec.cluster_name);
            name.strip_prefix(&prefix).unwrap_or(&name).to_owned()
        }
    }
}

fn free_names(seen: &Observed<'_>, count: usize) -> Vec<String> {
    let group = group(seen.set);
    (1..=u32::MAX)
        .map(|number| windlass_spec::names::worker_machine(&seen.set.spec.cluster_name, &group, number))
        .filter(|name| !seen.taken.contains(name))
        .take(count)
        .collect()
}

/// Who goes first: asked for, then unhealthy, then by the set's order.
fn victims(set: &MachineSet, active: &[&Machine], count: usize) -> Vec<String> {
    let order = set.spec.deletion.as_ref().and_then(|deletion| deletion.order).unwrap_or_default();
    let mut candidates: Vec<&Machine> = active.to_vec();
    candidates.sort_by_key(|machine| {
        let kept = !objects::has_annotation(*machine, names::DELETE_MACHINE);
        let created = objects::created(*machine).map_or(0, jiff::Timestamp::as_millisecond);
        let by_order = match order {
            DeletionOrder::Newest => -created,
            DeletionOrder::Oldest => created,
            DeletionOrder::Random => 0,
        };
        (kept, is_healthy(machine), by_order, Reverse(ordinal(machine)), Reverse(machine.name_any()))
    });
    candidates.iter().take(count).map(|machine| machine.name_any()).collect()
}

fn ordinal(machine: &Machine) -> u32 {
    machine.name_any().rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn is_healthy(machine: &Machine) -> bool {
    condition(machine, types::READY) && !remediated(machine)
}

fn remediated(machine: &Machine) -> bool {
    let conditions = machine.status.as_ref().map(|status| &status.conditions);
    conditions.is_some_and(|conditions| conditions.is_false(types::HEALTH_CHECK_SUCCEEDED))
}

pub(crate) fn condition(machine: &Machine, type_: &str) -> bool {
    machine.status.as_ref().is_some_and(|status| status.conditions.is_true(type_))
}

/// Counts of some Machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) there: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) up_to_date: i32,
}

impl Counts {
    pub(crate) fn of(machines: &[&Machine]) -> Self {
        let count = |type_| machines.iter().filter(|machine| condition(machine, type_)).count();
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        Self {
            there: number(machines.len()),
            ready: number(count(types::READY)),
            available: number(count(types::AVAILABLE)),
            up_to_date: number(count(types::UP_TO_DATE)),
        }
    }
}

/// Machines by version, old to new.
pub(crate) fn versions(machines: &[&Machine]) -> Vec<VersionCount> {
    let mut counts: BTreeMap<(Vec<u64>, String), i32> = BTreeMap::new();
    for version in machines.iter().filter_map(|machine| machine.spec.version.clone()) {
        let numbers = version.trim_start_matches('v').split('.').filter_map(|part| part.parse().ok()).collect();
        *counts.entry((numbers, version)).or_default() += 1;
    }
    counts.into_iter().map(|((_, version), replicas)| VersionCount { version, replicas: Some(replicas) }).collect()
}

/// `MachinesReady` or the like over some Machines.
pub(crate) fn machines_judged(type_: &'static str, of: &str, machines: &[&Machine], yes: Reason, no: Reason) -> Judged {
    if machines.is_empty() {
        return Judged::yes(type_, Reason::NoReplicas);
    }
    let faults: Vec<String> = machines
        .iter()
        .filter(|machine| !condition(machine, of))
        .map(|machine| format!("{}: {}", machine.name_any(), why(machine, of)))
        .collect();
    if faults.is_empty() { Judged::yes(type_, yes) } else { Judged::no(type_, no, faults.join("; ")) }
}

fn why(machine: &Machine, of: &str) -> String {
    let conditions = machine.status.as_ref().map(|status| &status.conditions);
    match conditions.and_then(|conditions| conditions.get(of)) {
        Some(condition) if condition.message.is_empty() => condition.reason.clone(),
        Some(condition) => condition.message.clone(),
        None => "not judged yet".to_owned(),
    }
}

fn status(seen: &Observed<'_>, mine: &[&Machine], wanted: usize) -> MachineSetStatus {
    let set = seen.set;
    let before = set.status.clone().unwrap_or_default();
    let counts = Counts::of(mine);
    let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
    let up = (counts.there < wanted).then(|| {
        let hold = seen.can_create.as_ref().err().map(|why| format!(" ({why})")).unwrap_or_default();
        (Reason::ScalingUp, format!("{} of {wanted} Machines{hold}", counts.there))
    });
    let down =
        (counts.there > wanted).then(|| (Reason::ScalingDown, format!("{} Machines, {wanted} wanted", counts.there)));
    let deleting = objects::is_deleting(set)
        .then(|| (Reason::WaitingForMachinesDeletion, format!("{} Machines left", counts.there)));
    let judged = [
        machines_judged(types::MACHINES_READY, types::READY, mine, Reason::Ready, Reason::NotReady),
        machines_judged(types::MACHINES_UP_TO_DATE, types::UP_TO_DATE, mine, Reason::UpToDate, Reason::NotUpToDate),
        Judged::trouble(types::SCALING_UP, up, Reason::NotScalingUp),
        Judged::trouble(types::SCALING_DOWN, down, Reason::NotScalingDown),
        Judged::trouble(types::REMEDIATING, None, Reason::NotRemediating),
        Judged::deleting(deleting),
        Judged::paused(false),
    ];
    let generation = objects::generation(set);
    let conditions: Conditions = settle(&before.conditions, &judged, generation, seen.now);
    MachineSetStatus {
        conditions,
        selector: Some(set.spec.selector.to_string()).filter(|text| !text.is_empty()),
        replicas: Some(counts.there),
        ready_replicas: Some(counts.ready),
        available_replicas: Some(counts.available),
        up_to_date_replicas: Some(counts.up_to_date),
        versions: versions(mine),
        observed_generation: generation,
    }
}
