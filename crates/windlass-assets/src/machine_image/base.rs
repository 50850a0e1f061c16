//! The lower half of a machine image: the Debian root with the bundle's programs, and a store with the bundle's images.
//! Made once a bundle.
//!
//! Input: a verified bundle. Output: a folder with `root` and `containerd`, whole or not at all.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::bundle::Bundle;
use crate::cache::{Cache, CacheLock};
use crate::debian;
use crate::lock::Lock;
use crate::progress::{Progress, detail, step};

use super::files::folder;
use super::{MachineImageError, containerd};

/// Changes when the way a base is made does.
const FORMAT: u32 = 1;

/// The root below a base.
pub(super) const ROOT: &str = "root";
/// The store below a base or image.
pub(super) const STORE: &str = "containerd";

/// What Debian's packages leave that must differ on each machine, or that starts a server nobody asked for: the SSH server
/// is the agent's to start, when there are users with keys.
const REMOVED: [&str; 7] = [
    "etc/hostname",
    "etc/machine-id",
    "etc/resolv.conf",
    "etc/systemd/system/multi-user.target.wants/ssh.service",
    "etc/systemd/system/sshd.service",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
];

/// Host keys made when the package was installed.
const HOST_KEYS: (&str, &str) = ("etc/ssh", "ssh_host_");

/// Name of a bundle's base.
pub(super) fn name(bundle: &Bundle) -> String {
    format!("base-{}-{FORMAT}", bundle.name())
}

/// The base of a bundle, made if it is not there.
pub(super) fn ensure(
    bundle: &Bundle,
    cache: &Cache,
    lock: &CacheLock,
    progress: &dyn Progress,
) -> Result<PathBuf, MachineImageError> {
    let place = cache.machine_images().join(name(bundle));
    if place.is_dir() {
        return Ok(place);
    }
    step(progress, "verify the bundle", || bundle.verify())?;
    let work = lock.work_folder("base").map_err(MachineImageError::Write)?;
    step(progress, "machine root", || make_root(bundle, &work.join(ROOT)))?;
    let name = "containerd store";
    step(progress, name, || {
        let references: Vec<String> = bundle.lock().images.values().map(|image| image.reference.clone()).collect();
        let said = |text: &str| detail(progress, name, text);
        containerd::fill(bundle, cache, &work.join(STORE), &bundle.layouts(), &references, &said)
    })?;
    fs_err::create_dir_all(cache.machine_images())
        .and_then(|()| fs_err::rename(&work, &place))
        .map_err(MachineImageError::Write)?;
    Ok(place)
}

fn make_root(bundle: &Bundle, root: &Path) -> Result<(), MachineImageError> {
    debian::unpack(&bundle.root_archive(), root)?;
    settle(root).and_then(|()| install(bundle, root)).map_err(MachineImageError::Write)
}

/// Takes away what is not for every machine alike.
fn settle(root: &Path) -> io::Result<()> {
    fs_err::set_permissions(root, PermissionsExt::from_mode(0o755))?;
    for path in REMOVED {
        match fs_err::remove_file(root.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
    }
    let (keys, prefix) = HOST_KEYS;
    for entry in fs_err::read_dir(root.join(keys))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs_err::remove_file(entry.path())?;
        }
    }
    // Empty, not missing: systemd then makes one up at boot without taking it for a first boot of a whole system.
    fs_err::write(root.join("etc/machine-id"), "")
}

/// Copies the bundle's programs, documents and lock to their places. Copies, so that damage to one is not damage to both.
fn install(bundle: &Bundle, root: &Path) -> io::Result<()> {
    let copy = |source: &Path, target: &str, mode: u32| {
        let (parent, _) = target.rsplit_once('/').unwrap_or(("", target));
        folder(root, parent)?;
        let target = root.join(target.trim_start_matches('/'));
        fs_err::copy(source, &target)?;
        fs_err::set_permissions(&target, PermissionsExt::from_mode(mode))
    };
    for (path, entry) in &bundle.lock().files {
        if let Some(target) = &entry.install {
            copy(&bundle.folder().join(path), target, if entry.executable { 0o755 } else { 0o644 })?;
        }
    }
    copy(&bundle.folder().join(Lock::FILE), Lock::INSTALLED, 0o644)
}
