//! The bootstrap plane: etcd, kube-apiserver and a garbage collector as children of this process, on loopback.
//!
//! Inputs: programs of a bundle, a folder for durable state, one for sockets, one for logs. Output: a client of an API
//! that answers. It dies with this process and can be started again on its data.
//!
//! ```text
//! etcd (unix socket) <- kube-apiserver (127.0.0.1, mutual TLS) <- kube-controller-manager (garbage collector)
//!                                      ^- Windlass's controllers, in this process
//! ```

mod flags;
mod keys;
mod process;

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;

use crate::access::{self, AccessError};
use flags::Files;
pub use keys::KeysError;
pub use process::{Process, SpawnError, last_lines};

/// How long the API may take to answer before the start has failed.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long programs may take to end by themselves.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// The plane's programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// etcd.
    pub etcd: Utf8PathBuf,
    /// kube-apiserver.
    pub apiserver: Utf8PathBuf,
    /// kube-controller-manager.
    pub controller_manager: Utf8PathBuf,
}

/// Where a plane's files lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Durable state.
    pub state: Utf8PathBuf,
    /// Sockets; a short path.
    pub sockets: Utf8PathBuf,
    /// Logs.
    pub logs: Utf8PathBuf,
}

/// Why a plane did not come up.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// A folder or port could not be had.
    #[error("failed to prepare the bootstrap plane in `{path}`")]
    Prepare {
        /// Where.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Keys.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// A program cannot be run.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The client cannot be made.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A program ended.
    #[error("the bootstrap plane's {program} {how}")]
    Ended {
        /// Which.
        program: &'static str,
        /// How.
        how: String,
        /// Its last lines.
        log: Vec<String>,
    },
    /// The API does not answer in time.
    #[error("the bootstrap plane's API did not answer within {} s", PATIENCE.as_secs())]
    Silent {
        /// Last lines of the API server.
        log: Vec<String>,
    },
}

impl PlaneError {
    /// The failed program's last lines.
    pub fn log(&self) -> &[String] {
        match self {
            Self::Ended { log, .. } | Self::Silent { log } => log,
            Self::Prepare { .. } | Self::Keys(_) | Self::Spawn(_) | Self::Access(_) => &[],
        }
    }
}

/// A running plane. Dropped, its programs are killed; its data stays.
pub struct Plane {
    client: kube::Client,
    files: Files,
    etcd: Process,
    apiserver: Process,
    controller_manager: Process,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Plane {
    /// Starts a plane on what `places.state` holds, or a new one.
    pub async fn start(programs: &Programs, places: &Places) -> Result<Self, PlaneError> {
        let files = Files { state: places.state.clone(), sockets: places.sockets.clone(), logs: places.logs.clone() };
        prepare(&files)?;
        let port = free_port().map_err(|source| PlaneError::Prepare { path: files.state.clone(), source })?;
        let etcd = Process::spawn("etcd", &programs.etcd, &flags::etcd(&files), &files.log("etcd"))?;
        let kubeconfig = keys::make(&files, port)?;
        let arguments = flags::apiserver(&files, port);
        let apiserver =
            Process::spawn("kube-apiserver", &programs.apiserver, &arguments, &files.log("kube-apiserver"))?;
        let client = access::client(&kubeconfig).await?;
        answering(&client, &etcd, &apiserver).await?;
        let arguments = flags::controller_manager(&keys::kubeconfig_path(&files));
        let log = files.log("kube-controller-manager");
        let controller_manager =
            Process::spawn("kube-controller-manager", &programs.controller_manager, &arguments, &log)?;
        Ok(Self { client, files, etcd, apiserver, controller_manager })
    }

    /// A client that may do everything.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Where its kubeconfig lies.
    pub fn kubeconfig(&self) -> Utf8PathBuf {
        keys::kubeconfig_path(&self.files)
    }

    /// A program that ended though it should run: its name, how, its last lines.
    pub fn fault(&self) -> Option<PlaneError> {
        [&self.etcd, &self.apiserver, &self.controller_manager].into_iter().find_map(ended)
    }

    /// Stops the programs; the data stays. The API server goes first: it hangs when etcd leaves it.
    pub async fn stop(mut self) {
        self.controller_manager.kill().await;
        self.apiserver.stop(STOP_PATIENCE).await;
        self.etcd.stop(STOP_PATIENCE).await;
        let _ = fs_err::remove_dir_all(&self.files.sockets);
    }

    /// Stops the programs at once and removes the data.
    pub async fn destroy(mut self) -> Result<(), PlaneError> {
        tokio::join!(self.controller_manager.kill(), self.apiserver.kill(), self.etcd.kill());
        let _ = fs_err::remove_dir_all(&self.files.sockets);
        let path = self.files.state.clone();
        fs_err::remove_dir_all(&path).map_err(|source| PlaneError::Prepare { path, source })
    }
}

fn prepare(files: &Files) -> Result<(), PlaneError> {
    keys::private_folder(&files.state)?;
    keys::private_folder(&files.logs)?;
    // Sockets of a plane that was killed would be in the way.
    remove_folder(&files.sockets).map_err(|source| PlaneError::Prepare { path: files.sockets.clone(), source })?;
    keys::private_folder(&files.sockets)?;
    Ok(())
}

fn remove_folder(path: &Utf8Path) -> std::io::Result<()> {
    match fs_err::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A port nobody listens on now. Someone may take it before the API server does; the start then fails and says so.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn ended(process: &Process) -> Option<PlaneError> {
    let how = process.ended()?;
    Some(PlaneError::Ended { program: process.name(), how, log: process.last_lines(8) })
}

async fn answering(client: &kube::Client, etcd: &Process, apiserver: &Process) -> Result<(), PlaneError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let begun = Instant::now();
    while namespaces.list(&ListParams::default().limit(1)).await.is_err() {
        if let Some(error) = ended(etcd).or_else(|| ended(apiserver)) {
            return Err(error);
        }
        if begun.elapsed() > PATIENCE {
            return Err(PlaneError::Silent { log: apiserver.last_lines(8) });
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}
