//! A real etcd of one member on loopback, without TLS.
//!
//! Input: a folder. Output: an endpoint URL; gone when dropped.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::binaries::{self, NoBinary};
use crate::process::{Child, SpawnError};

/// etcd did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program is missing.
    #[error(transparent)]
    Binary(#[from] NoBinary),
    /// It could not be run.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A file for it could not be written, or no port was free.
    #[error("failed to prepare {what}")]
    Prepare {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It ran and never answered.
    #[error("{program} did not answer within {seconds} s; its last lines:\n{log}")]
    Silent {
        /// Which.
        program: &'static str,
        /// How long.
        seconds: u64,
        /// What it said.
        log: String,
    },
}

/// A running etcd.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    port: u16,
}

impl Etcd {
    /// Starts it with its data in `folder`.
    ///
    /// # Errors
    /// When it does not answer within 30 s.
    pub async fn start(folder: &Path) -> Result<Self, StartError> {
        let program = binaries::find("etcd")?;
        let [port, peer] = [free_port()?, free_port()?];
        let url = |port| format!("http://127.0.0.1:{port}");
        let arguments = [
            format!("--data-dir={}", folder.join("etcd").display()),
            "--name=test".into(),
            format!("--listen-client-urls={}", url(port)),
            format!("--advertise-client-urls={}", url(port)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster=test={}", url(peer)),
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ];
        let child = Child::spawn(&program, &arguments, &folder.join("etcd.log"))?;
        let etcd = Self { child, port };
        wait("etcd", 30, &etcd.child, async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok())
            .await?;
        Ok(etcd)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills it, as a power loss would.
    pub fn kill(&mut self) {
        self.child.kill();
    }
}

/// A loopback port nobody listens on now.
pub(crate) fn free_port() -> Result<u16, StartError> {
    let failed = |source| StartError::Prepare { what: "a free port".into(), source };
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    Ok(listener.local_addr().map_err(failed)?.port())
}

/// Polls until `ready`, for at most `seconds`.
pub(crate) async fn wait(
    program: &'static str,
    seconds: u64,
    child: &Child,
    ready: impl AsyncFn() -> bool,
) -> Result<(), StartError> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !ready().await {
        if child.ended() || Instant::now() > deadline {
            return Err(StartError::Silent { program, seconds, log: child.last_lines(20) });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
