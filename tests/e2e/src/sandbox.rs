//! One person's environment: a state folder, a working directory, the real binary.
//!
//! Everything Windlass has on the host derives from the state folder, so sandboxes never meet each other or a person's
//! clusters. Bundles and machine images come from the real cache, since they are the same for all. Dropping a sandbox
//! takes down whatever is left of it, whatever happened before; [`Sandbox::left`] says what that would be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};
use windlass_testkit::host::HostInventory;

/// A state folder, a working directory, and the binary.
#[derive(Debug)]
pub struct Sandbox {
    windlass: PathBuf,
    folder: PathBuf,
    cache_home: PathBuf,
    id: String,
    before: HostInventory,
}

/// A process of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its command line, the program first.
    pub arguments: Vec<String>,
    /// Its environment, `NAME=VALUE`.
    pub environment: Vec<String>,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code; 128 + the signal that ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    /// Fails unless it ended with this exit code.
    ///
    /// # Errors
    /// With all it said.
    pub fn expect(self, code: i32) -> Result<Self> {
        ensure!(self.code == code, "exit code {} instead of {code}\n{}\n{}", self.code, self.out, self.err);
        Ok(self)
    }
}

impl Sandbox {
    /// A fresh one. `WINDLASS` names the binary, else it is the one `make build` left.
    ///
    /// # Errors
    /// When there is no binary or no folder can be made.
    pub fn new(name: &str) -> Result<Self> {
        let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/windlass").into();
        let windlass = PathBuf::from(std::env::var_os("WINDLASS").unwrap_or_else(built));
        let windlass = fs_err::canonicalize(windlass).context("no binary; run `make build`")?;
        // Beside the cache, since machines share its disk blocks.
        let folder = cache().join("e2e").join(format!("{name}-{}", std::process::id()));
        fs_err::create_dir_all(folder.join("work"))?;
        let state = folder.join("state/windlass");
        let id = hex::encode(Sha256::digest(state.as_os_str().as_encoded_bytes()))[..6].to_owned();
        Ok(Self { windlass, before: HostInventory::take(&[]), folder, cache_home: cache_home(), id })
    }

    /// Gives this sandbox a copy of the cache, sharing its disk blocks, to be spoilt; returns Windlass's folder in it.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn own_cache(&mut self) -> Result<PathBuf> {
        self.cache_home = self.folder.join("cache");
        let own = self.cache_home.join("windlass");
        fs_err::create_dir_all(&own)?;
        for part in ["bundles", "machine-images"] {
            let copied = Command::new("cp").arg("-al").arg(cache().join(part)).arg(&own).status()?;
            ensure!(copied.success(), "copying {part}");
        }
        Ok(own)
    }

    /// The working directory, where `windlass` makes its folders.
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Windlass's state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state/windlass")
    }

    /// The binary.
    pub fn binary(&self) -> &Path {
        &self.windlass
    }

    /// Windlass's cache folder.
    pub fn cache(&self) -> PathBuf {
        self.cache_home.join("windlass")
    }

    /// What `HOME` is for its commands.
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// The process of one of Windlass's daemons: hostd, or one inside a machine.
    pub fn daemon(&self, command: &str) -> Option<i32> {
        let runs = |pid: &i32| {
            let words = words(*pid, "cmdline");
            words.first().is_some_and(|program| program.contains("windlass"))
                && words.get(1).map(String::as_str) == Some(command)
        };
        self.processes().into_iter().chain(self.members()).find(runs)
    }

    /// A program that runs in its machines: command line and environment of each process of it.
    pub fn running(&self, program: &str) -> Vec<Running> {
        let processes = self
            .members()
            .into_iter()
            .map(|pid| Running { arguments: words(pid, "cmdline"), environment: words(pid, "environ") });
        let is_of =
            |process: &Running| process.arguments.first().is_some_and(|path| path.rsplit('/').next() == Some(program));
        processes.filter(is_of).collect()
    }

    /// Six digits that everything on the host of this sandbox carries.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Writes a file into the working directory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.work().join(name);
        fs_err::write(&path, text)?;
        Ok(path)
    }

    /// Runs `windlass`; `seconds` at most.
    ///
    /// # Errors
    /// When it cannot be run or does not end in time.
    pub fn windlass(&self, seconds: u64, arguments: &[&str]) -> Result<Said> {
        self.run(&self.windlass, seconds, arguments, &[])
    }

    /// Runs `windlass` and expects success.
    ///
    /// # Errors
    /// When it fails; with all it said.
    pub fn ok(&self, seconds: u64, arguments: &[&str]) -> Result<String> {
        let said = self.windlass(seconds, arguments)?.expect(0);
        Ok(said.with_context(|| format!("windlass {}", arguments.join(" ")))?.out)
    }

    /// Runs `windlass` with bytes as its standard input.
    ///
    /// # Errors
    /// When it fails.
    pub fn feed(&self, seconds: u64, arguments: &[&str], input: &[u8]) -> Result<Said> {
        self.run(&self.windlass, seconds, arguments, input)
    }

    /// Starts `windlass` and leaves it running, its output in a file of the working directory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, log: &str, arguments: &[&str]) -> Result<std::process::Child> {
        let log = fs_err::File::create(self.work().join(log))?.into_file();
        let mut command = self.command(&self.windlass, arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command.spawn()?)
    }

    /// Runs kubectl with a kubeconfig of this sandbox.
    ///
    /// # Errors
    /// When it cannot be run or does not end in time.
    pub fn kubectl(&self, seconds: u64, kubeconfig: &Path, arguments: &[&str], input: &[u8]) -> Result<Said> {
        let program = self.kubectl_program()?;
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let arguments: Vec<&str> = std::iter::once(kubeconfig.as_str()).chain(arguments.iter().copied()).collect();
        self.run(&program, seconds, &arguments, input)
    }

    /// The bundle's kubectl.
    ///
    /// # Errors
    /// When there is none.
    pub fn kubectl_program(&self) -> Result<PathBuf> {
        let beside = self.windlass.with_file_name("kubectl");
        Ok(if beside.is_file() { beside } else { windlass_testkit::binaries::find("kubectl")? })
    }

    /// A command with this sandbox's environment.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.work());
        command.env("XDG_STATE_HOME", self.folder.join("state")).env("XDG_CACHE_HOME", &self.cache_home);
        command.env("HOME", self.home()).env_remove("KUBECONFIG");
        command
    }

    /// Runs any program with this sandbox's environment and these bytes as its standard input; `seconds` at most.
    ///
    /// # Errors
    /// When it cannot be run or does not end in time.
    pub fn run(&self, program: &Path, seconds: u64, arguments: &[&str], input: &[u8]) -> Result<Said> {
        let mut files = [tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?];
        std::io::Write::write_all(&mut files[0], input)?;
        std::io::Seek::rewind(&mut files[0])?;
        let mut command = self.command(program, arguments);
        command.stdin(files[0].try_clone()?).stdout(files[1].try_clone()?).stderr(files[2].try_clone()?);
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let [_, out, err] = files;
        let (out, err) = (text(out)?, text(err)?);
        let Some(status) = status else {
            bail!("{} {}: not done in {seconds} s\n{out}\n{err}", program.display(), arguments.join(" "))
        };
        let output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
        Ok(Said { code: code(&output), out, err })
    }

    /// What is on the host now that belongs to this sandbox, a line each: mounts, links, routes, tables, loops, cgroups,
    /// namespaces, processes, files of the state folder.
    pub fn left(&self) -> Vec<String> {
        let state = self.state();
        let run = Path::new("/run/windlass").join(&self.id);
        let now = HostInventory::take(&[&state, &run]);
        let folder = self.folder.display().to_string();
        let alone = std::env::var("CI").is_ok_and(|value| value == "true");
        let ours = |line: &String| line.contains(&self.id) || line.contains(&self.id[..4]) || line.contains(&folder);
        now.left_since(&self.before).into_iter().filter(|line| alone || ours(line)).collect()
    }

    /// Ends every process whose environment is this sandbox's: daemons first, then machines.
    ///
    /// # Errors
    /// Never; a process that is gone is as good.
    pub fn kill_everything(&self) -> Result<()> {
        for pid in self.processes().into_iter().chain(self.members()) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        Ok(())
    }

    /// Processes with this sandbox's state folder in their environment.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("XDG_STATE_HOME={}", self.folder.join("state").display());
        let own = std::process::id();
        let all = pids().into_iter().filter(|pid| u32::try_from(*pid) != Ok(own));
        let marked = all.filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        });
        marked.collect()
    }

    /// Processes in this sandbox's cgroups: everything inside its machines.
    fn members(&self) -> Vec<i32> {
        let group = format!("/windlass-{}", self.id);
        let inside =
            |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&group));
        pids().into_iter().filter(inside).collect()
    }

    /// Takes away whatever is left, the hard way.
    fn sweep(&self) {
        for _ in 0..5 {
            let _ = self.kill_everything();
            std::thread::sleep(Duration::from_millis(200));
            if self.members().is_empty() && self.processes().is_empty() {
                break;
            }
        }
        let script = include_str!("sweep.sh");
        let state = self.folder.display().to_string();
        let swept = Command::new("bash").args(["-c", script, "sweep", &self.id, &state]).status();
        if !swept.is_ok_and(|status| status.success()) {
            eprintln!("sweeping sandbox {} failed", self.id);
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::env::var_os("WINDLASS_E2E_KEEP").is_some() {
            eprintln!("kept: XDG_STATE_HOME={} (in {})", self.folder.join("state").display(), self.work().display());
            return;
        }
        self.sweep();
    }
}

/// The words of a file of `/proc/PID` that separates them by zeros.
fn words(pid: i32, file: &str) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn code(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0))
}

fn text(mut file: std::fs::File) -> Result<String> {
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file)?;
    std::io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn cache_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map_or_else(home, PathBuf::from)
}

fn cache() -> PathBuf {
    cache_home().join("windlass")
}
