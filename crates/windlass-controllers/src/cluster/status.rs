//! What a cluster is, from everything below it.

use std::time::Duration;

use super::decide::{Descendants, Step};
use crate::api::cluster_api::cluster::{ClusterInitialization, ClusterPhase, ReplicaCounts};
use crate::api::cluster_api::{Cluster, ClusterStatus, Machine};
use crate::api::condition::Truth;
use crate::api::{Conditions, Time};
use crate::conditions::{Judged, settle, summary};
use crate::index::Connection;
use crate::machine_set::decide::{Counts, machines_judged, versions};
use crate::objects;
use crate::reasons::{Reason, types};
use crate::runtime::workers::Next;

/// How long a broken connection may mend itself before it is told.
const GRACE: i64 = 60;

/// What is looked at.
pub(super) struct Observed<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) below: &'a Descendants,
    pub(super) connection: Connection,
    /// What is being deleted.
    pub(super) step: Option<Step>,
    pub(super) now: Time,
}

/// The status, and when it has to be looked at again.
pub(super) fn status(seen: &Observed<'_>) -> (ClusterStatus, Next) {
    let cluster = seen.cluster;
    let before = cluster.status.clone().unwrap_or_default();
    let planes = seen.below.planes();
    let workers = seen.below.workers();
    let reached = initialization(seen, &before);
    let (probe, again) = probe(seen, &before.conditions);
    let judged = judge(seen, &before.conditions, &planes, &workers, &reached, probe);
    let generation = objects::generation(cluster);
    let status = ClusterStatus {
        conditions: settle(&before.conditions, &judged, generation, seen.now),
        control_plane: Some(control_plane_counts(seen, &planes)),
        workers: Some(worker_counts(seen, &workers)),
        failure_domains: seen
            .below
            .local_clusters
            .iter()
            .find_map(|local| local.status.as_ref().map(|status| status.failure_domains.clone()))
            .unwrap_or(before.failure_domains),
        phase: Some(phase(cluster, &reached)),
        initialization: Some(reached),
        observed_generation: generation,
    };
    (status, again)
}

fn initialization(seen: &Observed<'_>, before: &ClusterStatus) -> ClusterInitialization {
    let old = before.initialization.clone().unwrap_or_default();
    let infrastructure = seen.below.local_clusters.iter().any(|local| {
        let reached = local.status.as_ref().and_then(|status| status.initialization.as_ref());
        reached.is_some_and(|reached| reached.provisioned == Some(true))
    });
    let plane = seen.below.control_planes.iter().any(|plane| {
        let reached = plane.status.as_ref().and_then(|status| status.initialization.as_ref());
        reached.is_some_and(|reached| reached.control_plane_initialized == Some(true))
    });
    ClusterInitialization {
        infrastructure_provisioned: Some(old.infrastructure_provisioned == Some(true) || infrastructure),
        control_plane_initialized: Some(old.control_plane_initialized == Some(true) || plane),
    }
}

fn phase(cluster: &Cluster, reached: &ClusterInitialization) -> ClusterPhase {
    let has_endpoint = cluster.spec.control_plane_endpoint.as_ref().is_some_and(|endpoint| endpoint.is_valid());
    if objects::is_deleting(cluster) {
        ClusterPhase::Deleting
    } else if reached.infrastructure_provisioned == Some(true) && has_endpoint {
        ClusterPhase::Provisioned
    } else if cluster.spec.infrastructure_ref.is_some() || cluster.spec.control_plane_ref.is_some() {
        ClusterPhase::Provisioning
    } else {
        ClusterPhase::Pending
    }
}

fn control_plane_counts(seen: &Observed<'_>, planes: &[&Machine]) -> ReplicaCounts {
    let counts = Counts::of(planes);
    let desired = seen.below.control_planes.iter().map(|plane| plane.spec.replicas).sum();
    replica_counts(desired, counts, planes)
}

fn worker_counts(seen: &Observed<'_>, workers: &[&Machine]) -> ReplicaCounts {
    let of_deployments: i32 =
        seen.below.deployments.iter().map(|deployment| deployment.spec.replicas.unwrap_or(1)).sum();
    let of_sets: i32 = seen
        .below
        .sets
        .iter()
        .filter(|set| objects::controller_of(&***set).is_none())
        .map(|set| set.spec.replicas.unwrap_or(1))
        .sum();
    replica_counts(of_deployments + of_sets, Counts::of(workers), workers)
}

fn replica_counts(desired: i32, counts: Counts, machines: &[&Machine]) -> ReplicaCounts {
    ReplicaCounts {
        desired_replicas: Some(desired),
        replicas: Some(counts.there),
        up_to_date_replicas: Some(counts.up_to_date),
        ready_replicas: Some(counts.ready),
        available_replicas: Some(counts.available),
        versions: versions(machines),
        upgrade_plan: Vec::new(),
    }
}

/// `RemoteConnectionProbe`. A short break is not told.
fn probe(seen: &Observed<'_>, before: &Conditions) -> (Judged, Next) {
    let type_ = types::REMOTE_CONNECTION_PROBE;
    match &seen.connection {
        Connection::Up => (Judged::yes(type_, Reason::ProbeSucceeded), Next::Await),
        Connection::Untried => {
            (Judged::unknown(type_, Reason::Waiting, "no API server was seen to answer yet"), Next::Await)
        }
        Connection::Down { since, cause } => {
            let left = since.as_second() + GRACE - seen.now.0.as_second();
            if before.is_true(type_)
                && let Ok(left @ 1..) = u64::try_from(left)
            {
                return (Judged::yes(type_, Reason::ProbeSucceeded), Next::After(Duration::from_secs(left)));
            }
            (Judged::no(type_, Reason::ProbeFailed, format!("the API does not answer: {cause}")), Next::Await)
        }
    }
}

fn judge(
    seen: &Observed<'_>,
    before: &Conditions,
    planes: &[&Machine],
    workers: &[&Machine],
    reached: &ClusterInitialization,
    probe: Judged,
) -> Vec<Judged> {
    let below = seen.below;
    let infrastructure = below.local_clusters.first().and_then(|local| local.status.as_ref());
    let infrastructure = Judged::mirror(
        types::INFRASTRUCTURE_READY,
        infrastructure.and_then(|status| status.conditions.get(types::READY)),
        Reason::Ready,
        (Reason::NotFound, "the LocalCluster is not judged yet"),
    );
    let plane = below.control_planes.first().and_then(|plane| plane.status.as_ref());
    let plane = Judged::mirror(
        types::CONTROL_PLANE_AVAILABLE,
        plane.and_then(|status| status.conditions.get(types::AVAILABLE)),
        Reason::Available,
        (Reason::NotFound, "the ControlPlane is not judged yet"),
    );
    let initialized = if reached.control_plane_initialized == Some(true) {
        Judged::yes(types::CONTROL_PLANE_INITIALIZED, Reason::Initialized)
    } else {
        Judged::no(types::CONTROL_PLANE_INITIALIZED, Reason::NotInitialized, &plane.message)
    };
    let workers_available = workers_available(below);
    let deleting = Judged::deleting(seen.step.map(|step| deletion(below, step)));
    let parts = [&deleting, &probe, &infrastructure, &plane, &workers_available];
    let available = summary(types::AVAILABLE, &parts, &[types::DELETING], Reason::Available, Reason::NotAvailable);
    let available = with_gates(seen.cluster, before, available);
    let [rolling, up, down] = movements(below);
    let ready =
        |type_, machines: &[&Machine]| machines_judged(type_, types::READY, machines, Reason::Ready, Reason::NotReady);
    let fresh = |type_, machines: &[&Machine]| {
        machines_judged(type_, types::UP_TO_DATE, machines, Reason::UpToDate, Reason::NotUpToDate)
    };
    vec![
        available,
        probe,
        infrastructure,
        initialized,
        plane,
        workers_available,
        ready(types::CONTROL_PLANE_MACHINES_READY, planes),
        ready(types::WORKER_MACHINES_READY, workers),
        fresh(types::CONTROL_PLANE_MACHINES_UP_TO_DATE, planes),
        fresh(types::WORKER_MACHINES_UP_TO_DATE, workers),
        rolling,
        up,
        down,
        Judged::trouble(types::REMEDIATING, None, Reason::NotRemediating),
        deleting,
        Judged::paused(false),
    ]
}

/// Further conditions the spec makes availability depend on.
fn with_gates(cluster: &Cluster, before: &Conditions, available: Judged) -> Judged {
    use crate::api::cluster_api::shared::Polarity;
    let closed = cluster.spec.availability_gates.iter().find(|gate| {
        let is_good = if gate.polarity == Some(Polarity::Negative) {
            before.is_false(&gate.condition_type)
        } else {
            before.is_true(&gate.condition_type)
        };
        !is_good
    });
    match closed {
        Some(gate) if available.status == Truth::True => {
            let message = format!("availability gate {} is not met", gate.condition_type);
            Judged::no(types::AVAILABLE, Reason::NotAvailable, message)
        }
        _ => available,
    }
}

fn workers_available(below: &Descendants) -> Judged {
    if below.deployments.is_empty() {
        return Judged::yes(types::WORKERS_AVAILABLE, Reason::NoWorkers);
    }
    let faults: Vec<String> = below
        .deployments
        .iter()
        .filter_map(|deployment| {
            let name = deployment.metadata.name.clone().unwrap_or_default();
            let condition = deployment.status.as_ref().and_then(|status| status.conditions.get(types::AVAILABLE));
            match condition {
                Some(condition) if condition.status == Truth::True => None,
                Some(condition) => Some(format!("{name}: {}", condition.message)),
                None => Some(format!("{name}: not judged yet")),
            }
        })
        .collect();
    if faults.is_empty() {
        Judged::yes(types::WORKERS_AVAILABLE, Reason::Available)
    } else {
        Judged::no(types::WORKERS_AVAILABLE, Reason::NotAvailable, faults.join("; "))
    }
}

/// `RollingOut`, `ScalingUp`, `ScalingDown`: True when it is so for the control plane or any group.
fn movements(below: &Descendants) -> [Judged; 3] {
    let moving = [
        (types::ROLLING_OUT, Reason::RollingOut, Reason::NotRollingOut),
        (types::SCALING_UP, Reason::ScalingUp, Reason::NotScalingUp),
        (types::SCALING_DOWN, Reason::ScalingDown, Reason::NotScalingDown),
    ];
    moving.map(|(type_, active, quiet)| {
        let planes = below.control_planes.iter().filter_map(|plane| {
            let conditions = &plane.status.as_ref()?.conditions;
            Some((plane.metadata.name.clone().unwrap_or_default(), conditions.get(type_)?.clone()))
        });
        let deployments = below.deployments.iter().filter_map(|deployment| {
            let conditions = &deployment.status.as_ref()?.conditions;
            Some((deployment.metadata.name.clone().unwrap_or_default(), conditions.get(type_)?.clone()))
        });
        let said: Vec<String> = planes
            .chain(deployments)
            .filter(|(_, condition)| condition.status == Truth::True)
            .map(|(name, condition)| format!("{name}: {}", condition.message))
            .collect();
        Judged::trouble(type_, (!said.is_empty()).then(|| (active, said.join("; "))), quiet)
    })
}

fn deletion(below: &Descendants, step: Step) -> (Reason, String) {
    match step {
        Step::Workers => (Reason::WaitingForWorkersDeletion, format!("{} worker Machines left", below.workers().len())),
        Step::ControlPlane => {
            (Reason::WaitingForControlPlaneDeletion, format!("{} control-plane Machines left", below.planes().len()))
        }
        Step::Infrastructure => {
            (Reason::WaitingForInfrastructureDeletion, "network and endpoint are being taken away".to_owned())
        }
        Step::Finish => (Reason::DeletionCompleted, String::new()),
    }
}
