//! Exit codes (a closed list) and failures that carry one.
//!
//! Input: an error of any command. Output: the text a person reads last, and the number a script branches on.

use std::fmt::Display;

/// Every exit code Windlass uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// It worked, or there was nothing to do.
    Ok = 0,
    /// It failed; the last lines say why.
    Failed = 1,
    /// Bad usage or a bad document (`plan --detailed-exitcode`: there are changes).
    Usage = 2,
    /// No cluster, machine, bundle or volume of that name.
    NotFound = 3,
    /// Another run holds the cluster's lock.
    Locked = 4,
    /// Refused: it exists and differs, or a confirmation is missing.
    Refused = 5,
    /// This computer or a host lacks something Windlass needs.
    Ground = 6,
    /// Stopped by Ctrl-C or SIGTERM.
    Interrupted = 130,
}

impl Code {
    /// Every code, in order.
    pub(crate) const ALL: [Self; 8] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Locked,
        Self::Refused,
        Self::Ground,
        Self::Interrupted,
    ];

    /// What it tells a script, for the reference page.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "It worked, or there was nothing to do.",
            Self::Failed => "It failed; the last lines say why. `plan --detailed-exitcode`: any error.",
            Self::Usage => "Bad usage or a bad document. `plan --detailed-exitcode`: there are changes.",
            Self::NotFound => "No cluster, machine, bundle or volume of that name.",
            Self::Locked => "Another run holds the cluster's lock.",
            Self::Refused => "Refused: it exists and differs, or a confirmation is missing.",
            Self::Ground => "This computer or a host lacks something Windlass needs.",
            Self::Interrupted => "Stopped by Ctrl-C or SIGTERM.",
        }
    }
}

impl From<Code> for std::process::ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error at the edge: what went wrong, how to go on, which code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    error: anyhow::Error,
    hints: Vec<String>,
}

impl Failure {
    /// A failure of this code.
    pub(crate) fn new(code: Code, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into(), hints: Vec::new() }
    }

    /// The same failure under another code.
    #[must_use]
    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Prints the chain of causes and the hints to standard error.
    pub(crate) fn print(&self) {
        eprintln!("error: {}", self.error);
        for cause in self.error.chain().skip(1) {
            eprintln!("  cause: {cause}");
        }
        for hint in &self.hints {
            eprintln!("hint: {hint}");
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(Code::Failed, error)
    }
}

/// What a command returns.
pub(crate) type Outcome = Result<Code, Failure>;
