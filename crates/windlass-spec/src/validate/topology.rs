//! Machines: counts, etcd, and whether anything can run.

use super::{duplicates, metadata};
use crate::identity::Slot;
use crate::names;
use crate::node_config::{Taint, TaintEffect};
use crate::problems::Problem;
use crate::resolve::has_workers;
use crate::v1alpha1::{Cluster, ClusterSpec, Etcd, Topology};
use crate::values::parse_size;

/// Workers that have an address in a local cluster's range: `.21` to `.254`.
const LOCAL_WORKERS: u32 = 234;
/// The smallest volume etcd lives in.
const SMALLEST_VOLUME: u64 = 512 << 20;

/// Checks the provider, counts, etcd and schedulability.
pub(super) fn check(cluster: &Cluster, found: &mut Vec<Problem>) {
    let spec = &cluster.spec;
    provider(spec, found);
    control_plane(spec, found);
    workers(spec, found);
    etcd(spec, found);
    schedulable(spec, found);
}

fn provider(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    if spec.provider.local.is_none() {
        let problem = Problem::error("provider", "spec.provider", "no provider of machines is named");
        found.push(problem.hint("write `provider: {local: {}}` for machines on this computer"));
    }
}

fn control_plane(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    let count = spec.control_plane.count.unwrap_or(1);
    let path = "spec.controlPlane.count";
    let most = Slot::ALL.len();
    let problem = |message: String| Problem::error("control-plane-count", path, message);
    if count == 0 {
        found.push(
            problem("a cluster needs a control plane".to_owned()).hint("use 1, or 3 to survive one lost machine"),
        );
    } else if usize::try_from(count).is_ok_and(|count| count > most) {
        let reason = "more members make etcd slower, not safer";
        found.push(problem(format!("a control plane has at most {most} machines")).label(reason));
    } else if count.is_multiple_of(2) {
        let (fewer, more) = (count - 1, count + 1);
        let problem = problem("`controlPlane.count` must be odd".to_owned());
        let problem = problem.label(format!("{count} etcd members survive no more losses than {fewer}"));
        let survives = |members: u32| match (members - 1) / 2 {
            0 => String::new(),
            1 => " to survive one lost machine".to_owned(),
            lost => format!(" to survive {lost}"),
        };
        found.push(problem.hint(format!("use {fewer}{}, or {more}{}", survives(fewer), survives(more))));
    }
    let domains = spec.control_plane.failure_domains.iter().enumerate();
    duplicates(
        found,
        "failure domain",
        domains.map(|(index, domain)| (format!("spec.controlPlane.failureDomains[{index}]"), domain.as_str())),
    );
    if spec.provider.local.is_some() && !spec.control_plane.failure_domains.is_empty() {
        let message = "machines on one computer have no failure domains to be spread over";
        found.push(Problem::warning("failure-domains", "spec.controlPlane.failureDomains", message));
    }
}

fn workers(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    let mut total: u32 = 0;
    for (index, group) in spec.workers.iter().enumerate() {
        let before = total;
        total = total.saturating_add(group.count.unwrap_or(1));
        if total > LOCAL_WORKERS && before <= LOCAL_WORKERS && spec.provider.local.is_some() {
            let message = format!("with this group there are {total} workers");
            let problem = Problem::error("worker-count", format!("spec.workers[{index}].count"), message);
            found.push(problem.label(format!("one computer's network has addresses for {LOCAL_WORKERS}")));
        }
        if group.rollout.max_surge == Some(0) && group.rollout.max_unavailable.unwrap_or(0) == 0 {
            let message = "with neither a machine more nor one less nothing can be replaced";
            let path = format!("spec.workers[{index}].rollout.maxSurge");
            found.push(Problem::error("rollout", path, message).hint("raise maxSurge or maxUnavailable"));
        }
    }
}

fn etcd(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    let clusters = spec.etcd.iter().enumerate();
    for (index, etcd) in clusters.clone() {
        let path = format!("spec.etcd[{index}]");
        etcd_cluster(spec, etcd, &path, found);
        if index > 0 {
            let problem = Problem::error("etcd", path.clone(), "a second etcd cluster is not supported yet");
            found.push(problem.label(format!("all state is in `{}`", names::MAIN_ETCD)));
        } else if etcd.name != names::MAIN_ETCD {
            let path = format!("{path}.name");
            metadata::label(&path, "the etcd cluster's name", &etcd.name, found);
            let message = format!("the etcd cluster that holds the state is called `{}`", names::MAIN_ETCD);
            found.push(Problem::error("etcd", path, message));
        }
    }
    duplicates(
        found,
        "etcd cluster",
        clusters.map(|(index, etcd)| (format!("spec.etcd[{index}].name"), etcd.name.as_str())),
    );
}

fn etcd_cluster(spec: &ClusterSpec, etcd: &Etcd, path: &str, found: &mut Vec<Problem>) {
    if etcd.topology == Some(Topology::External) {
        let message = "external etcd is reserved for a later release";
        let problem = Problem::error("etcd", format!("{path}.topology"), message);
        found.push(
            problem
                .label("only `Stacked` is supported")
                .hint("leave `topology` out: members run on the control-plane machines"),
        );
    }
    members(spec, etcd, path, found);
    let Some(size) = &etcd.volume.size else { return };
    let path = format!("{path}.volume.size");
    match parse_size(size) {
        Err(error) => found.push(Problem::error("size", path, error.to_string())),
        Ok(bytes) if bytes < SMALLEST_VOLUME => {
            let problem = Problem::error("size", path, format!("{size} is too small for etcd"));
            found.push(problem.label("at least 512Mi is needed"));
        }
        Ok(_) => {}
    }
}

/// Each control-plane machine has a member, so that each API server has one beside it.
fn members(spec: &ClusterSpec, etcd: &Etcd, path: &str, found: &mut Vec<Problem>) {
    let count = usize::try_from(spec.control_plane.count.unwrap_or(1)).unwrap_or(usize::MAX);
    let slots = Slot::first(count);
    let mut sorted = etcd.members.clone();
    sorted.sort();
    if sorted.is_empty() || sorted == slots {
        return;
    }
    let wanted: Vec<String> = slots.iter().map(ToString::to_string).collect();
    let message = "etcd's members are not the control-plane machines";
    let problem = Problem::error("etcd", format!("{path}.members"), message);
    found.push(problem.hint(format!("leave `members` out, or write [{}]", wanted.join(", "))));
}

/// Something must be able to run. Workloads may tolerate the taints a person chose; Windlass's add-ons tolerate the
/// control plane's own and no other.
fn schedulable(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    let open_workers = spec.workers.iter().any(|group| group.count.unwrap_or(1) > 0 && is_open(&group.taints));
    let open_control_plane = is_open(&spec.control_plane.taints);
    let kept_off = spec.control_plane.dedicated.unwrap_or(true) && has_workers(spec);
    if spec.control_plane.dedicated == Some(true) && !has_workers(spec) {
        let path = "spec.controlPlane.dedicated";
        let problem = Problem::error("unschedulable", path, "no machine takes workloads");
        let problem = problem.label("the control plane is kept free of them, and there are no workers");
        found.push(problem.hint("add a group of workers, or leave `dedicated` out"));
    } else if has_addons(spec) && !open_workers && !open_control_plane {
        let path = "spec.controlPlane.taints";
        let problem = Problem::error("unschedulable", path, "no machine takes the add-ons");
        let problem = problem.label("every group has a NoSchedule or NoExecute taint");
        found.push(problem.hint("add a group of workers without taints, or leave these taints out"));
    } else if !open_workers && (kept_off || !open_control_plane) {
        let message = "no machine takes pods that tolerate nothing";
        let problem = Problem::warning("unschedulable", "spec.workers", message);
        found.push(problem.label("every group for workloads has a NoSchedule or NoExecute taint"));
    }
}

fn is_open(taints: &[Taint]) -> bool {
    taints.iter().all(|taint| taint.effect == TaintEffect::PreferNoSchedule)
}

fn has_addons(spec: &ClusterSpec) -> bool {
    [&spec.addons.coredns, &spec.addons.local_path].into_iter().any(|addon| addon.enabled != Some(false))
}
