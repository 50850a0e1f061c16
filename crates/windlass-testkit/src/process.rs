//! A child process that cannot outlive its test.
//!
//! Input: a program and its arguments. Output: a running process with its log in a file, killed when dropped. Each is
//! spawned by a thread that waits for it, since the kernel ends such children with the *thread* that made them.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal};

/// A process could not be started.
#[derive(Debug, thiserror::Error)]
#[error("failed to start `{program}`")]
pub struct SpawnError {
    program: String,
    source: std::io::Error,
}

/// A process that dies with its owner.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    keeper: Option<JoinHandle<()>>,
    log: PathBuf,
}

impl Child {
    /// Starts a program; its output goes to `log`.
    ///
    /// # Errors
    /// When the log cannot be made or the program not be run.
    pub fn spawn(program: &Path, arguments: &[String], log: &Path) -> Result<Self, SpawnError> {
        let name = program.display().to_string();
        let failed = |source| SpawnError { program: name.clone(), source };
        let output = File::create(log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut line: Vec<OsString> = ["--pdeathsig", "KILL", "--"].map(Into::into).to_vec();
        line.push(program.into());
        line.extend(arguments.iter().map(Into::into));
        let (sender, receiver) = mpsc::channel();
        let keeper = std::thread::spawn(move || {
            let spawned = Command::new("setpriv").args(line).stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
            match spawned {
                Ok(mut child) => {
                    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    let _ = sender.send(Ok(pid));
                    let _ = child.wait();
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                }
            }
        });
        let pid = receiver.recv().map_err(|_| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        let pid = pid.map_err(failed)?.ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))?;
        Ok(Self { pid, keeper: Some(keeper), log: log.to_owned() })
    }

    /// Has it ended by itself?
    pub fn ended(&self) -> bool {
        self.keeper.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The last lines it wrote.
    pub fn last_lines(&self, count: usize) -> String {
        let text = fs_err::read(&self.log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        if !keeper.is_finished() {
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        }
        let _ = keeper.join();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_child_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Child::spawn(Path::new("sleep"), &["600".into()], &folder.path().join("log")).expect("sleep");
        let proc = format!("/proc/{}", child.pid.as_raw_nonzero());
        assert!(Path::new(&proc).exists() && !child.ended());
        drop(child);
        assert!(!Path::new(&proc).exists());
    }
}
