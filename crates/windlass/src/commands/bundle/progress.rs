//! Steps of a build on standard error: a line with a clock on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use windlass_assets::{Event, Progress};

/// Shows the steps of one piece of work.
#[derive(Debug)]
pub(crate) struct Steps {
    bar: Option<ProgressBar>,
    planned: Mutex<Vec<String>>,
}

impl Steps {
    /// For standard error as it is.
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed:>4} {wide_msg:.dim}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, planned: Mutex::new(Vec::new()) }
    }

    /// `[3/27] kubelet`, or the name alone when it was not planned.
    fn label(&self, step: &str) -> String {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        match planned.iter().position(|name| name == step) {
            Some(at) => format!("[{}/{}] {step}", at + 1, planned.len()),
            None => step.to_owned(),
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    fn begin(&self, step: &str) {
        let label = self.label(step);
        match &self.bar {
            Some(bar) => {
                bar.reset_elapsed();
                bar.set_prefix(label);
                bar.set_message("");
                bar.enable_steady_tick(Duration::from_millis(100));
            }
            None => eprintln!("{label} …"),
        }
    }
}

impl Progress for Steps {
    fn report(&self, event: Event) {
        match event {
            Event::Planned { steps } => *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = steps,
            Event::Waiting { holder } => {
                let who = holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                self.line(&format!("waiting for {who}, which is changing the cache"));
            }
            Event::Started { step } => self.begin(&step),
            Event::Detail { text, .. } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(text);
                }
            }
            Event::Reused { step } => self.line(&format!("{} is there", self.label(&step))),
            Event::Finished { step, took } => {
                self.line(&format!("{} took {:.1} s", self.label(&step), took.as_secs_f64()));
            }
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
