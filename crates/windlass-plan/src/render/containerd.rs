//! containerd: its configuration, the pod network's template, registry mirrors.

use serde_json::{Value, json};

use windlass_spec::full::RegistryMirror;
use windlass_spec::node_config::{Content, File};
use windlass_spec::paths;

use crate::inputs::{NodeInputs, RenderError};

/// `config.toml`.
pub(super) fn configuration(inputs: &NodeInputs<'_>) -> Result<String, RenderError> {
    Ok(toml::to_string(&without_nulls(&inputs.full.components.containerd_config))?)
}

/// TOML knows no null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// The pod network, written by containerd when kubelet passes the Node's PodCIDRs. Addresses are kept below `/run`: after
/// a power loss no pod holds any.
pub(super) fn cni_template() -> String {
    // Go templates make the lists; their brackets would not be JSON before.
    r#"{
  "cniVersion": "1.0.0",
  "name": "windlass",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": false,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni/networks",
        "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
        "routes": [{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]
      }
    },
    {
      "type": "portmap",
      "backend": "nftables",
      "capabilities": {"portMappings": true}
    }
  ]
}
"#
    .to_owned()
}

/// `hosts.toml` and the authority of each mirrored registry.
pub(super) fn mirrors(inputs: &NodeInputs<'_>) -> Vec<File> {
    inputs.full.registry_mirrors.iter().flat_map(mirror).collect()
}

fn mirror(mirror: &RegistryMirror) -> Vec<File> {
    let folder = format!("{}/{}", paths::REGISTRY_CONFIGURATION, mirror.registry);
    let authority = (!mirror.ca_cert.is_empty()).then(|| format!("{folder}/ca.crt"));
    let mut files = vec![file(format!("{folder}/hosts.toml"), hosts_toml(mirror, authority.as_deref()))];
    files.extend(authority.map(|path| file(path, mirror.ca_cert.clone())));
    files
}

fn hosts_toml(mirror: &RegistryMirror, authority: Option<&str>) -> String {
    let server = match mirror.registry.as_str() {
        "docker.io" => "https://registry-1.docker.io".to_owned(),
        registry => format!("https://{registry}"),
    };
    // JSON strings are TOML basic strings.
    let text = |value: &str| json!(value).to_string();
    mirror.endpoints.iter().fold(format!("server = {}\n", text(&server)), |toml, endpoint| {
        let (url, has_path) = api_url(endpoint);
        let ca = authority.map(|path| format!("  ca = {}\n", text(path))).unwrap_or_default();
        let path = if has_path { "  override_path = true\n" } else { "" };
        format!("{toml}\n[host.{}]\n  capabilities = [\"pull\", \"resolve\"]\n{ca}{path}", text(&url))
    })
}

/// A mirror below a path serves `/v2/PATH/…`; one without serves `/v2/…`, which is containerd's own idea.
fn api_url(endpoint: &str) -> (String, bool) {
    let endpoint = endpoint.trim_end_matches('/');
    let authority_at = endpoint.find("://").map_or(0, |at| at + 3);
    match endpoint[authority_at..].split_once('/') {
        None => (endpoint.to_owned(), false),
        Some((authority, path)) => {
            let path = path.strip_prefix("v2/").unwrap_or(path);
            (format!("{}{authority}/v2/{path}", &endpoint[..authority_at]), true)
        }
    }
}

fn file(path: String, text: String) -> File {
    File { path, mode: "0644".to_owned(), owner: None, content: Content::Text(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b09_mirrors_with_and_without_a_path() {
        let shown = hosts_toml(
            &RegistryMirror {
                registry: "docker.io".into(),
                endpoints: vec!["https://mirror.example".into(), "http://192.0.2.10:5000/cache/".into()],
                ca_cert: String::new(),
            },
            Some("/etc/containerd/certs.d/docker.io/ca.crt"),
        );
        insta::assert_snapshot!(shown, @r#"
        server = "https://registry-1.docker.io"

        [host."https://mirror.example"]
          capabilities = ["pull", "resolve"]
          ca = "/etc/containerd/certs.d/docker.io/ca.crt"

        [host."http://192.0.2.10:5000/v2/cache"]
          capabilities = ["pull", "resolve"]
          ca = "/etc/containerd/certs.d/docker.io/ca.crt"
          override_path = true
        "#);
        assert_eq!(api_url("https://m.example/v2/cache").0, "https://m.example/v2/cache");
    }
}
