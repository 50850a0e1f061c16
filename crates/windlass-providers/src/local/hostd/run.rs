//! hostd from start to end.
//!
//! Inputs: paths, signals. Outputs: the socket served; machines brought up; nothing left when it ends empty.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

use super::super::authority::{AuthorityError, Identity};
use super::super::files;
use super::super::paths::Paths;
use super::cgroups::Hierarchies;
use super::host::Host;
use super::store::StoreError;
use super::{clone, server, unit};

/// An hostd that holds nothing ends when nobody called for this long.
const IDLE: Duration = Duration::from_secs(10);

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of which state folder.
    pub paths: Paths,
    /// First hex digits of the sha256 of this binary.
    pub build: String,
    /// Follows another build in the same process: dead machines stay dead.
    pub resume: bool,
}

/// Why hostd cannot run.
#[derive(Debug, thiserror::Error)]
pub enum HostdError {
    /// Another one does.
    #[error("another hostd keeps {state}")]
    Running {
        /// The state folder.
        state: PathBuf,
    },
    /// A file or socket.
    #[error("{operation} {path}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// No cgroups.
    #[error("cgroups")]
    Cgroups(#[source] io::Error),
    /// Signals.
    #[error("signals")]
    Signals(#[source] io::Error),
}

/// Runs until told to stop, or until it holds nothing and is not called.
pub async fn run(options: Options) -> Result<(), HostdError> {
    let Options { paths, build, resume } = options;
    let _held = hold(&paths)?;
    let host = Arc::new(Host::load(paths.clone(), build)?);
    leave_the_delegated_root(&host.cgroups).map_err(HostdError::Cgroups)?;
    let listener = listen(&paths.socket())?;
    tracing::info!(state = %paths.state().display(), build = %host.build, pid = std::process::id(), "hostd runs");
    tokio::spawn(accept(listener, Arc::clone(&host)));
    let bringing_up = tokio::spawn({
        let host = Arc::clone(&host);
        async move { host.bring_up(resume).await }
    });
    let mut terminate = signal(SignalKind::terminate()).map_err(HostdError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(HostdError::Signals)?;
    // A hang-up of the terminal it was started from is none of its business.
    let mut hang_up = signal(SignalKind::hangup()).map_err(HostdError::Signals)?;
    let empty = loop {
        tokio::select! {
            _ = terminate.recv() => break false,
            _ = interrupt.recv() => break false,
            () = host.stopping.notified() => break host.is_idle(Duration::ZERO),
            () = idle(&host) => break true,
            _ = hang_up.recv() => {}
        }
    };
    let _closed = host.gate.write().await;
    bringing_up.abort();
    tracing::info!(empty, "hostd ends");
    files::remove_if_there(&paths.socket()).map_err(file("removing", &paths.socket()))?;
    if empty { leave_nothing(&paths).await } else { Ok(()) }
}

fn file<'a>(operation: &'static str, path: &'a Path) -> impl Fn(io::Error) -> HostdError + 'a {
    move |source| HostdError::File { operation, path: path.to_owned(), source }
}

/// Only one hostd a state folder, whoever starts it.
fn hold(paths: &Paths) -> Result<File, HostdError> {
    let path = paths.run().join("hostd.lock");
    windlass_files::private_folder(paths.run()).map_err(file("making", paths.run()))?;
    windlass_files::private_folder(paths.hostd()).map_err(file("making", &paths.hostd()))?;
    let lock = File::create(&path).map_err(file("opening", &path))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(HostdError::Running { state: paths.state().to_owned() }),
        Err(error) => Err(file("locking", &path)(error.into())),
    }
}

fn listen(path: &Path) -> Result<UnixListener, HostdError> {
    files::remove_if_there(path).map_err(file("removing", path))?;
    // The folder around it lets only root in.
    UnixListener::bind(path).map_err(file("listening on", path))
}

async fn accept(listener: UnixListener, host: Arc<Host>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if stream.peer_cred().is_ok_and(|peer| peer.uid() == 0) => {
                tokio::spawn(server::serve_connection(stream, Arc::clone(&host), Identity::Root));
            }
            Ok(_) => tracing::warn!("a caller on the socket is not root"),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn idle(host: &Host) {
    while !host.is_idle(IDLE) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Under version 2, a cgroup with machines' cgroups in it must hold no process itself.
fn leave_the_delegated_root(cgroups: &Hierarchies) -> io::Result<()> {
    let Hierarchies::V2 { base } = cgroups else { return Ok(()) };
    if !base.to_string_lossy().ends_with(".service") {
        return Ok(());
    }
    let own = base.join("hostd");
    fs_err::create_dir_all(&own)?;
    fs_err::write(own.join("cgroup.procs"), "0")
}

/// Removes what hostd itself put on the host, the empty state folder included.
async fn leave_nothing(paths: &Paths) -> Result<(), HostdError> {
    let unit = unit::path(paths);
    if unit.exists() {
        if let Err(error) = super::command::run("systemctl", ["disable", &paths.unit()]).await {
            tracing::warn!(%error, "the unit was not disabled");
        }
        files::remove_if_there(&unit).map_err(file("removing", &unit))?;
    }
    for folder in [paths.hostd(), paths.run().to_owned()] {
        if let Err(error) = clone::remove_tree(&folder) {
            tracing::warn!(%error, "not removed");
        }
    }
    let _others_files = std::fs::remove_dir(paths.state());
    // Shared by state folders: it goes with the last of them.
    if let Some(shared) = paths.run().parent() {
        let _still_used = std::fs::remove_dir(shared);
    }
    let hierarchies = Hierarchies::detect(&paths.unit()).map_err(HostdError::Cgroups)?;
    super::cgroups::remove(hierarchies.folders(&paths.cgroup())).await.map_err(HostdError::Cgroups)
}
