//! What a control plane is, from its Machines and their agents' reports.

use kube::ResourceExt;
use windlass_spec::identity::Slot;

use super::authorities::Certificates;
use super::decide::Member;
use crate::api::cluster_api::Machine;
use crate::api::cluster_api::shared::LabelSelector;
use crate::api::condition::Truth;
use crate::api::windlass::control_plane::{ControlPlaneInitialization, EtcdMemberStatus, EtcdStatus};
use crate::api::windlass::{ControlPlane, ControlPlaneStatus};
use crate::api::{Time, names};
use crate::conditions::{Judged, settle};
use crate::machine_set::decide::{Counts, machines_judged, versions};
use crate::objects;
use crate::reasons::{Reason, types};

/// Parts of the agent that are control-plane components.
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The status.
pub(super) fn status(
    plane: &ControlPlane,
    members: &[Member],
    certificates: Certificates,
    now: Time,
) -> ControlPlaneStatus {
    let before = plane.status.clone().unwrap_or_default();
    let machines: Vec<&Machine> = members.iter().map(|member| &*member.machine).collect();
    let counts = Counts::of(&machines);
    let was = before.initialization.as_ref().is_some_and(|reached| reached.control_plane_initialized == Some(true));
    let initialized = was || members.iter().any(is_serving);
    let judged = judge(plane, members, &machines, certificates, initialized);
    let generation = objects::generation(plane);
    ControlPlaneStatus {
        conditions: settle(&before.conditions, &judged, generation, now),
        initialization: Some(ControlPlaneInitialization { control_plane_initialized: Some(initialized) }),
        selector: Some(selector(plane).to_string()),
        replicas: Some(counts.there),
        ready_replicas: Some(counts.ready),
        available_replicas: Some(counts.available),
        up_to_date_replicas: Some(counts.up_to_date),
        versions: versions(&machines),
        etcd: Some(etcd(plane, members)),
        observed_generation: generation,
    }
}

fn selector(plane: &ControlPlane) -> LabelSelector {
    let cluster = objects::cluster_name(plane).unwrap_or_default();
    let labels = [(names::CLUSTER_NAME, cluster), (names::CONTROL_PLANE, "")];
    LabelSelector {
        match_labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        match_expressions: Vec::new(),
    }
}

/// Does its own API server answer?
fn is_serving(member: &Member) -> bool {
    let agent = member.local.as_ref().and_then(|local| local.status.as_ref()?.agent.as_ref());
    agent.is_some_and(|agent| agent.api_server_ready == Some(true))
}

/// Is its machine running and this part of it done?
fn has_done(member: &Member, part: &str) -> bool {
    let Some(status) = member.local.as_ref().and_then(|local| local.status.as_ref()) else { return false };
    let running = status.conditions.is_true(types::MACHINE_RUNNING);
    running && status.agent.as_ref().is_some_and(|agent| !agent.unfinished.iter().any(|one| one == part))
}

fn etcd(plane: &ControlPlane, members: &[Member]) -> EtcdStatus {
    let known = members.iter().filter_map(|member| {
        Some(EtcdMemberStatus {
            slot: member.slot?,
            machine: member.machine.name_any(),
            id: member.member_id().map(str::to_owned),
            healthy: member.member_id().is_some() && has_done(member, "etcd"),
        })
    });
    EtcdStatus { formed_by: objects::annotation(plane, names::FORMED_BY).map(str::to_owned), members: known.collect() }
}

fn judge(
    plane: &ControlPlane,
    members: &[Member],
    machines: &[&Machine],
    certificates: Certificates,
    initialized: bool,
) -> Vec<Judged> {
    let wanted = if objects::is_deleting(plane) { 0 } else { plane.spec.replicas };
    let there = i32::try_from(machines.len()).unwrap_or(i32::MAX);
    let deleting =
        objects::is_deleting(plane).then(|| (Reason::WaitingForMachinesDeletion, format!("{there} Machines left")));
    let up = (there < wanted).then(|| (Reason::ScalingUp, format!("{there} of {wanted} Machines")));
    let down = (there > wanted).then(|| (Reason::ScalingDown, format!("{there} Machines, {wanted} wanted")));
    let fresh =
        machines_judged(types::MACHINES_UP_TO_DATE, types::UP_TO_DATE, machines, Reason::UpToDate, Reason::NotUpToDate);
    let rolling = (initialized && fresh.status != Truth::True && is_outdated(machines))
        .then(|| (Reason::RollingOut, fresh.message.clone()));
    let certificates = judge_certificates(certificates);
    let etcd = judge_etcd(plane, members);
    let initialized = if initialized {
        Judged::yes(types::INITIALIZED, Reason::Initialized)
    } else {
        Judged::no(types::INITIALIZED, Reason::NotInitialized, why_not_initialized(members))
    };
    vec![
        available(plane, members, &initialized, &certificates),
        initialized,
        certificates,
        etcd,
        judge_components(members),
        machines_judged(types::MACHINES_READY, types::READY, machines, Reason::Ready, Reason::NotReady),
        fresh,
        Judged::trouble(types::ROLLING_OUT, rolling, Reason::NotRollingOut),
        Judged::trouble(types::SCALING_UP, up, Reason::NotScalingUp),
        Judged::trouble(types::SCALING_DOWN, down, Reason::NotScalingDown),
        Judged::trouble(types::REMEDIATING, None, Reason::NotRemediating),
        Judged::deleting(deleting),
        Judged::paused(false),
    ]
}

fn is_outdated(machines: &[&Machine]) -> bool {
    machines
        .iter()
        .any(|machine| machine.status.as_ref().is_some_and(|status| status.conditions.is_false(types::UP_TO_DATE)))
}

fn judge_certificates(certificates: Certificates) -> Judged {
    match certificates {
        Certificates::Available => Judged::yes(types::CERTIFICATES_AVAILABLE, Reason::CertificatesAvailable),
        Certificates::Missing => Judged::no(types::CERTIFICATES_AVAILABLE, Reason::Waiting, "not made yet"),
        Certificates::Lost(which) => Judged::no(
            types::CERTIFICATES_AVAILABLE,
            Reason::CertificatesMissing,
            format!("the Secret of authority {which} is missing; it is never made anew, put it back from a backup"),
        ),
    }
}

/// What the first machine that is not there yet is at.
fn why_not_initialized(members: &[Member]) -> String {
    let said = members.iter().find_map(|member| {
        let status = member.local.as_ref()?.status.as_ref()?;
        let condition = status.conditions.get(types::NODE_CONVERGED)?;
        (condition.status != Truth::True).then(|| format!("{}: {}", member.machine.name_any(), condition.message))
    });
    said.unwrap_or_else(|| "no API server answers yet".to_owned())
}

fn judge_etcd(plane: &ControlPlane, members: &[Member]) -> Judged {
    let wanted = Slot::first(usize::try_from(plane.spec.replicas).unwrap_or(0));
    let faults: Vec<String> = wanted
        .iter()
        .filter_map(|slot| {
            let member = members.iter().find(|member| member.slot == Some(*slot));
            match member {
                None => Some(format!("slot {slot} has no machine")),
                Some(member) if member.member_id().is_none() => {
                    Some(format!("the member of slot {slot} is not started"))
                }
                Some(member) if !has_done(member, "etcd") => Some(format!("the member of slot {slot} is not healthy")),
                Some(_) => None,
            }
        })
        .collect();
    if faults.is_empty() {
        Judged::yes(types::ETCD_CLUSTER_HEALTHY, Reason::EtcdHealthy)
    } else {
        Judged::no(types::ETCD_CLUSTER_HEALTHY, Reason::EtcdNotHealthy, faults.join("; "))
    }
}

fn judge_components(members: &[Member]) -> Judged {
    let faults: Vec<String> = members
        .iter()
        .flat_map(|member| {
            let name = member.machine.name_any();
            let broken = COMPONENTS.into_iter().filter(|part| !has_done(member, part));
            broken.map(move |part| format!("{part} on {name}")).collect::<Vec<_>>()
        })
        .collect();
    if members.is_empty() {
        Judged::no(types::COMPONENTS_HEALTHY, Reason::Waiting, "there are no machines yet")
    } else if faults.is_empty() {
        Judged::yes(types::COMPONENTS_HEALTHY, Reason::ComponentsHealthy)
    } else {
        Judged::no(
            types::COMPONENTS_HEALTHY,
            Reason::ComponentsNotHealthy,
            format!("not healthy: {}", faults.join(", ")),
        )
    }
}

/// Available: initialized, certificates there, a server answers, and etcd keeps its quorum.
fn available(plane: &ControlPlane, members: &[Member], initialized: &Judged, certificates: &Judged) -> Judged {
    if objects::is_deleting(plane) {
        return Judged::no(types::AVAILABLE, Reason::Deleting, "it is being deleted");
    }
    let started = members.iter().filter(|member| member.member_id().is_some() && has_done(member, "etcd")).count();
    let wanted = usize::try_from(plane.spec.replicas).unwrap_or(1).max(1);
    let serving = members.iter().filter(|member| is_serving(member) && has_done(member, "kube-apiserver")).count();
    if certificates.status != Truth::True {
        Judged::no(types::AVAILABLE, Reason::NotAvailable, &certificates.message)
    } else if initialized.status != Truth::True {
        Judged::no(types::AVAILABLE, Reason::NotInitialized, &initialized.message)
    } else if started < wanted / 2 + 1 {
        Judged::no(types::AVAILABLE, Reason::EtcdNotHealthy, format!("{started} of {wanted} etcd members are healthy"))
    } else if serving == 0 {
        Judged::no(types::AVAILABLE, Reason::ComponentsNotHealthy, "no API server answers")
    } else {
        Judged::yes(types::AVAILABLE, Reason::Available)
    }
}
