//! What a change would do, before it is done.
//!
//! Inputs: the full spec wanted, and what is observed. Output: a [`Plan`]: actions in order, each with what it means
//! for whom and why. Values keep their field paths, so a plan can be read beside the spec.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use windlass_spec::full::FullCluster;
use windlass_spec::identity::{Role, Slot};
use windlass_spec::names;

use crate::decide::{WantedMachine, wanted_machines};

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
    /// Workloads move away first.
    DrainRestart,
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

/// What is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The full spec that was applied last; none: the cluster does not exist.
    pub applied: Option<FullCluster>,
    /// Machines there are.
    pub machines: Vec<ObservedMachine>,
    /// Names of the volumes there are.
    pub volumes: Vec<String>,
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

/// What a change would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// In order.
    pub actions: Vec<Action>,
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
    actions.extend(machines(full, observed));
    actions.extend(addons(full, observed.applied.as_ref()));
    Plan { actions }
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

fn machines(full: &FullCluster, observed: &Observed) -> Vec<Action> {
    let wanted = wanted_machines(full);
    let mut actions: Vec<Action> = Vec::new();
    for group in groups(&wanted, observed) {
        let want: Vec<_> = wanted.iter().filter(|machine| machine.group == group).collect();
        let have: Vec<_> = observed.machines.iter().filter(|machine| machine.group == group).collect();
        actions.extend(missing(full, &group, &want, &have));
        actions.extend(surplus(&group, want.len(), &have));
    }
    actions
}

/// Groups of the spec in its order, then those that only exist.
fn groups(wanted: &[WantedMachine], observed: &Observed) -> Vec<String> {
    let all = wanted.iter().map(|machine| &machine.group).chain(observed.machines.iter().map(|machine| &machine.group));
    all.fold(Vec::new(), |mut groups, group| {
        if !groups.contains(group) {
            groups.push(group.clone());
        }
        groups
    })
}

/// A control plane's places are filled by name; of workers only the number counts.
fn missing(full: &FullCluster, group: &str, want: &[&WantedMachine], have: &[&ObservedMachine]) -> Vec<Action> {
    let absent = want.iter().filter(|machine| !have.iter().any(|existing| existing.name == machine.name));
    let count = want.len().saturating_sub(have.len());
    let chosen: Vec<_> =
        if group == names::CONTROL_PLANE_GROUP { absent.collect() } else { absent.take(count).collect() };
    chosen
        .into_iter()
        .map(|machine| {
            let action = match machine.slot {
                Some(slot) => format!("make it, Kubernetes {}, slot {slot}", full.release.kubernetes),
                None => format!("make it, Kubernetes {}", full.release.kubernetes),
            };
            let reason = format!("{group} has {} of {} machines", have.len(), want.len());
            act(ChangeClass::Create, format!("machine {}", machine.name), action, reason)
        })
        .collect()
}

fn surplus(group: &str, want: usize, have: &[&ObservedMachine]) -> Vec<Action> {
    let mut names: Vec<&str> = have.iter().map(|machine| machine.name.as_str()).collect();
    names.sort_by_key(|name| (name.len(), *name));
    let reason = format!("{group} has {} of {want} machines", have.len());
    let last = names.into_iter().skip(want);
    last.map(|name| act(ChangeClass::Delete, format!("machine {name}"), "drain and remove it", reason.clone()))
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
    ("components.containerd", ChangeClass::DrainRestart, "every machine"),
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
    let (Ok(mut before), Ok(mut after)) = (serde_json::to_value(before), serde_json::to_value(after)) else {
        return Vec::new();
    };
    [&mut before, &mut after].into_iter().for_each(name_entries);
    let mut changes = Vec::new();
    differences("", &before, &after, &mut changes);
    changes.into_iter().filter(|change| !change.is_elsewhere()).map(Change::into_action).collect()
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
        let (class, target) = class_of(&self.path);
        let reason = match (self.before, self.after) {
            (Some(before), Some(after)) => format!("{} changes from {before} to {after}", self.path),
            (None, Some(after)) => format!("{} becomes {after}", self.path),
            (Some(before), None) => format!("{} is taken away (was {before})", self.path),
            (None, None) => self.path.clone(),
        };
        let action = match class {
            ChangeClass::Replace => "make each anew, one after the other",
            ChangeClass::DrainRestart => "drain and restart, one after the other",
            ChangeClass::Restart => "restart what it concerns, one machine after the other",
            _ => "take it up",
        };
        act(class, target, action, reason)
    }
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
