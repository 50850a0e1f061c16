//! Runs the binary with folders of its own.
//!
//! Inputs: arguments, standard input. Output: exit code and what was printed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// What a run ended with.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code and standard error, for snapshots.
    pub(crate) fn refusal(&self) -> String {
        assert_eq!(self.out, "", "an error prints no data");
        format!("{}\n{}", self.code, self.err)
    }
}

/// Folders in place of a person's own.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), variables: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Windlass's part of the state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state/windlass")
    }

    /// Sets a variable for every run.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// Writes a file below the home and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        fs_err::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs_err::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A command that reads nothing may be gone before all is written.
        drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
        let home = self.path().to_str().expect("UTF-8");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text").replace(home, "HOME");
        Ran { code: status.code().expect("a code"), out: text(stdout), err: text(stderr) }
    }
}
