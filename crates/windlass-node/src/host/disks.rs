//! Block devices: what is on them, by a low-level probe, and how they are formatted and mounted.
//!
//! Inputs: a device path, blkid, wipefs, mount. Outputs: [`Probe`] (blank only when nothing at all is there), mounts by
//! device number and not by name, and a mark at the end of a device by which a format that was cut short is known again.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::{Command, CommandError, Commands};

/// What a device carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// No signature, and zeroes at both ends.
    Blank,
    /// A file system.
    Filesystem {
        /// `ext4` …
        kind: String,
        /// Its UUID.
        uuid: String,
    },
    /// Anything else; what, for people.
    Other(String),
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its node, links followed.
    pub path: PathBuf,
    /// Size.
    pub bytes: u64,
    /// Major and minor number.
    pub number: (u32, u32),
}

/// An operation on a device that failed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Reading it.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing to it.
    #[error("writing to {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no block device.
    #[error("{} is no block device", path.display())]
    NotADevice {
        /// Which.
        path: PathBuf,
    },
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// Opens a device; none when there is no such path yet.
///
/// # Errors
/// When the path is no block device or cannot be read.
pub fn open(path: &Path) -> Result<Option<Device>, DiskError> {
    let fail = |source| DiskError::Read { path: path.to_owned(), source };
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let metadata = real.metadata().map_err(fail)?;
    if !metadata.file_type().is_block_device() {
        return Err(DiskError::NotADevice { path: real });
    }
    let mut file = match std::fs::File::open(&real) {
        Ok(file) => file,
        // The node is there before its disk.
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let bytes = file.seek(SeekFrom::End(0)).map_err(fail)?;
    let device = metadata.rdev();
    Ok(Some(Device { path: real, bytes, number: (rustix::fs::major(device), rustix::fs::minor(device)) }))
}

fn is_absent(error: &io::Error) -> bool {
    let absent = [rustix::io::Errno::NXIO, rustix::io::Errno::NODEV].map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| absent.contains(&code))
}

/// Looks at everything a device may carry.
///
/// # Errors
/// When it cannot be read or a program fails.
pub async fn probe(commands: &dyn Commands, device: &Device) -> Result<Probe, DiskError> {
    let path = device.path.display().to_string();
    let blkid = commands.run(Command::new("blkid", ["-p", "-o", "export", &path])).await?;
    match blkid.code {
        Some(0) => return Ok(parse_blkid(&blkid.stdout)),
        Some(2) => {}
        _ => return Ok(Probe::Other(format!("ambiguous signatures ({})", blkid.stderr.trim()))),
    }
    let signatures = commands.succeed(Command::new("wipefs", ["--no-act", "--parsable", &path])).await?;
    if let Some(signature) = signatures.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        return Ok(Probe::Other(format!("a signature ({})", signature.trim())));
    }
    let device = device.clone();
    let zeroed = tokio::task::spawn_blocking(move || ends_are_zero(&device)).await;
    match zeroed {
        Ok(zeroed) => {
            Ok(if zeroed? { Probe::Blank } else { Probe::Other("data without a known signature".to_owned()) })
        }
        Err(stopped) => Err(DiskError::Read { path: path.into(), source: io::Error::other(stopped) }),
    }
}

/// Reads `blkid -o export`.
fn parse_blkid(text: &str) -> Probe {
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
    match (field("PTTYPE"), field("USAGE"), field("TYPE"), field("UUID")) {
        (Some(table), ..) => Probe::Other(format!("a partition table ({table})")),
        (None, Some(usage), Some(kind), Some(uuid)) if usage == "filesystem" => Probe::Filesystem { kind, uuid },
        (None, _, Some(kind), _) => Probe::Other(format!("a signature ({kind})")),
        (None, ..) => Probe::Other("an unknown signature".to_owned()),
    }
}

const MIB: u64 = 1 << 20;
/// Bytes at the end of a device that no file system is made on: there lies the mark of a format that was begun.
const TAIL: u64 = MIB;
/// What a device writes whole or not at all.
const SECTOR: usize = 512;

fn ends_are_zero(device: &Device) -> Result<bool, DiskError> {
    let fail = |source| DiskError::Read { path: device.path.clone(), source };
    let mut file = std::fs::File::open(&device.path).map_err(fail)?;
    let mut buffer = Vec::new();
    for start in [0, device.bytes.saturating_sub(MIB)] {
        buffer.clear();
        file.seek(SeekFrom::Start(start)).map_err(fail)?;
        file.by_ref().take(MIB).read_to_end(&mut buffer).map_err(fail)?;
        if buffer.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes an ext4 file system with this UUID on all but the tail. The caller has proven that nothing is lost.
///
/// # Errors
/// When mkfs fails.
pub async fn format(commands: &dyn Commands, device: &Device, uuid: &str) -> Result<(), DiskError> {
    let (path, size) = (device.path.display().to_string(), format!("{}k", device.bytes.saturating_sub(TAIL) >> 10));
    let options = "nodiscard,lazy_itable_init=1,lazy_journal_init=1";
    let args = ["-q", "-F", "-m", "0", "-E", options, "-U", uuid, &path, &size];
    commands.succeed(Command::new("mkfs.ext4", args).timeout(Duration::from_secs(300))).await?;
    Ok(())
}

/// Writes a mark into the tail of a blank device; it is on the disk when this returns.
///
/// # Errors
/// When writing fails or the text is longer than a sector.
pub async fn mark(device: &Device, text: &str) -> Result<(), DiskError> {
    let sector = sector(text).ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge));
    write_tail(device, sector).await
}

/// Takes the mark away, once everything written before is on the disk.
///
/// # Errors
/// When writing fails.
pub async fn unmark(device: &Device) -> Result<(), DiskError> {
    write_tail(device, Ok([0; SECTOR])).await
}

/// Does the device carry this very mark?
///
/// # Errors
/// When it cannot be read.
pub fn has_mark(device: &Device, text: &str) -> Result<bool, DiskError> {
    let read = || {
        let mut found = [0; SECTOR];
        std::fs::File::open(&device.path)?.read_exact_at(&mut found, device.bytes.saturating_sub(TAIL))?;
        Ok(Some(found) == sector(text))
    };
    read().map_err(|source| DiskError::Read { path: device.path.clone(), source })
}

fn sector(text: &str) -> Option<[u8; SECTOR]> {
    let mut sector = [0; SECTOR];
    sector.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(sector)
}

async fn write_tail(device: &Device, sector: io::Result<[u8; SECTOR]>) -> Result<(), DiskError> {
    let (path, at) = (device.path.clone(), device.bytes.saturating_sub(TAIL));
    let write = move || {
        let file = std::fs::File::options().write(true).open(path)?;
        file.sync_all()?;
        file.write_all_at(&sector?, at)?;
        file.sync_all()
    };
    let written = tokio::task::spawn_blocking(write).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
    written.map_err(|source| DiskError::Write { path: device.path.clone(), source })
}

/// Mounts a device.
///
/// # Errors
/// When mount fails or the mount point cannot be made.
pub async fn mount(commands: &dyn Commands, device: &Device, at: &Path, options: &str) -> Result<(), DiskError> {
    std::fs::create_dir_all(at).map_err(|source| DiskError::Read { path: at.to_owned(), source })?;
    let (path, at) = (device.path.display().to_string(), at.display().to_string());
    commands.succeed(Command::new("mount", ["-t", "ext4", "-o", options, &path, &at])).await?;
    Ok(())
}

/// Takes a mount away.
///
/// # Errors
/// When umount fails.
pub async fn unmount(commands: &dyn Commands, at: &Path) -> Result<(), DiskError> {
    commands.succeed(Command::new("umount", [at.display().to_string()])).await?;
    Ok(())
}

/// The device number mounted at a path, topmost mount first.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn mounted_at(at: &Path) -> Result<Option<(u32, u32)>, DiskError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(path).map_err(|source| DiskError::Read { path: path.to_owned(), source })?;
    let at = at.canonicalize().unwrap_or_else(|_| at.to_owned());
    Ok(find_mount(&text, &at.display().to_string()))
}

/// Finds a mount point in the text of `/proc/self/mountinfo`.
fn find_mount(text: &str, at: &str) -> Option<(u32, u32)> {
    text.lines().rev().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (number, point) = (fields.get(2)?, fields.get(4)?);
        let (major, minor) = number.split_once(':')?;
        (unescape(point) == at).then(|| Some((major.parse().ok()?, minor.parse().ok()?)))?
    })
}

/// The kernel writes blanks in mount points as octal.
fn unescape(point: &str) -> String {
    point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_is_read() {
        let ext4 = "DEVNAME=/dev/loop0\nUUID=ab-cd\nVERSION=1.0\nTYPE=ext4\nUSAGE=filesystem\n";
        assert_eq!(parse_blkid(ext4), Probe::Filesystem { kind: "ext4".into(), uuid: "ab-cd".into() });
        assert_eq!(parse_blkid("PTUUID=1\nPTTYPE=gpt\n"), Probe::Other("a partition table (gpt)".into()));
        let lvm = "UUID=x\nTYPE=LVM2_member\nUSAGE=raid\n";
        assert_eq!(parse_blkid(lvm), Probe::Other("a signature (LVM2_member)".into()));
    }

    #[test]
    fn the_topmost_mount_is_found_by_number() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw - ext3 /dev/root rw\n37 36 7:3 / /a\\040b rw - ext4 /dev/loop3 rw\n\
                    38 37 7:4 / /a\\040b rw - ext4 /dev/loop4 rw\n";
        assert_eq!(find_mount(text, "/a b"), Some((7, 4)));
        assert_eq!(find_mount(text, "/mnt2"), Some((98, 0)));
        assert_eq!(find_mount(text, "/other"), None);
    }

    #[tokio::test]
    async fn a_mark_is_found_again_and_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(4 * MIB).unwrap();
        let device = Device { path, bytes: 4 * MIB, number: (0, 0) };
        assert!(ends_are_zero(&device).unwrap() && !has_mark(&device, "mine").unwrap());
        mark(&device, "mine").await.unwrap();
        assert!(has_mark(&device, "mine").unwrap() && !has_mark(&device, "min").unwrap());
        assert!(!ends_are_zero(&device).unwrap(), "a device with a mark is not blank");
        unmark(&device).await.unwrap();
        assert!(ends_are_zero(&device).unwrap());
        assert!(mark(&device, &"x".repeat(SECTOR + 1)).await.is_err());
    }
}
