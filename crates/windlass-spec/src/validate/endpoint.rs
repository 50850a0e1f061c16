//! The API endpoint.

use super::{duplicates, syntax};
use crate::full::EndpointMode;
use crate::problems::Problem;
use crate::v1alpha1::Endpoint;

/// Ports a control-plane machine needs for something else.
const TAKEN: [(u16, &str); 16] = [
    (22, "SSH"),
    (53, "name servers"),
    (2379, "etcd's clients"),
    (2380, "etcd's peers"),
    (2381, "etcd's metrics"),
    (7440, "the host daemon"),
    (7441, "the controllers' metrics"),
    (7442, "the agent's metrics"),
    (7443, "the API balancer"),
    (7444, "the agent's way to its own API server"),
    (10248, "kubelet's health"),
    (10249, "kube-proxy's metrics"),
    (10250, "kubelet"),
    (10256, "kube-proxy's health"),
    (10257, "kube-controller-manager"),
    (10259, "kube-scheduler"),
];
/// Ports of Services.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Checks name, port, mode and certificate names.
pub(super) fn check(endpoint: &Endpoint, found: &mut Vec<Problem>) {
    if let Some(name) = endpoint.name.as_deref().filter(|name| !syntax::is_dns_name(name) || !name.contains('.')) {
        let problem = Problem::error("endpoint-name", "spec.endpoint.name", format!("`{name}` is no full DNS name"));
        found.push(problem.hint("lower-case labels with dots between are wanted, such as api.lab.example"));
    }
    found.extend(endpoint.port.and_then(port));
    if let Some(mode) = endpoint.mode.filter(|mode| *mode != EndpointMode::Provider) {
        let message = format!("endpoint mode {mode:?} is reserved for a later release");
        let problem = Problem::error("endpoint-mode", "spec.endpoint.mode", message);
        found.push(problem.hint("machines on this computer have the mode `Provider`: leave `mode` out"));
    }
    let names = endpoint.cert_sans.iter().enumerate();
    for (index, name) in names.clone() {
        let bare = name.strip_prefix("*.").unwrap_or(name);
        if !syntax::is_host(bare) {
            let path = format!("spec.endpoint.certSANs[{index}]");
            let problem = Problem::error("cert-san", path, format!("`{name}` is no DNS name or IP address"));
            found.push(problem.hint("leave out scheme, port and path"));
        }
    }
    duplicates(found, "name", names.map(|(index, name)| (format!("spec.endpoint.certSANs[{index}]"), name.as_str())));
}

fn port(port: u16) -> Option<Problem> {
    let problem = |message: String| Some(Problem::error("port", "spec.endpoint.port", message));
    if port == 0 {
        return problem("0 is no port".to_owned());
    }
    if NODE_PORTS.contains(&port) {
        return problem(format!("port {port} is among those of NodePort Services (30000 to 32767)"));
    }
    let (_, user) = TAKEN.iter().find(|(taken, _)| *taken == port)?;
    problem(format!("port {port} is needed for {user}"))
}
