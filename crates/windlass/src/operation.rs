//! Runs a workflow for a command: lock, journal, readers, signals, the controllers' log; and turns its failure into the
//! last lines and an exit code.
//!
//! Inputs: a workflow and what its steps share. Output: success or a [`Failure`] for the edge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use windlass_engine::cancel::Urgency;
use windlass_engine::journal::Header;
use windlass_engine::{
    Cancel, Engine, EventKind, Events, Failure as Broken, FailureKind, Faults, Journal, Lock, LockError, Workflow,
};
use windlass_providers::local::Client;
use windlass_workflows::folder::{Pointer, Registry};
use windlass_workflows::newer::{self, NewerWindlass};
use windlass_workflows::site::Site;

use crate::exit::{Code, Failure};
use crate::local;
use crate::progress::{self, Show};

/// This Windlass's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// This computer, with the local provider running.
pub(crate) async fn site() -> Result<Site, Failure> {
    let paths = local::paths()?;
    let provider = Arc::new(local::client(&paths).await?);
    Ok(Site {
        state: utf8(paths.state())?,
        cache: utf8(paths.cache())?,
        run: utf8(paths.run())?,
        provider,
        version: VERSION.to_owned(),
    })
}

/// The state folder.
pub(crate) fn state() -> Result<Utf8PathBuf, Failure> {
    utf8(local::paths()?.state())
}

/// The clusters this computer knows; asks no daemon.
pub(crate) fn registry() -> Result<Registry, Failure> {
    Ok(Registry::new(&state()?))
}

/// The local provider, if it runs: for looking, not for acting.
pub(crate) async fn running() -> Result<Option<Client>, Failure> {
    let client = Client::socket(local::paths()?);
    Ok(client.hello().await.is_ok().then_some(client))
}

/// What is known of a cluster; an error of its own code when nothing is.
pub(crate) fn known(name: &str) -> Result<Pointer, Failure> {
    registry()?.find(name)?.ok_or_else(|| unknown(name))
}

/// Refuses to touch a cluster that a newer Windlass made, as far as this computer knows.
pub(crate) fn check_version(pointer: &Pointer) -> Result<(), Failure> {
    newer::check(&pointer.scope.cluster, &pointer.version, VERSION).map_err(keeps_off)
}

/// The refusal to touch a newer Windlass's cluster.
pub(crate) fn keeps_off(refusal: NewerWindlass) -> Failure {
    let hint = format!("use Windlass {} or a later one", refusal.noted);
    Failure::new(Code::Refused, refusal).hint(hint)
}

/// No cluster of that name.
pub(crate) fn unknown(name: &str) -> Failure {
    Failure::new(Code::NotFound, anyhow::anyhow!("no cluster `{name}` is known on this computer"))
        .hint("windlass get clusters")
}

/// A path as text.
pub(crate) fn utf8(path: &std::path::Path) -> Result<Utf8PathBuf, Failure> {
    Ok(Utf8PathBuf::from_path_buf(path.to_owned())
        .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))?)
}

/// Takes a cluster's lock.
pub(crate) fn lock(path: &Utf8Path, purpose: &str) -> Result<Lock, Failure> {
    Lock::take(path, purpose).map_err(|error| match error {
        LockError::Held { .. } => {
            Failure::new(Code::Locked, error).hint("wait for its end, or stop it with Ctrl-C there")
        }
        LockError::File { .. } => error.into(),
    })
}

/// Where an operation keeps its record.
pub(crate) struct Record<'a> {
    /// Folder of journals.
    pub(crate) journal: &'a Utf8Path,
    /// Folder of logs.
    pub(crate) logs: &'a Utf8Path,
    /// What it works on.
    pub(crate) subject: &'a str,
    /// Facts for later runs.
    pub(crate) facts: std::collections::BTreeMap<String, String>,
}

/// Runs the workflow to its end.
pub(crate) async fn run<C: Send + Sync + 'static>(
    workflow: &Workflow<C>,
    shared: Arc<C>,
    record: Record<'_>,
    show: Show,
) -> Result<(), Broken> {
    let failed = |error: anyhow::Error| Broken::failed(format!("{error:#}"));
    keep_log(record.logs).map_err(failed)?;
    let events = Events::new();
    progress::attach(&events, show);
    let header = Header {
        format: Header::FORMAT,
        operation: workflow.name().to_owned(),
        subject: record.subject.to_owned(),
        version: VERSION.to_owned(),
        at: Timestamp::now(),
        facts: record.facts,
        steps: workflow.summary().into_iter().map(|step| step.name).collect(),
    };
    let journal = Journal::begin(record.journal, &header).map_err(|error| failed(error.into()))?;
    let cancel = Cancel::new();
    listen(cancel.clone(), events.clone()).map_err(failed)?;
    events.send(EventKind::OperationStarted {
        operation: workflow.name().to_owned(),
        subject: record.subject.to_owned(),
        steps: workflow.summary(),
    });
    let engine = Engine { events, journal, cancel, faults: Faults::none() };
    engine.run(workflow, shared).await.map_err(|stopped| stopped.failure())
}

/// Ctrl-C or SIGTERM: once, stop at the next safe point; twice, at once; a third time, without any clean-up.
fn listen(cancel: Cancel, events: Events) -> Result<(), anyhow::Error> {
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    tokio::spawn(async move {
        let urgent = AtomicBool::new(false);
        loop {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            if urgent.load(Ordering::Relaxed) {
                std::process::exit(Code::Interrupted as i32);
            }
            match cancel.ask() {
                Urgency::Run | Urgency::SafePoint => {
                    events.warning("stopping at the next safe point (Ctrl-C once more: at once)");
                }
                Urgency::AtOnce => {
                    events.warning("stopping at once");
                    urgent.store(true, Ordering::Relaxed);
                }
            }
        }
    });
    Ok(())
}

/// What this process's controllers and libraries log goes to a file, not between the lines of progress.
fn keep_log(folder: &Utf8Path) -> Result<(), anyhow::Error> {
    use tracing_subscriber::EnvFilter;
    fs_err::create_dir_all(folder)?;
    let file = fs_err::OpenOptions::new().create(true).append(true).open(folder.join("controllers.log"))?;
    let filter = EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(file.into_parts().0))
        .finish();
    // Set before by a command of the same process: that one stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// The failure as a person reads it last.
pub(crate) fn explain(broken: &Broken) -> Failure {
    let failure = Failure::new(code(broken.kind), anyhow::anyhow!(text(broken)));
    broken.next.iter().fold(failure, |failure, next| failure.hint(next))
}

/// What went wrong, where, why, the component's own last words, what is left behind.
fn text(broken: &Broken) -> String {
    let mut lines = vec![broken.message.clone()];
    lines.extend(broken.machine.iter().map(|machine| format!("  machine: {machine}")));
    lines.extend(broken.part.iter().map(|part| format!("  part: {part}")));
    lines.extend(broken.causes.iter().map(|cause| format!("  cause: {}", cause.replace('\n', "\n    "))));
    if !broken.log.is_empty() {
        lines.push("  last lines:".to_owned());
        lines.extend(broken.log.iter().map(|line| format!("    | {line}")));
    }
    lines.extend(broken.left_behind.iter().map(|left| format!("  left behind: {left}")));
    lines.join("\n")
}

fn code(kind: FailureKind) -> Code {
    match kind {
        FailureKind::Failed => Code::Failed,
        FailureKind::Usage => Code::Usage,
        FailureKind::NotFound => Code::NotFound,
        FailureKind::Refused => Code::Refused,
        FailureKind::Ground => Code::Ground,
        FailureKind::Interrupted => Code::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_say_where_why_what_is_left_and_how_to_go_on() {
        let broken = Broken::failed("kube-apiserver failed on machine lab-cp-a")
            .on("lab-cp-a")
            .part("kube-apiserver")
            .cause("its container exits with code 1, for the 2nd time")
            .log(["Error: unknown flag: --nonsense".to_owned()])
            .leaves("machine lab-cp-a")
            .next("windlass delete cluster lab --yes");
        insta::assert_snapshot!(text(&broken), @r"
        kube-apiserver failed on machine lab-cp-a
          machine: lab-cp-a
          part: kube-apiserver
          cause: its container exits with code 1, for the 2nd time
          last lines:
            | Error: unknown flag: --nonsense
          left behind: machine lab-cp-a
        ");
        assert_eq!(explain(&broken).code, Code::Failed);
        assert_eq!(explain(&Broken::interrupted()).code, Code::Interrupted);
    }
}
