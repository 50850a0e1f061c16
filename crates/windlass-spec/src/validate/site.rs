//! Proxy, certificate authorities, time servers.

use super::{duplicates, pem, syntax};
use crate::problems::Problem;
use crate::v1alpha1::{ClusterSpec, Proxy};

/// Checks what the site asks for.
pub(super) fn check(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    proxy(&spec.proxy, found);
    for (index, certificate) in spec.trusted_cas.iter().enumerate() {
        if let Some(fault) = pem::fault(certificate) {
            let message = format!("this authority is no certificate in PEM: {fault}");
            let problem = Problem::error("certificate", format!("spec.trustedCAs[{index}]"), message);
            found.push(problem.hint("paste the file's text below `- |`"));
        }
    }
    let servers = spec.ntp.servers.iter().enumerate();
    for (index, server) in servers.clone().filter(|(_, server)| !syntax::is_host(server)) {
        let message = format!("`{server}` is no DNS name or IP address");
        found.push(Problem::error("ntp", format!("spec.ntp.servers[{index}]"), message));
    }
    duplicates(
        found,
        "time server",
        servers.map(|(index, server)| (format!("spec.ntp.servers[{index}]"), server.as_str())),
    );
}

fn proxy(proxy: &Proxy, found: &mut Vec<Problem>) {
    for (field, address) in [("http", &proxy.http), ("https", &proxy.https)] {
        if !address.is_empty() {
            found.extend(proxy_address(&format!("spec.proxy.{field}"), address));
        }
    }
    if proxy.http.is_empty() && proxy.https.is_empty() && !proxy.no_proxy.is_empty() {
        let message = "without a proxy there is nothing to be exempt from";
        found.push(Problem::warning("proxy", "spec.proxy.noProxy", message));
    }
    for (index, exempt) in proxy.no_proxy.iter().enumerate() {
        let bare = exempt.trim_start_matches("*.").trim_start_matches('.');
        let known = exempt == "*" || bare.parse::<ipnet::IpNet>().is_ok() || syntax::is_host_and_port(bare);
        if !known {
            let path = format!("spec.proxy.noProxy[{index}]");
            let problem = Problem::error("proxy", path, format!("`{exempt}` is no host, domain or address range"));
            found.push(problem.hint("one entry an item, without scheme or path"));
        }
    }
}

fn proxy_address(path: &str, address: &str) -> Option<Problem> {
    let problem = |message: String| Problem::error("proxy", path, message);
    let Some((scheme, rest)) = address.split_once("://") else {
        return Some(problem(format!("`{address}` is no URL")).hint(format!("write `http://{address}`")));
    };
    if !["http", "https"].contains(&scheme) {
        return Some(problem(format!("`{scheme}` is no way to speak to a proxy")).label("http or https"));
    }
    let host = rest.trim_end_matches('/').rsplit('@').next().unwrap_or_default();
    (!syntax::is_host_and_port(host)).then(|| problem(format!("`{host}` is no host with a port")))
}
