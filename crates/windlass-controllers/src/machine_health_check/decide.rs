//! Which Machines are unhealthy.
//!
//! Nobody is judged before the infrastructure is there, a worker not before the control plane took requests, and no
//! Node while its API does not answer.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::api::cluster_api::machine_health_check::{HealthChecks, RemediationTrigger};
use crate::api::cluster_api::shared::resolve_share;
use crate::api::cluster_api::{Cluster, Machine, MachineHealthCheck, MachineHealthCheckStatus};
use crate::api::condition::Truth;
use crate::api::{Time, names};
use crate::conditions::{Judged, settle};
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;

/// Seconds a Node may take to come, unless the check says otherwise.
const STARTUP: i32 = 600;
/// Conditions of a Machine that say nothing new about its health.
const NEVER_JUDGED: [&str; 3] = [types::READY, types::AVAILABLE, types::HEALTH_CHECK_SUCCEEDED];

/// A Machine with its Node.
pub(crate) struct Target {
    pub(crate) machine: Arc<Machine>,
    pub(crate) node: Option<Arc<Node>>,
}

/// What is looked at.
pub(crate) struct Observed<'a> {
    pub(crate) check: &'a MachineHealthCheck,
    pub(crate) cluster: Option<&'a Cluster>,
    /// Does the workload cluster's API answer?
    pub(crate) connected: bool,
    pub(crate) targets: &'a [Target],
    pub(crate) now: Time,
}

/// What is found.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// `HealthCheckSucceeded` of each target, in order.
    pub(crate) verdicts: Vec<Judged>,
    pub(crate) status: MachineHealthCheckStatus,
    pub(crate) again: Next,
}

/// Decides.
pub(crate) fn decide(seen: &Observed<'_>) -> Plan {
    let mut again = Next::Await;
    let verdicts: Vec<Judged> = seen
        .targets
        .iter()
        .map(|target| match fault(seen, target) {
            Fault::None => Judged::yes(types::HEALTH_CHECK_SUCCEEDED, Reason::HealthCheckSucceeded),
            Fault::Soon(left) => {
                again = again.sooner(Next::After(left));
                Judged::yes(types::HEALTH_CHECK_SUCCEEDED, Reason::HealthCheckSucceeded)
            }
            Fault::Found(reason, message) => Judged::no(types::HEALTH_CHECK_SUCCEEDED, reason, message),
        })
        .collect();
    let status = status(seen, &verdicts);
    Plan { verdicts, status, again }
}

/// What is wrong with a Machine.
enum Fault {
    None,
    /// Nothing yet; in this time something might be.
    Soon(Duration),
    Found(Reason, String),
}

impl Fault {
    /// The worse of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Found(reason, message), _) => Self::Found(reason, message),
            (_, Self::Found(reason, message)) => Self::Found(reason, message),
            (Self::Soon(one), Self::Soon(two)) => Self::Soon(one.min(two)),
            (Self::Soon(one), Self::None) | (Self::None, Self::Soon(one)) => Self::Soon(one),
            (Self::None, Self::None) => Self::None,
        }
    }
}

fn fault(seen: &Observed<'_>, target: &Target) -> Fault {
    let machine = &*target.machine;
    if objects::has_annotation(machine, names::SKIP_REMEDIATION) || objects::has_annotation(machine, names::PAUSED) {
        return Fault::None;
    }
    if objects::has_annotation(machine, names::REMEDIATE_MACHINE) {
        let message = format!("annotation {} asks for a replacement", names::REMEDIATE_MACHINE);
        return Fault::Found(Reason::HasRemediateAnnotation, message);
    }
    let Some(begun) = judged_since(seen, machine) else { return Fault::None };
    let checks = seen.check.spec.checks.clone().unwrap_or_default();
    let of_machine = machine_fault(seen, machine, &checks);
    let of_node = match &target.node {
        None => missing_node(seen, machine, begun, &checks),
        Some(node) => node_fault(seen, node, &checks),
    };
    of_machine.or(of_node)
}

/// From when on a Machine is judged: the latest of what it needs.
fn judged_since(seen: &Observed<'_>, machine: &Machine) -> Option<Timestamp> {
    let conditions = &seen.cluster?.status.as_ref()?.conditions;
    let since = |type_: &str| {
        conditions.get(type_).filter(|one| one.status == Truth::True).map(|one| one.last_transition_time.0)
    };
    let infrastructure = since(types::INFRASTRUCTURE_READY)?;
    let initialized = since(types::CONTROL_PLANE_INITIALIZED);
    if initialized.is_none() && objects::label(machine, names::CONTROL_PLANE).is_none() {
        return None;
    }
    [objects::created(machine), Some(infrastructure), initialized].into_iter().flatten().max()
}

fn lasting(now: Time, since: Timestamp, seconds: i32, found: impl FnOnce() -> (Reason, String)) -> Fault {
    let left = since.as_second() + i64::from(seconds) - now.0.as_second();
    match u64::try_from(left) {
        Ok(left) if left > 0 => Fault::Soon(Duration::from_secs(left)),
        _ => {
            let (reason, message) = found();
            Fault::Found(reason, message)
        }
    }
}

fn missing_node(seen: &Observed<'_>, machine: &Machine, begun: Timestamp, checks: &HealthChecks) -> Fault {
    let was_there = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    if was_there {
        return if seen.connected {
            Fault::Found(Reason::NodeDeleted, "the Node is gone".to_owned())
        } else {
            Fault::None
        };
    }
    match checks.node_startup_timeout_seconds.unwrap_or(STARTUP) {
        0 => Fault::None,
        seconds => {
            lasting(seen.now, begun, seconds, || (Reason::NodeStartupTimeout, format!("no Node within {seconds} s")))
        }
    }
}

fn machine_fault(seen: &Observed<'_>, machine: &Machine, checks: &HealthChecks) -> Fault {
    let conditions = machine.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let judged = checks.unhealthy_machine_conditions.iter().filter(|bad| !NEVER_JUDGED.contains(&&*bad.type_));
    judged.fold(Fault::None, |found, bad| {
        let there = conditions.get(&bad.type_).filter(|condition| condition.status == bad.status);
        let fault = there.map_or(Fault::None, |condition| {
            lasting(seen.now, condition.last_transition_time.0, bad.timeout_seconds, || {
                let message = format!("{} is {:?} for more than {} s", bad.type_, bad.status, bad.timeout_seconds);
                (Reason::UnhealthyMachine, message)
            })
        });
        found.or(fault)
    })
}

fn node_fault(seen: &Observed<'_>, node: &Node, checks: &HealthChecks) -> Fault {
    if !seen.connected {
        return Fault::None;
    }
    let conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    checks.unhealthy_node_conditions.iter().fold(Fault::None, |found, bad| {
        let there = conditions.iter().find(|one| one.type_ == bad.type_ && one.status == bad.status);
        let since = there.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
        let fault = since.map_or(Fault::None, |since| {
            lasting(seen.now, since, bad.timeout_seconds, || {
                let message =
                    format!("Node condition {} is {} for more than {} s", bad.type_, bad.status, bad.timeout_seconds);
                (Reason::UnhealthyNode, message)
            })
        });
        found.or(fault)
    })
}

fn status(seen: &Observed<'_>, verdicts: &[Judged]) -> MachineHealthCheckStatus {
    let check = seen.check;
    let before = check.status.clone().unwrap_or_default();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let expected = number(verdicts.len());
    let healthy = number(verdicts.iter().filter(|verdict| verdict.status == Truth::True).count());
    let trigger = check.spec.remediation.as_ref().and_then(|remediation| remediation.trigger_if.as_ref());
    let allowed = allowed(trigger, expected, expected - healthy);
    let verdict = if allowed.is_some() {
        Judged::yes(types::REMEDIATION_ALLOWED, Reason::RemediationAllowed)
    } else {
        let message = format!("{} of {expected} Machines are unhealthy", expected - healthy);
        Judged::no(types::REMEDIATION_ALLOWED, Reason::TooManyUnhealthy, message)
    };
    let generation = objects::generation(check);
    let mut targets: Vec<String> = seen.targets.iter().map(|target| target.machine.name_any()).collect();
    targets.sort();
    MachineHealthCheckStatus {
        conditions: settle(&before.conditions, &[verdict, Judged::paused(false)], generation, seen.now),
        expected_machines: Some(expected),
        current_healthy: Some(healthy),
        remediations_allowed: Some(allowed.unwrap_or(0)),
        targets,
        observed_generation: generation,
    }
}

/// How many more Machines may be acted on; none when too many are unhealthy, or too few for the range.
fn allowed(trigger: Option<&RemediationTrigger>, expected: i32, unhealthy: i32) -> Option<i32> {
    if let Some((least, most)) = trigger.and_then(|trigger| range(trigger.unhealthy_in_range.as_deref()?)) {
        return (least..=most).contains(&unhealthy).then_some(most - unhealthy);
    }
    let bound = trigger.and_then(|trigger| trigger.unhealthy_less_than_or_equal_to.as_ref());
    let most = bound.and_then(|share| resolve_share(share, expected, false)).unwrap_or(expected);
    (unhealthy <= most).then_some(most - unhealthy)
}

fn range(text: &str) -> Option<(i32, i32)> {
    let (least, most) = text.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
    Some((least.parse().ok()?, most.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trigger(share: Option<serde_json::Value>, range: Option<&str>) -> RemediationTrigger {
        RemediationTrigger { unhealthy_less_than_or_equal_to: share, unhealthy_in_range: range.map(str::to_owned) }
    }

    #[test]
    fn bounds_hold_and_a_range_wins() {
        assert_eq!(allowed(None, 5, 5), Some(0));
        assert_eq!(allowed(Some(&trigger(Some(json!("40%")), None)), 5, 2), Some(0));
        assert_eq!(allowed(Some(&trigger(Some(json!("40%")), None)), 5, 3), None);
        assert_eq!(allowed(Some(&trigger(Some(json!(1)), None)), 5, 0), Some(1));
        assert_eq!(allowed(Some(&trigger(Some(json!(5)), Some("[2-3]"))), 5, 1), None);
        assert_eq!(allowed(Some(&trigger(Some(json!(5)), Some("[2-3]"))), 5, 2), Some(1));
    }
}
