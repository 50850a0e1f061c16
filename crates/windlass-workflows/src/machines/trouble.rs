//! Knows early that a cluster will not come up. Pure but for the clock it is handed.
//!
//! Inputs: what the provider sees, look after look, and the time of each look. Output: the failure that ends the wait:
//! which machine, which part, why, its last log lines.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use windlass_engine::{Failure, Progress, ProgressState};
use windlass_providers::ports::{Inventory, Machine, MachineState};
use windlass_spec::report::PartState;

use super::view;

/// How long machines may take before it is said that they will not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From a machine's start to its agent's first report.
    pub boot: Duration,
    /// How long a part may stay failed: a component may still be given another try by whoever runs it.
    pub failed: Duration,
    /// The same for an add-on: it is applied again and again, and a busy API may refuse it for a while.
    pub addon: Duration,
    /// How long nothing at all may change on any machine that is not ready.
    pub still: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            boot: Duration::from_secs(60),
            failed: Duration::from_secs(4),
            addon: Duration::from_secs(120),
            still: Duration::from_secs(300),
        }
    }
}

/// Remembers since when what is so.
#[derive(Clone, Debug)]
pub struct Observer {
    patience: Patience,
    since: BTreeMap<(String, String), Instant>,
    lines: Vec<Progress>,
    changed: Option<Instant>,
}

impl Observer {
    /// One that has seen nothing yet.
    pub fn new(patience: Patience) -> Self {
        Self { patience, since: BTreeMap::new(), lines: Vec::new(), changed: None }
    }

    /// Takes a look; the failure, once something has been wrong for too long.
    pub fn look(&mut self, inventory: &Inventory, now: Instant) -> Option<Failure> {
        let lines: Vec<Progress> = inventory.machines.iter().map(view::progress).collect();
        if self.changed.is_none() || lines != self.lines {
            self.lines = lines;
            self.changed = Some(now);
        }
        let mut seen = BTreeMap::new();
        let mut failure = None;
        for machine in &inventory.machines {
            let Some(symptom) = symptom(machine, &self.patience) else { continue };
            let key = (machine.name.clone(), symptom.key);
            let since = *self.since.get(&key).unwrap_or(&now);
            seen.insert(key, since);
            if now.duration_since(since) >= symptom.patience && failure.is_none() {
                failure = Some(symptom.failure);
            }
        }
        self.since = seen;
        failure.or_else(|| self.still(now))
    }

    /// Nothing has changed for long, and someone is not ready.
    fn still(&self, now: Instant) -> Option<Failure> {
        let quiet = now.duration_since(self.changed?);
        let waiting: Vec<&Progress> = self.lines.iter().filter(|line| line.state != ProgressState::Done).collect();
        let first = waiting.first().filter(|_| quiet >= self.patience.still)?;
        let failure = Failure::failed(format!("nothing has changed for {} s", quiet.as_secs()));
        let failure = failure.on(&first.subject).part(&first.doing);
        Some(waiting.iter().fold(failure, |failure, line| {
            let waits = if line.detail.is_empty() { "not ready" } else { &line.detail };
            failure.cause(format!("{}: {}: {waits}", line.subject, line.doing))
        }))
    }
}

/// Something that is wrong now, and how long it may be.
struct Symptom {
    key: String,
    patience: Duration,
    failure: Failure,
}

fn symptom(machine: &Machine, patience: &Patience) -> Option<Symptom> {
    match (&machine.state, &machine.report) {
        (MachineState::Stopped { reason }, _) => Some(Symptom {
            key: "stopped".into(),
            patience: Duration::ZERO,
            failure: Failure::failed(format!("machine {} stopped", machine.name))
                .on(&machine.name)
                .part("machine")
                .cause(reason.clone()),
        }),
        (MachineState::Reserved, _) => None,
        (_, Some(report)) if view::is_of_this_start(machine, report) => {
            let part = report.current()?;
            let PartState::Failed { message, log } = &part.state else { return None };
            Some(Symptom {
                // Told by part, not by message: a crash loop's message may count its rounds.
                key: format!("part {}", part.part),
                patience: if part.part.starts_with("addon-") { patience.addon } else { patience.failed },
                failure: Failure::failed(format!("{} failed on machine {}", part.part, machine.name))
                    .on(&machine.name)
                    .part(&part.part)
                    .cause(message.clone())
                    .log(log.iter().cloned()),
            })
        }
        _ => Some(Symptom {
            key: format!("boot {}", machine.starts),
            patience: patience.boot,
            failure: Failure::failed(format!("machine {} never booted", machine.name))
                .on(&machine.name)
                .part("boot")
                .cause(format!("its agent has not reported {} s after its start", patience.boot.as_secs())),
        }),
    }
}

#[cfg(test)]
mod tests {
    use windlass_providers::ports::Scope;
    use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership};

    use super::super::view::tests::machine;
    use super::*;

    fn inventory(machines: Vec<Machine>) -> Inventory {
        let ownership = Ownership { owner: OwnerId::from("0"), epoch: Epoch(1) };
        let scope = Scope { cluster_id: ClusterId::from("0"), cluster: "lab".into(), ownership };
        Inventory { revision: 1, scope, network: None, machines, volumes: Vec::new() }
    }

    fn failed() -> PartState {
        PartState::Failed {
            message: "exits with 1, for the 3rd time".into(),
            log: vec!["unknown flag: --nonsense".into()],
        }
    }

    /// When, counted in seconds from the first look, is it said?
    fn said_after(machines: impl Fn(u64) -> Vec<Machine>) -> Option<(u64, Failure)> {
        let mut observer = Observer::new(Patience::default());
        let begun = Instant::now();
        (0..400).find_map(|second| {
            let now = begun + Duration::from_secs(second);
            observer.look(&inventory(machines(second)), now).map(|failure| (second, failure))
        })
    }

    #[test]
    fn a_failed_part_is_told_within_seconds_with_its_log() {
        let parts = || Some(vec![("etcd", PartState::Done), ("kube-apiserver", failed())]);
        let (second, failure) =
            said_after(|_| vec![machine("lab-cp-a", MachineState::Running, parts())]).expect("said");
        assert_eq!(second, 4);
        assert_eq!(failure.machine.as_deref(), Some("lab-cp-a"));
        assert_eq!(failure.part.as_deref(), Some("kube-apiserver"));
        assert_eq!(failure.log, ["unknown flag: --nonsense"]);
    }

    #[test]
    fn a_part_that_recovers_in_time_is_no_failure() {
        let flapping = |second: u64| {
            let state = if second % 4 < 3 { failed() } else { PartState::Waiting { reason: "etcd".into() } };
            vec![machine("lab-cp-a", MachineState::Running, Some(vec![("kube-apiserver", state)]))]
        };
        assert_eq!(said_after(flapping), None);
    }

    #[test]
    fn an_addon_is_given_more_time() {
        let parts = || Some(vec![("addon-coredns", failed())]);
        let (second, _) = said_after(|_| vec![machine("lab-cp-a", MachineState::Running, parts())]).expect("said");
        assert_eq!(second, 120);
    }

    #[test]
    fn a_machine_that_never_boots_and_one_that_stops_are_told() {
        let (second, failure) = said_after(|_| vec![machine("lab-md-1", MachineState::Running, None)]).expect("said");
        assert_eq!((second, failure.part.as_deref()), (60, Some("boot")));
        let stopped = MachineState::Stopped { reason: "exited 1".into() };
        let (second, failure) = said_after(|_| vec![machine("lab-md-1", stopped.clone(), None)]).expect("said");
        assert_eq!((second, failure.causes.as_slice()), (0, ["exited 1".to_owned()].as_slice()));
    }

    #[test]
    fn long_silence_ends_in_a_list_of_what_is_waited_for() {
        let waiting = || Some(vec![("kubelet", PartState::Waiting { reason: "a certificate".into() })]);
        let (second, failure) =
            said_after(|_| vec![machine("lab-md-1", MachineState::Running, waiting())]).expect("said");
        assert_eq!(
            (second, failure.causes.as_slice()),
            (300, ["lab-md-1: kubelet: a certificate".to_owned()].as_slice())
        );
        let ready = |_| {
            let mut machine = machine("lab-md-1", MachineState::Running, Some(vec![("etcd", PartState::Done)]));
            machine.report.as_mut().expect("reports").node_ready = true;
            vec![machine]
        };
        assert_eq!(said_after(ready), None);
    }
}
