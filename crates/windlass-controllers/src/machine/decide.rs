//! What a Machine is, and the next step of its deletion.
//!
//! Deletion: pre-drain hooks → cordon → pre-terminate hooks → infrastructure → configuration → Node → gone. With the
//! whole cluster going, nothing is done to the Node. A Node that was seen once is there until an API says otherwise.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt;

use crate::api::cluster_api::machine::{
    MachineDeletionStatus, MachineInitialization, MachinePhase, NodeInfo, NodeReference, NodeSwap,
};
use crate::api::cluster_api::{Machine, MachineStatus};
use crate::api::condition::Truth;
use crate::api::windlass::{LocalMachine, NodeConfig};
use crate::api::{Time, names};
use crate::conditions::{Judged, known, settle, summary};
use crate::index::Connection;
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;

/// How long the last word on a Node counts while its API does not answer.
const GRACE: i64 = 300;
/// How long a Node's deletion is tried while its API does not answer.
const NODE_DELETION: i64 = 10;

/// Is the Machine as its owner's template says?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    Yes,
    No(String),
    Unknown,
}

/// How far the deletion of a Machine's Node is, as this process has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeDeletion {
    /// Not tried.
    #[default]
    NotTried,
    /// Tried since then.
    TriedSince(Time),
    /// An API has taken it.
    Done,
}

/// What is looked at.
pub(crate) struct Observed<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) config: Option<Arc<NodeConfig>>,
    pub(crate) local: Option<Arc<LocalMachine>>,
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) node_deletion: NodeDeletion,
    pub(crate) connection: Connection,
    pub(crate) cluster_deleting: bool,
    pub(crate) fresh: Fresh,
    pub(crate) now: Time,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The Machine lives: keep its Node's annotations.
    Keep,
    /// Something else must happen first.
    Wait,
    Cordon,
    DeleteInfrastructure,
    DeleteBootstrap,
    DeleteNode,
    Finish,
}

/// The next step and the status.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) status: MachineStatus,
    pub(crate) again: Next,
}

/// Decides.
pub(crate) fn decide(seen: &Observed<'_>) -> Plan {
    let (step, deleting) = match next_deletion_step(seen) {
        Some((step, reason, message)) => (step, Some((reason, message))),
        None => (Step::Keep, None),
    };
    let (status, again) = status(seen, deleting, step);
    Plan { step, status, again }
}

fn next_deletion_step(seen: &Observed<'_>) -> Option<(Step, Reason, String)> {
    let machine = seen.machine;
    machine.metadata.deletion_timestamp.as_ref()?;
    let name = machine.name_any();
    if !seen.cluster_deleting {
        if let Some(hook) = hook(machine, names::PRE_DRAIN_HOOK) {
            return Some((Step::Wait, Reason::WaitingForPreDrainHook, format!("annotation {hook} holds it")));
        }
        let is_up = seen.connection == Connection::Up;
        let is_open = seen.node.as_deref().is_some_and(|node| !is_cordoned(node));
        if is_up && is_open && seen.local.is_some() {
            return Some((Step::Cordon, Reason::Deleting, format!("cordoning Node {name}")));
        }
        if let Some(hook) = hook(machine, names::PRE_TERMINATE_HOOK) {
            return Some((Step::Wait, Reason::WaitingForPreTerminateHook, format!("annotation {hook} holds it")));
        }
    }
    if let Some(local) = &seen.local {
        let step = if objects::is_deleting(&**local) { Step::Wait } else { Step::DeleteInfrastructure };
        let message = format!("LocalMachine {name} is being taken away");
        return Some((step, Reason::WaitingForInfrastructureDeletion, message));
    }
    if let Some(config) = &seen.config {
        let step = if objects::is_deleting(&**config) { Step::Wait } else { Step::DeleteBootstrap };
        return Some((step, Reason::WaitingForBootstrapDeletion, format!("NodeConfig {name} is being taken away")));
    }
    if node_is_left(seen) && !gives_up_node(seen) {
        return Some((Step::DeleteNode, Reason::DeletingNode, format!("deleting Node {name}")));
    }
    Some((Step::Finish, Reason::DeletionCompleted, String::new()))
}

/// Is there a Node to delete? One that was there counts as left until its API was seen without it.
pub(crate) fn node_is_left(seen: &Observed<'_>) -> bool {
    let was_there = seen.machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    let may_be_there = seen.node.is_some() || (was_there && seen.connection != Connection::Up);
    may_be_there && !seen.cluster_deleting && seen.node_deletion != NodeDeletion::Done
}

/// Was it tried for long enough, without an API that answers? Zero is for ever.
fn gives_up_node(seen: &Observed<'_>) -> bool {
    let deletion = seen.machine.spec.deletion.as_ref();
    let patience =
        deletion.and_then(|deletion| deletion.node_deletion_timeout_seconds).map_or(NODE_DELETION, i64::from);
    let NodeDeletion::TriedSince(since) = seen.node_deletion else { return false };
    let tried = seen.now.0.as_second() - since.0.as_second();
    patience != 0 && tried > patience && seen.connection != Connection::Up
}

fn hook<'a>(machine: &'a Machine, prefix: &str) -> Option<&'a String> {
    let annotations = machine.metadata.annotations.as_ref()?;
    annotations.keys().find(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')))
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

fn status(seen: &Observed<'_>, deleting: Option<(Reason, String)>, step: Step) -> (MachineStatus, Next) {
    let machine = seen.machine;
    let before = machine.status.clone().unwrap_or_default();
    let generation = objects::generation(machine);
    let (judged, again) = judge(seen, &before, deleting);
    let conditions = settle(&before.conditions, &judged, generation, seen.now);
    let initialization = initialization(seen, &before);
    let node_ref = seen.node.as_ref().map(|node| NodeReference { name: node.name_any() }).or(before.node_ref.clone());
    let phase = phase(seen, &initialization, node_ref.is_some(), step);
    let changed = before.phase != Some(phase);
    let local = seen.local.as_ref().and_then(|local| local.status.as_ref());
    let status = MachineStatus {
        conditions,
        initialization: Some(initialization),
        node_ref,
        node_info: seen.node.as_deref().and_then(node_info).or(before.node_info),
        last_updated: if changed { Some(seen.now) } else { before.last_updated },
        failure_domain: local.and_then(|local| local.failure_domain.clone()).or(before.failure_domain),
        addresses: local.map(|local| local.addresses.clone()).filter(|all| !all.is_empty()).unwrap_or(before.addresses),
        phase: Some(phase),
        certificates_expiry_date: before.certificates_expiry_date,
        observed_generation: generation,
        deletion: deletion_times(seen, before.deletion),
    };
    (status, again)
}

fn initialization(seen: &Observed<'_>, before: &MachineStatus) -> MachineInitialization {
    let old = before.initialization.clone().unwrap_or_default();
    let local = seen.local.as_ref().and_then(|local| local.status.as_ref()?.initialization.as_ref()?.provisioned);
    let created = seen.machine.spec.bootstrap.data_secret_name.is_some();
    MachineInitialization {
        infrastructure_provisioned: Some(old.infrastructure_provisioned == Some(true) || local == Some(true)),
        bootstrap_data_secret_created: Some(old.bootstrap_data_secret_created == Some(true) || created),
    }
}

fn phase(seen: &Observed<'_>, reached: &MachineInitialization, has_node: bool, step: Step) -> MachinePhase {
    let has_infrastructure = reached.infrastructure_provisioned == Some(true);
    if objects::is_deleting(seen.machine) {
        return if step == Step::Finish { MachinePhase::Deleted } else { MachinePhase::Deleting };
    }
    if has_infrastructure && has_node {
        MachinePhase::Running
    } else if has_infrastructure && seen.machine.spec.provider_id.is_some() {
        MachinePhase::Provisioned
    } else if reached.bootstrap_data_secret_created == Some(true) {
        MachinePhase::Provisioning
    } else {
        MachinePhase::Pending
    }
}

fn deletion_times(seen: &Observed<'_>, before: Option<MachineDeletionStatus>) -> Option<MachineDeletionStatus> {
    if !objects::is_deleting(seen.machine) {
        return None;
    }
    let mut times = before.unwrap_or_default();
    if hook(seen.machine, names::PRE_DRAIN_HOOK).is_some() {
        times.wait_for_pre_drain_hook_start_time.get_or_insert(seen.now);
    } else if hook(seen.machine, names::PRE_TERMINATE_HOOK).is_some() {
        times.wait_for_pre_terminate_hook_start_time.get_or_insert(seen.now);
    }
    Some(times)
}

fn judge(seen: &Observed<'_>, before: &MachineStatus, deleting: Option<(Reason, String)>) -> (Vec<Judged>, Next) {
    let config = seen.config.as_ref().and_then(|config| config.status.as_ref()?.conditions.get(types::READY));
    let config = Judged::mirror(
        types::BOOTSTRAP_CONFIG_READY,
        config,
        Reason::Ready,
        (Reason::Waiting, "its NodeConfig is not judged yet"),
    );
    let local = seen.local.as_ref().and_then(|local| local.status.as_ref()?.conditions.get(types::READY));
    let local = Judged::mirror(
        types::INFRASTRUCTURE_READY,
        local,
        Reason::Ready,
        (Reason::Waiting, "its LocalMachine is not judged yet"),
    );
    let (healthy, ready, node_again) = judge_node(seen, before);
    let deleting = Judged::deleting(deleting);
    let updating = Judged::trouble(types::UPDATING, None, Reason::NotUpdating);
    let checked = health_check(before);
    let mut parts = vec![&config, &local, &healthy, &deleting, &updating];
    parts.extend(checked.as_ref());
    let bad_when_true = [types::DELETING, types::UPDATING];
    let summary = summary(types::READY, &parts, &bad_when_true, Reason::Ready, Reason::NotReady);
    let summary = with_gates(seen, before, summary);
    let (available, wait) = judge_available(seen, before, &summary);
    let fresh = match &seen.fresh {
        Fresh::Yes => Judged::yes(types::UP_TO_DATE, Reason::UpToDate),
        Fresh::No(why) => Judged::no(types::UP_TO_DATE, Reason::NotUpToDate, why),
        Fresh::Unknown => Judged::unknown(types::UP_TO_DATE, Reason::Waiting, "not judged yet"),
    };
    let paused = Judged::paused(false);
    let all = vec![summary, available, fresh, config, local, healthy, ready, updating, deleting, paused];
    (all, wait.sooner(node_again))
}

/// What the health check wrote: it takes part in the summary, and is written by nobody else.
fn health_check(before: &MachineStatus) -> Option<Judged> {
    let condition = before.conditions.get(types::HEALTH_CHECK_SUCCEEDED)?;
    Some(Judged {
        type_: types::HEALTH_CHECK_SUCCEEDED,
        status: condition.status,
        reason: known(&condition.reason).unwrap_or(Reason::NotReady),
        message: condition.message.clone(),
    })
}

/// Further conditions the spec makes readiness depend on.
fn with_gates(seen: &Observed<'_>, before: &MachineStatus, summary: Judged) -> Judged {
    use crate::api::cluster_api::shared::Polarity;
    let closed = seen.machine.spec.readiness_gates.iter().find(|gate| {
        let is_good = if gate.polarity == Some(Polarity::Negative) {
            before.conditions.is_false(&gate.condition_type)
        } else {
            before.conditions.is_true(&gate.condition_type)
        };
        !is_good
    });
    match closed {
        Some(gate) if summary.status == Truth::True => {
            let message = format!("readiness gate {} is not met", gate.condition_type);
            Judged::no(types::READY, Reason::NotReady, message)
        }
        _ => summary,
    }
}

fn judge_available(seen: &Observed<'_>, before: &MachineStatus, ready: &Judged) -> (Judged, Next) {
    if ready.status != Truth::True {
        return (Judged::no(types::AVAILABLE, Reason::NotReady, &ready.message), Next::Await);
    }
    let patience = i64::from(seen.machine.spec.min_ready_seconds.unwrap_or(0));
    let old = before.conditions.get(types::READY).filter(|condition| condition.status == Truth::True);
    let since = old.map_or(seen.now, |condition| condition.last_transition_time);
    let left = since.0.as_second() + patience - seen.now.0.as_second();
    match u64::try_from(left) {
        Ok(left) if left > 0 => {
            let message = format!("ready for less than {patience} s");
            (Judged::no(types::AVAILABLE, Reason::Waiting, message), Next::After(Duration::from_secs(left)))
        }
        _ => (Judged::yes(types::AVAILABLE, Reason::Available), Next::Await),
    }
}

/// `NodeHealthy` and `NodeReady`. While the API does not answer, the last word counts for a time.
fn judge_node(seen: &Observed<'_>, before: &MachineStatus) -> (Judged, Judged, Next) {
    let was_there = before.node_ref.is_some();
    if let Connection::Down { since, cause } = &seen.connection
        && was_there
    {
        return unreachable_node(seen, before, *since, cause);
    }
    match &seen.node {
        Some(node) => {
            let (healthy, ready) = judge_present_node(node);
            (healthy, ready, Next::Await)
        }
        None if was_there && seen.connection == Connection::Up => {
            let message = "the Node is gone";
            let healthy = Judged::no(types::NODE_HEALTHY, Reason::NodeDeleted, message);
            (healthy, Judged::no(types::NODE_READY, Reason::NodeDeleted, message), Next::Await)
        }
        None => {
            let (reason, message) = why_no_node(seen);
            let healthy = Judged::no(types::NODE_HEALTHY, reason, &message);
            (healthy, Judged::no(types::NODE_READY, reason, message), Next::Await)
        }
    }
}

fn unreachable_node(
    seen: &Observed<'_>,
    before: &MachineStatus,
    since: jiff::Timestamp,
    cause: &str,
) -> (Judged, Judged, Next) {
    let left = since.as_second() + GRACE - seen.now.0.as_second();
    if let Ok(left @ 1..) = u64::try_from(left) {
        let keep = |type_| {
            let old = before.conditions.get(type_);
            old.map_or_else(
                || Judged::unknown(type_, Reason::ConnectionDown, cause),
                |old| Judged {
                    type_,
                    status: old.status,
                    reason: known(&old.reason).unwrap_or(Reason::ConnectionDown),
                    message: old.message.clone(),
                },
            )
        };
        return (keep(types::NODE_HEALTHY), keep(types::NODE_READY), Next::After(Duration::from_secs(left)));
    }
    let message = format!("the cluster's API does not answer: {cause}");
    let healthy = Judged::unknown(types::NODE_HEALTHY, Reason::ConnectionDown, &message);
    (healthy, Judged::unknown(types::NODE_READY, Reason::ConnectionDown, message), Next::Await)
}

/// What the machine is at while it has no Node: the first place people look.
fn why_no_node(seen: &Observed<'_>) -> (Reason, String) {
    let converged = seen.local.as_ref().and_then(|local| local.status.as_ref()?.conditions.get(types::NODE_CONVERGED));
    match converged {
        Some(condition) if condition.status != Truth::True => {
            (known(&condition.reason).unwrap_or(Reason::NodeDoesNotExist), condition.message.clone())
        }
        _ => (Reason::NodeDoesNotExist, "its Node has not been seen".to_owned()),
    }
}

fn judge_present_node(node: &Node) -> (Judged, Judged) {
    let conditions: &[NodeCondition] =
        node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    let said = |condition: &NodeCondition| {
        let message = condition.message.clone().unwrap_or_default();
        format!("Node condition {} is {}: {message}", condition.type_, condition.status)
    };
    let ready = match find("Ready") {
        Some(condition) if condition.status == "True" => Judged::yes(types::NODE_READY, Reason::Ready),
        Some(condition) if condition.status == "Unknown" => {
            Judged::unknown(types::NODE_READY, Reason::NodeNotHealthy, said(condition))
        }
        Some(condition) => Judged::no(types::NODE_READY, Reason::NodeNotHealthy, said(condition)),
        None => Judged::unknown(types::NODE_READY, Reason::Waiting, "the Node has no Ready condition yet"),
    };
    let pressure = ["MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .filter_map(find)
        .find(|condition| condition.status == "True");
    let healthy = match (ready.status, pressure) {
        (Truth::True, None) => Judged::yes(types::NODE_HEALTHY, Reason::NodeHealthy),
        (Truth::True, Some(condition)) => Judged::no(types::NODE_HEALTHY, Reason::NodeNotHealthy, said(condition)),
        (status, _) => Judged { type_: types::NODE_HEALTHY, status, ..ready.clone() },
    };
    (healthy, ready)
}

fn node_info(node: &Node) -> Option<NodeInfo> {
    let info = node.status.as_ref()?.node_info.clone()?;
    Some(NodeInfo {
        architecture: info.architecture,
        boot_id: info.boot_id,
        container_runtime_version: info.container_runtime_version,
        kernel_version: info.kernel_version,
        kube_proxy_version: info.kube_proxy_version,
        kubelet_version: info.kubelet_version,
        machine_id: info.machine_id,
        operating_system: info.operating_system,
        os_image: info.os_image,
        swap: info.swap.map(|swap| NodeSwap { capacity: swap.capacity }),
        system_uuid: info.system_uuid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::new(jiff::Timestamp::from_second(second).unwrap_or_default())
    }

    /// A Machine deleted at second 0, its infrastructure and configuration gone.
    fn machine(had_node: bool, patience: Option<i32>) -> Machine {
        let node_ref = if had_node { serde_json::json!({"name": "lab-md-1"}) } else { serde_json::Value::Null };
        let machine = serde_json::json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": "lab-md-1", "deletionTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {
                "clusterName": "lab",
                "bootstrap": {},
                "infrastructureRef": {"apiGroup": "windlass.dev", "kind": "LocalMachine", "name": "lab-md-1"},
                "deletion": {"nodeDeletionTimeoutSeconds": patience},
            },
            "status": {"nodeRef": node_ref},
        });
        serde_json::from_value(machine).expect("a Machine")
    }

    fn next(machine: &Machine, connection: Connection, is_seen: bool, tried: NodeDeletion, now: i64) -> Step {
        let seen = Observed {
            machine,
            config: None,
            local: None,
            node: is_seen.then(Arc::default),
            node_deletion: tried,
            connection,
            cluster_deleting: false,
            fresh: Fresh::Yes,
            now: at(now),
        };
        decide(&seen).step
    }

    #[test]
    fn a_node_is_deleted_however_late_the_deletion_comes_to_it() {
        let down = || Connection::Down { since: at(0).0, cause: "refused".into() };
        let (had, never) = (machine(true, None), machine(false, None));
        let (patient, short) = (machine(true, Some(0)), machine(true, Some(60)));
        let since = |second| NodeDeletion::TriedSince(at(second));
        let new = NodeDeletion::NotTried;
        let cases = [
            ("it is there", &had, Connection::Up, true, new, 5, Step::DeleteNode),
            ("it is gone", &had, Connection::Up, false, new, 5, Step::Finish),
            ("there never was one", &never, down(), false, new, 5, Step::Finish),
            ("hooks and infrastructure took long", &had, down(), true, new, 500, Step::DeleteNode),
            ("this process has not seen any Node yet", &had, Connection::Untried, false, new, 500, Step::DeleteNode),
            ("nor will it, the API being down", &had, down(), false, new, 500, Step::DeleteNode),
            ("tried for ten seconds", &had, down(), true, since(500), 510, Step::DeleteNode),
            ("tried for longer", &had, down(), true, since(500), 511, Step::Finish),
            ("tried for long, but the API answers", &had, Connection::Up, true, since(500), 900, Step::DeleteNode),
            ("a minute was asked for", &short, down(), false, since(500), 560, Step::DeleteNode),
            ("and is over", &short, down(), false, since(500), 561, Step::Finish),
            ("for ever was asked for", &patient, down(), false, since(500), 99_999, Step::DeleteNode),
            ("another API took it", &had, down(), false, NodeDeletion::Done, 501, Step::Finish),
        ];
        for (what, machine, connection, is_seen, tried, now, wanted) in cases {
            assert_eq!(next(machine, connection, is_seen, tried, now), wanted, "{what}");
        }
    }

    #[test]
    fn with_the_whole_cluster_going_nothing_is_done_to_a_node() {
        let machine = machine(true, None);
        let seen = Observed {
            machine: &machine,
            config: None,
            local: None,
            node: Some(Arc::default()),
            node_deletion: NodeDeletion::NotTried,
            connection: Connection::Up,
            cluster_deleting: true,
            fresh: Fresh::Yes,
            now: at(1),
        };
        assert_eq!(decide(&seen).step, Step::Finish);
    }
}
