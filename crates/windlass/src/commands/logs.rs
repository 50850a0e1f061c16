//! `windlass logs`: what the parts of a cluster say.
//!
//! Inputs: a cluster's machines, or the folder of its bootstrap plane. Output: a component's last lines of one machine, or
//! of all with the machine's name before each.

use std::collections::VecDeque;
use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use windlass_providers::local::survey;
use windlass_workflows::folder::{ClusterFolder, Pointer};

use crate::exit::{Code, Failure, Outcome};
use crate::local::{failure, paths};
use crate::operation;
use crate::output::print_text;

/// Components that run as pods on machines.
const PODS: [&str; 8] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "coredns",
    "local-path-provisioner",
    "windlass-controller",
];
/// Components that run as units on machines.
const UNITS: [&str; 3] = ["agent", "kubelet", "containerd"];
/// Parts of a bootstrap plane, whose logs lie in the folder.
const PLANE: [&str; 4] = ["controllers", "etcd", "kube-apiserver", "kube-controller-manager"];

/// Arguments of `windlass logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --machine and --all the first control-plane machine is asked, without --component its agent.\nComponents: agent, kubelet, containerd (units); etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, coredns, local-path-provisioner, controller (pods).\n--bootstrap shows the bootstrap plane of a create or delete that runs or failed: controllers, etcd, kube-apiserver, kube-controller-manager.\n\nExit codes: 0 printed, 1 failed, 2 no such component, 3 no such cluster, machine or log.\n\nExamples:\n  windlass logs lab\n  windlass logs lab --all -f\n  windlass logs lab --all --component kubelet --tail 20\n  windlass logs lab --machine lab-md-1 --component kubelet -f\n  windlass logs lab --component kube-apiserver --tail 50\n  windlass logs lab --bootstrap"
)]
pub(crate) struct Args {
    /// The cluster's name.
    name: String,
    /// The machine.
    #[arg(short, long)]
    machine: Option<String>,
    /// Every machine, its name before each line.
    #[arg(short, long, conflicts_with = "machine")]
    all: bool,
    /// The component; the agent unless set.
    #[arg(short, long)]
    component: Option<String>,
    /// The bootstrap plane's parts instead of a machine's.
    #[arg(long, conflicts_with_all = ["machine", "all"])]
    bootstrap: bool,
    /// Follow what is added.
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines, of each machine.
    #[arg(long, value_name = "LINES", default_value_t = 200)]
    tail: usize,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let pointer = operation::known(&args.name)?;
    let folder = ClusterFolder::new(&args.name, pointer.folder.clone());
    let component = match args.component.as_deref() {
        Some("controller") => Some("windlass-controller"),
        other => other,
    };
    let machines = machines(&pointer)?;
    if args.bootstrap || (machines.is_empty() && args.machine.is_none() && !args.all) {
        return bootstrap(args, component.unwrap_or("controllers"), &folder.logs());
    }
    let component = component.unwrap_or("agent");
    if args.all {
        return all(args, &machines, component);
    }
    let machine = match &args.machine {
        Some(machine) if machines.contains(machine) => machine,
        Some(machine) => {
            let error = anyhow::anyhow!("cluster `{}` has no machine `{machine}`", args.name);
            return Err(Failure::new(Code::NotFound, error).hint(format!("its machines: {}", machines.join(", "))));
        }
        None => &machines[0],
    };
    // This process becomes the other: signals and exit codes are its own.
    Err(Failure::from(command(args, machine, component)?.exec()))
}

/// The cluster's machines, control planes first.
fn machines(pointer: &Pointer) -> Result<Vec<String>, Failure> {
    let mut found = survey::machines(&paths()?).map_err(failure)?;
    found.retain(|found| found.cluster_id == pointer.scope.cluster_id);
    found.sort_by_key(|found| (found.machine.role, found.machine.name.clone()));
    Ok(found.into_iter().map(|found| found.machine.name).collect())
}

/// The command of this binary that prints one machine's lines.
fn command(args: &Args, machine: &str, component: &str) -> Result<Command, Failure> {
    let place = format!("{}/{machine}", args.name);
    let mut command = Command::new("/proc/self/exe");
    if UNITS.contains(&component) || component.contains('.') {
        command.args(["machine", "logs", &place, "--unit", component, "--tail", &args.tail.to_string()]);
        command.args(args.follow.then_some("--follow"));
        return Ok(command);
    }
    if PODS.contains(&component) {
        let script = pod_script(args, machine, component);
        command.args(["machine", "shell", &place, "--", "sh", "-c", &script]);
        return Ok(command);
    }
    let known: Vec<&str> = UNITS.iter().chain(&PODS).map(|name| name.trim_start_matches("windlass-")).collect();
    Err(Failure::new(Code::Usage, anyhow::anyhow!("no component `{component}`"))
        .hint(format!("one of: {}", known.join(", "))))
}

/// Prints a pod's newest log file on its machine, whatever its container's number.
fn pod_script(args: &Args, machine: &str, component: &str) -> String {
    let follow = if args.follow { "-F" } else { "" };
    format!(
        "files=$(ls -t /var/log/pods/*_{component}*/*/*.log 2>/dev/null | head -n 1); \
         [ -n \"$files\" ] || {{ echo 'no log of {component} on {machine}' >&2; exit {}; }}; \
         exec tail -q -n {} {follow} \"$files\"",
        Code::NotFound as u8,
        args.tail
    )
}

/// One machine after the other, or all at once while following. Machines without such a component are passed over.
fn all(args: &Args, machines: &[String], component: &str) -> Outcome {
    if machines.is_empty() {
        return Err(Failure::new(
            Code::NotFound,
            anyhow::anyhow!("cluster `{}` has no machine on this computer", args.name),
        )
        .hint(format!("windlass status {}", args.name)));
    }
    let width = machines.iter().map(String::len).max().unwrap_or(0);
    let relayed = &|machine: &String| relay(command(args, machine, component)?, &format!("{machine:width$} | "));
    let codes: Vec<Code> = if args.follow {
        std::thread::scope(|scope| {
            let threads: Vec<_> = machines.iter().map(|machine| scope.spawn(move || relayed(machine))).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|ended| ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a reader ended early").into()))).collect()
        })
    } else {
        machines.iter().map(relayed).collect::<Result<_, Failure>>()
    }?;
    let found = |wanted: Code| codes.contains(&wanted);
    Ok(match () {
        () if found(Code::Failed) => Code::Failed,
        () if found(Code::Ok) => Code::Ok,
        () => Code::NotFound,
    })
}

/// Prints another command's lines, each after the prefix.
fn relay(mut command: Command, prefix: &str) -> Result<Code, Failure> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().map(std::io::BufReader::new);
    for line in lines.into_iter().flat_map(|lines| lines.split(b'\n')) {
        let line = line?;
        print_text(&format!("{prefix}{}\n", String::from_utf8_lossy(&line)))?;
    }
    Ok(match child.wait()?.code() {
        Some(0) => Code::Ok,
        Some(code) if code == Code::NotFound as i32 => Code::NotFound,
        _ => Code::Failed,
    })
}

fn bootstrap(args: &Args, component: &str, logs: &Utf8Path) -> Outcome {
    let path = logs.join(format!("{component}.log"));
    if !PLANE.contains(&component) {
        let error = anyhow::anyhow!("a bootstrap plane has no `{component}`");
        return Err(Failure::new(Code::Usage, error).hint(format!("one of: {}", PLANE.join(", "))));
    }
    if !path.exists() {
        let error = anyhow::anyhow!("there is no bootstrap plane's log at {path}");
        return Err(Failure::new(Code::NotFound, error)
            .hint("it is kept only while an operation runs and after one that failed"));
    }
    if args.follow {
        let lines = args.tail.to_string();
        return Err(Failure::from(Command::new("tail").args(["-n", &lines, "-F", path.as_str()]).exec()));
    }
    last_lines(&path, args.tail)
}

fn last_lines(path: &Utf8PathBuf, count: usize) -> Outcome {
    let file = std::io::BufReader::new(fs_err::File::open(path)?);
    let mut last = VecDeque::with_capacity(count);
    for line in file.lines() {
        if last.len() == count {
            last.pop_front();
        }
        last.push_back(line?);
    }
    print_text(&last.into_iter().map(|line| line + "\n").collect::<String>())?;
    Ok(Code::Ok)
}
