//! Finds hostd, starts it when none runs, makes it the caller's own build.
//!
//! Inputs: paths, the caller's binary. Outputs: a hostd that answers, running from a copy of that binary in the state
//! folder; detached, or as a systemd unit where systemd runs the host.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::client::Client;
use super::files;
use super::hostd::{command, exchange, unit};
use super::paths::Paths;
use super::protocol::{Hello, PROTOCOL};
use crate::ports::ProviderError;

const PATIENCE: Duration = Duration::from_secs(15);

fn failed(operation: &str) -> impl Fn(io::Error) -> ProviderError + '_ {
    move |error| ProviderError::Failed { operation: operation.to_owned(), cause: error.to_string() }
}

/// A client of a hostd that runs and is of the caller's build. It is started again whenever a later call finds none.
pub async fn ensure_running(paths: &Paths) -> Result<Client, ProviderError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ProviderError::Ground {
            missing: "machines on this computer need root".to_owned(),
            remedy: "run windlass as root".to_owned(),
        });
    }
    let client = Client::socket(paths.clone());
    match client.hello().await {
        Ok(hello) => renew(paths, &client, &hello).await?,
        Err(ProviderError::Unreachable { .. }) => start(paths).await?,
        Err(error) => return Err(error),
    }
    Ok(Client::reviving(paths.clone()))
}

/// The hash by which this binary is told from other builds: first twelve hex digits of its sha256.
pub fn own_build() -> Result<String, ProviderError> {
    let mut file = File::open("/proc/self/exe").map_err(failed("reading the own binary"))?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).map_err(failed("reading the own binary"))?;
    Ok(hex::encode(hash.finalize())[..12].to_owned())
}

async fn renew(paths: &Paths, client: &Client, hello: &Hello) -> Result<(), ProviderError> {
    let own = own_build()?;
    if hello.build == own {
        return Ok(());
    }
    if hello.protocol > PROTOCOL {
        return Err(ProviderError::Conflict {
            what: "the host daemon".to_owned(),
            difference: format!(
                "it is of Windlass {} (protocol {}), newer than this one (protocol {PROTOCOL}): use that one",
                hello.version, hello.protocol
            ),
        });
    }
    copy_binary(paths, &own)?;
    if unit::is_systemd_host() {
        write_unit(paths, &own).await?;
    }
    client.succeed(&own).await?;
    wait(paths, client, &own).await
}

/// Starts hostd and waits until it answers; one caller at a time. Boxed: it is part of calls and makes some itself.
pub(super) fn start(paths: &Paths) -> Pin<Box<dyn Future<Output = Result<(), ProviderError>> + Send + '_>> {
    Box::pin(start_now(paths))
}

async fn start_now(paths: &Paths) -> Result<(), ProviderError> {
    let _alone = lock(paths).await?;
    let client = Client::socket(paths.clone());
    if client.hello().await.is_ok() {
        return Ok(());
    }
    let own = own_build()?;
    copy_binary(paths, &own)?;
    if unit::is_systemd_host() {
        write_unit(paths, &own).await?;
        systemctl(&["enable", "--now", &paths.unit()]).await?;
    } else {
        spawn(paths, &own).map_err(failed("starting hostd"))?;
    }
    wait(paths, &client, &own).await
}

async fn lock(paths: &Paths) -> Result<File, ProviderError> {
    let path = paths.run().join("start.lock");
    let open = move |run: &Path| {
        windlass_files::private_folder(run)?;
        let file = File::create(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok::<File, io::Error>(file)
    };
    let run = paths.run().to_owned();
    let opening = tokio::task::spawn_blocking(move || open(&run));
    opening.await.map_err(io::Error::other).and_then(|file| file).map_err(failed("locking the start of hostd"))
}

/// hostd runs from a copy: the caller's binary may be rebuilt or moved.
fn copy_binary(paths: &Paths, build: &str) -> Result<(), ProviderError> {
    let target = exchange::binary(paths, build);
    let copy = || {
        if target.exists() {
            return Ok(());
        }
        windlass_files::private_folder(paths.binaries())?;
        let beside = target.with_extension(format!("new-{}", std::process::id()));
        fs_err::copy("/proc/self/exe", &beside)?;
        fs_err::set_permissions(&beside, std::fs::Permissions::from_mode(0o700))?;
        fs_err::rename(&beside, &target)?;
        remove_others(&paths.binaries(), &target)
    };
    copy().map_err(failed("copying the binary into the state folder"))
}

/// Copies of earlier builds; a running one keeps its file until it ends.
fn remove_others(folder: &Path, kept: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path != kept {
            files::remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn spawn(paths: &Paths, build: &str) -> io::Result<()> {
    windlass_files::private_folder(paths.hostd())?;
    let log = fs_err::OpenOptions::new().create(true).append(true).open(paths.log())?.into_file();
    let mut command = Command::new(exchange::binary(paths, build));
    command.args(exchange::arguments(paths)).arg("--detach").current_dir("/");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // Not waited for: it outlives this process.
    command.spawn().map(drop)
}

async fn write_unit(paths: &Paths, build: &str) -> Result<(), ProviderError> {
    let text = unit::render(paths, &exchange::binary(paths, build));
    windlass_files::replace_durably(unit::path(paths), text.as_bytes(), files::PUBLIC)
        .map_err(failed("writing hostd's unit"))?;
    systemctl(&["daemon-reload"]).await
}

async fn systemctl(arguments: &[&str]) -> Result<(), ProviderError> {
    command::run("systemctl", arguments)
        .await
        .map(drop)
        .map_err(|error| ProviderError::Failed { operation: "systemctl".to_owned(), cause: error.to_string() })
}

async fn wait(paths: &Paths, client: &Client, build: &str) -> Result<(), ProviderError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.hello().await {
            Ok(hello) if hello.build == build => return Ok(()),
            _ if Instant::now() > deadline => return Err(not_there(paths)),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn not_there(paths: &Paths) -> ProviderError {
    let log = std::fs::read_to_string(paths.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
    ProviderError::Unreachable {
        place: "the host daemon".to_owned(),
        cause: format!("it did not come up; the end of {}:\n  {last}", paths.log().display()),
    }
}
