//! What Windlass could leave behind on a host, for "before equals after".
//!
//! Output: [`HostInventory`], sorted lines by kind. Only Windlass's own things are listed where the host's others come
//! and go (processes, cgroups), everything where nothing else should change (mounts, links, routes, rules, loops).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInventory {
    kinds: BTreeMap<&'static str, BTreeSet<String>>,
}

impl HostInventory {
    /// Looks at the host. `folders` are Windlass's state and run folders whose files count.
    pub fn take(folders: &[&Path]) -> Self {
        let mut kinds = BTreeMap::new();
        kinds.insert("mounts", mounts());
        kinds.insert("links", output("ip", &["-o", "link"], |line| line.split(':').nth(1).map(str::trim)));
        kinds.insert("routes", output("ip", &["route", "show", "table", "all"], |line| Some(line.trim())));
        kinds.insert("namespaces", entries(Path::new("/run/netns")));
        kinds.insert("tables", output("nft", &["list", "tables"], |line| Some(line.trim())));
        kinds.insert("loops", output("losetup", &["-a"], |line| line.split('(').nth(1)));
        kinds.insert("cgroups", cgroups());
        kinds.insert("processes", processes());
        kinds.insert("units", units());
        kinds.insert("limits", limits());
        kinds.insert("nspawn", entries(Path::new("/run/systemd/nspawn")));
        kinds.insert("files", folders.iter().flat_map(|folder| files(folder)).collect());
        Self { kinds }
    }

    /// What is here and was not in `before`, a line each: `links: wl12ab-0`.
    pub fn left_since(&self, before: &Self) -> Vec<String> {
        self.not_in(before)
    }

    /// What was in `before` and is missing here.
    pub fn missing_since(&self, before: &Self) -> Vec<String> {
        before.not_in(self)
    }

    fn not_in(&self, other: &Self) -> Vec<String> {
        let none = BTreeSet::new();
        let of = |kind| other.kinds.get(kind).unwrap_or(&none);
        let lines = self
            .kinds
            .iter()
            .flat_map(|(&kind, lines)| lines.difference(of(kind)).map(move |line| format!("{kind}: {line}")));
        lines.collect()
    }
}

fn output(program: &str, arguments: &[&str], pick: impl Fn(&str) -> Option<&str>) -> BTreeSet<String> {
    let Ok(output) = Command::new(program).args(arguments).output() else { return BTreeSet::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(pick).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn mounts() -> BTreeSet<String> {
    let text = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
}

fn entries(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs_err::read_dir(folder) else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Ok(entries) = fs_err::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&path));
        }
        found.insert(path.display().to_string());
    }
    found
}

fn cgroups() -> BTreeSet<String> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::iter::once(root.to_owned()).chain(entries(root).into_iter().map(|name| root.join(name)));
    let groups = hierarchies.flat_map(|hierarchy| {
        let ours = entries(&hierarchy).into_iter().filter(|name| name.starts_with("windlass"));
        ours.map(move |name| hierarchy.join(name).display().to_string()).collect::<Vec<_>>()
    });
    groups.collect()
}

/// Kernel limits that Windlass raises while it has machines.
fn limits() -> BTreeSet<String> {
    let folder = Path::new("/proc/sys/fs/inotify");
    let value = |name: &str| fs_err::read_to_string(folder.join(name)).unwrap_or_default().trim().to_owned();
    let limits = entries(folder).into_iter().filter(|name| name.starts_with("max_user_"));
    limits.map(|name| format!("{name} is {}", value(&name))).collect()
}

fn units() -> BTreeSet<String> {
    let folders = ["/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient"];
    let named = folders.iter().flat_map(|folder| entries(Path::new(folder)));
    named.filter(|name| name.starts_with("windlass")).collect()
}

/// Windlass's daemons and what its machines and planes run, by command line.
fn processes() -> BTreeSet<String> {
    let ours = ["windlass", "systemd-nspawn", "etcd", "kube-apiserver", "kube-controller-manager", "kubelet"];
    let mut found = BTreeSet::new();
    for pid in entries(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()) {
        let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned();
        let program = line.split(' ').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if ours.contains(&program) {
            found.insert(format!("{pid} {line}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_between_is_seen_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let look = || HostInventory { kinds: [("files", files(folder.path()))].into() };
        let before = look();
        fs_err::create_dir(folder.path().join("deep")).expect("a folder");
        fs_err::write(folder.path().join("deep/left"), "").expect("a file");
        let after = look();
        assert_eq!(after.left_since(&before).len(), 2);
        assert!(after.missing_since(&before).is_empty());
        assert_eq!(before.missing_since(&after).len(), 2);
    }
}
