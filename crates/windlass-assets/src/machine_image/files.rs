//! Windlass's own files on machines: units, masks and settings.
//!
//! Input: an empty folder. Output: the upper half of a machine's root, which lies over the Debian root.

use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const UNITS: &str = "etc/systemd/system";

/// Path, mode and content of each file.
const FILES: [(&str, u32, &str); 9] = [
    ("usr/local/lib/windlass/sandbox-prep", 0o755, include_str!("files/sandbox-prep")),
    ("etc/systemd/system/sandbox-prep.service", 0o644, include_str!("files/sandbox-prep.service")),
    ("etc/systemd/system/windlass-agent.service", 0o644, include_str!("files/windlass-agent.service")),
    ("etc/systemd/journald.conf.d/windlass.conf", 0o644, include_str!("files/journald.conf")),
    ("etc/ssh/sshd_config.d/windlass.conf", 0o644, include_str!("files/sshd.conf")),
    ("etc/systemd/system/ssh.service.d/host-keys.conf", 0o644, include_str!("files/ssh-host-keys.conf")),
    ("etc/systemd/system/ssh@.service.d/host-keys.conf", 0o644, include_str!("files/ssh-host-keys.conf")),
    // A pod's sandbox gets a copy; the provider or the agent fills it.
    ("etc/resolv.conf", 0o644, ""),
    ("etc/crictl.yaml", 0o644, include_str!("files/crictl.yaml")),
];

/// Units started at boot, and by which target.
const ENABLED: [(&str, &str); 2] =
    [("sandbox-prep.service", "sysinit.target.wants"), ("windlass-agent.service", "multi-user.target.wants")];

/// Units a machine has no use for: consoles, seats, device events (a sandbox would replay its host's), what loads kernel
/// modules and mounts the kernel's own file systems for people who debug it, and the care of packages and disks that a
/// machine made from an image does not need.
const MASKED: [&str; 27] = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "kmod-static-nodes.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-firstboot.service",
    "systemd-logind.service",
    "systemd-pstore.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
    "systemd-vconsole-setup.service",
    "xfs_scrub_all.timer",
];

/// Folders that machines have beside Debian's.
const FOLDERS: [(&str, u32); 7] = [
    ("etc/kubernetes/manifests", 0o700),
    ("etc/windlass", 0o700),
    ("opt/cni/bin", 0o755),
    ("var/lib/containerd", 0o700),
    ("var/lib/kubelet", 0o750),
    ("var/lib/windlass", 0o700),
    ("var/log/journal", 0o755),
];

/// Lays everything below `root`, whose folders get the permissions of a root.
pub(super) fn lay(root: &Path) -> io::Result<()> {
    for (path, mode) in FOLDERS {
        folder(root, path)?;
        fs_err::set_permissions(root.join(path), PermissionsExt::from_mode(mode))?;
    }
    for (path, mode, content) in FILES {
        let (parent, _) = path.rsplit_once('/').unwrap_or(("", path));
        folder(root, parent)?;
        fs_err::write(root.join(path), content)?;
        fs_err::set_permissions(root.join(path), PermissionsExt::from_mode(mode))?;
    }
    for (unit, target) in ENABLED {
        folder(root, &format!("{UNITS}/{target}"))?;
        symlink(format!("../{unit}"), root.join(UNITS).join(target).join(unit))?;
    }
    for unit in MASKED {
        symlink("/dev/null", root.join(UNITS).join(unit))?;
    }
    symlink("/lib/systemd/system/multi-user.target", root.join(UNITS).join("default.target"))
}

/// Says to systemd that nothing in `/usr` changed since the image was made, so that a machine's first boot does not run
/// its updates. Must be the last that is written.
pub(super) fn mark_updated(root: &Path) -> io::Result<()> {
    for path in ["etc/.updated", "var/.updated"] {
        fs_err::write(root.join(path), "")?;
    }
    Ok(())
}

/// Makes a folder and its parents with mode 0755, whatever the umask is.
pub(super) fn folder(root: &Path, path: &str) -> io::Result<()> {
    let mut folder = root.to_path_buf();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        folder.push(part);
        if !folder.try_exists()? {
            fs_err::create_dir(&folder)?;
            fs_err::set_permissions(&folder, PermissionsExt::from_mode(0o755))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enabled_is_there_and_what_is_masked_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        lay(root.path()).unwrap();
        mark_updated(root.path()).unwrap();
        for (unit, target) in ENABLED {
            assert!(fs_err::metadata(root.path().join(UNITS).join(target).join(unit)).unwrap().is_file(), "{unit}");
            assert!(!MASKED.contains(&unit));
        }
        let masked = fs_err::read_link(root.path().join(UNITS).join("systemd-udevd.service")).unwrap();
        assert_eq!(masked, Path::new("/dev/null"));
        let mode = fs_err::metadata(root.path().join("etc/windlass")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
