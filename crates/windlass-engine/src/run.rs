//! Runs a workflow: as many steps at once as their order allows, journal and events around each, undo after a failure.
//!
//! Inputs: a [`Workflow`], what its steps share, an [`Engine`] with stream, journal, cancel switch and faults. Output:
//! success, or [`Stopped`] with the first failure after everything marked for undo was taken back.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;

use crate::cancel::{Cancel, Urgency};
use crate::event::{EventKind, Progress};
use crate::failure::Failure;
use crate::faults::{Fault, Faults};
use crate::journal::{EntryKind, Journal, JournalError};
use crate::stream::Events;
use crate::workflow::{Action, OrderError, Outcome, Step, StepResult, Workflow};

/// What a step is given: everything the workflow shares (by dereference), and its line to the outside.
pub struct Context<C> {
    shared: Arc<C>,
    step: &'static str,
    events: Events,
    cancel: Cancel,
}

impl<C> Clone for Context<C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            step: self.step,
            events: self.events.clone(),
            cancel: self.cancel.clone(),
        }
    }
}

impl<C> std::fmt::Debug for Context<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("step", &self.step).finish_non_exhaustive()
    }
}

impl<C> Deref for Context<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.shared
    }
}

impl<C> Context<C> {
    /// What the steps share.
    pub fn shared(&self) -> &Arc<C> {
        &self.shared
    }

    /// The stream.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The switch by which a stop is asked for.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Says what the step does or waits for.
    pub fn waiting(&self, reason: impl Into<String>) {
        self.events.send(EventKind::StepWaiting { step: self.step.into(), reason: reason.into() });
    }

    /// Says what a machine does.
    pub fn progress(&self, progress: Progress) {
        self.events.progress(progress);
    }

    /// A safe point: fails when a stop was asked for.
    pub fn safe_point(&self) -> Result<(), Failure> {
        if self.cancel.asked() { Err(Failure::interrupted()) } else { Ok(()) }
    }

    /// A safe point which lasts: waits this long, or fails as soon as a stop is asked for.
    pub async fn pause(&self, time: Duration) -> Result<(), Failure> {
        self.interruptible(async {
            tokio::time::sleep(time).await;
            Ok(())
        })
        .await
    }

    /// Runs something that may be dropped at any of its waits when a stop is asked for.
    pub async fn interruptible<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.cancel.reached(Urgency::SafePoint) => Err(Failure::interrupted()),
            done = work => done,
        }
    }
}

/// Why a workflow did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A step failed, or a stop was asked for.
    #[error("step `{step}` failed")]
    Step {
        /// The step; where a stop was asked for, the one that was next.
        step: &'static str,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A crash was staged.
    #[error("crashed on purpose at step `{step}`")]
    Crashed {
        /// Where.
        step: &'static str,
    },
    /// The journal could not be written: the work stops rather than go on unrecorded.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The workflow contradicts itself.
    #[error(transparent)]
    Order(#[from] OrderError),
}

impl Stopped {
    /// The failure to show.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Step { failure, .. } => failure.clone(),
            other => Failure::from_error("the operation stopped", other),
        }
    }
}

/// Runs workflows.
#[derive(Debug)]
pub struct Engine {
    /// Who is told.
    pub events: Events,
    /// What is kept.
    pub journal: Journal,
    /// How it is stopped.
    pub cancel: Cancel,
    /// What goes wrong on purpose.
    pub faults: Faults,
}

/// How one step ended.
enum End {
    Done,
    Skipped,
    Failed(Failure),
    Crashed,
    Journal(JournalError),
}

impl Engine {
    /// Runs the workflow to its end, or to its first failure and back through the undo of what was done.
    pub async fn run<C: Send + Sync + 'static>(&self, workflow: &Workflow<C>, shared: Arc<C>) -> Result<(), Stopped> {
        let begun = Instant::now();
        let order = workflow.order()?;
        let result = self.forward(workflow, &order, &shared).await;
        if let Err(stopped @ Stopped::Crashed { .. }) = result {
            return Err(stopped);
        }
        let failure = result.as_ref().err().map(Stopped::failure);
        self.journal.write(EntryKind::Ended { failure: failure.clone() })?;
        self.events.send(EventKind::OperationFinished { millis: millis(begun), failure });
        result
    }

    async fn forward<C: Send + Sync + 'static>(
        &self,
        workflow: &Workflow<C>,
        order: &[Vec<usize>],
        shared: &Arc<C>,
    ) -> Result<(), Stopped> {
        let count = workflow.steps.len();
        let mut begun = vec![false; count];
        let mut ended = vec![false; count];
        let mut touched: Vec<usize> = Vec::new();
        let mut running: FuturesUnordered<LocalBoxFuture<'_, (usize, End)>> = FuturesUnordered::new();
        loop {
            for index in 0..count {
                let ready = !begun[index] && order[index].iter().all(|&before| ended[before]);
                if ready && !self.cancel.asked() {
                    begun[index] = true;
                    touched.push(index);
                    let step = &workflow.steps[index];
                    let context = self.context(step, shared);
                    running.push(Box::pin(async move { (index, self.step(step, context).await) }));
                }
            }
            let next = tokio::select! {
                next = running.next() => next,
                () = self.cancel.reached(Urgency::AtOnce), if !running.is_empty() => None,
            };
            let stopped = match next {
                Some((index, End::Done)) => {
                    ended[index] = true;
                    continue;
                }
                Some((index, End::Skipped)) => {
                    ended[index] = true;
                    touched.retain(|&other| other != index);
                    continue;
                }
                Some((index, End::Failed(failure))) => Stopped::Step { step: workflow.steps[index].name, failure },
                Some((index, End::Crashed)) => return Err(Stopped::Crashed { step: workflow.steps[index].name }),
                Some((_, End::Journal(error))) => return Err(error.into()),
                None => match begun.iter().zip(&ended).position(|(_, ended)| !ended) {
                    None => return Ok(()),
                    Some(index) => Stopped::Step { step: workflow.steps[index].name, failure: Failure::interrupted() },
                },
            };
            // Whatever still runs is dropped where it stands: a step must bear that, as it must bear `kill -9`.
            running.clear();
            drop(running);
            self.back(workflow, &touched, shared).await?;
            return Err(stopped);
        }
    }

    fn context<C>(&self, step: &Step<C>, shared: &Arc<C>) -> Context<C> {
        Context {
            shared: Arc::clone(shared),
            step: step.name,
            events: self.events.clone(),
            cancel: self.cancel.clone(),
        }
    }

    async fn step<C: Send + Sync + 'static>(&self, step: &Step<C>, context: Context<C>) -> End {
        match self.attempts(step, context).await {
            Ok(end) => end,
            Err(error) => End::Journal(error),
        }
    }

    async fn attempts<C: Send + Sync + 'static>(
        &self,
        step: &Step<C>,
        context: Context<C>,
    ) -> Result<End, JournalError> {
        if let Some(reason) = step.skip.as_ref().and_then(|rule| rule(&context)) {
            self.skipped(step.name, reason)?;
            return Ok(End::Skipped);
        }
        let mut attempt = 1;
        loop {
            let begun = Instant::now();
            self.journal.write(EntryKind::Intent { step: step.name.into(), attempt })?;
            self.events.send(EventKind::StepStarted { step: step.name.into(), attempt });
            let Some(result) = self.once(step, &context).await else { return Ok(End::Crashed) };
            match result {
                Ok(Outcome::Skipped(reason)) => {
                    self.skipped(step.name, reason)?;
                    return Ok(End::Skipped);
                }
                Ok(outcome) => {
                    let note = if let Outcome::Noted(note) = outcome { note } else { String::new() };
                    self.journal.write(EntryKind::Done { step: step.name.into(), note: note.clone() })?;
                    let step = step.name.to_owned();
                    self.events.send(EventKind::StepFinished { step, millis: millis(begun), note });
                    return Ok(End::Done);
                }
                Err(failure) => {
                    let again = failure.passing && attempt < step.retry.attempts && !self.cancel.asked();
                    self.failed(step.name, attempt, again, &failure)?;
                    if !again {
                        return Ok(End::Failed(failure));
                    }
                    attempt += 1;
                    tokio::time::sleep(step.retry.pause).await;
                }
            }
        }
    }

    /// One attempt with the faults asked for; none: crashed.
    async fn once<C: Send + Sync + 'static>(&self, step: &Step<C>, context: &Context<C>) -> Option<StepResult> {
        let staged = || Some(Err(Failure::failed("failed on purpose")));
        match self.faults.before(step.name) {
            Some(Fault::Fail) => return staged(),
            Some(Fault::Crash) => return None,
            None => {}
        }
        let result = self.repeated(&step.does, context).await;
        match (self.faults.after(step.name), &result) {
            (Some(Fault::Fail), Ok(_)) => staged(),
            (Some(Fault::Crash), _) => None,
            _ => Some(result),
        }
    }

    async fn repeated<C>(&self, action: &Action<C>, context: &Context<C>) -> StepResult {
        let mut result = action(context.clone()).await;
        for _ in 1..self.faults.repeats() {
            result = match result {
                Ok(_) => action(context.clone()).await,
                failed => return failed,
            };
        }
        result
    }

    fn skipped(&self, step: &'static str, reason: String) -> Result<(), JournalError> {
        self.journal.write(EntryKind::Skipped { step: step.into(), reason: reason.clone() })?;
        self.events.send(EventKind::StepSkipped { step: step.into(), reason });
        Ok(())
    }

    fn failed(&self, step: &'static str, attempt: u32, again: bool, failure: &Failure) -> Result<(), JournalError> {
        self.journal.write(EntryKind::Failed { step: step.into(), failure: failure.clone() })?;
        self.events.send(EventKind::StepFailed { step: step.into(), attempt, again, failure: failure.clone() });
        Ok(())
    }

    /// Undoes what was begun, last first. An undo that fails is told and does not stop the others.
    async fn back<C: Send + Sync + 'static>(
        &self,
        workflow: &Workflow<C>,
        touched: &[usize],
        shared: &Arc<C>,
    ) -> Result<(), JournalError> {
        for step in touched.iter().rev().map(|&index| &workflow.steps[index]) {
            let Some(undo) = &step.undo else { continue };
            self.journal.write(EntryKind::Undoing { step: step.name.into() })?;
            let failure = self.repeated(undo, &self.context(step, shared)).await.err();
            self.journal.write(EntryKind::Undone { step: step.name.into(), failure: failure.clone() })?;
            self.events.send(EventKind::StepUndone { step: step.name.into(), failure });
        }
        Ok(())
    }
}

fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
