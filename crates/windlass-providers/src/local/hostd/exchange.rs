//! hostd becomes another build of itself, in place: same process, machines untouched.
//!
//! Input: the copy of the binary a client of another build left in the state folder. Output: that program, running.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::super::paths::Paths;
use super::host::Host;
use crate::ports::ProviderError;

/// The copy of a build.
pub(in super::super) fn binary(paths: &Paths, build: &str) -> PathBuf {
    paths.binaries().join(format!("windlass-{build}"))
}

/// Arguments that run hostd for these paths.
pub(in super::super) fn arguments(paths: &Paths) -> Vec<String> {
    let shown = |path: &Path| path.display().to_string();
    vec![
        "hostd".to_owned(),
        "run".to_owned(),
        "--state".to_owned(),
        shown(paths.state()),
        "--cache".to_owned(),
        shown(paths.cache()),
    ]
}

/// Answers first, waits for every act under way, then becomes the other build.
pub(super) fn succeed(host: &Arc<Host>, build: &str) -> Result<(), ProviderError> {
    let plain = !build.is_empty() && build.chars().all(|letter| letter.is_ascii_alphanumeric());
    let path = binary(&host.paths, build);
    if !plain || !path.is_file() {
        return Err(ProviderError::NotFound { what: format!("the copy of build {build:?}") });
    }
    let host = Arc::clone(host);
    tokio::spawn(async move {
        let _closed = host.gate.write().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        tracing::info!(binary = %path.display(), "becoming another build");
        let error = Command::new(&path).args(arguments(&host.paths)).arg("--resume").exec();
        tracing::error!(%error, binary = %path.display(), "could not become another build");
    });
    Ok(())
}
