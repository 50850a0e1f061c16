//! One file an operation: what was meant before each step, what came of it after.
//!
//! Input: the engine's decisions. Output: JSON lines, each synced to disk before the work goes on, so that whatever kills
//! the process leaves a true record. Format [`Header::FORMAT`]; a torn last line is ignored.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// Format of the file: [`Header::FORMAT`].
    pub format: u32,
    /// `create`, `delete` …
    pub operation: String,
    /// What it works on.
    pub subject: String,
    /// The version that writes it.
    pub version: String,
    /// When it began.
    pub at: Timestamp,
    /// Facts a later run needs to take the operation up or clean up after it: identities, a hash of the input.
    pub facts: BTreeMap<String, String>,
    /// Its steps in order.
    pub steps: Vec<String>,
}

impl Header {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;
}

/// Every further line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub entry: EntryKind,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum EntryKind {
    /// A step is about to run.
    Intent {
        /// Its name.
        step: String,
        /// Which attempt.
        attempt: u32,
    },
    /// It succeeded.
    Done {
        /// Its name.
        step: String,
        /// What came of it.
        note: String,
    },
    /// It was skipped.
    Skipped {
        /// Its name.
        step: String,
        /// Why.
        reason: String,
    },
    /// It failed.
    Failed {
        /// Its name.
        step: String,
        /// Why.
        failure: Failure,
    },
    /// It is about to be undone.
    Undoing {
        /// Its name.
        step: String,
    },
    /// It was undone.
    Undone {
        /// Its name.
        step: String,
        /// Why undoing failed; none when it worked.
        failure: Option<Failure>,
    },
    /// The operation is over.
    Ended {
        /// Why it failed; none when it succeeded.
        failure: Option<Failure>,
    },
}

/// Why a journal could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Writing failed.
    #[error("failed to write the journal `{path}`")]
    Write {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Reading failed.
    #[error("failed to read the journal `{path}`")]
    Read {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is not understood.
    #[error("line {line} of the journal `{path}` is not understood")]
    Line {
        /// The file.
        path: Utf8PathBuf,
        /// From 1.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It was written by another version.
    #[error("the journal `{path}` has format {format}; this build reads up to {}", Header::FORMAT)]
    Format {
        /// The file.
        path: Utf8PathBuf,
        /// Its format.
        format: u32,
    },
}

/// A journal being written.
#[derive(Debug)]
pub struct Journal {
    path: Utf8PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Begins a journal in `folder`, named by time and operation. Mode 0600.
    pub fn begin(folder: &Utf8Path, header: &Header) -> Result<Self, JournalError> {
        use std::os::unix::fs::OpenOptionsExt;
        let stamp = header.at.strftime("%Y%m%dT%H%M%S%.6fZ");
        let path = folder.join(format!("{stamp}-{}.jsonl", header.operation));
        let failed = |source| JournalError::Write { path: path.clone(), source };
        fs_err::create_dir_all(folder).map_err(failed)?;
        let file = File::options().create_new(true).append(true).mode(0o600).open(&path).map_err(failed)?;
        let journal = Self { path, file: Mutex::new(file) };
        journal.line(header)?;
        // The name must survive a power cut too.
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
        Ok(journal)
    }

    /// Where it lies.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Adds an entry and waits until it is on disk.
    pub fn write(&self, entry: EntryKind) -> Result<(), JournalError> {
        self.line(&Entry { at: Timestamp::now(), entry })
    }

    fn line(&self, value: &impl Serialize) -> Result<(), JournalError> {
        let failed = |source| JournalError::Write { path: self.path.clone(), source };
        let mut text = serde_json::to_string(value).map_err(|error| failed(error.into()))?;
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)
    }
}

/// Where a step stands according to a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Its intent is written, its result is not: it may have happened or not.
    Unknown,
    /// Done.
    Done,
    /// Skipped.
    Skipped,
    /// Failed.
    Failed(Failure),
    /// Undone.
    Undone,
}

/// What a journal tells of its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The first line.
    pub header: Header,
    /// Each step that was touched.
    pub steps: BTreeMap<String, StepState>,
    /// How it ended: not (`None`), well (`Some(None)`), or with a failure.
    pub ended: Option<Option<Failure>>,
}

impl Record {
    /// Reads a journal.
    pub fn read(path: &Utf8Path) -> Result<Self, JournalError> {
        let text =
            fs_err::read_to_string(path).map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// The newest journal in `folder`, if there is one.
    pub fn newest(folder: &Utf8Path) -> Result<Option<Self>, JournalError> {
        let Ok(entries) = folder.read_dir_utf8() else { return Ok(None) };
        let newest = entries
            .flatten()
            .map(|entry| entry.path().to_owned())
            .filter(|path| path.extension() == Some("jsonl"))
            .max();
        newest.map(|path| Self::read(&path)).transpose()
    }

    fn parse(path: &Utf8Path, text: &str) -> Result<Self, JournalError> {
        let not_understood = |line, source| JournalError::Line { path: path.to_owned(), line, source };
        let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = complete.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let header: Header = serde_json::from_str(first).map_err(|source| not_understood(1, source))?;
        if header.format > Header::FORMAT {
            return Err(JournalError::Format { path: path.to_owned(), format: header.format });
        }
        let mut record = Self { header, steps: BTreeMap::new(), ended: None };
        for (index, line) in lines {
            let entry: Entry = serde_json::from_str(line).map_err(|source| not_understood(index + 1, source))?;
            record.take(entry.entry);
        }
        Ok(record)
    }

    fn take(&mut self, entry: EntryKind) {
        let (step, state) = match entry {
            EntryKind::Intent { step, .. } | EntryKind::Undoing { step } => (step, StepState::Unknown),
            EntryKind::Done { step, .. } => (step, StepState::Done),
            EntryKind::Skipped { step, .. } => (step, StepState::Skipped),
            EntryKind::Failed { step, failure } => (step, StepState::Failed(failure)),
            EntryKind::Undone { step, failure: None } => (step, StepState::Undone),
            EntryKind::Undone { step, failure: Some(failure) } => (step, StepState::Failed(failure)),
            EntryKind::Ended { failure } => {
                self.ended = Some(failure);
                return;
            }
        };
        self.steps.insert(step, state);
    }

    /// Did the operation end well?
    pub fn succeeded(&self) -> bool {
        self.ended == Some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal of format 1 as it was first written. Never edited: later builds must read it.
    const FORMAT_1: &str = include_str!("../tests/fixtures/journal-1.jsonl");

    #[test]
    fn the_first_format_is_still_read() {
        let record = Record::parse("journal-1.jsonl".into(), FORMAT_1).expect("understood");
        assert_eq!(record.header.operation, "create");
        assert_eq!(record.header.facts["clusterId"], "0123456789abcdef");
        assert_eq!(record.steps["bundle"], StepState::Done);
        assert_eq!(record.steps["gitops"], StepState::Skipped);
        assert_eq!(record.steps["pivot"], StepState::Unknown);
        assert!(matches!(&record.steps["plane"], StepState::Undone));
        assert_eq!(record.ended, None);
    }

    #[test]
    fn a_torn_last_line_is_ignored_and_a_torn_middle_one_is_not() {
        let torn = &FORMAT_1[..FORMAT_1.len() - 10];
        assert!(Record::parse("torn".into(), torn).is_ok());
        let broken = FORMAT_1.replacen("\"at\"", "at", 2);
        assert!(Record::parse("broken".into(), &broken).is_err());
    }

    #[test]
    fn a_newer_format_is_refused() {
        let newer = FORMAT_1.replacen("\"format\":1", "\"format\":2", 1);
        assert!(matches!(Record::parse("newer".into(), &newer), Err(JournalError::Format { format: 2, .. })));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().expect("folder");
        let folder = Utf8Path::from_path(dir.path()).expect("utf-8").join("journal");
        let header = Header {
            format: Header::FORMAT,
            operation: "create".into(),
            subject: "lab".into(),
            version: "0.1.0".into(),
            at: Timestamp::now(),
            facts: BTreeMap::new(),
            steps: vec!["one".into(), "two".into()],
        };
        let journal = Journal::begin(&folder, &header).expect("begun");
        journal.write(EntryKind::Intent { step: "one".into(), attempt: 1 }).expect("written");
        journal.write(EntryKind::Done { step: "one".into(), note: String::new() }).expect("written");
        journal.write(EntryKind::Ended { failure: None }).expect("written");
        let record = Record::newest(&folder).expect("read").expect("there");
        assert!(record.succeeded());
        assert_eq!(record.header, header);
        assert_eq!(record.steps["one"], StepState::Done);
    }
}
