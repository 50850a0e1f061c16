//! Which Machines a control plane gets, and what of it is written down for life.
//!
//! Forming needs a permit, once: the attempt is recorded before any configuration names it; once etcd is formed that is
//! recorded too, and from then on every configuration says "join".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use windlass_spec::identity::Slot;

use super::slot_addresses;
use crate::api::cluster_api::Machine;
use crate::api::windlass::{ControlPlane, LocalMachine};
use crate::api::{Time, names};
use crate::node_config::address;
use crate::objects;
use crate::runtime::workers::Next;

/// How long the others may take to start once the first member is there, before the permit ends.
const FORMING: i64 = 60;

/// A control-plane Machine with what belongs to it.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) slot: Option<Slot>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) local: Option<Arc<LocalMachine>>,
    pub(crate) has_config: bool,
}

impl Member {
    /// The attempt that formed the etcd its data belongs to.
    pub(crate) fn formed_by(&self) -> Option<&str> {
        self.local.as_ref()?.status.as_ref()?.agent.as_ref()?.etcd_formed_by.as_deref()
    }

    /// Its etcd member id.
    pub(crate) fn member_id(&self) -> Option<&str> {
        self.local.as_ref()?.status.as_ref()?.agent.as_ref()?.etcd_member_id.as_deref()
    }
}

/// What is looked at.
pub(super) struct Observed<'a> {
    pub(super) plane: &'a ControlPlane,
    /// Every control-plane Machine of the cluster.
    pub(super) members: &'a [Member],
    /// A fresh attempt, should one be needed.
    pub(super) attempt: String,
    pub(super) cluster_deleting: bool,
    pub(super) now: Time,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Annotations to write down first.
    pub(super) record: Vec<(&'static str, String)>,
    pub(super) adopt: Vec<String>,
    /// Slots that get a Machine.
    pub(super) create: Vec<Slot>,
    /// Slots whose Machine lacks a NodeConfig or LocalMachine.
    pub(super) complete: Vec<Slot>,
    pub(super) delete: Vec<String>,
    /// The control plane is deleted and nothing of it is left.
    pub(super) finished: bool,
    pub(super) again: Next,
}

/// Decides.
pub(super) fn decide(seen: &Observed<'_>) -> Plan {
    let plane = seen.plane;
    let deleting = objects::is_deleting(plane);
    let wanted = Slot::first(usize::try_from(plane.spec.replicas).unwrap_or(0));
    let mut plan = Plan {
        record: Vec::new(),
        adopt: Vec::new(),
        create: Vec::new(),
        complete: Vec::new(),
        delete: Vec::new(),
        finished: deleting && seen.members.is_empty(),
        again: Next::Await,
    };
    if deleting {
        let live = seen.members.iter().filter(|member| !objects::is_deleting(&*member.machine));
        plan.delete = live.map(|member| member.machine.name_any()).collect();
        return plan;
    }
    plan.adopt = seen
        .members
        .iter()
        .filter(|member| objects::controller_of(&*member.machine).is_none())
        .filter(|member| !objects::is_deleting(&*member.machine))
        .map(|member| member.machine.name_any())
        .collect();
    if !seen.cluster_deleting {
        let claimed = |slot: Slot| seen.members.iter().any(|member| member.slot == Some(slot));
        plan.create = wanted.iter().copied().filter(|slot| !claimed(*slot)).collect();
        plan.complete = incomplete(seen.members);
        plan.record = facts(seen, wanted, &mut plan.again);
    }
    plan
}

fn incomplete(members: &[Member]) -> Vec<Slot> {
    members
        .iter()
        .filter(|member| !objects::is_deleting(&*member.machine))
        .filter(|member| member.local.is_none() || !member.has_config)
        .filter_map(|member| member.slot)
        .collect()
}

/// Facts for life that are known now and not written down yet.
fn facts(seen: &Observed<'_>, wanted: &[Slot], again: &mut Next) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let attempt = objects::annotation(seen.plane, names::FORM_ATTEMPT);
    let formed = objects::annotation(seen.plane, names::FORMED_BY);
    if attempt.is_none() && formed.is_none() {
        facts.push((names::FORM_ATTEMPT, seen.attempt.clone()));
    }
    if formed.is_none()
        && let Some(attempt) = formed_now(seen, wanted, again)
    {
        facts.push((names::FORMED_BY, attempt));
    }
    let known = slot_addresses(seen.plane);
    let mut all = known.clone();
    let found = seen.members.iter().filter_map(|member| Some((member.slot?, address(member.local.as_deref()?)?)));
    for (slot, address) in found {
        // A slot's address is for life: what is written down stays.
        all.entry(slot).or_insert(address);
    }
    if all != known {
        let text: BTreeMap<String, String> =
            all.iter().map(|(slot, address)| (slot.to_string(), address.to_string())).collect();
        facts.push((names::SLOT_ADDRESSES, serde_json::json!(text).to_string()));
    }
    facts
}

/// The attempt that formed etcd, once every wanted member was started by it; or, where some do not come, a while after
/// the first. Until then a late member may still start as one of the founders; afterwards it joins as a learner.
fn formed_now(seen: &Observed<'_>, wanted: &[Slot], again: &mut Next) -> Option<String> {
    let formed: Vec<(&Member, &str)> =
        seen.members.iter().filter_map(|member| Some((member, member.formed_by()?))).collect();
    let (first, attempt) = formed.first()?;
    let all = wanted.iter().all(|slot| formed.iter().any(|(member, _)| member.slot == Some(*slot)));
    if all {
        return Some((*attempt).to_owned());
    }
    let since = formed.iter().filter_map(|(member, _)| etcd_since(member)).min().or_else(|| etcd_since(first))?;
    let left = since.0.as_second() + FORMING - seen.now.0.as_second();
    match u64::try_from(left) {
        Ok(left) if left > 0 => {
            *again = Next::After(Duration::from_secs(left));
            None
        }
        _ => Some((*attempt).to_owned()),
    }
}

/// Since when the machine runs: no member is older.
fn etcd_since(member: &Member) -> Option<Time> {
    let status = member.local.as_ref()?.status.as_ref()?;
    status.conditions.get(crate::reasons::types::MACHINE_RUNNING).map(|condition| condition.last_transition_time)
}
