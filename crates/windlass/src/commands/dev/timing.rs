//! When each phase was over.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;

use windlass_providers::ports::Inventory;
use windlass_spec::report::PartState;

use crate::output::Table;

/// Seconds since the first machine was asked for, by phase, in order.
#[derive(Debug)]
pub(super) struct Timing {
    began: Instant,
    at: Timestamp,
    phases: Vec<Phase>,
}

/// One phase.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Phase {
    pub(super) phase: &'static str,
    pub(super) seconds: f64,
}

/// Seconds at which each part of each machine was last done.
pub(super) type Parts = BTreeMap<String, BTreeMap<String, f64>>;

impl Timing {
    /// The clock starts.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), at: Timestamp::now(), phases: Vec::new() }
    }

    /// Seconds so far.
    pub(super) fn seconds(&self) -> f64 {
        rounded(self.began.elapsed().as_secs_f64())
    }

    /// A phase is over; only the first time counts.
    pub(super) fn over(&mut self, phase: &'static str) {
        if self.phases.iter().all(|known| known.phase != phase) {
            self.phases.push(Phase { phase, seconds: self.seconds() });
        }
    }

    /// Every phase.
    pub(super) fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// What the machines say of their parts.
    pub(super) fn parts(&self, inventory: &Inventory) -> Parts {
        let done = |since: Timestamp| rounded(since.duration_since(self.at).as_secs_f64());
        inventory
            .machines
            .iter()
            .filter_map(|machine| Some((machine.name.clone(), machine.report.as_ref()?)))
            .map(|(name, report)| {
                let parts = report.parts.iter().filter(|part| part.state == PartState::Done);
                (name, parts.map(|part| (part.part.clone(), done(part.since))).collect())
            })
            .collect()
    }

    /// A column a machine, a line a part, in the order they were done.
    pub(super) fn table(&self, parts: &Parts) -> String {
        let mut names: Vec<&String> = parts.values().flat_map(BTreeMap::keys).collect();
        names.sort();
        names.dedup();
        let first = |part: &String| {
            parts.values().filter_map(|done| done.get(part)).fold(f64::INFINITY, |first, &second| first.min(second))
        };
        names.sort_by(|one, other| first(one).total_cmp(&first(other)));
        let headings: Vec<&str> = std::iter::once("PART").chain(parts.keys().map(String::as_str)).collect();
        let mut table = Table::new(&headings);
        for name in names {
            let cells = parts.values().map(|done| done.get(name).map(|at| format!("{at:.1}")).unwrap_or_default());
            table.row(std::iter::once(name.clone()).chain(cells));
        }
        table.render()
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}
