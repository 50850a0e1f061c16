//! Plain progress lines: one whenever a machine does or awaits something else.

use std::collections::BTreeMap;

use windlass_providers::ports::{Inventory, Machine, MachineState};
use windlass_spec::report::PartState;

/// Prints to standard error what changed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    shown: BTreeMap<String, String>,
}

impl Progress {
    /// Prints a line for each machine whose line differs from the last.
    pub(super) fn show(&mut self, inventory: &Inventory, seconds: f64) {
        for machine in &inventory.machines {
            let line = line(machine);
            if self.shown.get(&machine.name) != Some(&line) {
                eprintln!("{seconds:7.2}s  {}: {line}", machine.name);
                self.shown.insert(machine.name.clone(), line);
            }
        }
    }
}

fn line(machine: &Machine) -> String {
    match (&machine.state, &machine.report) {
        (MachineState::Stopped { reason }, _) => format!("stopped: {reason}"),
        (MachineState::Reserved, _) => "reserved".to_owned(),
        (_, None) => "booting".to_owned(),
        (_, Some(report)) if report.is_ready() => "ready".to_owned(),
        (_, Some(report)) => {
            let open: Vec<String> = report
                .parts
                .iter()
                .filter_map(|part| match &part.state {
                    PartState::Waiting { reason } => Some(format!("{} waits for {reason}", part.part)),
                    PartState::Failed { message, .. } => Some(format!("{} failed: {message}", part.part)),
                    PartState::Pending | PartState::Done => None,
                })
                .collect();
            if open.is_empty() { "waits for its Node to be Ready".to_owned() } else { open.join("; ") }
        }
    }
}
