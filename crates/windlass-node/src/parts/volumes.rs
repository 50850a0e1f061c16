//! Block volumes: found, checked, formatted only when blank, mounted, labelled.
//!
//! Inputs: a device by tag, who owns it by the label inside, the ledger. Output: the volume mounted at its place.
//! Anything that is neither blank nor ours is refused with what was found: a foreign cluster's, another slot's, an older
//! copy of ours, a partition table, LVM, LUKS, any signature.
//!
//! A format that a power loss cuts leaves a device that is neither blank nor whole. So that it can be begun again without
//! a doubt, the intent is noted twice before the first byte of a file system is written: in the ledger, and, while the
//! device is still blank, on the device itself, at its end, where the file system does not reach. Only a device that
//! carries the very mark the ledger knows is formatted again, and the mark goes when the file system is on the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_spec::identity::{ClusterId, FormAttempt, Slot};
use windlass_spec::node_config::{DeviceSelector, EtcdPermit, Volume};

use super::{Context, volume_part};
use crate::boot_id::random_uuid;
use crate::error::{Changes, PartError};
use crate::host::disks::{self, Device, Probe};
use crate::host::{Host, files};
use crate::ledger::VolumeRecord;
use crate::paths;

/// Name of the label inside a volume.
pub const LABEL: &str = "windlass-volume.json";
/// Smallest device that is taken: etcd's log alone reserves two segments of 64 MiB.
const SMALLEST: u64 = 200 << 20;
const PAUSE: Duration = Duration::from_millis(200);
/// Held while a volume is looked at, formatted or mounted.
static AT_WORK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What is written inside a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Label {
    /// Format of this document: [`Label::FORMAT`].
    pub format: u32,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// The control-plane place it belongs to.
    pub slot: Slot,
    /// How often it was mounted; an older copy has a lower count.
    pub serial: u64,
    /// The attempt to form etcd begun on it.
    pub attempt: Option<FormAttempt>,
    /// The attempt that is known to have formed the cluster its data belongs to.
    pub formed_by: Option<FormAttempt>,
}

impl Label {
    /// Version of the format written by this build.
    pub const FORMAT: u32 = 1;

    /// Reads the label of a mounted volume.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(mount_point: &Path) -> io::Result<Option<Self>> {
        let text = files::read_text(&mount_point.join(LABEL))?;
        text.map(|text| serde_json::from_str(&text).map_err(io::Error::other)).transpose()
    }

    /// Writes it, synced.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&self, mount_point: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        files::replace_durably(mount_point.join(LABEL), &text, 0o600)
    }
}

/// What a label must say.
#[derive(Clone, Debug)]
struct Wanted {
    cluster_id: ClusterId,
    slot: Slot,
    attempt: Option<FormAttempt>,
    serial: u64,
}

/// Brings one volume to its place.
///
/// # Errors
/// When the device is not ours and not blank, or a step fails.
pub async fn apply(cx: &Context, volume: &Volume) -> Result<Changes, PartError> {
    if let DeviceSelector::Directory(directory) = &volume.device {
        return apply_directory(cx, volume, directory);
    }
    if volume.filesystem != "ext4" {
        return Err(refused(volume, format!("file system {} is not known; ext4 is", volume.filesystem)));
    }
    let device = found(cx, volume).await?;
    let (context, wanted) = (cx.clone(), volume.clone());
    // On its own, so that a new configuration in the midst does not stop a format half way; and alone, so that the work
    // for that configuration does not meet the half of a file system.
    let work = tokio::spawn(async move {
        let _alone = AT_WORK.lock().await;
        apply_device(&context, &wanted, &device).await
    });
    work.await.map_err(|stopped| refused(volume, stopped.to_string()))?
}

fn refused(volume: &Volume, reason: String) -> PartError {
    PartError::Volume { volume: volume.name.clone(), reason }
}

fn wanted(cx: &Context, volume: &Volume) -> Wanted {
    let member = cx.config().etcd.as_ref().filter(|member| member.volume == volume.name);
    let attempt = member.map(|member| match &member.permit {
        EtcdPermit::Form { attempt } => attempt.clone(),
        EtcdPermit::Join { formed_by } => formed_by.clone(),
    });
    let serial = cx.ledger.get().volumes.get(&volume.name).map_or(0, |record| record.serial);
    Wanted { cluster_id: cx.config().cluster_id.clone(), slot: volume.slot, attempt, serial }
}

/// Waits for the device to be there.
async fn found(cx: &Context, volume: &Volume) -> Result<Device, PartError> {
    let path = match &volume.device {
        DeviceSelector::Tag(tag) => cx.host.root.at(format!("/dev/windlass/{tag}")),
        DeviceSelector::Path(path) | DeviceSelector::Directory(path) => cx.host.root.at(path),
    };
    loop {
        match disks::open(&path)? {
            Some(device) if device.bytes >= SMALLEST => return Ok(device),
            Some(device) if device.bytes > 0 => {
                let reason = format!(
                    "{} has {} MiB, at least {} are needed",
                    path.display(),
                    device.bytes >> 20,
                    SMALLEST >> 20
                );
                return Err(refused(volume, reason));
            }
            _ => {
                cx.board.waiting(&volume_part(&volume.name), format!("the device {} to be attached", path.display()));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn apply_device(cx: &Context, volume: &Volume, device: &Device) -> Result<Changes, PartError> {
    let at = cx.host.root.at(&volume.mount_point);
    match disks::mounted_at(&at)? {
        Some(number) if number == device.number => {
            check(volume, &wanted(cx, volume), read_label(&at)?.as_ref())?;
            return Ok(Changes::new());
        }
        Some((major, minor)) => {
            let reason = format!("device {major}:{minor} is mounted at its place, not {}", device.path.display());
            return Err(refused(volume, reason));
        }
        None => {}
    }
    let mut changes = Changes::new();
    let uuid = match begun(cx, volume, device)? {
        Some(uuid) => {
            changes.push(format!("formatted {} again, which was cut short", device.path.display()));
            format(cx, volume, device, uuid).await?
        }
        None => find_or_make(cx, volume, device, &mut changes).await?,
    };
    disks::mount(cx.host.commands.as_ref(), device, &at, "noatime").await?;
    changes.push(format!("mounted {} at {}", device.path.display(), volume.mount_point));
    take(cx, volume, &at, uuid)?;
    Ok(changes)
}

fn not_blank(volume: &Volume, device: &Device, what: &str) -> PartError {
    refused(
        volume,
        format!("{} is not blank: it carries {what}; only a blank device is formatted", device.path.display()),
    )
}

fn read_label(at: &Path) -> Result<Option<Label>, PartError> {
    Label::read(at).map_err(PartError::file(&at.join(LABEL)))
}

/// The UUID of the file system on the device: ours, or made because there is nothing at all.
async fn find_or_make(
    cx: &Context,
    volume: &Volume,
    device: &Device,
    changes: &mut Changes,
) -> Result<String, PartError> {
    match disks::probe(cx.host.commands.as_ref(), device).await? {
        Probe::Blank => {
            let uuid = random_uuid();
            begin(cx, volume, device, &uuid).await?;
            changes.push(format!("formatted {}, which was blank", device.path.display()));
            format(cx, volume, device, uuid).await
        }
        Probe::Filesystem { kind, uuid } if kind == "ext4" => {
            look_inside(cx, volume, device, &uuid).await?;
            Ok(uuid)
        }
        Probe::Filesystem { kind, .. } => Err(not_blank(volume, device, &format!("a file system ({kind})"))),
        Probe::Other(what) => Err(not_blank(volume, device, &what)),
    }
}

/// What stands at the end of a device while it is formatted.
fn intent(cx: &Context, volume: &Volume, uuid: &str) -> String {
    format!("windlass formats: cluster {} volume {} uuid {uuid}\n", cx.config().cluster_id, volume.name)
}

/// Notes that a blank device is about to be formatted.
async fn begin(cx: &Context, volume: &Volume, device: &Device, uuid: &str) -> Result<(), PartError> {
    cx.ledger.update(|ledger| {
        let record = ledger.volumes.entry(volume.name.clone()).or_default();
        *record = VolumeRecord { uuid: uuid.to_owned(), formatting: true, serial: record.serial };
    })?;
    Ok(disks::mark(device, &intent(cx, volume, uuid)).await?)
}

/// The UUID of a format of this device that was begun here and did not end.
fn begun(cx: &Context, volume: &Volume, device: &Device) -> Result<Option<String>, PartError> {
    let record = cx.ledger.get().volumes.remove(&volume.name).filter(|record| record.formatting);
    match record {
        Some(VolumeRecord { uuid, .. }) => Ok(disks::has_mark(device, &intent(cx, volume, &uuid))?.then_some(uuid)),
        None => Ok(None),
    }
}

async fn format(cx: &Context, volume: &Volume, device: &Device, uuid: String) -> Result<String, PartError> {
    cx.board.waiting(&volume_part(&volume.name), format!("{} to be formatted", device.path.display()));
    disks::format(cx.host.commands.as_ref(), device, &uuid).await?;
    disks::unmark(device).await?;
    Ok(uuid)
}

/// Mounts read-only beside, without replaying the journal, and looks at the label.
async fn look_inside(cx: &Context, volume: &Volume, device: &Device, uuid: &str) -> Result<(), PartError> {
    let beside: PathBuf = cx.host.root.at(format!("{}/volumes/{}", paths::RUN_DIR, volume.name));
    disks::mount(cx.host.commands.as_ref(), device, &beside, "ro,noload").await?;
    let label = read_label(&beside);
    disks::unmount(cx.host.commands.as_ref(), &beside).await?;
    let label = label?;
    let formatting =
        cx.ledger.get().volumes.get(&volume.name).is_some_and(|known| known.formatting && known.uuid == uuid);
    if label.is_none() && formatting {
        return Ok(());
    }
    check(volume, &wanted(cx, volume), label.as_ref())
}

/// Is it ours, and not an older copy?
fn check(volume: &Volume, wanted: &Wanted, label: Option<&Label>) -> Result<(), PartError> {
    let Some(label) = label else {
        return Err(refused(volume, "it is not blank: a file system without a Windlass label".to_owned()));
    };
    let reason = if label.format != Label::FORMAT {
        Some(format!("its label has format {}, this build knows {}", label.format, Label::FORMAT))
    } else if label.cluster_id != wanted.cluster_id {
        Some(format!("it belongs to cluster {}, this is {}", label.cluster_id, wanted.cluster_id))
    } else if label.slot != wanted.slot {
        Some(format!("it belongs to slot {}, this machine claims {}", label.slot, wanted.slot))
    } else if label.serial < wanted.serial {
        Some(format!(
            "it is an older copy (mounted {} times, the one known here {}): quarantined, left as it is",
            label.serial, wanted.serial
        ))
    } else {
        let knows = label.formed_by.as_ref().or(label.attempt.as_ref());
        knows.zip(wanted.attempt.as_ref()).filter(|(found, wanted)| found != wanted).map(|(found, wanted)| {
            format!(
                "it is a stale twin: of attempt {found}, the cluster was formed by {wanted}; quarantined, left as it is"
            )
        })
    };
    reason.map_or(Ok(()), |reason| Err(refused(volume, reason)))
}

/// Writes the label of a new volume, or counts this mount.
fn take(cx: &Context, volume: &Volume, at: &Path, uuid: String) -> Result<(), PartError> {
    let wanted = wanted(cx, volume);
    let label = match read_label(at)? {
        Some(label) => Label { serial: label.serial + 1, ..label },
        None => Label {
            format: Label::FORMAT,
            cluster_id: wanted.cluster_id,
            slot: wanted.slot,
            serial: wanted.serial + 1,
            attempt: None,
            formed_by: None,
        },
    };
    label.write(at).map_err(PartError::file(&at.join(LABEL)))?;
    let record = VolumeRecord { uuid, serial: label.serial, formatting: false };
    cx.ledger.update(|ledger| {
        ledger.volumes.insert(volume.name.clone(), record);
    })?;
    Ok(())
}

/// A plain directory where there is no disk to give.
fn apply_directory(cx: &Context, volume: &Volume, directory: &str) -> Result<Changes, PartError> {
    let (directory, at) = (cx.host.root.at(directory), cx.host.root.at(&volume.mount_point));
    fs_err::create_dir_all(&directory).map_err(PartError::file(&directory))?;
    if directory != at && !at.exists() {
        let parent = at.parent().unwrap_or(Path::new("/"));
        fs_err::create_dir_all(parent).map_err(PartError::file(parent))?;
        std::os::unix::fs::symlink(&directory, &at).map_err(PartError::file(&at))?;
    }
    let stamp = cx.host.root.at(format!("{}/volumes/{}.taken", paths::RUN_DIR, volume.name));
    if let Some(label) = read_label(&at)? {
        check(volume, &wanted(cx, volume), Some(&label))?;
    }
    if !files::ensure(&stamp, b"", 0o644, None).map_err(PartError::file(&stamp))? {
        return Ok(Changes::new());
    }
    take(cx, volume, &at, String::new())?;
    Ok(vec![format!("took {}", directory.display())])
}

/// Where a volume is mounted.
///
/// # Errors
/// When the configuration has no volume of that name.
pub(crate) fn mount_point(host: &Host, volumes: &[Volume], name: &str) -> Result<PathBuf, PartError> {
    let found = volumes.iter().find(|volume| volume.name == name);
    let problem = || PartError::Config { what: format!("volume {name}"), problem: "it is not configured".to_owned() };
    found.map(|volume| host.root.at(&volume.mount_point)).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = include_str!("../../fixtures/volume-label-v1.json");

    fn label() -> Label {
        serde_json::from_str(V1).unwrap()
    }

    fn volume() -> Volume {
        Volume {
            name: "etcd-main".into(),
            device: DeviceSelector::Tag("etcd-main-a".into()),
            slot: Slot::A,
            mount_point: "/var/lib/windlass/volumes/etcd-main".into(),
            filesystem: "ext4".into(),
        }
    }

    fn ours() -> Wanted {
        Wanted { cluster_id: "0123456789abcdef".into(), slot: Slot::A, attempt: Some("5f0e".into()), serial: 3 }
    }

    #[test]
    fn format_1_is_read_and_written_alike() {
        assert_eq!(serde_json::to_string_pretty(&label()).unwrap(), V1.trim_end());
    }

    #[test]
    fn only_ours_is_taken() {
        assert!(check(&volume(), &ours(), Some(&label())).is_ok());
        let refusals = [
            (ours(), None, "without a Windlass label"),
            (ours(), Some(Label { format: 2, ..label() }), "format 2"),
            (ours(), Some(Label { cluster_id: "f".into(), ..label() }), "belongs to cluster f"),
            (ours(), Some(Label { slot: Slot::B, ..label() }), "slot b"),
            (Wanted { serial: 4, ..ours() }, Some(label()), "an older copy"),
            (Wanted { attempt: Some("other".into()), ..ours() }, Some(label()), "a stale twin"),
        ];
        for (wanted, label, word) in refusals {
            let error = check(&volume(), &wanted, label.as_ref()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
