//! Volumes: sparse files on loop devices, and their nodes inside machines.
//!
//! Inputs: a file and its size; a machine's process. Outputs: a loop device, found again by its backing file; a node
//! `/dev/loopN` and a link `/dev/windlass/TAG` in the machine, also in a running one.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::super::files;
use super::command::{self, CommandError};
use super::process::ProcessId;

/// Serialises `losetup --find`, so that two volumes never race for one device.
static FINDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What went wrong with a volume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    /// Its file or its nodes.
    #[error("{operation} {path}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `losetup`.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The device stays.
    #[error("{device} is still in use by {file}")]
    Busy {
        /// The device.
        device: PathBuf,
        /// The volume.
        file: PathBuf,
    },
}

/// Makes a volume's file, sparse; an existing one is kept with its content.
pub(crate) fn make(path: &Path, bytes: u64) -> Result<(), VolumeError> {
    let failed = |source| VolumeError::File { operation: "making volume", path: path.to_owned(), source };
    if path.exists() {
        return Ok(());
    }
    windlass_files::private_folder(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    let beside = path.with_extension("new");
    let file = File::create(&beside).map_err(failed)?;
    file.set_len(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs_err::rename(&beside, path).map_err(failed)
}

/// The loop device of a file, attached when it has none.
pub(crate) async fn attach(file: &Path) -> Result<PathBuf, VolumeError> {
    let _alone = FINDING.lock().await;
    if let Some(device) = device_of(file) {
        return Ok(device);
    }
    let printed = command::run("losetup", ["--find", "--show", "--nooverlap", &file.to_string_lossy()]).await?;
    Ok(PathBuf::from(printed.trim()))
}

/// Detaches every loop device of a file and waits until it is gone.
pub(crate) async fn detach(file: &Path) -> Result<(), VolumeError> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Some(device) = device_of(file) {
        if Instant::now() > deadline {
            return Err(VolumeError::Busy { device, file: file.to_owned() });
        }
        // A mounted one is only marked, and goes when the last mount does: hence the look afterwards.
        if let Err(error) = command::run("losetup", ["--detach", &device.to_string_lossy()]).await {
            tracing::debug!(device = %device.display(), %error, "not detached yet");
        }
        if device_of(file).is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Finds the device by the backing file, since numbers change from boot to boot.
fn device_of(file: &Path) -> Option<PathBuf> {
    let wanted = std::fs::metadata(file).ok()?;
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut loops = entries.filter(|entry| {
        let Ok(backing) = std::fs::read_to_string(entry.path().join("loop/backing_file")) else { return false };
        let same = |meta: std::fs::Metadata| (meta.dev(), meta.ino()) == (wanted.dev(), wanted.ino());
        std::fs::metadata(backing.trim_end_matches('\n')).is_ok_and(same)
    });
    Some(Path::new("/dev").join(loops.next()?.file_name()))
}

/// Gives a running machine the device under its tag.
pub(crate) fn show(machine: ProcessId, tag: &str, device: &Path) -> Result<(), VolumeError> {
    let failed =
        |path: &Path, source| VolumeError::File { operation: "giving the machine", path: path.to_owned(), source };
    let meta = std::fs::metadata(device).map_err(|source| failed(device, source))?;
    let name = device.file_name().unwrap_or_default();
    let node = machine.inside("/dev").join(name);
    let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let known =
        std::fs::metadata(&node).is_ok_and(|old| old.file_type().is_block_device() && old.rdev() == meta.rdev());
    if !known {
        files::remove_if_there(&node).map_err(|source| failed(&node, source))?;
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &node, FileType::BlockDevice, mode, makedev(major, minor))
            .map_err(|error| failed(&node, error.into()))?;
    }
    let folder = machine.inside("/dev/windlass");
    fs_err::create_dir_all(&folder).map_err(|source| failed(&folder, source))?;
    link(&folder.join(tag), &Path::new("..").join(name)).map_err(|source| failed(&folder, source))
}

fn link(path: &Path, target: &Path) -> io::Result<()> {
    if std::fs::read_link(path).is_ok_and(|old| old == target) {
        return Ok(());
    }
    let beside = path.with_extension("new");
    files::remove_if_there(&beside)?;
    fs_err::os::unix::fs::symlink(target, &beside)?;
    rustix::fs::renameat(CWD, &beside, CWD, path)?;
    Ok(())
}
