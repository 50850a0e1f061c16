//! What a change would do, before it is done.
//!
//! Inputs: the full spec wanted, and what is observed. Output: a [`Plan`]: actions in order, each with what it means
//! for whom and why. Values keep their field paths, so a plan can be read beside the spec.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use windlass_spec::annotate::redacted;
use windlass_spec::full::FullCluster;
use windlass_spec::identity::{Role, Slot};
use windlass_spec::names;

/// What a change means for what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeClass {
    /// Nothing that runs notices.
    None,
    /// A component reads its configuration anew.
    Reload,
    /// A component starts anew; workloads go on.
    Restart,
    /// The machine is made anew.
    Replace,
    /// Something new is made.
    Create,
    /// Something is taken away.
    Delete,
}

/// A machine as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedMachine {
    /// Name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Instance group.
    pub group: String,
    /// The place it claims.
    pub slot: Option<Slot>,
}

/// What becomes of a machine, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is there and stays.
    Stays,
    /// It is made.
    New {
        /// Why.
        reason: String,
    },
    /// It is taken away.
    Goes {
        /// Why.
        reason: String,
    },
}

/// A machine that is or will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedMachine {
    /// The machine.
    pub machine: ObservedMachine,
    /// What becomes of it.
    pub fate: Fate,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The full spec that was applied last; none: the cluster does not exist.
    pub applied: Option<FullCluster>,
    /// Machines there are.
    pub machines: Vec<ObservedMachine>,
    /// Names of the volumes there are.
    pub volumes: Vec<String>,
    /// Machines asked for by each instance group's MachineDeployment; a group is missing where the API was not asked.
    pub replicas: BTreeMap<String, u32>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// What it means.
    pub class: ChangeClass,
    /// On what: `machine lab-md-1`, `volume etcd-main-a`, `add-on coredns`.
    pub target: String,
    /// What is done.
    pub action: String,
    /// Why.
    pub reason: String,
}

/// An instance group of another size than the spec's, and that stays so: its count is written only when the spec's own
/// changes, so that `kubectl scale` and an autoscaler hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// Instance group.
    pub group: String,
    /// Machines the cluster is asked for.
    pub cluster: u32,
    /// Machines in the spec.
    pub spec: u32,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, cluster, spec } = self;
        let what = if group == names::CONTROL_PLANE_GROUP { "control planes" } else { "workers " };
        let name = if group == names::CONTROL_PLANE_GROUP { "" } else { group };
        write!(f, "{what}{name}: {cluster} in the cluster, {spec} in the spec: scaled by hand, kept")
    }
}

/// What a change would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// In order.
    pub actions: Vec<Action>,
    /// What differs from the spec and is left as it is.
    pub drift: Vec<Drift>,
}

impl Plan {
    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The gravest class.
    pub fn class(&self) -> ChangeClass {
        self.actions.iter().map(|action| action.class).max().unwrap_or(ChangeClass::None)
    }
}

/// Compares what is wanted with what is.
pub fn plan(full: &FullCluster, observed: &Observed) -> Plan {
    let mut actions = match &observed.applied {
        None => vec![create_network(full)],
        Some(applied) => changed_values(applied, full),
    };
    actions.extend(volumes(full, observed));
    actions.extend(machines(full, observed).into_iter().filter_map(|planned| machine_action(full, planned)));
    actions.extend(addons(full, observed.applied.as_ref()));
    Plan { actions, drift: drift(full, observed) }
}

fn act(class: ChangeClass, target: impl Into<String>, action: impl Into<String>, reason: impl Into<String>) -> Action {
    Action { class, target: target.into(), action: action.into(), reason: reason.into() }
}

fn create_network(full: &FullCluster) -> Action {
    let endpoint = &full.endpoint;
    act(
        ChangeClass::Create,
        format!("cluster {}", full.name),
        format!("make the network and the endpoint {}:{}", endpoint.name, endpoint.port),
        "the cluster does not exist",
    )
}

fn volumes(full: &FullCluster, observed: &Observed) -> Vec<Action> {
    let wanted = full.etcd.iter().flat_map(|etcd| {
        etcd.members.iter().map(move |&slot| (names::etcd_volume(&etcd.name, slot), etcd.volume_bytes >> 20))
    });
    wanted
        .filter(|(name, _)| !observed.volumes.contains(name))
        .map(|(name, mebibytes)| {
            let made = format!("make {mebibytes} MiB, format it where it is blank");
            act(ChangeClass::Create, format!("volume {name}"), made, "its slot has no volume")
        })
        .collect()
}

/// An instance group as the spec wants it, as it was applied, and as it is.
struct Group<'a> {
    name: &'a str,
    /// Machines in the spec.
    spec: usize,
    /// Machines in the spec that was applied last; none: it had no such group.
    applied: Option<usize>,
    /// Machines the cluster was asked for, by whomever.
    replicas: Option<usize>,
    have: Vec<&'a ObservedMachine>,
}

impl Group<'_> {
    /// Machines the group will have: the spec's count where that is new, else what the cluster was asked for. Where its
    /// API did not say, more machines than the spec's were asked for by somebody, and fewer are on their way.
    fn target(&self) -> usize {
        if self.applied == Some(self.spec) {
            self.replicas.unwrap_or_else(|| self.have.len().max(self.spec))
        } else {
            self.spec
        }
    }

    fn lacks(&self, name: &str) -> bool {
        !self.have.iter().any(|machine| machine.name == name)
    }
}

/// Groups of the spec in its order, then those that only exist.
fn groups<'a>(full: &'a FullCluster, observed: &'a Observed) -> Vec<Group<'a>> {
    let of_spec =
        std::iter::once(names::CONTROL_PLANE_GROUP).chain(full.workers.iter().map(|group| group.name.as_str()));
    let mut all: Vec<&str> = of_spec.collect();
    for machine in &observed.machines {
        if !all.contains(&machine.group.as_str()) {
            all.push(&machine.group);
        }
    }
    let group = |name: &'a str| Group {
        name,
        spec: count(full, name).unwrap_or(0),
        applied: observed.applied.as_ref().and_then(|applied| count(applied, name)),
        replicas: observed.replicas.get(name).map(|&replicas| size(replicas)),
        have: observed.machines.iter().filter(|machine| machine.group == name).collect(),
    };
    all.into_iter().map(group).collect()
}

fn count(full: &FullCluster, group: &str) -> Option<usize> {
    if group == names::CONTROL_PLANE_GROUP {
        return Some(full.control_plane.slots.len());
    }
    full.workers.iter().find(|workers| workers.name == group).map(|workers| size(workers.count))
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The machines there are and will be, group by group.
pub fn machines(full: &FullCluster, observed: &Observed) -> Vec<PlannedMachine> {
    groups(full, observed).iter().flat_map(|group| present(group).chain(missing(full, group))).collect()
}

/// The machines of a group, lowest numbers first. The last ones go when the spec's own count falls; a group that was never
/// in an applied spec is somebody else's.
fn present<'a>(group: &'a Group<'_>) -> impl Iterator<Item = PlannedMachine> + use<'a> {
    let mut sorted = group.have.clone();
    sorted.sort_by_key(|machine| (machine.name.len(), machine.name.as_str()));
    let falls = group.applied.is_some_and(|applied| applied != group.spec);
    let reason = format!("{} has {} machines, the spec asks for {}", group.name, sorted.len(), group.spec);
    sorted.into_iter().enumerate().map(move |(index, machine)| PlannedMachine {
        machine: machine.clone(),
        fate: if falls && index >= group.spec { Fate::Goes { reason: reason.clone() } } else { Fate::Stays },
    })
}

/// A control plane's places are filled by name; of workers only the number counts.
fn missing(full: &FullCluster, group: &Group<'_>) -> Vec<PlannedMachine> {
    let reason = format!("{} has {} of {} machines", group.name, group.have.len(), group.target());
    let new = |name: String, role: Role, slot: Option<Slot>| PlannedMachine {
        machine: ObservedMachine { name, role, group: group.name.to_owned(), slot },
        fate: Fate::New { reason: reason.clone() },
    };
    if group.name == names::CONTROL_PLANE_GROUP {
        let places =
            full.control_plane.slots.iter().map(|&slot| (names::control_plane_machine(&full.name, slot), slot));
        let empty = places.filter(|(name, _)| group.lacks(name));
        return empty.map(|(name, slot)| new(name, Role::ControlPlane, Some(slot))).collect();
    }
    let names = (1..).map(|number| names::worker_machine(&full.name, group.name, number));
    let free = names.filter(|name| group.lacks(name)).take(group.target().saturating_sub(group.have.len()));
    free.map(|name| new(name, Role::Worker, None)).collect()
}

fn machine_action(full: &FullCluster, planned: PlannedMachine) -> Option<Action> {
    let target = format!("machine {}", planned.machine.name);
    match planned.fate {
        Fate::Stays => None,
        Fate::Goes { reason } => Some(act(ChangeClass::Delete, target, "remove it", reason)),
        Fate::New { reason } => {
            let place = planned.machine.slot.map(|slot| format!(", slot {slot}")).unwrap_or_default();
            let made = format!("make it, Kubernetes {}{place}", full.release.kubernetes);
            Some(act(ChangeClass::Create, target, made, reason))
        }
    }
}

fn drift(full: &FullCluster, observed: &Observed) -> Vec<Drift> {
    let all = groups(full, observed);
    let other = all.iter().filter(|group| group.target() != group.spec);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    other
        .map(|group| Drift { group: group.name.to_owned(), cluster: count(group.target()), spec: count(group.spec) })
        .collect()
}

fn addons(full: &FullCluster, applied: Option<&FullCluster>) -> Vec<Action> {
    let names = |full: &FullCluster| -> BTreeMap<String, Vec<String>> {
        let all = crate::addons::addons(full, false).unwrap_or_default();
        all.into_iter().map(|addon| (addon.name, addon.objects)).collect()
    };
    let before = applied.map(names).unwrap_or_default();
    let after = names(full);
    let mut actions = Vec::new();
    for (name, objects) in &after {
        let target = format!("add-on {name}");
        match before.get(name) {
            None => actions.push(act(ChangeClass::Create, target, "apply it", "it is on and not there")),
            Some(old) if old != objects => {
                actions.push(act(ChangeClass::Reload, target, "apply it anew", "its objects differ"));
            }
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    actions.extend(gone.map(|name| act(ChangeClass::Delete, format!("add-on {name}"), "remove it", "it is off")));
    actions
}

/// Field paths that are told by other actions, or tell nothing.
const ELSEWHERE: [&str; 4] = ["origins", "controlPlane.slots", "addons", "facts.hostRoutes"];
/// Fields of list entries that are told by other actions.
const COUNTED: [&str; 2] = ["count", "members"];

/// What a changed value means, by the longest matching path.
const CLASSES: [(&str, ChangeClass, &str); 24] = [
    ("release", ChangeClass::Replace, "every machine"),
    ("facts", ChangeClass::Restart, "every machine"),
    ("network", ChangeClass::Replace, "every machine"),
    ("network.dnsUpstreams", ChangeClass::Reload, "every machine"),
    ("network.kubeProxy", ChangeClass::Restart, "every machine"),
    ("endpoint", ChangeClass::Restart, "control planes"),
    ("controlPlane", ChangeClass::Reload, "control planes"),
    ("workers", ChangeClass::Reload, "machines of its group"),
    ("etcd", ChangeClass::Replace, "control planes"),
    ("components.kubeApiserver", ChangeClass::Restart, "control planes"),
    ("components.kubeControllerManager", ChangeClass::Restart, "control planes"),
    ("components.kubeScheduler", ChangeClass::Restart, "control planes"),
    ("components.etcd", ChangeClass::Restart, "control planes"),
    ("components.kubeProxy", ChangeClass::Restart, "every machine"),
    ("components.kubelet", ChangeClass::Restart, "every machine"),
    ("components.containerd", ChangeClass::Restart, "every machine"),
    ("auditPolicy", ChangeClass::Restart, "control planes"),
    ("authenticationConfiguration", ChangeClass::Reload, "control planes"),
    ("extraUserData", ChangeClass::Replace, "machines of its roles"),
    ("proxy", ChangeClass::Restart, "every machine"),
    ("registryMirrors", ChangeClass::Reload, "every machine"),
    ("files", ChangeClass::Reload, "machines of its roles"),
    ("staticPods", ChangeClass::Restart, "machines of its roles"),
    ("", ChangeClass::Reload, "every machine"),
];

fn changed_values(before: &FullCluster, after: &FullCluster) -> Vec<Action> {
    let (shown_before, shown_after) = (redacted(before), redacted(after));
    let (Ok(mut old), Ok(mut new)) = (serde_json::to_value(&shown_before), serde_json::to_value(&shown_after)) else {
        return Vec::new();
    };
    [&mut old, &mut new].into_iter().for_each(name_entries);
    let mut changes = Vec::new();
    differences("", &old, &new, &mut changes);
    let told = changes.into_iter().filter(|change| !change.is_elsewhere()).map(Change::into_action);
    // What was kept without its passwords cannot tell whether they changed.
    let secret_changes =
        shown_before.proxy == shown_after.proxy && before.proxy != after.proxy && *before != shown_before;
    told.chain(secret_changes.then(|| changed("proxy", "the password in proxy changes".to_owned()))).collect()
}

/// Instance groups and etcd clusters by name, without what is counted elsewhere: one that is new or gone is told by its
/// machines.
fn name_entries(full: &mut Value) {
    for list in ["workers", "etcd"] {
        let Some(entries) = full.get_mut(list) else { continue };
        let named = entries.as_array().into_iter().flatten().filter_map(|entry| {
            let mut fields = entry.as_object()?.clone();
            fields.retain(|field, _| !COUNTED.contains(&field.as_str()));
            Some((entry.get("name")?.as_str()?.to_owned(), Value::Object(fields)))
        });
        *entries = Value::Object(named.collect());
    }
}

/// A value that differs; absent on one side where it is new or gone.
struct Change<'a> {
    path: String,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

impl Change<'_> {
    /// Is it told by other actions?
    fn is_elsewhere(&self) -> bool {
        let is_whole_entry = (self.before.is_none() || self.after.is_none()) && {
            let entry = self.path.strip_prefix("workers.").or_else(|| self.path.strip_prefix("etcd."));
            entry.is_some_and(|name| !name.contains('.'))
        };
        is_whole_entry || ELSEWHERE.iter().any(|prefix| is_at_or_below(&self.path, prefix))
    }

    fn into_action(self) -> Action {
        let reason = match (self.before, self.after) {
            (Some(before), Some(after)) => format!("{} changes from {before} to {after}", self.path),
            (None, Some(after)) => format!("{} becomes {after}", self.path),
            (Some(before), None) => format!("{} is taken away (was {before})", self.path),
            (None, None) => self.path.clone(),
        };
        changed(&self.path, reason)
    }
}

/// What a changed value at this path leads to.
fn changed(path: &str, reason: String) -> Action {
    let (class, target) = class_of(path);
    let action = match class {
        ChangeClass::Replace => "make each anew, one after the other",
        ChangeClass::Restart => "restart what it concerns, one machine after the other",
        _ => "take it up",
    };
    act(class, target, action, reason)
}

fn differences<'a>(path: &str, before: &'a Value, after: &'a Value, found: &mut Vec<Change<'a>>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            for (key, value) in old {
                match new.get(key) {
                    Some(other) => differences(&below(key), value, other, found),
                    None => found.push(Change { path: below(key), before: Some(value), after: None }),
                }
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                found.push(Change { path: below(key), before: None, after: Some(value) });
            }
        }
        (old, new) if old != new => {
            found.push(Change { path: path.to_owned(), before: Some(old), after: Some(new) });
        }
        _ => {}
    }
}

fn class_of(path: &str) -> (ChangeClass, &'static str) {
    let matching = CLASSES.iter().filter(|(prefix, ..)| is_at_or_below(path, prefix));
    matching
        .max_by_key(|(prefix, ..)| prefix.len())
        .map_or((ChangeClass::Reload, "every machine"), |&(_, class, target)| (class, target))
}

/// `components.kubelet` stands for `components.kubeletConfig` too.
fn is_at_or_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| {
        prefix.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']) || rest.starts_with("Config")
    })
}
