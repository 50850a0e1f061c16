//! Runs the tools a bundle is built with (go, mmdebstrap, containerd): bound to this process's life, and with the end
//! of what they said when they fail.
//!
//! Input: a program, its arguments and environment. Output: its result, or [`ToolError`] with the last lines.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// How many of a tool's last lines an error carries.
const TAIL: usize = 20;

/// A tool that could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not there or cannot be started.
    #[error("{program} cannot be started")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended badly.
    #[error("{program} failed ({status}){}", shown(tail))]
    Failed {
        /// Which.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// Its last lines.
        tail: Vec<String>,
    },
    /// Its output could not be read or its input not written.
    #[error("the pipe to {program} broke{}", shown(tail))]
    Pipe {
        /// Which.
        program: String,
        /// Its last lines.
        tail: Vec<String>,
        /// Why.
        source: io::Error,
    },
}

fn shown(tail: &[String]) -> String {
    if tail.is_empty() { String::new() } else { format!("; it said last:\n  {}", tail.join("\n  ")) }
}

/// A tool about to run.
#[derive(Debug)]
pub(crate) struct Tool {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    own_mounts: bool,
}

impl Tool {
    /// The program at this path or of this name.
    pub(crate) fn new(program: impl AsRef<Path>) -> Self {
        let program = program.as_ref().to_path_buf();
        let name = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self { name, program, arguments: Vec::new(), environment: Vec::new(), folder: None, own_mounts: false }
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    /// Gives it a mount namespace of its own: whatever it mounts goes when it ends, however it ends. Needs root.
    pub(crate) fn own_mounts(mut self) -> Self {
        self.own_mounts = true;
        self
    }

    /// The command: the kernel kills the tool when the calling thread ends, so nothing is left by a killed builder.
    fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if self.own_mounts {
            command.args(["unshare", "--mount", "--propagation", "private"]);
        }
        command.arg(&self.program).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Starts it with these ends of input and output; each line of standard error goes to `said`.
    pub(crate) fn start(
        &self,
        input: Stdio,
        output: Stdio,
        said: impl FnMut(&str) + Send + 'static,
    ) -> Result<Running, ToolError> {
        let start = |source| ToolError::Start { program: self.name.clone(), source };
        let mut child = self.command().stdin(input).stdout(output).stderr(Stdio::piped()).spawn().map_err(start)?;
        let errors = child.stderr.take().ok_or_else(|| start(io::Error::other("no standard error")))?;
        let reader = std::thread::spawn(move || keep_tail(errors, said));
        Ok(Running { name: self.name.clone(), child, reader: Some(reader) })
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, said: impl FnMut(&str) + Send + 'static) -> Result<(), ToolError> {
        self.start(Stdio::null(), Stdio::null(), said)?.wait()
    }

    /// Runs it to its end and returns what it printed.
    pub(crate) fn output(&self) -> Result<String, ToolError> {
        let mut running = self.start(Stdio::null(), Stdio::piped(), |_| ())?;
        let mut text = String::new();
        if let Some(mut output) = running.child.stdout.take()
            && let Err(source) = output.read_to_string(&mut text)
        {
            return Err(running.broken(source));
        }
        running.wait()?;
        Ok(text)
    }
}

/// A tool at work. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    pub(crate) child: Child,
    reader: Option<JoinHandle<Vec<String>>>,
}

impl Running {
    /// Waits for a good end.
    pub(crate) fn wait(mut self) -> Result<(), ToolError> {
        drop(self.child.stdin.take());
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(source) => return Err(self.broken(source)),
        };
        let tail = self.tail();
        if status.success() { Ok(()) } else { Err(ToolError::Failed { program: self.name.clone(), status, tail }) }
    }

    /// The error for a pipe that broke: the tool's own failure when it has one.
    pub(crate) fn broken(mut self, source: io::Error) -> ToolError {
        drop(self.child.stdin.take());
        drop(self.child.stdout.take());
        let status = self.child.wait().ok();
        let (program, tail) = (self.name.clone(), self.tail());
        match status {
            Some(status) if !status.success() => ToolError::Failed { program, status, tail },
            _ => ToolError::Pipe { program, tail, source },
        }
    }

    /// Has it ended?
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits.
    pub(crate) fn terminate(mut self) -> Result<(), ToolError> {
        let pipe = |source| ToolError::Pipe { program: self.name.clone(), tail: Vec::new(), source };
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|errno| pipe(errno.into()))?;
        }
        self.child.wait().map_err(pipe)?;
        self.tail();
        Ok(())
    }

    fn tail(&mut self) -> Vec<String> {
        self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}

/// Passes each line on and keeps the last ones.
fn keep_tail(stream: impl Read, mut said: impl FnMut(&str)) -> Vec<String> {
    let mut tail = VecDeque::with_capacity(TAIL);
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line.is_empty() {
            continue;
        }
        said(&line);
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    tail.into()
}

/// Where Go's own installer puts it, which not everybody has on the path, and where tools for administration lie.
const MORE_PLACES: &str = "/usr/local/go/bin:/usr/sbin:/sbin";

/// Environment variable naming a Debian mirror to use instead of Debian's own servers.
const MIRROR: &str = "WINDLASS_DEBIAN_MIRROR";

/// The tools of a building machine: where they are looked for, and where Debian's packages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// As in `PATH`.
    pub path: OsString,
    /// Used instead of Debian's own servers.
    pub debian_mirror: Option<String>,
}

impl Tools {
    /// From `PATH` (and the usual places that are often missing there) and `WINDLASS_DEBIAN_MIRROR`.
    pub fn from_environment() -> Self {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(":");
        path.push(MORE_PLACES);
        let debian_mirror = std::env::var(MIRROR).ok().filter(|mirror| !mirror.is_empty());
        Self { path, debian_mirror }
    }

    /// Where a command lies.
    pub(crate) fn find(&self, command: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path).map(|folder| folder.join(command)).find(|file| is_executable(file))
    }

    /// A command, which finds its own helpers in the same places.
    pub(crate) fn tool(&self, command: &str) -> Tool {
        let program = self.find(command).unwrap_or_else(|| command.into());
        Tool::new(program).env("PATH", &self.path)
    }
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_last_lines() {
        let script = "for i in $(seq 1 30); do echo line $i >&2; done; exit 3";
        let failure = Tool::new("/bin/sh").args(["-c", script]).run(|_| ()).unwrap_err();
        let text = failure.to_string();
        assert!(text.starts_with("sh failed (exit status: 3); it said last:\n  line 11\n"), "{text}");
        assert!(text.ends_with("line 30"), "{text}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = Tool::new("/nonexistent/tool").run(|_| ()).unwrap_err().to_string();
        assert!(
            failure.starts_with("tool failed (exit status: 127)") || failure.contains("cannot be started"),
            "{failure}"
        );
    }

    #[test]
    fn output_and_environment() {
        let tool = Tool::new("/bin/sh").args(["-c", "echo $A"]).env("A", "b");
        assert_eq!(tool.output().unwrap(), "b\n");
    }
}
