//! The parts of a machine, each of which can run twice without effect.
//!
//! Inputs: a sealed node config, the host. Outputs: [`tasks`], in an order that lets independent parts run at once.

use std::sync::Arc;

use windlass_spec::node_config::{HookPoint, NodeConfig, NodeSecrets, SealedNodeConfig};

use crate::balancer::pool::Pool;
use crate::board::Board;
use crate::host::Host;
use crate::ledger::LedgerStore;
use crate::schedule::Task;

pub mod certificates;
pub mod etcd;
pub mod files;
pub mod first_boot;
pub mod hooks;
pub mod hosts;
pub mod kubelet;
pub mod manifests;
pub mod modules;
pub mod programs;
pub mod resolvers;
pub mod ssh;
pub mod sysctls;
pub mod time;
mod tls_bootstrap;
pub mod trust;
pub mod units;
pub mod users;
pub mod volumes;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod volumes_zoo;

/// What every part works with.
#[derive(Clone)]
pub struct Context {
    /// The machine.
    pub host: Host,
    /// Where states are written.
    pub board: Board,
    /// What must not be forgotten.
    pub ledger: LedgerStore,
    /// The API servers behind the balancer.
    pub api_servers: Arc<Pool>,
    /// What the machine must be.
    pub sealed: Arc<SealedNodeConfig>,
}

impl Context {
    /// The configuration.
    pub fn config(&self) -> &NodeConfig {
        &self.sealed.config
    }

    /// Its secrets.
    pub fn secrets(&self) -> &NodeSecrets {
        &self.sealed.secrets
    }
}

/// Name of a unit's part: `containerd` of `containerd.service`.
pub fn unit_part(unit: &str) -> String {
    unit.strip_suffix(".service").unwrap_or(unit).to_owned()
}

/// Name of a volume's part.
pub fn volume_part(volume: &str) -> String {
    format!("volume-{volume}")
}

/// Name of the part of the hooks of one point.
pub fn hooks_part(point: HookPoint) -> &'static str {
    match point {
        HookPoint::BeforeContainerd => "hooks-before-containerd",
        HookPoint::BeforeKubelet => "hooks-before-kubelet",
        HookPoint::AfterReady => "hooks-after-ready",
    }
}

/// What a unit or hook needs to find on the machine.
const GROUND: [&str; 8] =
    ["first-boot", "modules", "sysctls", "hosts", "resolvers", "users", "files", "trusted-authorities"];

/// Every part up to the running kubelet and its static pods' manifests.
pub fn tasks(context: &Context) -> Vec<Task<'_>> {
    let mut tasks = ground_tasks(context);
    tasks.extend(service_tasks(context));
    tasks
}

fn ground_tasks(cx: &Context) -> Vec<Task<'_>> {
    let first = ["first-boot"];
    vec![
        Task::new("first-boot", || first_boot::apply(cx)),
        Task::new("modules", || modules::apply(cx)).after(first),
        Task::new("sysctls", || sysctls::apply(cx)).after(["modules"]),
        Task::new("hosts", || hosts::apply(cx)).after(first),
        Task::new("resolvers", || resolvers::apply(cx)).after(first),
        Task::new("users", || users::apply(cx)).after(first),
        Task::new("ssh", || ssh::apply(cx)).after(["users"]),
        Task::new("files", || files::apply(cx)).after(["users"]),
        Task::new("trusted-authorities", || trust::apply(cx)).after(first),
        Task::new("programs", || programs::apply(cx)).after(first),
        Task::new("time", || time::apply(cx)).after(first),
        Task::new("certificates", || certificates::apply(cx)).after(first),
    ]
}

fn service_tasks(cx: &Context) -> Vec<Task<'_>> {
    let config = cx.config();
    let mut tasks = Vec::new();
    let volumes: Vec<String> = config.volumes.iter().map(|volume| volume_part(&volume.name)).collect();
    for (volume, part) in config.volumes.iter().zip(&volumes) {
        tasks.push(Task::new(part, move || volumes::apply(cx, volume)).after(["first-boot"]));
    }
    let before_containerd = hooks_part(HookPoint::BeforeContainerd);
    tasks.push(Task::new(before_containerd, || hooks::apply(cx, HookPoint::BeforeContainerd)).after(GROUND));
    let mut started = Vec::new();
    for unit in config.units.iter().filter(|unit| unit.name != config.kubelet.unit) {
        let part = unit_part(&unit.name);
        tasks.push(Task::new(&part, move || units::apply(cx, unit)).after([before_containerd, "programs"]));
        started.push(part);
    }
    let laid = ["certificates", "files", "hosts", "resolvers"];
    tasks.push(Task::new("manifests", || manifests::apply(cx)).after(laid));
    let before_kubelet = hooks_part(HookPoint::BeforeKubelet);
    tasks.push(Task::new(before_kubelet, || hooks::apply(cx, HookPoint::BeforeKubelet)).after(started.clone()));
    let kubelet = unit_part(&config.kubelet.unit);
    tasks.push(Task::new(kubelet, || kubelet::apply(cx)).after(started).after([
        before_kubelet,
        "certificates",
        "programs",
    ]));
    if let Some(member) = &config.etcd {
        let after = volumes.into_iter().chain(["certificates".to_owned(), "hosts".to_owned()]);
        tasks.push(Task::new(etcd::MANIFEST_PART, move || etcd::apply(cx, member)).after(after));
    }
    tasks
}
