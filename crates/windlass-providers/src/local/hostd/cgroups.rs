//! The cgroups machines run in: found, made, emptied and removed, under version 1 (and hybrid) and version 2.
//!
//! Inputs: the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. Outputs: the folders of one machine.
//! A machine's folders go when it stops: left-over container cgroups cost kubelet seconds each at its next start.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use windlass_spec::full::CgroupMode;
use windlass_spec::identity::{Role, Slot};

/// Where cgroups are on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchies {
    /// A hierarchy a controller, perhaps a unified one without controllers beside.
    V1 {
        /// Mount points of all hierarchies.
        mounts: Vec<PathBuf>,
    },
    /// The unified hierarchy only.
    V2 {
        /// The cgroup machines' cgroups are made in: the delegated one of hostd's unit, or the root.
        base: PathBuf,
    },
}

impl Hierarchies {
    /// What this host has, for an hostd that may run in this systemd unit.
    pub(crate) fn detect(unit: &str) -> io::Result<Self> {
        let mounts = fs_err::read_to_string("/proc/self/mountinfo")?;
        let own = fs_err::read_to_string("/proc/self/cgroup")?;
        Self::parse(&mounts, &own, unit)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup hierarchy is mounted"))
    }

    fn parse(mountinfo: &str, own: &str, unit: &str) -> Option<Self> {
        let mounts: Vec<(&str, &str)> = mountinfo.lines().filter_map(mount).collect();
        let of_type =
            |kind| mounts.iter().filter(move |(_, found)| *found == kind).map(|(point, _)| PathBuf::from(point));
        let mut version_1: Vec<PathBuf> = of_type("cgroup").collect();
        if version_1.is_empty() {
            let root = of_type("cgroup2").next()?;
            return Some(Self::V2 { base: delegated(&root, own, unit).unwrap_or(root) });
        }
        version_1.extend(of_type("cgroup2"));
        version_1.sort();
        version_1.dedup();
        Some(Self::V1 { mounts: version_1 })
    }

    /// What machines see.
    pub(crate) fn mode(&self) -> CgroupMode {
        match self {
            Self::V1 { .. } => CgroupMode::V1,
            Self::V2 { .. } => CgroupMode::V2,
        }
    }

    /// The folders of `name` (a path below the roots), one a hierarchy.
    pub(crate) fn folders(&self, name: &str) -> Vec<PathBuf> {
        match self {
            Self::V1 { mounts } => mounts.iter().map(|mount| mount.join(name)).collect(),
            Self::V2 { base } => vec![base.join(name)],
        }
    }

    /// Makes `ROOT/NAME` in each hierarchy, with every controller the host gives.
    pub(crate) fn make(&self, root: &str, name: &str) -> io::Result<Vec<PathBuf>> {
        match self {
            Self::V1 { mounts } => mounts.iter().map(|mount| make_v1(mount, root, name)).collect(),
            Self::V2 { base } => {
                let folder = base.join(root);
                fs_err::create_dir_all(&folder)?;
                enable_controllers(base)?;
                enable_controllers(&folder)?;
                let folder = folder.join(name);
                fs_err::create_dir_all(&folder)?;
                Ok(vec![folder])
            }
        }
    }
}

/// How much CPU a machine gets when the host has too little, as cgroup v2 counts it (100 is anybody's share).
///
/// A host that starts several machines at once has too few CPUs for all, and then the first control plane serves all the
/// others: the sooner it is up, the sooner is the cluster. Without contention weights change nothing.
pub(crate) fn weight(role: Role, slot: Option<Slot>) -> u32 {
    match (role, slot) {
        (Role::ControlPlane, Some(Slot::A)) => 400,
        (Role::ControlPlane, Some(Slot::B)) => 200,
        (Role::ControlPlane, _) => 150,
        (Role::Worker, _) => 100,
    }
}

/// Gives a machine its weight among machines. The cgroup above them keeps anybody's share: given the sum, it made the
/// kernel's threads wait that write the volumes' journals, and with them every write of etcd.
pub(crate) fn weigh(folders: &[PathBuf], weight: u32) -> io::Result<()> {
    for (file, unit) in WEIGHTS {
        for folder in folders.iter().filter(|folder| folder.join(file).exists()) {
            fs_err::write(folder.join(file), (weight * unit / 100).to_string())?;
        }
    }
    Ok(())
}

/// Files of a cgroup's weight, and the number in them that is anybody's share: version 2 and version 1.
const WEIGHTS: [(&str, u32); 2] = [("cpu.weight", 100), ("cpu.shares", 1024)];

/// Mount point and file-system type of a mountinfo line.
fn mount(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    Some((before.split(' ').nth(4)?, after.split(' ').next()?))
}

/// The cgroup of hostd's unit, if that is where it runs: systemd leaves it to us (`Delegate=yes`).
fn delegated(root: &Path, own: &str, unit: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (before, _) = path.split_once(unit)?;
    Some(root.join(before.trim_start_matches('/')).join(unit))
}

fn make_v1(mount: &Path, root: &str, name: &str) -> io::Result<PathBuf> {
    let folder = mount.join(root).join(name);
    fs_err::create_dir_all(&folder)?;
    // A new cpuset is empty, and an empty one takes no process.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if let Ok(value) = std::fs::read_to_string(mount.join(file)) {
            for folder in [&mount.join(root), &folder] {
                fs_err::write(folder.join(file), &value)?;
            }
        }
    }
    Ok(folder)
}

fn enable_controllers(folder: &Path) -> io::Result<()> {
    let available = fs_err::read_to_string(folder.join("cgroup.controllers"))?;
    for controller in available.split_whitespace() {
        // One that is refused (a real-time one, say) must not keep the others away.
        if let Err(error) = std::fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}")) {
            tracing::debug!(folder = %folder.display(), controller, %error, "controller not enabled");
        }
    }
    Ok(())
}

/// Kills whatever runs in these folders and below, and removes them; none there is as good.
pub(crate) async fn remove(folders: Vec<PathBuf>) -> io::Result<()> {
    let worker = tokio::task::spawn_blocking(move || remove_now(&folders, Duration::from_secs(10)));
    worker.await.map_err(io::Error::other)?
}

fn remove_now(folders: &[PathBuf], patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(2);
    loop {
        folders.iter().for_each(|folder| kill_all(folder));
        let left = folders.iter().try_for_each(|folder| remove_tree(folder));
        match left {
            Ok(()) => return Ok(()),
            // The kernel lets go of a cgroup only when its dead processes are reaped.
            Err(_) if Instant::now() < deadline => std::thread::sleep(pause),
            Err(error) => return Err(error),
        }
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Every process in a folder and below.
pub(crate) fn processes(folder: &Path) -> Vec<i32> {
    let own = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let own = own.lines().filter_map(|line| line.parse().ok());
    own.chain(children(folder).iter().flat_map(|child| processes(child))).collect()
}

/// Folders below this one with such a name, at any depth.
pub(crate) fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    children(folder)
        .into_iter()
        .flat_map(|child| if child.ends_with(name) { vec![child] } else { find(&child, name) })
        .collect()
}

fn kill_all(folder: &Path) {
    signal_all(folder, Signal::KILL);
}

/// Signals every process in a folder and below; those that end meanwhile are as good.
pub(crate) fn signal_all(folder: &Path, signal: Signal) {
    for pid in processes(folder).into_iter().filter_map(Pid::from_raw) {
        if let Err(error) = kill_process(pid, signal) {
            tracing::debug!(pid = pid.as_raw_nonzero(), %error, "not signalled");
        }
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    for child in children(folder) {
        remove_tree(&child)?;
    }
    match fs_err::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
";
    const UNIFIED: &str = "\
28 22 0:25 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
22 1 0:21 / /sys rw,nosuid shared:2 - sysfs sysfs rw
";

    #[test]
    fn hybrid_hosts_have_a_folder_in_each_hierarchy() {
        let found = Hierarchies::parse(HYBRID, "0::/\n", "w.service").unwrap();
        assert_eq!(found.mode(), CgroupMode::V1);
        let folders = found.folders("windlass-0a1b2c/lab-cp-a");
        assert_eq!(folders.len(), 4);
        assert_eq!(folders[0], Path::new("/sys/fs/cgroup/cpu,cpuacct/windlass-0a1b2c/lab-cp-a"));
        assert_eq!(folders[3], Path::new("/sys/fs/cgroup/unified/windlass-0a1b2c/lab-cp-a"));
    }

    #[test]
    fn a_shell_on_a_unified_host_uses_the_root() {
        let own = "0::/user.slice/user-0.slice/session-1.scope\n";
        let found = Hierarchies::parse(UNIFIED, own, "windlass-hostd-0a1b2c.service").unwrap();
        assert_eq!(found.mode(), CgroupMode::V2);
        assert_eq!(found, Hierarchies::V2 { base: PathBuf::from("/sys/fs/cgroup") });
    }

    #[test]
    fn a_unit_uses_what_systemd_delegated_to_it() {
        for own in [
            "0::/system.slice/windlass-hostd-0a1b2c.service\n",
            "0::/system.slice/windlass-hostd-0a1b2c.service/hostd\n",
        ] {
            let found = Hierarchies::parse(UNIFIED, own, "windlass-hostd-0a1b2c.service").unwrap();
            let base = PathBuf::from("/sys/fs/cgroup/system.slice/windlass-hostd-0a1b2c.service");
            assert_eq!(found, Hierarchies::V2 { base });
        }
    }

    #[test]
    fn unified_folders_enable_every_controller_on_the_way() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().to_owned();
        std::fs::create_dir_all(base.join("windlass-x")).unwrap();
        for folder in [base.clone(), base.join("windlass-x")] {
            std::fs::write(folder.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        }
        let made = Hierarchies::V2 { base: base.clone() }.make("windlass-x", "m").unwrap();
        assert_eq!(made, [base.join("windlass-x/m")]);
        for folder in [base.clone(), base.join("windlass-x")] {
            assert_eq!(std::fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap(), "+pids");
        }
    }

    #[test]
    fn machines_weigh_by_what_waits_for_them_and_together_as_anybody() {
        for (file, unit) in WEIGHTS {
            let root = tempfile::tempdir().unwrap();
            let machines = ["lab-cp-a", "lab-cp-b", "lab-md-1"].map(|name| root.path().join("windlass-x").join(name));
            for folder in &machines {
                std::fs::create_dir_all(folder).unwrap();
                std::fs::write(folder.join(file), unit.to_string()).unwrap();
            }
            let all = root.path().join("windlass-x");
            std::fs::write(all.join(file), unit.to_string()).unwrap();
            let weights = [
                weight(Role::ControlPlane, Some(Slot::A)),
                weight(Role::ControlPlane, Some(Slot::B)),
                weight(Role::Worker, None),
            ];
            assert!(weights.is_sorted_by(|before, after| before > after), "{weights:?}");
            for (folder, weight) in machines.iter().zip(weights) {
                weigh(std::slice::from_ref(folder), weight).unwrap();
            }
            let read = |folder: &Path| std::fs::read_to_string(folder.join(file)).unwrap();
            assert_eq!(read(&machines[2]), unit.to_string());
            assert_eq!(read(&all), unit.to_string());
        }
    }

    #[test]
    fn no_hierarchy_is_an_error_not_a_guess() {
        assert_eq!(Hierarchies::parse("22 1 0:21 / /sys rw - sysfs sysfs rw\n", "", "u"), None);
    }
}
