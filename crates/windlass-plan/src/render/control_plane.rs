//! kube-apiserver, kube-controller-manager and kube-scheduler as static pods, and the user's own static pods.

use std::collections::BTreeMap;

use windlass_spec::identity::Role;
use windlass_spec::node_config::StaticPod;
use windlass_spec::paths;

use super::etcd;
use super::flags::{FlagMap, command, flags, merged};
use super::pod::{ControlPlanePod, Health, HostMount};
use crate::inputs::{NodeInputs, RenderError};
use crate::yaml;

/// Annotation of an API server's pod: the name by which machines of the cluster find it.
pub const INTERNAL_NAME_ANNOTATION: &str = "windlass.dev/api-internal-name";
/// Annotation of an API server's pod: the name by which everyone else finds it.
pub const EXTERNAL_NAME_ANNOTATION: &str = "windlass.dev/api-external-name";

const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const CONTROLLER_MANAGER_PORT: u16 = 10257;
const SCHEDULER_PORT: u16 = 10259;

/// Static pods of this machine, in start order; etcd's is on its volume.
pub(super) fn static_pods(inputs: &NodeInputs<'_>) -> Result<Vec<StaticPod>, RenderError> {
    let mut pods = Vec::new();
    if inputs.machine.role == Role::ControlPlane {
        pods.extend([api_server(inputs)?, controller_manager(inputs)?, scheduler(inputs)?]);
    }
    let own = inputs.full.static_pods.iter().filter(|pod| pod.roles.contains(&inputs.machine.role));
    pods.extend(own.map(|pod| StaticPod {
        name: pod.name.clone(),
        manifest: yaml::document(&pod.manifest),
        restart_on: Vec::new(),
        health_url: None,
    }));
    Ok(pods)
}

fn image(inputs: &NodeInputs<'_>, component: &'static str) -> Result<String, RenderError> {
    inputs.full.release.images.get(component).cloned().ok_or(RenderError::NoImage(component))
}

fn pki(name: &str) -> String {
    format!("{}/{name}", paths::PKI)
}

fn api_server(inputs: &NodeInputs<'_>) -> Result<StaticPod, RenderError> {
    let endpoint = &inputs.full.endpoint;
    let machine = flags([
        ("advertise-address", inputs.machine.address.to_string()),
        ("etcd-servers", etcd::client_urls(inputs)?.join(",")),
        ("secure-port", endpoint.port.to_string()),
    ]);
    let all = merged(machine, &inputs.full.components.kube_apiserver);
    let mut mounts = vec![
        HostMount::directory(paths::PKI),
        HostMount::directory(paths::API_SERVER_CONFIGURATION),
        HostMount::directory("/etc/ssl/certs"),
    ];
    mounts.extend(audit_log(&all).map(|folder| HostMount::writable(&folder)));
    mounts.extend(user_files(inputs, &all, &mounts));
    let pod = ControlPlanePod {
        name: API_SERVER,
        image: image(inputs, API_SERVER)?,
        command: command(API_SERVER, &all),
        annotations: BTreeMap::from([
            (INTERNAL_NAME_ANNOTATION, endpoint.internal_name.clone()),
            (EXTERNAL_NAME_ANNOTATION, endpoint.name.clone()),
        ]),
        mounts,
        health: health(endpoint.port, "/livez", "/readyz"),
        cpu: "250m",
        memory: None,
    };
    Ok(StaticPod {
        name: API_SERVER.to_owned(),
        manifest: yaml::document(&pod.to_value()),
        restart_on: vec![paths::AUDIT_POLICY.to_owned(), pki("sa.pub"), pki("sa.key"), pki("etcd/ca.crt")],
        health_url: Some(format!("https://127.0.0.1:{}/readyz", endpoint.port)),
    })
}

fn controller_manager(inputs: &NodeInputs<'_>) -> Result<StaticPod, RenderError> {
    let all = merged(served_by("controller-manager"), &inputs.full.components.kube_controller_manager);
    let mounts = component_mounts(inputs, &all, paths::CONTROLLER_MANAGER_KUBECONFIG);
    let restart_on = vec![paths::CONTROLLER_MANAGER_KUBECONFIG.to_owned(), pki("ca.crt"), pki("sa.key")];
    let health = health(CONTROLLER_MANAGER_PORT, "/healthz", "/healthz");
    component(inputs, CONTROLLER_MANAGER, &all, mounts, restart_on, health, "200m")
}

fn scheduler(inputs: &NodeInputs<'_>) -> Result<StaticPod, RenderError> {
    let all = merged(served_by("scheduler"), &inputs.full.components.kube_scheduler);
    let mounts = component_mounts(inputs, &all, paths::SCHEDULER_KUBECONFIG);
    let restart_on = vec![paths::SCHEDULER_KUBECONFIG.to_owned()];
    component(inputs, SCHEDULER, &all, mounts, restart_on, health(SCHEDULER_PORT, "/livez", "/readyz"), "100m")
}

/// A serving certificate of the cluster's authority, so that whoever asks for metrics can check it. A lease that could
/// not be taken yet, as in a starting cluster, is tried again every second instead of every two to four.
fn served_by(certificate: &str) -> FlagMap {
    flags([
        ("leader-elect-retry-period", "1s".to_owned()),
        ("tls-cert-file", pki(&format!("{certificate}-server.crt"))),
        ("tls-private-key-file", pki(&format!("{certificate}-server.key"))),
    ])
}

fn component_mounts(inputs: &NodeInputs<'_>, flags: &FlagMap, kubeconfig: &str) -> Vec<HostMount> {
    let mut mounts =
        vec![HostMount::directory(paths::PKI), HostMount::file(kubeconfig), HostMount::directory("/etc/ssl/certs")];
    mounts.extend(user_files(inputs, flags, &mounts));
    mounts
}

fn component(
    inputs: &NodeInputs<'_>,
    name: &'static str,
    flags: &FlagMap,
    mounts: Vec<HostMount>,
    restart_on: Vec<String>,
    health: Health,
    cpu: &'static str,
) -> Result<StaticPod, RenderError> {
    let health_url = format!("https://127.0.0.1:{}/healthz", health.port);
    let pod = ControlPlanePod {
        name,
        image: image(inputs, name)?,
        command: command(name, flags),
        annotations: BTreeMap::new(),
        mounts,
        health,
        cpu,
        memory: None,
    };
    Ok(StaticPod {
        name: name.to_owned(),
        manifest: yaml::document(&pod.to_value()),
        restart_on,
        health_url: Some(health_url),
    })
}

fn health(port: u16, live: &'static str, ready: &'static str) -> Health {
    Health { host: "127.0.0.1".to_owned(), port, scheme: "HTTPS", live, ready }
}

/// Folder of the audit log, where one is written.
fn audit_log(flags: &FlagMap) -> Option<String> {
    let path = flags.get("audit-log-path").filter(|path| path.as_str() != "-")?;
    path.rsplit_once('/').map(|(folder, _)| folder.to_owned()).filter(|folder| !folder.is_empty())
}

/// Files of the spec that a flag names are visible to the component.
fn user_files(inputs: &NodeInputs<'_>, flags: &FlagMap, mounts: &[HostMount]) -> Vec<HostMount> {
    let files = inputs.full.files.iter().filter(|file| file.roles.contains(&Role::ControlPlane));
    files
        .filter(|file| flags.values().any(|value| *value == file.path))
        .filter(|file| !mounts.iter().any(|mount| mount.holds(&file.path)))
        .map(|file| HostMount::file(&file.path))
        .collect()
}
