//! Programs of the machine, run to their end.
//!
//! Inputs: program, arguments, standard input, a time limit. Outputs: exit code and what was printed. A command runs on
//! when its waiter goes away: mkfs is never cut in half by a new configuration.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt as _;

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Program, looked for on the path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its standard input.
    pub stdin: String,
    /// When it is killed.
    pub timeout: Duration,
}

impl Command {
    /// A program with arguments, half a minute and nothing on standard input.
    pub fn new<S: Into<String>>(program: &str, args: impl IntoIterator<Item = S>) -> Self {
        Self {
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            stdin: String::new(),
            timeout: Duration::from_secs(30),
        }
    }

    /// With this text on standard input.
    #[must_use]
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Killed after this time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Exit code; none when killed by a signal.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// Did it exit with 0?
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The last lines it printed, errors after output.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        let lines: Vec<&str> = self.stdout.lines().chain(self.stderr.lines()).collect();
        lines.iter().skip(lines.len().saturating_sub(count)).map(|&line| line.to_owned()).collect()
    }
}

/// A program that could not be run to its end, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It did not start.
    #[error("starting {program}: {source}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It was killed after its time.
    #[error("{program} did not end within {} s", timeout.as_secs())]
    Timeout {
        /// Which.
        program: String,
        /// Its time.
        timeout: Duration,
    },
    /// It ended with a failure.
    #[error("{program} ended with {}: {}", code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}")), lines.last().map_or("no output", String::as_str))]
    Failed {
        /// Which.
        program: String,
        /// Its exit code.
        code: Option<i32>,
        /// Its last lines.
        lines: Vec<String>,
    },
}

/// Runs programs.
#[async_trait]
pub trait Commands: Send + Sync {
    /// Runs a program to its end, whatever its exit code.
    async fn run(&self, command: Command) -> Result<Ended, CommandError>;

    /// Runs a program that must exit with 0; its standard output.
    async fn succeed(&self, command: Command) -> Result<String, CommandError> {
        let program = command.program.clone();
        let ended = self.run(command).await?;
        if ended.is_success() {
            return Ok(ended.stdout);
        }
        Err(CommandError::Failed { program, code: ended.code, lines: ended.last_lines(20) })
    }
}

/// Programs of the running machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemCommands;

#[async_trait]
impl Commands for SystemCommands {
    async fn run(&self, command: Command) -> Result<Ended, CommandError> {
        let program = command.program.clone();
        let ended = tokio::spawn(run_to_end(command)).await;
        ended.unwrap_or_else(|stopped| Err(CommandError::Start { program, source: std::io::Error::other(stopped) }))
    }
}

async fn run_to_end(command: Command) -> Result<Ended, CommandError> {
    let start = |source| CommandError::Start { program: command.program.clone(), source };
    let mut child = tokio::process::Command::new(&command.program)
        .args(&command.args)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input closes the pipe: no failure of ours.
        let _ = stdin.write_all(command.stdin.as_bytes()).await;
    }
    match tokio::time::timeout(command.timeout, child.wait_with_output()).await {
        Ok(output) => output.map_err(start).map(|output| Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(_) => Err(CommandError::Timeout { program: command.program, timeout: command.timeout }),
    }
}

/// An in-memory twin: answers by program, success without output unless told, and remembers what ran.
#[derive(Debug, Default)]
pub struct MemoryCommands {
    answers: Mutex<BTreeMap<String, Ended>>,
    ran: Mutex<Vec<Command>>,
}

impl MemoryCommands {
    /// Sets how a program ends from now on.
    pub fn answer(&self, program: &str, ended: Ended) {
        lock(&self.answers).insert(program.to_owned(), ended);
    }

    /// What ran so far, as lines.
    pub fn ran(&self) -> Vec<String> {
        lock(&self.ran).iter().map(|command| format!("{} {}", command.program, command.args.join(" "))).collect()
    }
}

#[async_trait]
impl Commands for MemoryCommands {
    async fn run(&self, command: Command) -> Result<Ended, CommandError> {
        let ended = lock(&self.answers).get(&command.program).cloned();
        lock(&self.ran).push(command);
        Ok(ended.unwrap_or(Ended { code: Some(0), ..Ended::default() }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_code_and_time_are_told() {
        let commands = SystemCommands;
        let cat = Command::new("cat", ["-"]).stdin("hello");
        assert_eq!(commands.succeed(cat).await.unwrap(), "hello");
        let failed = commands.succeed(Command::new("sh", ["-c", "echo why >&2; exit 3"])).await.unwrap_err();
        assert_eq!(failed.to_string(), "sh ended with exit code 3: why");
        let slow = Command::new("sleep", ["5"]).timeout(Duration::from_millis(50));
        assert!(matches!(commands.run(slow).await, Err(CommandError::Timeout { .. })));
        assert!(matches!(commands.run(Command::new("no-such", [""])).await, Err(CommandError::Start { .. })));
    }
}
