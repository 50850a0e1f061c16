//! Child processes that cannot outlive this one.
//!
//! Input: a program and its arguments. Output: a running child with its log in a file. The kernel kills it when the
//! *thread* that made it ends (`PR_SET_PDEATHSIG`), so each child has a thread of its own that waits for it.

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::sync::watch;

/// A child could not be started.
#[derive(Debug, thiserror::Error)]
#[error("failed to start `{program}`")]
pub struct SpawnError {
    program: Utf8PathBuf,
    #[source]
    source: std::io::Error,
}

/// A running child. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    handle: OwnedFd,
    ended: watch::Receiver<Option<String>>,
    log: Utf8PathBuf,
}

impl Process {
    /// Starts a program whose output goes to `log`.
    pub fn spawn(
        name: &'static str,
        program: &Utf8Path,
        arguments: &[String],
        log: &Utf8Path,
    ) -> Result<Self, SpawnError> {
        let failed = |source| SpawnError { program: program.to_owned(), source };
        let output = fs_err::File::create(log).map_err(failed)?.into_parts().0;
        let errors = output.try_clone().map_err(failed)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", program.as_str()]).args(arguments);
        // It lives for a minute: time is worth more than memory (<https://go.dev/doc/gc-guide#GOGC>).
        command.env("GOGC", "400");
        // Not of this process's group: Ctrl-C on the terminal is for this process, which stops its children in order.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let (started, handle) = mpsc::channel();
        let (end, ended) = watch::channel(None);
        std::thread::Builder::new()
            .name(format!("child-{name}"))
            .spawn(move || keep(command, &started, &end))
            .map_err(failed)?;
        let handle = handle.recv().map_err(|_| failed(std::io::ErrorKind::BrokenPipe.into()))?.map_err(failed)?;
        Ok(Self { name, handle, ended, log: log.to_owned() })
    }

    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// The last lines it wrote.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines(&self.log, count)
    }

    /// Asks it to end; kills it after this long.
    pub async fn stop(&mut self, patience: std::time::Duration) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(patience, self.gone()).await.is_err() {
            self.kill().await;
        }
    }

    /// Kills it and waits for its end.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.gone().await;
    }

    async fn gone(&mut self) {
        // An error means that the keeper is gone, and the child with it.
        let _ = self.ended.wait_for(Option::is_some).await;
    }

    fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            // It may have ended just now: nothing to signal then.
            let _ = rustix::process::pidfd_send_signal(&self.handle, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Starts the child, tells its handle, and waits for its end. Runs in a thread of its own.
fn keep(mut command: Command, started: &mpsc::Sender<std::io::Result<OwnedFd>>, end: &watch::Sender<Option<String>>) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH);
    let handle = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty())).map_err(Into::into);
    let _ = started.send(handle);
    let how = child.wait().map_or_else(|error| error.to_string(), describe);
    let _ = end.send(Some(how));
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The last lines of a log file; none when it cannot be read.
pub fn last_lines(log: &Utf8Path, count: usize) -> Vec<String> {
    let text = fs_err::read(log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(dir: &tempfile::TempDir) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(dir.path().join("log")).expect("utf-8")
    }

    #[tokio::test]
    async fn an_early_end_is_seen_with_its_last_words() {
        let dir = tempfile::tempdir().expect("folder");
        let arguments = ["-c".into(), "echo one; echo two >&2; exit 3".into()];
        let mut child = Process::spawn("shell", "/bin/sh".into(), &arguments, &log(&dir)).expect("started");
        child.gone().await;
        assert_eq!(child.ended().as_deref(), Some("exited with code 3"));
        assert_eq!(child.last_lines(1), ["two"]);
    }

    #[tokio::test]
    async fn a_child_is_not_of_the_group_that_hears_ctrl_c() {
        let dir = tempfile::tempdir().expect("folder");
        let arguments = ["-c".into(), "ps -o pgid= -p $$".into()];
        let mut child = Process::spawn("shell", "/bin/sh".into(), &arguments, &log(&dir)).expect("started");
        child.gone().await;
        let own = rustix::process::getpgrp().as_raw_nonzero().to_string();
        assert_ne!(child.last_lines(1)[0].trim(), own);
    }

    #[tokio::test]
    async fn what_ignores_the_request_is_killed() {
        let dir = tempfile::tempdir().expect("folder");
        let arguments = ["-c".into(), "trap '' TERM; echo up; while :; do sleep 0.05; done".into()];
        let mut child = Process::spawn("shell", "/bin/sh".into(), &arguments, &log(&dir)).expect("started");
        while child.last_lines(1).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        child.stop(std::time::Duration::from_millis(100)).await;
        assert_eq!(child.ended().as_deref(), Some("was killed by signal 9"));
    }
}
