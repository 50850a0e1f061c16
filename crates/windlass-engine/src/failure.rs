//! Why a step did not succeed, complete enough to be the last thing a person reads.
//!
//! Input: a typed error of a library, or a state found in a report. Output: a value that goes into the journal, the
//! event stream and the last lines on the terminal.

use std::error::Error;

use serde::{Deserialize, Serialize};

/// What sort of failure it is; the command line maps each to an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// It was tried and went wrong.
    Failed,
    /// The input is wrong.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// Refused: it exists and differs, or a confirmation is missing.
    Refused,
    /// The ground lacks something.
    Ground,
    /// Stopped on request.
    Interrupted,
}

/// A failure with its place, causes, evidence and the way on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// What sort.
    pub kind: FailureKind,
    /// What went wrong, in one sentence.
    pub message: String,
    /// The chain of causes below it.
    pub causes: Vec<String>,
    /// The machine it happened on.
    pub machine: Option<String>,
    /// The part or component that failed.
    pub part: Option<String>,
    /// The component's own last log lines.
    pub log: Vec<String>,
    /// What is left behind.
    pub left_behind: Vec<String>,
    /// How to go on: commands or advice.
    pub next: Vec<String>,
    /// May the same thing succeed when tried again soon?
    pub passing: bool,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            causes: Vec::new(),
            machine: None,
            part: None,
            log: Vec::new(),
            left_behind: Vec::new(),
            next: Vec::new(),
            passing: false,
        }
    }

    /// Something that was tried and went wrong.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// Refused before anything was changed.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, message)
    }

    /// Stopped on request.
    pub fn interrupted() -> Self {
        Self::new(FailureKind::Interrupted, "stopped on request")
    }

    /// An operation that failed with this error; the error's chain becomes the causes.
    pub fn from_error(operation: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::failed(operation);
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their source in their own text.
            if !failure.causes.iter().any(|said| said.contains(&text)) {
                failure.causes.push(text);
            }
            cause = error.source();
        }
        failure
    }

    /// Names the machine.
    #[must_use]
    pub fn on(mut self, machine: impl Into<String>) -> Self {
        self.machine = Some(machine.into());
        self
    }

    /// Names the part or component.
    #[must_use]
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.part = Some(part.into());
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds log lines of the component.
    #[must_use]
    pub fn log(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.log.extend(lines);
        self
    }

    /// Adds something that is left behind.
    #[must_use]
    pub fn leaves(mut self, what: impl Into<String>) -> Self {
        self.left_behind.push(what.into());
        self
    }

    /// Adds a way on.
    #[must_use]
    pub fn next(mut self, advice: impl Into<String>) -> Self {
        self.next.push(advice.into());
        self
    }

    /// Marks it as worth trying again.
    #[must_use]
    pub fn passing(mut self) -> Self {
        self.passing = true;
        self
    }
}

/// Turns a library's error into a [`Failure`] with the operation it broke.
pub trait OrFail<T> {
    /// The value, or a failure of this operation.
    fn or_fail(self, operation: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Error + 'static> OrFail<T> for Result<T, E> {
    fn or_fail(self, operation: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure::from_error(operation, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_chain_of_causes_is_kept_in_order() {
        let error = Outer(std::io::Error::other("inner"));
        assert_eq!(Failure::from_error("failed to do it", &error).causes, ["outer", "inner"]);
    }
}
