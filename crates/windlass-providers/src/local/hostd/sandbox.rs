//! Starts, finds and ends the systemd-nspawn sandbox of one machine.
//!
//! Inputs: a machine's folder, cgroups and namespace. Outputs: its process and boot id; nothing of it afterwards.
//! The root, and the folder where nspawn keeps its locks, are mounted in a mount namespace of the sandbox's own: when it
//! dies, however it dies, no mount and no lock stays behind.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::super::files;
use super::super::paths::MachineNames;
use super::cgroups;
use super::clone::MachineFolder;
use super::process::ProcessId;

/// What a sandbox needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// Machine name, its host name.
    pub(crate) machine: String,
    /// Its names on the host.
    pub(crate) names: MachineNames,
    /// Its folder.
    pub(crate) folder: MachineFolder,
    /// Layers of its image.
    pub(crate) layers: usize,
    /// Its cgroups, one a hierarchy.
    pub(crate) cgroups: Vec<PathBuf>,
}

/// A running sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Running {
    /// systemd-nspawn.
    pub(crate) supervisor: ProcessId,
    /// The machine's init.
    pub(crate) init: ProcessId,
}

/// What went wrong with a sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    /// It could not be started.
    #[error("starting the sandbox")]
    Start(#[source] io::Error),
    /// It ended at once.
    #[error("the sandbox ended before its init ran: {said}")]
    Ended {
        /// Its last words.
        said: String,
    },
    /// It started in another network namespace.
    #[error("the sandbox is not in its network namespace")]
    Astray,
    /// Cleaning up.
    #[error("cleaning up")]
    Remains(#[source] io::Error),
}

/// Joins the cgroups ($2 of them, then that many), enters the folder $1, mounts the root, becomes the rest.
const LAUNCH: &str = r#"set -e
cd "$1"; layers=$2; n=$3; shift 3
while [ "$n" -gt 0 ]; do echo 0 > "$1/cgroup.procs"; shift; n=$((n-1)); done
export layers
exec unshare --mount --propagation slave sh -c 'set -e
mount -t overlay overlay -o "lowerdir=$layers,upperdir=upper,workdir=work" root
mkdir -p /run/systemd/nspawn && mount -t tmpfs tmpfs /run/systemd/nspawn
unset layers
exec "$@"' sh "$@""#;

/// How the argument by which a sandbox is known begins, whatever state folder it is of.
pub(crate) const MARKER: &str = "--machine=wl-";

const PATIENCE: Duration = Duration::from_secs(20);

impl Sandbox {
    /// Program and arguments, the launching shell left out.
    fn nspawn(&self) -> Vec<String> {
        let folder = self.folder.0.display();
        let mut arguments: Vec<String> = [
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--boot",
            "--console=pipe",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--capability=all",
            "--system-call-filter=@keyring bpf perf_event_open",
            "--bind=/dev/kmsg",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(self.marker());
        arguments.push(format!("--hostname={}", self.machine));
        arguments.push(format!("--directory={folder}/root"));
        arguments.push(format!("--network-namespace-path={}", self.names.netns_path().display()));
        arguments.push(format!("--bind={}:/var/lib/containerd", escape(&self.folder.containerd())));
        arguments.push(format!("--bind={}:/var/lib/kubelet", escape(&self.folder.kubelet())));
        arguments.push("systemd.unit=multi-user.target".to_owned());
        arguments
    }

    /// The argument by which its process is known among all others.
    fn marker(&self) -> String {
        format!("--machine={}", self.names.nspawn)
    }

    /// The process of this machine, if one runs: also one that a killed hostd started and did not write down.
    pub(crate) fn find(&self) -> Option<ProcessId> {
        ProcessId::with_argument(&self.marker())
    }

    /// Starts it and waits until its init runs.
    pub(crate) async fn start(&self) -> Result<Running, SandboxError> {
        let supervisor = self.spawn().map_err(SandboxError::Start)?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(init) = supervisor.init_child() {
                return self.verify(Running { supervisor, init });
            }
            if !supervisor.is_alive() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        supervisor.signal(Signal::KILL).map_err(SandboxError::Start)?;
        supervisor.ended().await.map_err(SandboxError::Start)?;
        Err(SandboxError::Ended { said: last_words(&self.folder.console()) })
    }

    /// A process that was found or written down is taken up again when it is what it should be.
    pub(crate) fn take_up(&self, supervisor: ProcessId) -> Option<Running> {
        let init = supervisor.init_child()?;
        self.verify(Running { supervisor, init }).ok()
    }

    fn verify(&self, running: Running) -> Result<Running, SandboxError> {
        let right = running.init.is_in_netns(&self.names.netns_path());
        if right { Ok(running) } else { Err(SandboxError::Astray) }
    }

    fn spawn(&self) -> io::Result<ProcessId> {
        let log = fs_err::OpenOptions::new().create(true).append(true).open(self.folder.console())?.into_file();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", LAUNCH, "sh"]).arg(&self.folder.0);
        command.arg(MachineFolder::layers(self.layers).join(":")).arg(self.cgroups.len().to_string());
        command.args(&self.cgroups).args(self.nspawn());
        command.env("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "1").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // Not waited for by this handle: [`ProcessId::ended`] reaps it, also after hostd became another program.
        ProcessId::of(pid).ok_or_else(|| io::Error::other("it ended at once"))
    }

    /// Asks Kubernetes' part and then init to end; what is left after that is killed.
    pub(crate) async fn stop(&self, running: Running) -> Result<(), SandboxError> {
        quiesce(self, running).await;
        power_off(running.init).await;
        let ended = tokio::time::timeout(Duration::from_secs(8), running.supervisor.ended()).await;
        if ended.is_err() {
            tracing::info!(machine = %self.machine, "cutting the power: it did not power off in time");
        }
        self.kill(running).await
    }

    /// Cuts the power and waits until nothing of it runs.
    pub(crate) async fn kill(&self, running: Running) -> Result<(), SandboxError> {
        for process in [running.init, running.supervisor] {
            process.signal(Signal::KILL).map_err(SandboxError::Remains)?;
        }
        for process in [running.supervisor, running.init] {
            process.ended().await.map_err(SandboxError::Remains)?;
        }
        Ok(())
    }

    /// Removes what a sandbox leaves behind when it dies: cgroups with their processes, nspawn's files.
    pub(crate) async fn clean(&self) -> Result<(), SandboxError> {
        cgroups::remove(self.cgroups.clone()).await.map_err(SandboxError::Remains)?;
        self.remove_lock().map_err(SandboxError::Remains)
    }

    fn remove_lock(&self) -> io::Result<()> {
        files::remove_if_there(&self.folder.0.join(".#root.lck"))
    }
}

/// systemd powers off on this signal, which only a shell can send: it has no name in safe Rust.
async fn power_off(init: ProcessId) {
    let asked = super::command::run("sh", ["-c", "kill -s RTMIN+4 \"$1\"", "sh", &init.pid.to_string()]).await;
    if let Err(error) = asked {
        tracing::debug!(%error, "a machine was not asked to power off");
    }
}

/// Stops kubelet and containers first: a plain power-off would wait for each of them.
async fn quiesce(sandbox: &Sandbox, running: Running) {
    let init = running.init.pid.to_string();
    let mut arguments: Vec<&str> = vec!["--target", &init, "--mount", "--uts", "--ipc", "--net", "--pid", "--root"];
    arguments.extend(["systemctl", "stop", "--no-block", "windlass-agent.service", "kubelet.service"]);
    let stopped = tokio::time::timeout(Duration::from_secs(3), super::command::run("nsenter", arguments)).await;
    if !matches!(stopped, Ok(Ok(_))) {
        tracing::debug!(machine = %sandbox.machine, "kubelet was not stopped in order");
    }
    let pods =
        |folder: &PathBuf| cgroups::find(folder, "kubepods").into_iter().chain(cgroups::find(folder, "kubepods.slice"));
    let pods: Vec<PathBuf> = sandbox.cgroups.iter().flat_map(pods).collect();
    pods.iter().for_each(|folder| cgroups::signal_all(folder, Signal::TERM));
    let deadline = Instant::now() + Duration::from_secs(4);
    while Instant::now() < deadline && pods.iter().any(|folder| !cgroups::processes(folder).is_empty()) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    pods.iter().for_each(|folder| cgroups::signal_all(folder, Signal::KILL));
}

/// nspawn's binds are separated by colons.
fn escape(path: &Path) -> String {
    path.display().to_string().replace('\\', "\\\\").replace(':', "\\:")
}

fn last_words(console: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(console).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    if last.is_empty() { "it said nothing".to_owned() } else { last }
}

#[cfg(test)]
mod tests {
    use super::super::super::paths::Paths;
    use super::*;

    fn sandbox() -> Sandbox {
        let paths = Paths::new(Path::new("/a/windlass"), Path::new("/c")).unwrap();
        Sandbox {
            machine: "lab-cp-a".to_owned(),
            names: paths.machine_names(&"0123456789abcdef".into(), "lab-cp-a"),
            folder: MachineFolder(PathBuf::from("/a/windlass/m:1")),
            layers: 2,
            cgroups: Vec::new(),
        }
    }

    #[test]
    fn the_command_is_what_was_found_to_work() {
        insta::assert_snapshot!(sandbox().nspawn().join("\n"), @r"
        systemd-nspawn
        --quiet
        --register=no
        --keep-unit
        --boot
        --console=pipe
        --resolv-conf=off
        --timezone=off
        --link-journal=no
        --capability=all
        --system-call-filter=@keyring bpf perf_event_open
        --bind=/dev/kmsg
        --machine=wl-2960c4-dfa0fc56
        --hostname=lab-cp-a
        --directory=/a/windlass/m:1/root
        --network-namespace-path=/run/netns/wl-2960c4-dfa0fc56
        --bind=/a/windlass/m\:1/containerd:/var/lib/containerd
        --bind=/a/windlass/m\:1/kubelet:/var/lib/kubelet
        systemd.unit=multi-user.target
        ");
    }

    #[test]
    fn last_words_are_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console.log");
        assert_eq!(last_words(&console), "it said nothing");
        std::fs::write(&console, "a\n\nb\nc\nd\n").unwrap();
        assert_eq!(last_words(&console), "b; c; d");
    }
}
