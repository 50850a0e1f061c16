//! Faults for the twin: which call fails, how, how often.
//!
//! Input: a test's wishes. Output: for each call, whether it fails.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::ports::ProviderError;

/// An operation of [`crate::ports::Provider`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the methods of the trait")]
pub enum Operation {
    Facts,
    Preflight,
    EnsureNetwork,
    Reserve,
    EnsureVolume,
    EnsureMachine,
    PutConfig,
    DeleteMachine,
    DeleteVolume,
    DeleteNetwork,
    Inventory,
    Watch,
    Credential,
}

/// How a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was done.
    Before(ProviderError),
    /// It was done, the answer was lost.
    After(ProviderError),
    /// It is done after this time.
    Slow(Duration),
    /// It never returns.
    Hang,
}

/// Faults to come and calls seen.
#[derive(Debug, Default)]
pub struct Faults {
    waiting: BTreeMap<Operation, VecDeque<Fault>>,
    calls: Vec<Operation>,
}

impl Faults {
    /// Makes the next `times` calls fail.
    pub fn inject(&mut self, operation: Operation, fault: Fault, times: usize) {
        self.waiting.entry(operation).or_default().extend(std::iter::repeat_n(fault, times));
    }

    /// Every call so far.
    pub fn calls(&self) -> &[Operation] {
        &self.calls
    }

    /// Notes a call and says how it fails.
    pub fn enter(&mut self, operation: Operation) -> Option<Fault> {
        self.calls.push(operation);
        self.waiting.get_mut(&operation)?.pop_front()
    }
}
