//! `windlass logs`: what the parts of a cluster say.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use windlass_providers::local::survey;
use windlass_workflows::folder::{ClusterFolder, Pointer};

use crate::exit::{Code, Failure, Outcome};
use crate::local::{failure, paths};
use crate::operation;

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
    after_help = "Components: agent, kubelet, containerd (units); etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, coredns, local-path-provisioner, controller (pods). Without --machine the first control-plane machine is asked.\n--bootstrap shows the bootstrap plane of a create or delete that runs or failed: controllers, etcd, kube-apiserver, kube-controller-manager.\n\nExamples:\n  windlass logs lab\n  windlass logs lab --machine lab-md-1 --component kubelet -f\n  windlass logs lab --component kube-apiserver --tail 50\n  windlass logs lab --bootstrap"
)]
pub(crate) struct Args {
    /// The cluster's name.
    name: String,
    /// The machine.
    #[arg(short, long)]
    machine: Option<String>,
    /// The component; its agent unless set.
    #[arg(short, long)]
    component: Option<String>,
    /// The bootstrap plane's parts instead of a machine's.
    #[arg(long, conflicts_with = "machine")]
    bootstrap: bool,
    /// Follow what is added.
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines.
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
    if args.bootstrap || (machines.is_empty() && args.machine.is_none()) {
        return bootstrap(args, component.unwrap_or("controllers"), &folder.logs());
    }
    let component = component.unwrap_or("agent");
    let machine = match &args.machine {
        Some(machine) if machines.contains(machine) => machine.clone(),
        Some(machine) => {
            let error = anyhow::anyhow!("cluster `{}` has no machine `{machine}`", args.name);
            return Err(Failure::new(Code::NotFound, error).hint(format!("its machines: {}", machines.join(", "))));
        }
        None => machines[0].clone(),
    };
    let machine = format!("{}/{machine}", args.name);
    if UNITS.contains(&component) || component.contains('.') {
        return unit(args, &machine, component);
    }
    if PODS.contains(&component) {
        return pod(args, &machine, component);
    }
    let known: Vec<&str> = UNITS.iter().chain(&PODS).copied().collect();
    Err(Failure::new(Code::Usage, anyhow::anyhow!("no component `{component}`"))
        .hint(format!("one of: {}", known.join(", "))))
}

/// The cluster's machines, control planes first.
fn machines(pointer: &Pointer) -> Result<Vec<String>, Failure> {
    let mut found = survey::machines(&paths()?).map_err(failure)?;
    found.retain(|found| found.cluster_id == pointer.scope.cluster_id);
    found.sort_by_key(|found| (found.machine.role, found.machine.name.clone()));
    Ok(found.into_iter().map(|found| found.machine.name).collect())
}

/// Another command of this binary does it; this process becomes that one.
fn become_other(arguments: Vec<String>) -> Outcome {
    Err(Failure::from(Command::new("/proc/self/exe").args(arguments).exec()))
}

fn unit(args: &Args, machine: &str, component: &str) -> Outcome {
    let mut line: Vec<String> = ["machine", "logs", machine, "--unit", component].map(str::to_owned).into();
    line.extend(["--tail".to_owned(), args.tail.to_string()]);
    line.extend(args.follow.then(|| "--follow".to_owned()));
    become_other(line)
}

/// A pod's newest log file on the machine, whatever its container's number.
fn pod(args: &Args, machine: &str, component: &str) -> Outcome {
    let follow = if args.follow { "-F" } else { "" };
    let script = format!(
        "files=$(ls -t /var/log/pods/*_{component}*/*/*.log 2>/dev/null | head -n 1); \
         [ -n \"$files\" ] || {{ echo 'no log of {component} on this machine' >&2; exit 3; }}; \
         exec tail -q -n {} {follow} \"$files\"",
        args.tail
    );
    become_other(["machine", "shell", machine, "--", "sh", "-c", &script].map(str::to_owned).into())
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
    let mut out = std::io::stdout().lock();
    for line in last {
        writeln!(out, "{line}")?;
    }
    Ok(Code::Ok)
}
