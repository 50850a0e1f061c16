//! Kubeconfig files as text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use windlass_spec::node_config::{Authority, Certificate};

use crate::authorities::{Authorities, KeyPair};
use crate::error::PkiError;
use crate::issue::issue_for;

/// Group of people who administer a cluster; bound to `cluster-admin` by RBAC, so it can be taken away.
pub const ADMINS_GROUP: &str = "windlass:admins";
/// Group of the control-plane agents; bound to `cluster-admin`.
pub const AGENTS_GROUP: &str = "windlass:agents";

/// How a kubeconfig authenticates.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// A client certificate, embedded.
    Certificate(&'a KeyPair),
    /// A bearer token.
    Token(&'a str),
    /// Files that something else renews.
    Files {
        /// Certificate file.
        certificate: &'a str,
        /// Key file.
        key: &'a str,
    },
}

/// A kubeconfig with one cluster, one user and one context `USER@CLUSTER`.
pub fn kubeconfig(cluster: &str, server: &str, ca_pem: &str, user: &str, credential: &Credential<'_>) -> String {
    let context = format!("{user}@{cluster}");
    let fields = [
        ("cluster", json!(cluster)),
        ("context", json!(context)),
        ("user", json!(user)),
        ("server", json!(server)),
        ("ca", json!(BASE64_STANDARD.encode(ca_pem))),
    ];
    let template = "apiVersion: v1\nkind: Config\ncurrent-context: {context}\n\
        clusters:\n- name: {cluster}\n  cluster:\n    server: {server}\n    certificate-authority-data: {ca}\n\
        contexts:\n- name: {context}\n  context:\n    cluster: {cluster}\n    user: {user}\n\
        users:\n- name: {user}\n  user:\n";
    let head = fields.iter().fold(template.to_owned(), |text, (name, value)| {
        // JSON strings are YAML strings, whatever is in them.
        text.replace(&format!("{{{name}}}"), &value.to_string())
    });
    credential_fields(credential)
        .into_iter()
        .fold(head, |text, (name, value)| format!("{text}    {name}: {}\n", Value::String(value)))
}

fn credential_fields(credential: &Credential<'_>) -> Vec<(&'static str, String)> {
    match credential {
        Credential::Certificate(pair) => vec![
            ("client-certificate-data", BASE64_STANDARD.encode(&pair.certificate_pem)),
            ("client-key-data", BASE64_STANDARD.encode(&pair.key_pem)),
        ],
        Credential::Token(token) => vec![("token", (*token).to_owned())],
        Credential::Files { certificate, key } => {
            vec![("client-certificate", (*certificate).to_owned()), ("client-key", (*key).to_owned())]
        }
    }
}

/// A kubeconfig for a person: user `name` in the group [`ADMINS_GROUP`], valid for `ttl`.
///
/// # Errors
/// When the certificate cannot be issued.
pub fn admin_kubeconfig(
    authorities: &Authorities,
    cluster: &str,
    server: &str,
    name: &str,
    ttl: SignedDuration,
    now: Timestamp,
) -> Result<String, PkiError> {
    let wanted = Certificate {
        name: name.to_owned(),
        authority: Authority::Cluster,
        common_name: name.to_owned(),
        organizations: vec![ADMINS_GROUP.to_owned()],
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: false,
        client_auth: true,
        days: 0,
        certificate_path: String::new(),
        key_path: String::new(),
    };
    let pair = issue_for(&authorities.cluster, &wanted, ttl, now)?;
    let ca = &authorities.cluster.certificate_pem;
    Ok(kubeconfig(cluster, server, ca, name, &Credential::Certificate(&pair)))
}
