//! Files on the machine: configurations, authorities, the user's own last.

use windlass_spec::full::{Cni, Proxy};
use windlass_spec::identity::Role;
use windlass_spec::node_config::{Content, File};
use windlass_spec::paths;

use super::{containerd, kubelet, secrets};
use crate::inputs::{NodeInputs, RenderError};
use crate::yaml;

/// Proxy settings of the units, as an environment file.
pub(super) const PROXY_ENVIRONMENT: &str = "/etc/windlass/proxy.env";

/// Every file, in order.
pub(super) fn files(inputs: &NodeInputs<'_>) -> Result<Vec<File>, RenderError> {
    let mut files = every_machine(inputs)?;
    if inputs.machine.role == Role::ControlPlane {
        files.extend(control_plane(inputs));
    }
    files.extend(user_files(inputs));
    Ok(files)
}

fn every_machine(inputs: &NodeInputs<'_>) -> Result<Vec<File>, RenderError> {
    let mut files = vec![
        text(paths::CLUSTER_CA, "0644", inputs.authorities.cluster.certificate_pem.clone()),
        text(paths::CONTAINERD_CONFIGURATION, "0644", containerd::configuration(inputs)?),
        text("/etc/crictl.yaml", "0644", format!("runtime-endpoint: unix://{}\n", paths::CONTAINERD_SOCKET)),
        text(paths::KUBELET_CONFIGURATION, "0644", yaml::document(&kubelet::configuration(inputs))),
    ];
    if inputs.full.network.cni == Cni::Bridge {
        files.push(text(paths::CNI_TEMPLATE, "0644", containerd::cni_template()));
    }
    files.extend(containerd::mirrors(inputs));
    files.extend(inputs.full.proxy.as_ref().map(|proxy| text(PROXY_ENVIRONMENT, "0600", proxy_environment(proxy))));
    Ok(files)
}

fn control_plane(inputs: &NodeInputs<'_>) -> Vec<File> {
    let authorities = inputs.authorities;
    let pki = |name: &str, content: &str| text(&format!("{}/{name}", paths::PKI), "0644", content.to_owned());
    let secret = |path: String, name: &str| File {
        path,
        mode: "0600".to_owned(),
        owner: None,
        content: Content::Secret(name.to_owned()),
    };
    let full = inputs.full;
    let mut files = vec![
        secret(format!("{}/ca.key", paths::PKI), secrets::CLUSTER_KEY),
        pki("etcd/ca.crt", &authorities.etcd.certificate_pem),
        pki("front-proxy-ca.crt", &authorities.front_proxy.certificate_pem),
        pki("sa.pub", &authorities.service_account.public),
        secret(format!("{}/sa.key", paths::PKI), secrets::SERVICE_ACCOUNT_KEY),
        text(paths::AUTHENTICATION_CONFIGURATION, "0644", yaml::document(&full.authentication_configuration)),
        secret(paths::ENCRYPTION_CONFIGURATION.to_owned(), secrets::ENCRYPTION),
    ];
    files.extend(full.audit_policy.as_ref().map(|policy| text(paths::AUDIT_POLICY, "0644", yaml::document(policy))));
    files
}

fn user_files(inputs: &NodeInputs<'_>) -> impl Iterator<Item = File> {
    let role = inputs.machine.role;
    let wanted = inputs.full.files.iter().filter(move |file| file.roles.contains(&role));
    wanted.map(|file| text(&file.path, &file.mode, file.content.clone()))
}

/// Both cases, since programs differ in which they read.
fn proxy_environment(proxy: &Proxy) -> String {
    let no_proxy = proxy.no_proxy.join(",");
    let settings = [("HTTP_PROXY", &proxy.http), ("HTTPS_PROXY", &proxy.https), ("NO_PROXY", &no_proxy)];
    let lines = settings.into_iter().filter(|(_, value)| !value.is_empty()).flat_map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        [format!("{name}=\"{value}\"\n"), format!("{}=\"{value}\"\n", name.to_lowercase())]
    });
    lines.collect()
}

fn text(path: &str, mode: &str, content: String) -> File {
    File { path: path.to_owned(), mode: mode.to_owned(), owner: None, content: Content::Text(content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b08_the_proxy_is_told_in_both_cases_with_what_is_exempt() {
        let proxy = Proxy {
            http: String::new(),
            https: "http://user:pa$$@192.0.2.1:3128".into(),
            no_proxy: vec!["localhost".into(), "10.96.0.0/16".into(), ".svc".into()],
        };
        insta::assert_snapshot!(proxy_environment(&proxy), @r#"
        HTTPS_PROXY="http://user:pa$$@192.0.2.1:3128"
        https_proxy="http://user:pa$$@192.0.2.1:3128"
        NO_PROXY="localhost,10.96.0.0/16,.svc"
        no_proxy="localhost,10.96.0.0/16,.svc"
        "#);
    }
}
