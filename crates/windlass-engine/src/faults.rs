//! Failures on purpose, so that tests can prove what happens after them.
//!
//! Input: where to fail and how. Output: the runner fails, "crashes" or repeats there.

use std::collections::BTreeSet;

/// Which steps misbehave. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    fail_before: BTreeSet<String>,
    fail_after: BTreeSet<String>,
    crash_before: BTreeSet<String>,
    crash_after: BTreeSet<String>,
    repeat_all: bool,
}

/// What the runner has to do at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fail as the step itself would.
    Fail,
    /// Stop where it stands: no result in the journal, no undo, as after `kill -9`.
    Crash,
}

impl Faults {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Fails the step before it does anything.
    #[must_use]
    pub fn fail_before(mut self, step: impl Into<String>) -> Self {
        self.fail_before.insert(step.into());
        self
    }

    /// Fails the step after it has done its work.
    #[must_use]
    pub fn fail_after(mut self, step: impl Into<String>) -> Self {
        self.fail_after.insert(step.into());
        self
    }

    /// Stops dead after the step's intent was written, before its work.
    #[must_use]
    pub fn crash_before(mut self, step: impl Into<String>) -> Self {
        self.crash_before.insert(step.into());
        self
    }

    /// Stops dead after the step's work, before its result was written.
    #[must_use]
    pub fn crash_after(mut self, step: impl Into<String>) -> Self {
        self.crash_after.insert(step.into());
        self
    }

    /// Does each step (and each undo) twice.
    #[must_use]
    pub fn repeat_all(mut self) -> Self {
        self.repeat_all = true;
        self
    }

    pub(crate) fn before(&self, step: &str) -> Option<Fault> {
        Self::find(&self.fail_before, &self.crash_before, step)
    }

    pub(crate) fn after(&self, step: &str) -> Option<Fault> {
        Self::find(&self.fail_after, &self.crash_after, step)
    }

    pub(crate) fn repeats(&self) -> u32 {
        if self.repeat_all { 2 } else { 1 }
    }

    fn find(fail: &BTreeSet<String>, crash: &BTreeSet<String>, step: &str) -> Option<Fault> {
        if crash.contains(step) { Some(Fault::Crash) } else { fail.contains(step).then_some(Fault::Fail) }
    }
}
