//! From the provider's word and the agent's report to conditions: what runs, what the machine is at, what it waits for.

use windlass_providers::ports::{Machine, MachineState};
use windlass_spec::report::{NodeReport, PartReport, PartState};

use crate::api::Time;
use crate::api::windlass::local_machine::AgentStatus;
use crate::conditions::Judged;
use crate::reasons::{Reason, types};

/// The state in a word.
pub(super) fn state(state: &MachineState) -> &'static str {
    match state {
        MachineState::Reserved => "Reserved",
        MachineState::Starting => "Starting",
        MachineState::Running => "Running",
        MachineState::Stopped { .. } => "Stopped",
    }
}

/// `MachineRunning`.
pub(super) fn running(machine: Option<&Machine>, trouble: Option<&(Reason, String)>) -> Judged {
    if let Some((reason, message)) = trouble {
        return Judged::no(types::MACHINE_RUNNING, *reason, message);
    }
    match machine.map(|machine| (&machine.state, &machine.name)) {
        None => Judged::no(types::MACHINE_RUNNING, Reason::Provisioning, "it is being made"),
        Some((MachineState::Reserved, _)) => {
            Judged::no(types::MACHINE_RUNNING, Reason::Provisioning, "its address is kept; it is being made")
        }
        Some((MachineState::Starting, name)) => {
            Judged::no(types::MACHINE_RUNNING, Reason::Starting, format!("machine {name} starts"))
        }
        Some((MachineState::Running, _)) => Judged::yes(types::MACHINE_RUNNING, Reason::Running),
        Some((MachineState::Stopped { reason }, name)) => {
            Judged::no(types::MACHINE_RUNNING, Reason::Stopped, format!("machine {name} is stopped: {reason}"))
        }
    }
}

/// `ConfigDelivered`.
pub(super) fn delivered(wanted: Option<&str>, delivered: Option<&str>) -> Judged {
    match (wanted, delivered) {
        (Some(wanted), Some(delivered)) if wanted == delivered => {
            Judged::yes(types::CONFIG_DELIVERED, Reason::Delivered)
        }
        (Some(_), _) => Judged::no(types::CONFIG_DELIVERED, Reason::Waiting, "the newest configuration is on its way"),
        (None, _) => Judged::no(types::CONFIG_DELIVERED, Reason::WaitingForConfig, "no configuration is rendered yet"),
    }
}

/// `NodeConverged`: what the agent says, as long as it speaks of this boot.
pub(super) fn converged(machine: Option<&Machine>, wanted: Option<&str>) -> Judged {
    let waiting = |message: &str| Judged::no(types::NODE_CONVERGED, Reason::WaitingForReport, message);
    let Some(machine) = machine else { return waiting("the machine is not there yet") };
    let Some(report) = &machine.report else { return waiting("its agent has not reported yet") };
    if machine.state != MachineState::Running {
        return waiting("it does not run");
    }
    if machine.boot_id.as_ref().is_some_and(|boot| *boot != report.boot_id) {
        return waiting("its agent has not reported since it was started");
    }
    match report.current() {
        Some(part) => judge_part(part),
        None if wanted.is_some() && report.config.as_ref().map(|config| config.hash.as_str()) != wanted => {
            Judged::no(types::NODE_CONVERGED, Reason::Converging, "it has not taken up its newest configuration yet")
        }
        None if !report.node_ready => {
            Judged::no(types::NODE_CONVERGED, Reason::Converging, "every part is done; its Node is not Ready yet")
        }
        None => Judged::yes(types::NODE_CONVERGED, Reason::Converged),
    }
}

fn judge_part(part: &PartReport) -> Judged {
    let name = &part.part;
    match &part.state {
        PartState::Failed { message, log } => {
            let lines = if log.is_empty() { String::new() } else { format!("\n{}", log.join("\n")) };
            Judged::no(types::NODE_CONVERGED, Reason::Failed, format!("{name} failed: {message}{lines}"))
        }
        PartState::Waiting { reason } => {
            Judged::no(types::NODE_CONVERGED, Reason::Converging, format!("{name} waits for {reason}"))
        }
        PartState::Pending | PartState::Done => {
            Judged::no(types::NODE_CONVERGED, Reason::Converging, format!("{name} is next"))
        }
    }
}

/// The report as the status shows it.
pub(super) fn agent(report: &NodeReport) -> AgentStatus {
    let current = report.current();
    let (state, message) = match current.map(|part| &part.state) {
        None => ("Done", None),
        Some(PartState::Pending | PartState::Done) => ("Pending", None),
        Some(PartState::Waiting { reason }) => ("Waiting", Some(reason.clone())),
        Some(PartState::Failed { message, .. }) => ("Failed", Some(message.clone())),
    };
    let unfinished = report.parts.iter().filter(|part| part.state != PartState::Done);
    AgentStatus {
        version: report.windlass_version.clone(),
        boot_id: report.boot_id.clone(),
        config_hash: report.config.as_ref().map(|config| config.hash.clone()),
        config_generation: report.config.as_ref().and_then(|config| i64::try_from(config.generation.0).ok()),
        part: current.map(|part| part.part.clone()),
        state: Some(state.to_owned()),
        message,
        since: current.map(|part| Time::new(part.since)),
        etcd_formed_by: report.etcd_formed_by.clone(),
        etcd_member_id: report.etcd_member_id.clone(),
        api_server_ready: report.api_server_ready,
        node_ready: report.node_ready,
        unfinished: unfinished.map(|part| part.part.clone()).collect(),
    }
}
