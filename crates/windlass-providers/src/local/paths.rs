//! Every path and name Windlass has on a host, derived from one state folder.
//!
//! Input: the state folder and the cache folder. Output: sockets, files, bridges, tables, cgroups and namespaces that
//! two state folders never share.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use windlass_spec::identity::ClusterId;

/// Longest path of a unix socket the kernel takes, without its final zero.
const SOCKET_PATH_LIMIT: usize = 107;

/// A path that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// Neither the XDG variable nor `HOME` is set.
    #[error("neither {variable} nor HOME is set")]
    NoHome {
        /// The XDG variable.
        variable: &'static str,
    },
    /// The folder's absolute path cannot be known.
    #[error("{path}: no absolute path")]
    NotAbsolute {
        /// The path given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A socket below it would be longer than the kernel takes.
    #[error("{path} has {length} characters, a socket's path may have {SOCKET_PATH_LIMIT}")]
    TooLong {
        /// The socket.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
}

/// Where everything of one state folder lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    state: PathBuf,
    cache: PathBuf,
    run: PathBuf,
    id: String,
}

impl Paths {
    /// From `XDG_STATE_HOME` and `XDG_CACHE_HOME`, with their usual defaults below `HOME`.
    pub fn from_environment() -> Result<Self, PathError> {
        let folder = |variable: &'static str, default: &str| {
            let set = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
            let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(default));
            set.or_else(home).map(|base| base.join("windlass")).ok_or(PathError::NoHome { variable })
        };
        Self::new(&folder("XDG_STATE_HOME", ".local/state")?, &folder("XDG_CACHE_HOME", ".cache")?)
    }

    /// From a state folder and a cache folder, which need not exist.
    pub fn new(state: &Path, cache: &Path) -> Result<Self, PathError> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|source| PathError::NotAbsolute { path: path.to_owned(), source })
        };
        let (state, cache) = (absolute(state)?, absolute(cache)?);
        let id = hex::encode(Sha256::digest(state.as_os_str().as_bytes()))[..6].to_owned();
        let paths = Self { run: PathBuf::from("/run/windlass").join(&id), state, cache, id };
        check_socket(&paths.socket())?;
        Ok(paths)
    }

    /// Six hex digits that everything on the host carries.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The cache folder.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// hostd's part of the state folder.
    pub fn hostd(&self) -> PathBuf {
        self.state.join("hostd")
    }

    /// Files that need not outlive a boot of the host.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// hostd's socket.
    pub fn socket(&self) -> PathBuf {
        self.run.join("hostd.sock")
    }

    /// hostd's log.
    pub fn log(&self) -> PathBuf {
        self.hostd().join("hostd.log")
    }

    /// Copies of the binary hostd runs from.
    pub fn binaries(&self) -> PathBuf {
        self.hostd().join("bin")
    }

    /// hostd's own authority and facts about the host.
    pub fn authority(&self) -> PathBuf {
        self.hostd().join("authority")
    }

    /// One folder a cluster.
    pub fn clusters(&self) -> PathBuf {
        self.hostd().join("clusters")
    }

    /// A cluster's folder.
    pub fn cluster(&self, cluster: &ClusterId) -> PathBuf {
        self.clusters().join(cluster.as_str())
    }

    /// A machine's folder.
    pub fn machine(&self, cluster: &ClusterId, machine: &str) -> PathBuf {
        self.cluster(cluster).join("machines").join(machine)
    }

    /// A volume's content.
    pub fn volume(&self, cluster: &ClusterId, volume: &str) -> PathBuf {
        self.cluster(cluster).join("volumes").join(format!("{volume}.img"))
    }

    /// Machine images in the cache.
    pub fn machine_images(&self) -> PathBuf {
        self.cache.join("machine-images")
    }

    /// The nftables table.
    pub fn nft_table(&self) -> String {
        format!("windlass_{}", self.id)
    }

    /// The cgroup all machines are below.
    pub fn cgroup(&self) -> String {
        format!("windlass-{}", self.id)
    }

    /// The systemd unit of hostd.
    pub fn unit(&self) -> String {
        format!("windlass-hostd-{}.service", self.id)
    }

    /// What names of links of this state folder begin with.
    pub fn link_prefix(&self) -> String {
        format!("wl{}", &self.id[..4])
    }

    /// The bridge with this number.
    pub fn bridge(&self, number: usize) -> String {
        format!("{}-{number}", self.link_prefix())
    }

    /// Names of a machine on the host.
    pub fn machine_names(&self, cluster: &ClusterId, machine: &str) -> MachineNames {
        let hash = hex::encode(Sha256::digest(format!("{cluster}/{machine}")))[..8].to_owned();
        MachineNames {
            netns: format!("wl-{}-{hash}", self.id),
            veth: format!("{}{hash}", self.link_prefix()),
            nspawn: format!("wl-{}-{hash}", self.id),
            cgroup: format!("{}-{hash}", machine.chars().take(64).collect::<String>()),
        }
    }
}

/// Names of a machine on the host: short enough for every limit, whatever the machine's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineNames {
    /// Network namespace.
    pub netns: String,
    /// The host's end of its link; at most 15 characters.
    pub veth: String,
    /// Its name for systemd-nspawn.
    pub nspawn: String,
    /// Its cgroup below the state folder's.
    pub cgroup: String,
}

impl MachineNames {
    /// The namespace's file.
    pub fn netns_path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.netns)
    }
}

fn check_socket(path: &Path) -> Result<(), PathError> {
    let length = path.as_os_str().len();
    if length > SOCKET_PATH_LIMIT {
        return Err(PathError::TooLong { path: path.to_owned(), length });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_folders_never_meet() {
        let one = Paths::new(Path::new("/a/windlass"), Path::new("/c")).unwrap();
        let two = Paths::new(Path::new("/b/windlass"), Path::new("/c")).unwrap();
        assert_ne!(one.id(), two.id());
        assert_eq!(one.id(), "2960c4");
        assert_eq!(one.socket(), Path::new("/run/windlass/2960c4/hostd.sock"));
        assert_eq!(one.bridge(0), "wl2960-0");
    }

    /// R06: a deep state folder does not make sockets too long, since they lie elsewhere.
    #[test]
    fn long_state_folders_have_short_sockets() {
        let deep = format!("/{}", "d".repeat(200));
        let paths = Paths::new(Path::new(&deep), Path::new("/c")).unwrap();
        assert!(paths.socket().as_os_str().len() < 60);
        let long = PathBuf::from(format!("/{}", "s".repeat(107)));
        assert!(matches!(check_socket(&long), Err(PathError::TooLong { length: 108, .. })));
    }

    #[test]
    fn names_fit_the_kernel_whatever_the_machine_is_called() {
        let paths = Paths::new(Path::new("/a/windlass"), Path::new("/c")).unwrap();
        let names = paths.machine_names(&ClusterId::from("0123456789abcdef"), &"m".repeat(63));
        assert!(names.veth.len() <= 15, "{}", names.veth);
        assert!(names.nspawn.len() <= 64);
        assert!(names.cgroup.len() <= 255);
        let other = paths.machine_names(&ClusterId::from("0123456789abcdff"), &"m".repeat(63));
        assert_ne!(names, other);
    }
}
