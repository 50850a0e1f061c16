//! Kernel limits several machines outgrow: raised while machines are there, put back when the last one goes.
//!
//! Inputs: `/proc/sys`. Outputs: higher values, and a record of the old ones written down first.

use std::io;
use std::path::PathBuf;

use super::host::{Host, failed, lock};
use crate::ports::ProviderError;

/// Each machine's systemd, kubelet and containerd share these.
const WANTED: [(&str, u64); 2] =
    [("fs/inotify/max_user_instances", 8192), ("fs/inotify/max_user_watches", 524_288)];

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
            Ok(now) if now < wanted && !is_writable(name) => {
                lacks.push((format!("{shown} is {now} and cannot be changed here"), format!("sysctl -w {shown}={wanted}")));
            }
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

impl Host {
    /// Raises limits that are too low.
    pub(super) fn raise_limits(&self) -> Result<(), ProviderError> {
        let mut changes = lock(&self.host_changes);
        for (name, wanted) in WANTED {
            let now = read(name).map_err(|error| failed("reading kernel limits", &error))?;
            if now >= wanted {
                continue;
            }
            let before = changes.sysctls.get(name).map_or_else(|| now.to_string(), |(before, _)| before.clone());
            changes.sysctls.insert(name.to_owned(), (before, wanted.to_string()));
            self.store.save_host_changes(&changes)?;
            tracing::info!(limit = name, from = now, to = wanted, "kernel limit raised while machines are there");
            fs_err::write(path(name), wanted.to_string()).map_err(|error| failed("raising kernel limits", &error))?;
        }
        Ok(())
    }

    /// Puts limits back when no machine is left, unless somebody changed them meanwhile.
    pub(super) fn lower_limits(&self) -> Result<(), ProviderError> {
        let machines = self.clusters().values().map(|cluster| cluster.holdings.machines.len()).sum::<usize>();
        let mut changes = lock(&self.host_changes);
        if machines > 0 || changes.sysctls.is_empty() {
            return Ok(());
        }
        for (name, (before, set)) in &changes.sysctls {
            let now = read(name).map_err(|error| failed("reading kernel limits", &error))?;
            if now.to_string() == *set {
                fs_err::write(path(name), before).map_err(|error| failed("putting kernel limits back", &error))?;
                tracing::info!(limit = %name, to = %before, "kernel limit put back");
            }
        }
        changes.sysctls.clear();
        Ok(self.store.save_host_changes(&changes)?)
    }
}
