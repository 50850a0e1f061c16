//! Kernel limits several machines outgrow: raised while machines are there, put back when the host's last one goes.
//!
//! Inputs: `/proc/sys`. Outputs: higher values, and a record of the old ones written down first. The record is shared by
//! the daemons of all state folders and lies in `/run`: neither it nor the values outlive a boot.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::files::{self, PUBLIC};
use super::ground;
use super::host::{Host, failed};
use super::process::ProcessId;
use super::sandbox;
use crate::ports::ProviderError;

/// Each machine's systemd, kubelet and containerd share these.
const WANTED: [(&str, u64); 2] = [("fs/inotify/max_user_instances", 8192), ("fs/inotify/max_user_watches", 524_288)];
const RECORD: &str = "/run/windlass/limits.json";

/// What was changed: a parameter's name to its value before and the value set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: u32,
    changed: BTreeMap<String, (u64, u64)>,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}

fn read(name: &str) -> io::Result<u64> {
    let text = fs_err::read_to_string(path(name))?;
    text.trim().parse().map_err(io::Error::other)
}

/// What cannot be raised (missing, remedy), and what will be (for people).
pub(super) fn forecast() -> (Vec<(String, String)>, Vec<String>) {
    let (mut lacks, mut notices) = (Vec::new(), Vec::new());
    for (name, wanted) in WANTED {
        let shown = name.replace('/', ".");
        match read(name) {
            Ok(now) if now < wanted && !is_writable(name) => lacks
                .push((format!("{shown} is {now} and cannot be changed here"), format!("sysctl -w {shown}={wanted}"))),
            Ok(now) if now < wanted => {
                notices.push(format!("{shown} is raised from {now} to {wanted} while machines are there"));
            }
            Ok(_) => {}
            Err(error) => lacks.push((format!("{shown} cannot be read: {error}"), "mount /proc".to_owned())),
        }
    }
    (lacks, notices)
}

fn is_writable(name: &str) -> bool {
    std::fs::OpenOptions::new().write(true).open(path(name)).is_ok()
}

/// Raises limits that are too low.
pub(super) fn raise() -> Result<(), ProviderError> {
    let _alone = ground::lock_host()?;
    raise_now().map_err(|error| failed("raising kernel limits", &error))
}

fn raise_now() -> io::Result<()> {
    let mut record: Record = files::read_json(Path::new(RECORD))?.unwrap_or_default();
    for (name, wanted) in WANTED {
        let now = read(name)?;
        if now >= wanted {
            continue;
        }
        let before = record.changed.get(name).map_or(now, |(before, _)| *before);
        record.format = 1;
        record.changed.insert(name.to_owned(), (before, wanted));
        files::write_json(Path::new(RECORD), &record, PUBLIC)?;
        fs_err::write(path(name), wanted.to_string())?;
        tracing::info!(limit = name, from = now, to = wanted, "kernel limit raised while machines are there");
    }
    Ok(())
}

fn lower_now() -> io::Result<()> {
    let Some(record) = files::read_json::<Record>(Path::new(RECORD))? else { return Ok(()) };
    for (name, (before, set)) in &record.changed {
        // Somebody who set another value meanwhile meant it.
        if read(name)? == *set {
            fs_err::write(path(name), before.to_string())?;
            tracing::info!(limit = %name, to = before, "kernel limit put back");
        }
    }
    files::remove_if_there(Path::new(RECORD))
}

impl Host {
    /// Puts limits back when neither this nor another hostd keeps a machine.
    pub(super) fn lower_limits(&self) -> Result<(), ProviderError> {
        let own = self.clusters().values().any(|cluster| !cluster.holdings.machines.is_empty());
        let _alone = ground::lock_host()?;
        if own || ProcessId::any_with_argument(sandbox::MARKER) {
            return Ok(());
        }
        lower_now().map_err(|error| failed("putting kernel limits back", &error))
    }
}
