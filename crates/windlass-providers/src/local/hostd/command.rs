//! Runs the host's own programs (`nft`, `losetup`, `unshare` …) and keeps what they say when they fail.
//!
//! Input: program, arguments, perhaps text for its standard input. Output: its standard output.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;

use tokio::io::AsyncWriteExt;

/// A program that could not be run or failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// It could not be started.
    #[error("{program} cannot be run")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It failed.
    #[error("{command}: {said}")]
    Failed {
        /// Program and arguments.
        command: String,
        /// Its exit status and error output.
        said: String,
    },
}

/// Runs a program to its end.
pub(crate) async fn run<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<String, CommandError> {
    run_with_input(program, args, "").await
}

/// Runs a program to its end with this text on its standard input.
pub(crate) async fn run_with_input<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    input: &str,
) -> Result<String, CommandError> {
    let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
    let failed = |source| CommandError::Start { program: program.to_owned(), source };
    let mut command = tokio::process::Command::new(program);
    command.args(&args).env("LC_ALL", "C").kill_on_drop(true);
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await.map_err(failed)?;
    }
    let output = child.wait_with_output().await.map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let shown: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    Err(CommandError::Failed {
        command: format!("{program} {}", shown.join(" ")),
        said: format!("{} ({})", said.trim(), output.status),
    })
}

/// Is a program on the path?
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
