//! What is wrong with a document: all of it at once, each with its place.
//!
//! Inputs: findings of the loader, the rules and `resolve`. Outputs: text as rustc prints it, and JSON. The order is
//! that of the document, so that two runs say the same.

mod text;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document is taken, but is probably not what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A stretch of one line of a document. Lines and columns count from one, columns and widths in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column of its first character.
    pub column: usize,
    /// Characters marked.
    pub width: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// The rule it breaks, a stable word for scripts: `unknown-field`.
    pub rule: String,
    /// Field path: `spec.workers[0].count`; empty for the document as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// Said beside the mark in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// A second place that matters, and what is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<(Place, String)>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// Is it the field's name that is wrong, rather than its value?
    #[serde(skip)]
    pub on_key: bool,
    /// A second field that matters, and what is there, before its place is known.
    #[serde(skip)]
    pub other_path: Option<(String, String)>,
}

impl Problem {
    /// An error at a field.
    pub fn error(rule: &str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            rule: rule.to_owned(),
            path: path.into(),
            message: message.into(),
            label: None,
            place: None,
            other: None,
            hints: Vec::new(),
            on_key: false,
            other_path: None,
        }
    }

    /// A warning at a field.
    pub fn warning(rule: &str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, path, message) }
    }

    /// Adds the words beside the mark.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Sets where it is.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Says that the field's name is wrong, rather than its value.
    #[must_use]
    pub fn on_key(mut self) -> Self {
        self.on_key = true;
        self
    }

    /// Adds a second field that matters, and what is there.
    #[must_use]
    pub fn with(mut self, path: impl Into<String>, label: impl Into<String>) -> Self {
        self.other_path = Some((path.into(), label.into()));
        self
    }

    /// Adds a second place.
    #[must_use]
    pub fn other(mut self, place: Place, label: impl Into<String>) -> Self {
        self.other = Some((place, label.into()));
        self
    }
}

/// The text problems point into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's name as the person gave it.
    pub file: String,
    /// Its text.
    pub text: Arc<str>,
}

/// Everything that is wrong with one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    source: Option<Source>,
    list: Vec<Problem>,
}

impl Problems {
    /// None yet, in a document with a text.
    pub fn of(source: Source) -> Self {
        Self { source: Some(source), list: Vec::new() }
    }

    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.list.push(problem);
    }

    /// Is nothing wrong, not even a warning?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Is the document refused?
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// Those that refuse the document.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// Those that do not.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter().filter(|problem| problem.severity == Severity::Warning)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// Adds those of another pass over the same document.
    pub fn extend(&mut self, others: impl IntoIterator<Item = Problem>) {
        self.list.extend(others);
    }

    /// Puts them in the document's order, without repetitions.
    pub(crate) fn sorted(mut self) -> Self {
        self.list.sort_by(|one, two| key(one).cmp(&key(two)));
        self.list.dedup();
        self
    }

    /// The text they point into.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Machine-readable form.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": self.source.as_ref().map(|source| &source.file),
            "errors": self.errors().count(),
            "warnings": self.warnings().count(),
            "problems": self.list,
        })
    }
}

fn key(problem: &Problem) -> (usize, usize, Severity, &str, &str, &str) {
    let place = problem.place.map_or((usize::MAX, 0), |place| (place.line, place.column));
    (place.0, place.1, problem.severity, &problem.path, &problem.rule, &problem.message)
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self { source: None, list: problems.into_iter().collect() }.sorted()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::render(self, f)
    }
}

impl std::error::Error for Problems {}
