//! A machine's folder: its root as an overlay over the image, and what must not lie on one.
//!
//! Inputs: an image, who the machine is. Outputs: `upper`, `work`, `root`, links to the layers, containerd's store
//! (hard links, databases copied), kubelet's folder; the files the machine boots from. Everything can be made twice.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use windlass_assets::{MachineImage, MachineImageError};
use windlass_spec::boot_stub::BootStub;

use super::super::files;

/// Written when a clone is complete; without it the folder is made anew.
const COMPLETE: &str = "clone.json";

/// What went wrong with a machine's folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloneError {
    /// A file of it.
    #[error("{operation} in {folder}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The image.
    #[error(transparent)]
    Image(#[from] MachineImageError),
    /// Something is mounted below it.
    #[error("{mount} is mounted below it: nothing was removed")]
    Mounted {
        /// What.
        mount: PathBuf,
    },
}

/// A machine's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineFolder(pub(crate) PathBuf);

impl MachineFolder {
    /// Changed and added files of the root.
    pub(crate) fn upper(&self) -> PathBuf {
        self.0.join("upper")
    }

    /// containerd's store.
    pub(crate) fn containerd(&self) -> PathBuf {
        self.0.join("containerd")
    }

    /// kubelet's folder.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.0.join("kubelet")
    }

    /// The journal of the machine, readable after its death.
    pub(crate) fn journal(&self) -> PathBuf {
        self.upper().join("var/log/journal")
    }

    /// What its init and nspawn said.
    pub(crate) fn console(&self) -> PathBuf {
        self.0.join("console.log")
    }

    /// Is the clone complete?
    pub(crate) fn is_complete(&self) -> bool {
        self.0.join(COMPLETE).exists()
    }

    /// Names of the links to the layers, topmost first.
    pub(crate) fn layers(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("lower{number}")).collect()
    }

    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> CloneError + '_ {
        move |source| CloneError::File { operation, folder: self.0.clone(), source }
    }
}

/// Makes a machine's folder from an image, which is held by it from then on.
pub(crate) fn make(folder: &MachineFolder, image: &MachineImage) -> Result<(), CloneError> {
    image.hold(&folder.0)?;
    if folder.is_complete() {
        return Ok(());
    }
    let failed = folder.failed("cloning");
    for kept in ["upper", "work", "containerd", "kubelet"] {
        remove_tree(&folder.0.join(kept))?;
    }
    windlass_files::private_folder(&folder.0).map_err(&failed)?;
    for part in ["work", "root", "kubelet"] {
        fs_err::create_dir_all(folder.0.join(part)).map_err(&failed)?;
    }
    fs_err::create_dir_all(folder.journal()).map_err(&failed)?;
    let layers = image.lowerdirs();
    for (name, layer) in MachineFolder::layers(layers.len()).iter().zip(&layers) {
        let link = folder.0.join(name);
        files::remove_if_there(&link).map_err(&failed)?;
        fs_err::os::unix::fs::symlink(layer, &link).map_err(&failed)?;
    }
    image.clone_store(&folder.containerd())?;
    let record = serde_json::json!({"format": 1, "image": image.id()});
    files::write_json(&folder.0.join(COMPLETE), &record, files::PUBLIC).map_err(&failed)
}

/// Who a machine is, as its files say.
#[derive(Clone)]
pub(crate) struct Identity<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its address.
    pub(crate) address: IpAddr,
    /// `/etc/machine-id`.
    pub(crate) machine_id: &'a str,
    /// Its nameserver.
    pub(crate) nameserver: IpAddr,
    /// Its boot stub.
    pub(crate) stub: &'a BootStub,
}

/// Writes the files a stopped machine boots from.
pub(crate) fn write_boot_files(folder: &MachineFolder, identity: &Identity<'_>) -> Result<(), CloneError> {
    let failed = folder.failed("writing boot files");
    let upper = folder.upper();
    fs_err::create_dir_all(upper.join("etc/windlass")).map_err(&failed)?;
    let stub = serde_json::to_vec_pretty(identity.stub).map_err(|error| failed(error.into()))?;
    let Identity { name, address, machine_id, nameserver, .. } = identity;
    let put = |path: &str, content: &[u8], mode| {
        windlass_files::replace(upper.join(path.trim_start_matches('/')), content, mode, None).map_err(&failed)
    };
    put(BootStub::PATH, &stub, files::PRIVATE)?;
    put("/etc/hostname", format!("{name}\n").as_bytes(), files::PUBLIC)?;
    put("/etc/machine-id", format!("{machine_id}\n").as_bytes(), files::PUBLIC)?;
    put("/etc/resolv.conf", format!("nameserver {nameserver}\n").as_bytes(), files::PUBLIC)?;
    // The agent keeps its own block in this file.
    if !upper.join("etc/hosts").exists() {
        let hosts = format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{address} {name}\n");
        put("/etc/hosts", hosts.as_bytes(), files::PUBLIC)?;
    }
    Ok(())
}

/// Removes a folder with its content, but never what is mounted below it; none there is as good.
pub(crate) fn remove_tree(folder: &Path) -> Result<(), CloneError> {
    let failed = |source| CloneError::File { operation: "removing", folder: folder.to_owned(), source };
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").map_err(failed)?;
    if let Some(mount) = mount_below(&mounts, folder) {
        return Err(CloneError::Mounted { mount });
    }
    match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

fn mount_below(mountinfo: &str, folder: &Path) -> Option<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    points.map(PathBuf::from).find(|point| point.starts_with(folder))
}

/// mountinfo writes blanks and the like as three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_are_seen_through_their_escapes() {
        let mountinfo = "1 0 8:1 / / rw - ext4 a rw\n2 1 0:3 / /state/m\\040one/root rw - overlay overlay rw\n";
        assert_eq!(mount_below(mountinfo, Path::new("/state/m one")), Some(PathBuf::from("/state/m one/root")));
        assert_eq!(mount_below(mountinfo, Path::new("/state/m")), None);
        assert_eq!(mount_below(mountinfo, Path::new("/state/m one/root/x")), None);
    }

    #[test]
    fn removing_twice_is_as_good_as_once() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("m");
        std::fs::create_dir_all(folder.join("upper/etc")).unwrap();
        remove_tree(&folder).unwrap();
        remove_tree(&folder).unwrap();
        assert!(!folder.exists());
    }
}
