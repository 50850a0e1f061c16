//! A workflow as a list that reads like its table of contents.
//!
//! Input: functions that do the work. Output: [`Step`]s in order, each with its skip rule, retry rule and undo. A step
//! begins when the one before it has ended, unless it names others to begin after.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::event::StepSummary;
use crate::failure::Failure;
use crate::run::Context;

/// What came of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    #[default]
    Done,
    /// It is done; this is worth saying.
    Noted(String),
    /// It turned out not to be needed.
    Skipped(String),
}

impl Outcome {
    /// Done, with a note.
    pub fn noted(note: impl Into<String>) -> Self {
        Self::Noted(note.into())
    }
}

/// What a step returns.
pub type StepResult = Result<Outcome, Failure>;

pub(crate) type Action<C> = Box<dyn Fn(Context<C>) -> Pin<Box<dyn Future<Output = StepResult>>> + Send + Sync>;
type SkipRule<C> = Box<dyn Fn(&C) -> Option<String> + Send + Sync>;

/// How often a step is tried when its failure is [`Failure::passing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all.
    pub attempts: u32,
    /// Pause between them.
    pub pause: Duration,
}

impl Retry {
    /// Once only.
    pub const NEVER: Self = Self { attempts: 1, pause: Duration::ZERO };
}

/// When a step may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// When the one before it in the list has ended.
    Previous,
    /// When all of these have ended.
    Steps(&'static [&'static str]),
}

/// One step.
pub struct Step<C> {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) skip: Option<SkipRule<C>>,
    pub(crate) does: Action<C>,
    pub(crate) undo: Option<Action<C>>,
    pub(crate) retry: Retry,
    after: After,
}

impl<C> std::fmt::Debug for Step<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.name).field("after", &self.after).finish_non_exhaustive()
    }
}

impl<C> Step<C> {
    /// A step which does this.
    pub fn new<F, Fut>(name: &'static str, title: &'static str, does: F) -> Self
    where
        F: Fn(Context<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StepResult> + 'static,
    {
        let does: Action<C> = Box::new(move |context| Box::pin(does(context)));
        Self { name, title, skip: None, does, undo: None, retry: Retry::NEVER, after: After::Previous }
    }

    /// Begins when these have ended, rather than the one before it.
    #[must_use]
    pub fn after(mut self, steps: &'static [&'static str]) -> Self {
        self.after = After::Steps(steps);
        self
    }

    /// Skipped, and shown so, when the rule gives a reason.
    #[must_use]
    pub fn skip_if(mut self, rule: impl Fn(&C) -> Option<String> + Send + Sync + 'static) -> Self {
        self.skip = Some(Box::new(rule));
        self
    }

    /// What takes its effect back when a later step (or its own end) fails; for what must not leak.
    #[must_use]
    pub fn undo<F, Fut>(mut self, undo: F) -> Self
    where
        F: Fn(Context<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = StepResult> + 'static,
    {
        self.undo = Some(Box::new(move |context| Box::pin(undo(context))));
        self
    }

    /// Tried again when its failure may pass.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

/// A named list of steps.
#[derive(Debug)]
pub struct Workflow<C> {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step<C>>,
}

impl<C> Workflow<C> {
    /// An empty list.
    pub fn new(name: &'static str) -> Self {
        Self { name, steps: Vec::new() }
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step<C>) -> Self {
        self.steps.push(step);
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The list as people see it.
    pub fn summary(&self) -> Vec<StepSummary> {
        self.steps.iter().map(|step| StepSummary { name: step.name.into(), title: step.title.into() }).collect()
    }

    /// For each step, the indexes of those it begins after. A name that does not stand earlier in the list is a mistake
    /// of the workflow, told here so that a test over all workflows catches it.
    pub fn order(&self) -> Result<Vec<Vec<usize>>, OrderError> {
        let place = |index: usize, name: &'static str| {
            self.steps[..index]
                .iter()
                .position(|step| step.name == name)
                .ok_or(OrderError { step: self.steps[index].name, after: name })
        };
        self.steps
            .iter()
            .enumerate()
            .map(|(index, step)| match step.after {
                After::Previous => Ok(index.checked_sub(1).into_iter().collect()),
                After::Steps(names) => names.iter().map(|name| place(index, name)).collect(),
            })
            .collect()
    }
}

/// A step begins after one that does not stand before it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("step `{step}` begins after `{after}`, which does not stand before it")]
pub struct OrderError {
    step: &'static str,
    after: &'static str,
}
