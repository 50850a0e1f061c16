//! What this computer must have for machines, found out before anything is made.
//!
//! Inputs: `/proc`, `/sys`, the programs on the path, the folders. Outputs: [`Facts`], or what is missing and how to get
//! it, all of it at once.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock, statfs, statvfs};

use windlass_spec::full::Facts;

use super::super::paths::Paths;
use super::cgroups::Hierarchies;
use super::host::failed;
use super::limits;
use super::{command, netlink, nft};
use crate::ports::ProviderError;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// What one machine may fill before anything of a user's runs on it.
const DISK_PER_MACHINE: u64 = GIB;
/// Less than the smallest control plane uses, more than the smallest worker.
const MEMORY_PER_MACHINE: u64 = 450 * MIB;
const OVERLAYFS: i64 = 0x794c_7630;
/// `CAP_SYS_RESOURCE`.
const SYS_RESOURCE: u64 = 24;
const OLDEST_NSPAWN: u32 = 245;

/// Programs and the Debian packages they come in.
const TOOLS: [(&str, &str); 10] = [
    ("systemd-nspawn", "systemd-container"),
    ("nft", "nftables"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("journalctl", "systemd"),
    ("cp", "coreutils"),
    ("sh", "dash"),
    ("true", "coreutils"),
];

/// Something the ground lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lack {
    missing: String,
    remedy: String,
}

fn lack(missing: impl Into<String>, remedy: impl Into<String>) -> Lack {
    Lack { missing: missing.into(), remedy: remedy.into() }
}

fn refuse(lacks: Vec<Lack>) -> Result<(), ProviderError> {
    if lacks.is_empty() {
        return Ok(());
    }
    let (missing, remedies): (Vec<String>, Vec<String>) =
        lacks.into_iter().map(|lack| (lack.missing, lack.remedy)).unzip();
    Err(ProviderError::Ground { missing: missing.join("; "), remedy: remedies.join("; ") })
}

/// Is root running this, and is every program there?
pub(super) fn check_tools() -> Result<(), ProviderError> {
    refuse(missing_tools(rustix::process::geteuid().is_root(), command::exists))
}

fn missing_tools(root: bool, exists: impl Fn(&str) -> bool) -> Vec<Lack> {
    let mut lacks = Vec::new();
    if !root {
        lacks.push(lack("machines on this computer need root", "run windlass as root"));
    }
    let missing: Vec<&(&str, &str)> = TOOLS.iter().filter(|(program, _)| !exists(program)).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
        let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
        packages.sort_unstable();
        packages.dedup();
        lacks.push(lack(
            format!("not installed: {}", names.join(", ")),
            format!("apt-get install {}", packages.join(" ")),
        ));
    }
    lacks
}

/// What the machines' ground is like.
pub(in crate::local) async fn facts(cgroups: &Hierarchies) -> Result<Facts, ProviderError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Ok(Facts {
        cgroup: cgroups.mode(),
        oom_score_adjustable: has_capability(&status, SYS_RESOURCE),
        // Read-only in every network namespace but the first, and each machine has its own.
        conntrack_writable: false,
        shared_disk: true,
        host_routes: netlink::host_routes().await.map_err(|error| failed("listing routes", &error))?,
    })
}

fn has_capability(status: &str, capability: u64) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << capability) != 0
}

/// Refuses what this computer cannot carry; says what will be changed on it.
pub(super) async fn preflight(paths: &Paths, machines: u32) -> Result<Vec<String>, ProviderError> {
    check_tools()?;
    let mut lacks = nspawn_age().await;
    lacks.extend(kernel_features(paths).await);
    lacks.extend(room(paths, machines));
    let (limit_lacks, mut notices) = limits::forecast();
    lacks.extend(limit_lacks.into_iter().map(|(missing, remedy)| Lack { missing, remedy }));
    lacks.extend(legacy_firewall().await);
    notices.extend(firewall_notice(paths).await);
    refuse(lacks)?;
    Ok(notices)
}

async fn nspawn_age() -> Vec<Lack> {
    let printed = command::run("systemd-nspawn", ["--version"]).await.unwrap_or_default();
    let version = printed.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
    match version {
        Some(version) if version >= OLDEST_NSPAWN => Vec::new(),
        version => vec![lack(
            format!("systemd-nspawn {} is too old", version.map_or("of unknown version".to_owned(), |v| v.to_string())),
            format!("install systemd-container {OLDEST_NSPAWN} or newer"),
        )],
    }
}

async fn kernel_features(paths: &Paths) -> Vec<Lack> {
    let remedy = "use a kernel with overlay, loop, veth, bridge and nftables with NAT, or load their modules";
    let mut lacks = Vec::new();
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !has_filesystem(&filesystems, "overlay") && command::run("modprobe", ["overlay"]).await.is_err() {
        lacks.push(lack("the kernel has no overlay file system", remedy));
    }
    if !Path::new("/dev/loop-control").exists() && command::run("modprobe", ["loop"]).await.is_err() {
        lacks.push(lack("there is no /dev/loop-control", remedy));
    }
    let prefix = paths.link_prefix();
    if let Err(error) = netlink::probe(&format!("{prefix}-probe"), &format!("{prefix}probe")).await {
        lacks.push(lack(format!("links cannot be made ({error})"), remedy));
    }
    let sample = nft::Network {
        bridge: paths.bridge(0),
        subnet: crate::address::POOL.into(),
        endpoint: std::net::Ipv4Addr::new(10, 77, 0, 2).into(),
        port: 6443,
        servers: vec![std::net::Ipv4Addr::new(10, 77, 0, 11).into()],
    };
    if let Err(error) = nft::check(&nft::render("windlass_probe", &prefix, &[sample])).await {
        lacks.push(lack(format!("the kernel refuses the endpoint's table ({error})"), remedy));
    }
    lacks
}

fn has_filesystem(filesystems: &str, name: &str) -> bool {
    filesystems.lines().any(|line| line.split_whitespace().last() == Some(name))
}

fn room(paths: &Paths, machines: u32) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let Some(folder) = paths.state().ancestors().find(|folder| folder.exists()) else { return lacks };
    if statfs(folder).is_ok_and(|fs| fs.f_type == OVERLAYFS) {
        lacks.push(lack(
            format!("{} lies on an overlay, on which no machine's root can lie", folder.display()),
            "set XDG_STATE_HOME to a folder on a disk",
        ));
    }
    if let Ok(fs) = statvfs(folder) {
        lacks.extend(too_little_disk(fs.f_bavail * fs.f_frsize, machines, folder));
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    lacks.extend(too_little_memory(&meminfo, machines));
    lacks
}

fn too_little_disk(available: u64, machines: u32, folder: &Path) -> Option<Lack> {
    let needed = u64::from(machines) * DISK_PER_MACHINE;
    (available < needed).then(|| {
        lack(
            format!("{} has {} free, {machines} machines need {}", folder.display(), gib(available), gib(needed)),
            "free space there, set XDG_STATE_HOME to another disk, or ask for fewer machines",
        )
    })
}

fn too_little_memory(meminfo: &str, machines: u32) -> Option<Lack> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let needed = u64::from(machines) * MEMORY_PER_MACHINE;
    (available < needed).then(|| {
        lack(
            format!("{} of memory are free, {machines} machines need {}", gib(available), gib(needed)),
            "end other programs or ask for fewer machines",
        )
    })
}

fn gib(bytes: u64) -> String {
    format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB)
}

/// A strict chain of the old iptables cannot be opened from nftables.
async fn legacy_firewall() -> Vec<Lack> {
    let tables = std::fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    if !tables.lines().any(|table| table == "filter") || !command::exists("iptables-legacy") {
        return Vec::new();
    }
    let rules = command::run("iptables-legacy", ["-S"]).await.unwrap_or_default();
    let strict = rules.lines().any(|rule| rule == "-P FORWARD DROP");
    let exempt = rules.lines().any(|rule| rule.starts_with("-A FORWARD -i wl+") && rule.ends_with("-j ACCEPT"));
    if !strict || exempt {
        return Vec::new();
    }
    vec![lack(
        "the legacy iptables chain FORWARD drops what it does not know, machines' traffic among it",
        "iptables-legacy -I FORWARD -i wl+ -o wl+ -j ACCEPT",
    )]
}

async fn firewall_notice(paths: &Paths) -> Option<String> {
    let ruleset = nft::ruleset().await.ok()?;
    let chains = nft::strict_chains(&ruleset, &paths.nft_table());
    (!chains.is_empty()).then(|| {
        format!(
            "{} firewall chains of this host drop what they do not know: while clusters are there each has a rule, \
             marked {}, that lets machines reach each other and this host",
            chains.len(),
            paths.nft_table()
        )
    })
}

/// Keeps other state folders' daemons from picking ranges and changing limits, while the folder they share is held.
pub(super) fn lock_host() -> Result<File, ProviderError> {
    let open = || {
        let folder = File::open("/run/windlass")?;
        flock(&folder, FlockOperation::LockExclusive)?;
        Ok::<File, std::io::Error>(folder)
    };
    open().map_err(|error| failed("locking what state folders share", &error))
}

/// Lets packets that come in over the bridge be forwarded (from a machine to the endpoint's servers), there only.
pub(super) fn allow_forwarding(bridge: &str) -> Result<(), ProviderError> {
    let path = format!("/proc/sys/net/ipv4/conf/{bridge}/forwarding");
    fs_err::write(path, "1").map_err(|error| failed("allowing the bridge to forward", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_missing_is_said_at_once() {
        let error = refuse(missing_tools(false, |tool| tool != "nft" && tool != "systemd-nspawn")).unwrap_err();
        insta::assert_snapshot!(error, @"machines on this computer need root; not installed: systemd-nspawn, nft; run windlass as root; apt-get install nftables systemd-container");
        assert!(missing_tools(true, |_| true).is_empty());
    }

    #[test]
    fn room_is_counted_by_machine() {
        let meminfo = "MemTotal: 9000000 kB\nMemAvailable:    2000000 kB\n";
        assert_eq!(too_little_memory(meminfo, 4), None);
        assert_eq!(
            too_little_memory(meminfo, 5).unwrap().missing,
            "1.9 GiB of memory are free, 5 machines need 2.1 GiB"
        );
        assert_eq!(too_little_disk(5 * GIB, 5, Path::new("/s")), None);
        assert!(too_little_disk(5 * GIB - 1, 5, Path::new("/s")).is_some());
    }

    #[test]
    fn capabilities_and_file_systems_are_read() {
        assert!(has_capability("CapEff:\t000001ffffffffff\n", SYS_RESOURCE));
        assert!(!has_capability("CapEff:\t000001fffeffffff\n", SYS_RESOURCE));
        assert!(has_filesystem("nodev\tsysfs\nnodev\toverlay\n", "overlay"));
        assert!(!has_filesystem("nodev\toverlayfoo\n", "overlay"));
    }
}
