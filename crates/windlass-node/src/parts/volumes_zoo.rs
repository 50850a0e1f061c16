//! Real devices of every kind before the volume part (root only: loop devices, mkfs, mount).

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use fs_err as fs;
use windlass_spec::identity::Slot;
use windlass_spec::node_config::{DeviceSelector, Volume};
use windlass_testkit::needs;

use super::volumes::{self, LABEL, Label};
use super::{Context, fixture};
use crate::error::{Changes, PartError};
use crate::host::command::SystemCommands;
use crate::host::disks;
use crate::ledger::VolumeRecord;

const MOUNT_POINT: &str = "/var/lib/windlass/volumes/etcd-main";
const BYTES: u64 = 256 << 20;

fn sh(script: &str) -> String {
    let done = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A machine with one device at its tag.
struct Zoo {
    machine: fixture::Machine,
    files: tempfile::TempDir,
    device: String,
}

impl Zoo {
    fn new(bytes: u64) -> Self {
        let mut zoo = Self { machine: fixture::machine(), files: tempfile::tempdir().unwrap(), device: String::new() };
        zoo.attach("disk", bytes);
        zoo
    }

    /// Attaches a file as the device, made when it is not there.
    fn attach(&mut self, name: &str, bytes: u64) {
        self.detach();
        let file = self.files.path().join(name);
        if !file.exists() {
            fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        }
        self.device = sh(&format!("losetup --find --show {}", file.display()));
        let tag = self.machine.path("/dev/windlass/etcd-main-a");
        fs::create_dir_all(tag.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&tag);
        std::os::unix::fs::symlink(&self.device, &tag).unwrap();
    }

    fn at(&self) -> PathBuf {
        self.machine.path(MOUNT_POINT)
    }

    fn unmount(&self) {
        while disks::mounted_at(&self.at()).unwrap().is_some() {
            sh(&format!("umount {}", self.at().display()));
        }
    }

    fn detach(&self) {
        self.unmount();
        if !self.device.is_empty() {
            sh(&format!("losetup --detach {}", self.device));
        }
    }

    fn context(&self) -> Context {
        let mut cx = self.machine.context();
        cx.host.commands = Arc::new(SystemCommands);
        cx
    }

    async fn apply(&self) -> Result<Changes, PartError> {
        let volume = Volume {
            name: "etcd-main".into(),
            device: DeviceSelector::Tag("etcd-main-a".into()),
            slot: Slot::A,
            mount_point: MOUNT_POINT.into(),
            filesystem: "ext4".into(),
        };
        volumes::apply(&self.context(), &volume).await
    }

    async fn refusal(&self) -> String {
        let error = self.apply().await.unwrap_err().to_string();
        assert_eq!(disks::mounted_at(&self.at()).unwrap(), None, "{error}");
        error
    }
}

impl Drop for Zoo {
    fn drop(&mut self) {
        self.detach();
    }
}

#[tokio::test]
async fn a_blank_device_is_formatted_once_and_found_again() {
    if !needs::root() {
        return;
    }
    let zoo = Zoo::new(BYTES);
    assert_eq!(zoo.apply().await.unwrap().len(), 2);
    assert!(zoo.apply().await.unwrap().is_empty(), "a second time");
    fs::write(zoo.at().join("kept"), "data").unwrap();
    zoo.unmount();
    assert_eq!(zoo.apply().await.unwrap().len(), 1, "mounted again, not formatted");
    assert_eq!(fs::read_to_string(zoo.at().join("kept")).unwrap(), "data");
    assert_eq!(Label::read(&zoo.at()).unwrap().unwrap().serial, 2);
}

#[tokio::test]
async fn r13_another_device_name_is_the_same_volume() {
    if !needs::root() {
        return;
    }
    let mut zoo = Zoo::new(BYTES);
    zoo.apply().await.unwrap();
    let before = zoo.device.clone();
    zoo.unmount();
    let taken = zoo.files.path().join("taken");
    fs::File::create(&taken).unwrap().set_len(BYTES).unwrap();
    zoo.detach();
    zoo.device.clear();
    // Whoever takes the old number, the volume is known by its label.
    let other = sh(&format!("losetup --find --show {}", taken.display()));
    zoo.attach("disk", BYTES);
    let applied = zoo.apply().await;
    sh(&format!("losetup --detach {other}"));
    assert_eq!(applied.unwrap().len(), 1, "before {before}, now {}", zoo.device);
}

#[tokio::test]
async fn b19_whatever_is_not_blank_is_left_alone() {
    if !needs::root() {
        return;
    }
    let dirty = [
        ("mkfs.ext4 -q DEV", "without a Windlass label"),
        ("mkswap DEV", "swap"),
        ("printf 'label: gpt\\n,\\n' | sfdisk -q DEV", "a partition table (gpt)"),
        ("printf 'label: dos\\n,\\n' | sfdisk -q DEV", "a partition table (dos)"),
        // The heads of LUKS and LVM volumes, as cryptsetup and pvcreate write them.
        ("printf 'LUKS\\272\\276\\000\\001' | dd of=DEV conv=notrunc status=none", "crypto_LUKS"),
        ("printf x | dd of=DEV bs=1 seek=4096 conv=notrunc status=none", "data without a known signature"),
        ("printf x | dd of=DEV bs=1 seek=268435000 conv=notrunc status=none", "data without a known signature"),
    ];
    for (script, word) in dirty {
        let zoo = Zoo::new(BYTES);
        sh(&format!("{}; sync", script.replace("DEV", &zoo.device)));
        let before = sh(&format!("sha256sum < {}", zoo.device));
        let reason = zoo.refusal().await;
        assert!(reason.contains(word), "{script}: {reason}");
        assert_eq!(sh(&format!("sha256sum < {}", zoo.device)), before, "{script}: not a byte is changed");
    }
}

#[tokio::test]
async fn b19_too_small_is_refused() {
    if !needs::root() {
        return;
    }
    let zoo = Zoo::new(16 << 20);
    assert!(zoo.refusal().await.contains("16 MiB"));
}

#[tokio::test]
async fn a_foreign_clusters_and_a_stale_twin_are_refused() {
    if !needs::root() {
        return;
    }
    let mut zoo = Zoo::new(BYTES);
    zoo.apply().await.unwrap();
    zoo.unmount();
    let copy = zoo.files.path().join("copy");
    sh(&format!("cp --sparse=always {} {}", zoo.files.path().join("disk").display(), copy.display()));
    zoo.apply().await.unwrap();
    zoo.attach("copy", BYTES);
    assert!(zoo.refusal().await.contains("an older copy"));

    zoo.attach("disk", BYTES);
    zoo.apply().await.unwrap();
    let label = Label::read(&zoo.at()).unwrap().unwrap();
    Label { cluster_id: "ffffffffffffffff".into(), ..label }.write(&zoo.at()).unwrap();
    zoo.unmount();
    assert!(zoo.refusal().await.contains("belongs to cluster ffffffffffffffff"));
}

#[tokio::test]
async fn a_format_cut_short_is_gone_on_with() {
    if !needs::root() {
        return;
    }
    let zoo = Zoo::new(BYTES);
    zoo.apply().await.unwrap();
    let cx = zoo.context();
    fs::remove_file(zoo.at().join(LABEL)).unwrap();
    cx.ledger
        .update(|ledger| {
            if let Some(record) = ledger.volumes.get_mut("etcd-main") {
                record.formatting = true;
            }
        })
        .unwrap();
    zoo.unmount();
    assert_eq!(zoo.apply().await.unwrap().len(), 1, "ours by its UUID: mounted, not formatted");
}

/// As a power loss leaves it: the intent noted, half of a file system written.
fn cut_in_the_middle(zoo: &Zoo) {
    let script =
        "mkfs.ext4 -q -F DEV 261120k; dd if=/dev/zero of=DEV bs=1K seek=1 count=1 conv=notrunc status=none; sync";
    sh(&script.replace("DEV", &zoo.device));
}

async fn intend(zoo: &Zoo, uuid: &str) {
    let record = VolumeRecord { uuid: uuid.to_owned(), serial: 0, formatting: true };
    let noted = zoo.context().ledger.update(|ledger| {
        ledger.volumes.insert("etcd-main".to_owned(), record);
    });
    noted.unwrap();
    let path = PathBuf::from(&zoo.device);
    let device = disks::open(&path).unwrap().unwrap();
    let mark = format!("windlass formats: cluster {} volume etcd-main uuid {uuid}\n", fixture::CLUSTER_ID);
    disks::mark(&device, &mark).await.unwrap();
}

const UUID: &str = "6e4a7c0e-0000-4000-8000-000000000001";

#[tokio::test]
async fn a_format_cut_in_the_middle_is_begun_again() {
    if !needs::root() {
        return;
    }
    let zoo = Zoo::new(BYTES);
    intend(&zoo, UUID).await;
    assert!(zoo.apply().await.unwrap()[0].contains("again"), "nothing but the mark was written");
    let left = sh(&format!("tail -c 1048576 {} | tr -d '\\0' | wc -c", zoo.device));
    assert_eq!(left, "0", "the mark is gone");
    assert_eq!(sh(&format!("blkid -p -o value -s UUID {}", zoo.device)), UUID);

    let zoo = Zoo::new(BYTES);
    intend(&zoo, UUID).await;
    cut_in_the_middle(&zoo);
    assert!(zoo.apply().await.unwrap()[0].contains("again"));
    fs::write(zoo.at().join("kept"), "data").unwrap();
    zoo.unmount();
    assert_eq!(zoo.apply().await.unwrap().len(), 1, "mounted again, not formatted");
    assert_eq!(fs::read_to_string(zoo.at().join("kept")).unwrap(), "data");
}

#[tokio::test]
async fn a_device_without_the_mark_is_not_formatted_whatever_the_ledger_says() {
    if !needs::root() {
        return;
    }
    let mut zoo = Zoo::new(BYTES);
    intend(&zoo, UUID).await;
    zoo.attach("another", BYTES);
    cut_in_the_middle(&zoo);
    assert!(zoo.refusal().await.contains("is not blank"), "another device came to its place");

    let zoo = Zoo::new(BYTES);
    intend(&zoo, UUID).await;
    cut_in_the_middle(&zoo);
    zoo.context().ledger.update(|ledger| ledger.volumes.clear()).unwrap();
    assert!(zoo.refusal().await.contains("is not blank"), "a mark that the ledger does not know");
}
