//! What a long piece of work says while it runs.
//!
//! Input: events of builders, importers and machine images. Output: whatever the caller's [`Progress`] makes of them.

use std::sync::mpsc;
use std::time::Duration;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The steps to come, in order; more may be planned later.
    Planned {
        /// Their names.
        steps: Vec<String>,
    },
    /// Another process holds the cache; this one waits for it.
    Waiting {
        /// Its process id, where it is known.
        holder: Option<u32>,
    },
    /// A step began.
    Started {
        /// Which.
        step: String,
    },
    /// The step at work says something: a package compiled, a file copied.
    Detail {
        /// Which step.
        step: String,
        /// What, one line.
        text: String,
    },
    /// A step's result was there already.
    Reused {
        /// Which.
        step: String,
    },
    /// A step is done.
    Finished {
        /// Which.
        step: String,
        /// How long it took.
        took: Duration,
    },
}

/// Takes events. Called from the thread that works, so it should be quick.
pub trait Progress: Sync {
    /// One event.
    fn report(&self, event: Event);
}

impl<F: Fn(Event) + Sync> Progress for F {
    fn report(&self, event: Event) {
        self(event);
    }
}

/// Drops every event.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _event: Event) {}
}

/// Runs one step between its events.
pub(crate) fn step<T, E>(progress: &dyn Progress, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    progress.report(Event::Started { step: name.to_owned() });
    let begun = std::time::Instant::now();
    let result = work()?;
    progress.report(Event::Finished { step: name.to_owned(), took: begun.elapsed() });
    Ok(result)
}

/// Reports a detail of a step.
pub(crate) fn detail(progress: &dyn Progress, step: &str, text: impl Into<String>) {
    progress.report(Event::Detail { step: step.to_owned(), text: text.into() });
}

/// Runs a step's tool on a thread of its own and reports each line it says. The thread lives as long as the tool, which
/// the kernel kills with it.
pub(crate) fn follow<E: Send>(
    progress: &dyn Progress,
    step: &str,
    work: impl FnOnce(Box<dyn FnMut(&str) + Send>) -> Result<(), E> + Send,
) -> Result<(), E> {
    let (sender, receiver) = mpsc::channel::<String>();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            work(Box::new(move |line| {
                // A receiver that is gone has nobody to tell.
                sender.send(line.to_owned()).ok();
            }))
        });
        for line in receiver {
            detail(progress, step, line);
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
