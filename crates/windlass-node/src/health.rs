//! Are the machine's components healthy?
//!
//! Inputs: health endpoints, unit states, container logs. Outputs: each component's part on the board: done when it
//! answers, waiting with the reason while it does not, failed with its last lines when it keeps ending.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use windlass_etcd::client::{Endpoint, Status};
use windlass_spec::node_config::{Authority, EtcdMember, StaticPod, Unit};
use windlass_spec::report::PartState;

use crate::error::PartError;
use crate::http::{self, HttpError};
use crate::logs::Run;
use crate::parts::{Context, etcd, manifests, unit_part};
use crate::{logs, parts};

/// The static pod whose readiness feeds the endpoint.
pub const API_SERVER: &str = "kube-apiserver";
/// Annotations of the API server's manifest with the names it answers for, comma-separated.
pub const NAME_ANNOTATIONS: [&str; 2] = ["windlass.dev/api-internal-name", "windlass.dev/api-external-name"];

const STARTING: Duration = Duration::from_millis(250);
const API_SERVER_STEADY: Duration = Duration::from_secs(2);
const STEADY: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(2);
const UNIT_STARTING: Duration = Duration::from_secs(1);
/// Checks in a row that must fail until a healthy component is no longer said to be so.
const MISSED: u32 = 2;

/// Watches every component for ever.
pub async fn run(cx: &Context) {
    let pods = cx.config().static_pods.iter().map(|pod| watch_pod(cx, pod));
    let units = cx.config().units.iter().map(|unit| watch_unit(cx, unit));
    let etcd = async {
        if let Some(member) = &cx.config().etcd {
            watch_etcd(cx, member).await;
        }
    };
    join(join(join_all(pods), join_all(units)), etcd).await;
}

async fn watch_pod(cx: &Context, pod: &StaticPod) {
    cx.board.until_done("manifests").await;
    let is_api_server = pod.name == API_SERVER;
    if is_api_server {
        let names = api_server_names(&pod.manifest);
        cx.board.change(|report| report.api_server_names = names);
    }
    let steady = if is_api_server { API_SERVER_STEADY } else { STEADY };
    let mut missed = MISSED;
    loop {
        let pause = match ask_pod(cx, pod).await {
            Ok(()) => {
                missed = 0;
                cx.board.done(&pod.name, Vec::new());
                steady
            }
            Err(reason) => {
                missed += 1;
                if missed >= MISSED {
                    say_unwell(cx, &pod.name, &reason);
                }
                STARTING
            }
        };
        if is_api_server {
            cx.board.change(|report| report.api_server_ready = Some(missed < MISSED));
        }
        tokio::time::sleep(pause).await;
    }
}

/// What a component cannot live without: while that is missing, the component's own ends say nothing.
const NEEDS: [(&str, &str); 3] =
    [(API_SERVER, etcd::PART), ("kube-controller-manager", API_SERVER), ("kube-scheduler", API_SERVER)];

fn say_unwell(cx: &Context, pod: &str, reason: &str) {
    let needed = NEEDS.iter().find(|(name, _)| *name == pod).map(|(_, needed)| *needed);
    if let Some(missing) = needed.filter(|part| cx.board.state(part).is_some_and(|state| state != PartState::Done)) {
        return cx.board.waiting(pod, missing);
    }
    let runs = logs::runs_of_pod(&cx.host.root, pod, &cx.config().machine.name);
    cx.board.set(pod, unwell(cx.board.state(pod), logs::ends_again_and_again(&runs), reason));
}

/// Failed when its container keeps ending, and from then on until it answers: between two of its runs it would else seem
/// to be starting. Else waiting for the reason.
fn unwell(now: Option<PartState>, keeps_ending: Option<&Run>, reason: &str) -> PartState {
    match (keeps_ending, now) {
        (Some(run), _) => PartState::Failed {
            message: format!("it keeps ending (run {} ended); its last lines follow", run.attempt + 1),
            log: run.lines.clone(),
        },
        (None, Some(failed @ PartState::Failed { .. })) => failed,
        (None, _) => PartState::Waiting { reason: reason.to_owned() },
    }
}

async fn ask_pod(cx: &Context, pod: &StaticPod) -> Result<(), String> {
    let Some(url) = &pod.health_url else {
        let runs = logs::runs_of_pod(&cx.host.root, &pod.name, &cx.config().machine.name);
        let runs_well = !runs.is_empty() && logs::ends_again_and_again(&runs).is_none();
        return if runs_well { Ok(()) } else { Err("kubelet to start it".to_owned()) };
    };
    let tls = trust(cx).map_err(|error| error.to_string())?;
    match http::get(url, &tls, None, TIMEOUT).await {
        Ok(answer) if answer.status.is_success() => Ok(()),
        Ok(answer) => Err(unready(&String::from_utf8_lossy(&answer.body), answer.status.as_u16())),
        Err(HttpError::Connect { .. }) => Err("it does not listen yet".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn trust(cx: &Context) -> Result<Arc<rustls::ClientConfig>, HttpError> {
    let authority = cx.secrets().authorities.get(&Authority::Cluster);
    http::tls(authority.ok_or_else(|| HttpError::Tls("the cluster's authority is missing".to_owned()))?, None)
}

/// Names the checks that fail in a verbose health answer.
fn unready(body: &str, status: u16) -> String {
    let failing: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("[-]"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if failing.is_empty() { format!("it answers {status}") } else { format!("its checks {}", failing.join(", ")) }
}

fn api_server_names(manifest: &str) -> Vec<String> {
    NAME_ANNOTATIONS
        .iter()
        .filter_map(|name| manifests::annotation(manifest, name))
        .flat_map(|names| names.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>())
        .filter(|name| !name.is_empty())
        .collect()
}

async fn watch_unit(cx: &Context, unit: &Unit) {
    let part = unit_part(&unit.name);
    cx.board.until_done(&part).await;
    loop {
        let is_settled = cx.board.report().node_ready;
        tokio::time::sleep(if is_settled { STEADY } else { UNIT_STARTING }).await;
        match cx.host.units.state(&unit.name).await {
            Ok(state) if state.is_active() => cx.board.done(&part, Vec::new()),
            Ok(state) if state.keeps_ending() => {
                let log = logs::of_unit(&cx.host, &unit.name).await;
                cx.board.failed(&part, format!("it keeps ending (restarted {} times)", state.restarts), log);
            }
            Ok(state) => cx.board.waiting(&part, format!("the unit is {} ({})", state.active, state.sub)),
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

async fn watch_etcd(cx: &Context, member: &EtcdMember) {
    cx.board.until_done(etcd::MANIFEST_PART).await;
    let mut missed = MISSED;
    loop {
        let pause = match ask_etcd(cx, member).await {
            Ok(status) => {
                missed = 0;
                take_up_etcd(cx, member, &status).await;
                if status.is_learner { STARTING } else { STEADY }
            }
            Err(reason) => {
                missed += 1;
                if missed >= MISSED {
                    say_unwell(cx, etcd::PART, &reason);
                }
                STARTING
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn ask_etcd(cx: &Context, member: &EtcdMember) -> Result<Status, String> {
    let credentials = etcd::credentials(cx, member).map_err(|error| error.to_string())?;
    let own = Endpoint::new(&member.client_url, &credentials, TIMEOUT);
    let status = own.status().await.map_err(|_| "it does not answer yet".to_owned())?;
    if status.has_leader {
        return Ok(status);
    }
    let others = member.members.iter().filter(|peer| peer.name != member.name);
    let asked = others.map(|peer| {
        let endpoint = Endpoint::new(&peer.client_url, &credentials, TIMEOUT);
        async move { endpoint.status().await.is_err().then(|| peer.name.clone()) }
    });
    let silent: Vec<String> = join_all(asked).await.into_iter().flatten().collect();
    Err(if silent.is_empty() {
        "a leader to be elected".to_owned()
    } else {
        format!("etcd peers {}", silent.join(", "))
    })
}

async fn take_up_etcd(cx: &Context, member: &EtcdMember, status: &Status) {
    if let Err(error) = etcd::record_formed(cx, member) {
        cx.board.failed(etcd::PART, error.to_string(), Vec::new());
        return;
    }
    let formed_by = cx.ledger.get().etcd.map(|record| record.attempt.0);
    cx.board.change(|report| {
        report.etcd_formed_by = formed_by;
        report.etcd_member_id = Some(format!("{:x}", status.member));
    });
    if status.is_learner {
        cx.board.waiting(etcd::PART, "it catches up as a learner");
        if let Ok(credentials) = etcd::credentials(cx, member) {
            etcd::promote(member, &credentials, status.member).await;
        }
    } else {
        cx.board.done(etcd::PART, Vec::new());
    }
}

/// Waits until the Node is Ready, then runs the hooks for it.
pub async fn after_ready(cx: &Context) {
    use windlass_spec::node_config::HookPoint;

    let part = parts::hooks_part(HookPoint::AfterReady);
    let mut reader = cx.board.subscribe();
    let _ = reader.wait_for(|report| report.node_ready).await;
    loop {
        match parts::hooks::apply(cx, HookPoint::AfterReady).await {
            Ok(changes) => return cx.board.done(part, changes),
            Err(error) => cx.board.set(part, failure(&error)),
        }
        tokio::time::sleep(STEADY).await;
    }
}

fn failure(error: &PartError) -> PartState {
    PartState::Failed { message: error.to_string(), log: error.log() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[test]
    fn failing_checks_are_named() {
        let body = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed: x\nreadyz check failed\n";
        assert_eq!(unready(body, 500), "its checks etcd, poststarthook/rbac/bootstrap-roles");
        assert_eq!(unready("", 403), "it answers 403");
    }

    #[test]
    fn a_container_that_keeps_ending_stays_failed_while_it_starts_again() {
        let run = Run { attempt: 1, first: None, last: None, lines: vec!["unknown flag".to_owned()] };
        let failed = unwell(Some(PartState::Done), Some(&run), "it does not listen yet");
        let PartState::Failed { message, log } = &failed else { panic!("{failed:?}") };
        assert_eq!((message.as_str(), log), ("it keeps ending (run 2 ended); its last lines follow", &run.lines));
        assert_eq!(unwell(Some(failed.clone()), None, "it does not listen yet"), failed);
        let waiting = PartState::Waiting { reason: "it does not listen yet".to_owned() };
        assert_eq!(unwell(Some(PartState::Done), None, "it does not listen yet"), waiting);
    }

    #[test]
    fn what_ends_for_want_of_another_component_waits_for_it() {
        let machine = fixture::machine();
        let cx = machine.context();
        for attempt in 0..5 {
            let log =
                machine.path(&format!("/var/log/pods/kube-system_{API_SERVER}-lab-cp-a_1a/{API_SERVER}/{attempt}.log"));
            fs_err::create_dir_all(log.parent().unwrap()).unwrap();
            fs_err::write(log, "2026-01-01T00:00:00Z stderr F Error: no etcd\n").unwrap();
        }
        cx.board.waiting(etcd::PART, "etcd peers etcd-b");
        say_unwell(&cx, API_SERVER, "it does not listen yet");
        assert_eq!(cx.board.state(API_SERVER), Some(PartState::Waiting { reason: etcd::PART.to_owned() }));
        cx.board.done(etcd::PART, Vec::new());
        say_unwell(&cx, API_SERVER, "it does not listen yet");
        assert!(matches!(cx.board.state(API_SERVER), Some(PartState::Failed { .. })));
    }

    #[test]
    fn names_are_read_from_the_manifest() {
        let manifest = "metadata:\n  annotations:\n    windlass.dev/api-internal-name: a, b\n    windlass.dev/api-external-name: c\n";
        assert_eq!(api_server_names(manifest), ["a", "b", "c"]);
    }
}
