//! What happens during an operation: the one contract between the engine and whoever shows or keeps it.
//!
//! Inputs: steps and the engine. Outputs: values that serialise to one JSON line each (format [`Event::FORMAT`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// Format of this document: [`Event::FORMAT`].
    pub format: u32,
    /// Counts the events of one operation from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: EventKind,
}

impl Event {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum EventKind {
    /// An operation began.
    OperationStarted {
        /// `create`, `delete` …
        operation: String,
        /// What it works on.
        subject: String,
        /// Its steps in the order they are shown.
        steps: Vec<StepSummary>,
    },
    /// A step began.
    StepStarted {
        /// Its name.
        step: String,
        /// From 1; higher after a retry.
        attempt: u32,
    },
    /// What a running step does or waits for has changed.
    StepWaiting {
        /// Its name.
        step: String,
        /// For people.
        reason: String,
    },
    /// A step is done.
    StepFinished {
        /// Its name.
        step: String,
        /// How long it took, milliseconds.
        millis: u64,
        /// What came of it, for people; may be empty.
        note: String,
    },
    /// A step is not needed or not configured.
    StepSkipped {
        /// Its name.
        step: String,
        /// Why.
        reason: String,
    },
    /// A step failed.
    StepFailed {
        /// Its name.
        step: String,
        /// Which attempt.
        attempt: u32,
        /// Will it be tried again?
        again: bool,
        /// Why it failed.
        failure: Failure,
    },
    /// What a step made was taken back.
    StepUndone {
        /// Its name.
        step: String,
        /// Why undoing failed; none when it worked.
        failure: Option<Failure>,
    },
    /// What one machine (or another subject) is doing.
    Progress(Progress),
    /// Something a person should know.
    Notice {
        /// How much it matters.
        level: Level,
        /// The text.
        text: String,
    },
    /// A line of some component's log.
    Log {
        /// Which component.
        source: String,
        /// The line.
        line: String,
    },
    /// The operation is over.
    OperationFinished {
        /// How long it took, milliseconds.
        millis: u64,
        /// Why it failed; none when it succeeded.
        failure: Option<Failure>,
    },
}

/// A step as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepSummary {
    /// Its name.
    pub name: String,
    /// What it does, for people.
    pub title: String,
}

/// What one subject is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Progress {
    /// The machine or other subject.
    pub subject: String,
    /// Where it is.
    pub state: ProgressState,
    /// What it does: the part.
    pub doing: String,
    /// What it waits for, or what went wrong; may be empty.
    pub detail: String,
}

/// Where a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProgressState {
    /// Not begun.
    Pending,
    /// At work or waiting.
    Working,
    /// As wanted.
    Done,
    /// Cannot go on.
    Failed,
    /// No longer there.
    Gone,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Good to know.
    Info,
    /// Should be looked at.
    Warning,
}
