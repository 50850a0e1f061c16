//! What a machine is doing, in words. Pure.
//!
//! Input: a machine as its provider sees it, with its own report. Output: one line for a progress view.

use windlass_engine::{Progress, ProgressState};
use windlass_providers::ports::{Machine, MachineState};
use windlass_spec::report::{NodeReport, PartState};

/// What a machine does that has nothing left to do.
pub const READY: &str = "ready";

/// What this machine does, and what it waits for.
pub fn progress(machine: &Machine) -> Progress {
    let (state, doing, detail) = match (&machine.state, &machine.report) {
        (MachineState::Reserved, _) => (ProgressState::Pending, "reserved", "name and address are kept".to_owned()),
        (MachineState::Stopped { reason }, _) => (ProgressState::Failed, "stopped", reason.clone()),
        (_, Some(report)) if is_of_this_start(machine, report) => return reported(&machine.name, report),
        (MachineState::Starting, _) => (ProgressState::Working, "boot", "starting".to_owned()),
        (MachineState::Running, _) => (ProgressState::Working, "boot", "waits for its agent's first report".to_owned()),
    };
    line(&machine.name, state, doing, detail)
}

/// Does the report speak of the machine as it runs now, not of an earlier start?
pub fn is_of_this_start(machine: &Machine, report: &NodeReport) -> bool {
    machine.boot_id.as_ref().is_none_or(|boot| *boot == report.boot_id)
}

fn reported(name: &str, report: &NodeReport) -> Progress {
    if report.config.is_none() {
        return line(name, ProgressState::Working, "configuration", "waits for its first".to_owned());
    }
    if report.is_ready() {
        return line(name, ProgressState::Done, READY, String::new());
    }
    match report.current().map(|part| (part.part.as_str(), &part.state)) {
        Some((part, PartState::Failed { message, .. })) => line(name, ProgressState::Failed, part, message.clone()),
        Some((part, PartState::Waiting { reason })) => line(name, ProgressState::Working, part, reason.clone()),
        Some((part, PartState::Pending | PartState::Done)) => line(name, ProgressState::Working, part, String::new()),
        None => line(name, ProgressState::Working, "node", "waits for its Node to be Ready".to_owned()),
    }
}

fn line(subject: &str, state: ProgressState, doing: &str, detail: String) -> Progress {
    Progress { subject: subject.to_owned(), state, doing: doing.to_owned(), detail }
}

/// Has this part of the machine converged?
pub fn part_is_done(machine: &Machine, part: &str) -> bool {
    let parts = machine.report.iter().flat_map(|report| &report.parts);
    parts.filter(|found| found.part == part).any(|found| found.state == PartState::Done)
}

#[cfg(test)]
pub(crate) mod tests {
    use jiff::Timestamp;
    use windlass_spec::identity::{Epoch, Generation, Role};
    use windlass_spec::report::{ConfigSeen, PartReport};

    use super::*;

    pub(crate) fn machine(name: &str, state: MachineState, parts: Option<Vec<(&str, PartState)>>) -> Machine {
        let report = parts.map(|parts| NodeReport {
            format: NodeReport::FORMAT,
            machine: name.into(),
            boot_id: "boot-1".into(),
            at: Timestamp::UNIX_EPOCH,
            windlass_version: "0.1.0".into(),
            config: Some(ConfigSeen { epoch: Epoch(1), generation: Generation(1), hash: "sha256:0".into() }),
            parts: parts
                .into_iter()
                .map(|(part, state)| PartReport {
                    part: part.into(),
                    state,
                    changes: Vec::new(),
                    since: Timestamp::UNIX_EPOCH,
                })
                .collect(),
            etcd_formed_by: None,
            etcd_member_id: None,
            api_server_ready: None,
            api_server_names: Vec::new(),
            node_ready: false,
        });
        Machine {
            name: name.into(),
            role: Some(Role::ControlPlane),
            slot: None,
            address: std::net::IpAddr::from([10, 77, 0, 11]),
            provider_id: "windlass-local://host/0".into(),
            state,
            boot_id: Some("boot-1".into()),
            image: None,
            volumes: Vec::new(),
            starts: 1,
            report,
        }
    }

    fn waiting(reason: &str) -> PartState {
        PartState::Waiting { reason: reason.into() }
    }

    #[test]
    fn each_stage_of_a_machine_has_its_words() {
        let running = || MachineState::Running;
        let ready = {
            let mut machine = machine("lab-cp-a", running(), Some(vec![("etcd", PartState::Done)]));
            machine.report.as_mut().expect("reports").node_ready = true;
            machine
        };
        let unconfigured = {
            let mut machine = machine("lab-cp-a", running(), Some(vec![]));
            machine.report.as_mut().expect("reports").config = None;
            machine
        };
        let restarted = {
            let mut machine = machine("lab-cp-a", MachineState::Starting, Some(vec![("etcd", PartState::Done)]));
            machine.boot_id = Some("boot-2".into());
            machine
        };
        let failed = PartState::Failed { message: "unknown flag: --nonsense".into(), log: vec![] };
        let machines = [
            machine("lab-cp-a", MachineState::Reserved, None),
            machine("lab-cp-a", MachineState::Starting, None),
            machine("lab-cp-a", running(), None),
            unconfigured,
            machine("lab-cp-a", running(), Some(vec![("sysctls", PartState::Done), ("etcd", waiting("peers b, c"))])),
            machine("lab-cp-a", running(), Some(vec![("etcd", waiting("x")), ("kube-apiserver", failed)])),
            machine("lab-cp-a", running(), Some(vec![("etcd", PartState::Done)])),
            ready,
            restarted,
            machine("lab-cp-a", MachineState::Stopped { reason: "exited 137".into() }, None),
        ];
        let lines: Vec<String> = machines
            .iter()
            .map(progress)
            .map(|line| format!("{:?} | {} | {}", line.state, line.doing, line.detail))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        Pending | reserved | name and address are kept
        Working | boot | starting
        Working | boot | waits for its agent's first report
        Working | configuration | waits for its first
        Working | etcd | peers b, c
        Failed | kube-apiserver | unknown flag: --nonsense
        Working | node | waits for its Node to be Ready
        Done | ready | 
        Working | boot | starting
        Failed | stopped | exited 137
        ");
    }
}
