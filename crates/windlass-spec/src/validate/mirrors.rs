//! Registry mirrors: one shape that works, others refused with what to write instead.

use super::{duplicates, pem, syntax};
use crate::problems::Problem;
use crate::v1alpha1::RegistryMirror;

/// Checks every mirror.
pub(super) fn check(mirrors: &[RegistryMirror], found: &mut Vec<Problem>) {
    for (index, mirror) in mirrors.iter().enumerate() {
        let path = format!("spec.registryMirrors[{index}]");
        found.extend(registry(&format!("{path}.registry"), &mirror.registry));
        endpoints(&path, mirror, found);
        if let Some(fault) = Some(&mirror.ca_cert).filter(|cert| !cert.is_empty()).and_then(|cert| pem::fault(cert)) {
            let message = format!("the mirrors' authority is no certificate: {fault}");
            found.push(Problem::error("certificate", format!("{path}.caCert"), message));
        }
    }
    let names = mirrors.iter().enumerate();
    duplicates(
        found,
        "registry",
        names.map(|(index, mirror)| (format!("spec.registryMirrors[{index}].registry"), mirror.registry.as_str())),
    );
}

/// The registry is named as image names have it.
fn registry(path: &str, text: &str) -> Option<Problem> {
    if syntax::is_host_and_port(text) {
        return None;
    }
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    let bare = bare.split('/').next().unwrap_or_default();
    let problem = Problem::error("registry", path, format!("`{text}` is not how image names call a registry"));
    let bare = if syntax::is_host_and_port(bare) { bare } else { "docker.io" };
    Some(problem.label("host, and port if any").hint(format!("write `registry: {bare}`")))
}

fn endpoints(path: &str, mirror: &RegistryMirror, found: &mut Vec<Problem>) {
    if mirror.endpoints.is_empty() {
        let problem =
            Problem::error("mirror", format!("{path}.endpoints"), "a mirror without an endpoint has no effect");
        found.push(problem.hint("write `endpoints: [\"https://mirror.example\"]`"));
    }
    for (index, text) in mirror.endpoints.iter().enumerate() {
        found.extend(endpoint(&format!("{path}.endpoints[{index}]"), text, &mirror.registry));
    }
    let texts = mirror.endpoints.iter().enumerate();
    duplicates(found, "endpoint", texts.map(|(index, text)| (format!("{path}.endpoints[{index}]"), text.as_str())));
}

fn endpoint(path: &str, text: &str, registry: &str) -> Option<Problem> {
    let problem = |message: String| Problem::error("mirror", path, message);
    let Some((scheme, rest)) = text.split_once("://") else {
        let problem = problem(format!("`{text}` does not say how the mirror is spoken to"));
        return Some(problem.hint(format!("write `https://{text}`, or `http://{text}` where it has no TLS")));
    };
    if !["https", "http"].contains(&scheme) {
        return Some(
            problem(format!("`{scheme}` is no way to speak to a mirror")).hint(format!("write `https://{rest}`")),
        );
    }
    let (host, below) = rest.split_once('/').map_or((rest, ""), |(host, below)| (host, below));
    if host.contains('@') {
        let problem = problem("credentials do not belong in a mirror's address".to_owned());
        return Some(problem.hint("everybody who can read the spec could read them; let the mirror be read without"));
    }
    if !syntax::is_host_and_port(host) {
        return Some(problem(format!("`{host}` is no host with a port")));
    }
    if text.contains(['?', '#', ' ']) {
        return Some(problem(format!("`{text}` is no plain address")));
    }
    if rest.ends_with('/') || below.split('/').any(|part| part == "v2") {
        let right = below
            .split('/')
            .filter(|part| !part.is_empty() && *part != "v2")
            .fold(format!("{scheme}://{host}"), |address, part| format!("{address}/{part}"));
        let problem = problem(format!("`{text}` ends where nothing answers"));
        return Some(problem.label("containerd adds `/v2` and what follows itself").hint(format!("write `{right}`")));
    }
    if is_registry_itself(host, registry) && below.is_empty() {
        return Some(problem(format!("`{text}` is the registry itself")).hint("it is asked last anyway: leave it out"));
    }
    None
}

/// Docker Hub answers under another name than its images have.
fn is_registry_itself(host: &str, registry: &str) -> bool {
    let hub = registry == "docker.io" && ["registry-1.docker.io", "docker.io", "index.docker.io"].contains(&host);
    hub || host == registry
}
