//! A durable runner of readable workflows. It knows no Kubernetes.
//!
//! Inputs: a [`Workflow`] (a list of named [`Step`]s) and what its steps share. Outputs: a stream of [`Event`]s that
//! terminals, files and tests read alike; a [`Journal`] on disk, written before and after each step; and either success
//! or a [`Failure`] which says what broke, where, and how to go on.
//!
//! | module | job |
//! |---|---|
//! | [`workflow`] | steps as a list: order, skip rule, retry, undo |
//! | [`run`] | runs them: as many at once as their order allows, undo on failure, cancellation |
//! | [`journal`] | one file an operation, intent before and result after each step |
//! | [`event`], [`stream`] | what happens, and who hears of it |
//! | [`cancel`] | once: stop at the next safe point; twice: at once |
//! | [`lock`] | one operation a cluster at a time; names its holder, frees itself when the holder is dead |
//! | [`faults`] | failures, crashes and repetitions on purpose, for tests |

pub mod cancel;
pub mod event;
pub mod failure;
pub mod faults;
pub mod journal;
pub mod lock;
pub mod run;
pub mod stream;
pub mod workflow;

pub use cancel::Cancel;
pub use event::{Event, EventKind, Level, Progress, ProgressState, StepSummary};
pub use failure::{Failure, FailureKind};
pub use faults::Faults;
pub use journal::Journal;
pub use lock::{Holder, Lock, LockError};
pub use run::{Context, Engine, Stopped};
pub use stream::{Events, Reader, Recorder};
pub use workflow::{Outcome, Retry, Step, StepResult, Workflow};
