//! Chores of the workspace: `cargo xtask check`, `layers`, `sources`, `faults`, `docs`.
//!
//! Input: the working tree and `cargo metadata`. Output: problems on standard error and an exit code, or (with
//! `docs --write`) the generated pages.

mod docs;
mod faults;
mod layers;
mod sources;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask check | layers | sources | faults | docs --check | docs --write
  check     layers, sources, faults and docs --check
  layers    dependencies between crates point the way ARCHITECTURE.md says
  sources   each module says what it is for; no word, path or host that does not belong in tracked files
  faults    the table of public faults names tests that exist
  docs      the generated pages of docs/reference are what the binary says";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    let root = root()?;
    let problems = match arguments {
        ["check"] => {
            [layers::check(&root)?, sources::check(&root)?, faults::check(&root)?, docs::check(&root)?].concat()
        }
        ["layers"] => layers::check(&root)?,
        ["sources"] => sources::check(&root)?,
        ["faults"] => faults::check(&root)?,
        ["docs", "--check"] => docs::check(&root)?,
        ["docs", "--write"] => return docs::write(&root),
        _ => bail!("{USAGE}"),
    };
    for problem in &problems {
        eprintln!("{problem}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{} problem(s)", problems.len()) }
}

/// Told by cargo when it runs us: what was compiled in may be another clone's, where clones share a target folder.
fn root() -> Result<PathBuf> {
    let here = std::env::var("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
    Ok(Path::new(&here).parent().context("xtask lies in the workspace")?.to_owned())
}

/// Runs a program in `root` and returns what it printed.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("failed to run `{program}`"))?;
    if !output.status.success() {
        bail!("`{program} {}`: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
