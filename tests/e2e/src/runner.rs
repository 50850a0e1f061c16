//! Scenarios and checks.
//!
//! A scenario makes something expensive once and asks several questions of it. Each question is a named check; one that
//! fails does not keep the next from being asked. Output: a line a check, then `N passed, N failed`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use anyhow::{Result, anyhow};

/// What a run found.
#[derive(Debug, Default)]
pub struct Runner {
    filters: Vec<String>,
    scenario: String,
    passed: u32,
    failed: Vec<String>,
}

impl Runner {
    /// A runner for the scenarios whose name contains one of the arguments (all, without any).
    pub fn from_arguments() -> Self {
        let filters = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        Self { filters, ..Self::default() }
    }

    /// Runs a scenario. When it ends with an error, that counts as a failed check named `scenario`.
    pub fn scenario(&mut self, name: &str, run: impl FnOnce(&mut Self) -> Result<()>) {
        if !self.filters.is_empty() && !self.filters.iter().any(|filter| name.contains(filter.as_str())) {
            return;
        }
        name.clone_into(&mut self.scenario);
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| run(self)));
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => anyhow!("panicked: {}", words(&*panic)),
        };
        self.fail("scenario", &error, started);
    }

    /// Asks one question; the answer `Err` is a failed test, and the scenario goes on. True when it passed.
    pub fn check(&mut self, name: &str, ask: impl FnOnce() -> Result<()>) -> bool {
        let started = Instant::now();
        match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(())) => {
                self.passed += 1;
                println!("test {}::{name} ... ok ({:.1} s)", self.scenario, started.elapsed().as_secs_f32());
                true
            }
            Ok(Err(error)) => self.fail(name, &error, started),
            Err(panic) => self.fail(name, &anyhow!("panicked: {}", words(&*panic)), started),
        }
    }

    fn fail(&mut self, name: &str, error: &anyhow::Error, started: Instant) -> bool {
        let name = format!("{}::{name}", self.scenario);
        println!("test {name} ... FAILED ({:.1} s)", started.elapsed().as_secs_f32());
        println!("---- {name}\n{error:?}\n----");
        self.failed.push(name);
        false
    }

    /// Prints the count; the exit code is truthful, also when nothing ran.
    pub fn finish(self) -> std::process::ExitCode {
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if self.failed.is_empty() && self.passed > 0 { 0.into() } else { 1.into() }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
