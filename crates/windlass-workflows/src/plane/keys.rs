//! Keys of the bootstrap plane: an authority of its own, a server certificate, one client.
//!
//! Input: the plane's folder. Output: files (0600) and a kubeconfig. What is there is kept, so that a plane can be
//! started again on its data.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use windlass_pki::{Authorities, Credential, KeyPair, PkiError, issue, kubeconfig};
use windlass_spec::node_config::{Authority, Certificate};

use super::flags::Files;

/// Keys could not be made or kept.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// Making failed.
    #[error("failed to make the bootstrap plane's keys")]
    Make(#[from] PkiError),
    /// Writing failed.
    #[error("failed to write `{path}`")]
    Write {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Makes the keys and writes them with a kubeconfig for `port`; returns the kubeconfig's text.
pub(crate) fn make(files: &Files, port: u16) -> Result<String, KeysError> {
    let now = Timestamp::now();
    let authorities = Authorities::generate(now)?;
    let server = issue(&authorities.cluster, &certificate("apiserver", &[], true), now)?;
    let client = issue(&authorities.cluster, &certificate("windlass", &["system:masters"], false), now)?;
    private_folder(&files.state.join("pki"))?;
    let text = render(port, &authorities.cluster, &client);
    write_private(&files.pki("ca.crt"), &authorities.cluster.certificate_pem)?;
    write_private(&files.pki("apiserver.crt"), &server.certificate_pem)?;
    write_private(&files.pki("apiserver.key"), &server.key_pem)?;
    write_private(&files.pki("service-account.key"), &authorities.service_account.private)?;
    write_private(&files.pki("service-account.pub"), &authorities.service_account.public)?;
    write_private(&kubeconfig_path(files), &text)?;
    Ok(text)
}

/// Where the plane's kubeconfig lies.
pub(crate) fn kubeconfig_path(files: &Files) -> Utf8PathBuf {
    files.state.join("kubeconfig")
}

fn render(port: u16, ca: &KeyPair, client: &KeyPair) -> String {
    let server = format!("https://127.0.0.1:{port}");
    kubeconfig("windlass-bootstrap", &server, &ca.certificate_pem, "windlass", &Credential::Certificate(client))
}

fn certificate(name: &str, organizations: &[&str], server: bool) -> Certificate {
    Certificate {
        name: name.to_owned(),
        authority: Authority::Cluster,
        common_name: name.to_owned(),
        organizations: organizations.iter().map(|&text| text.to_owned()).collect(),
        dns_names: Vec::new(),
        ip_addresses: if server { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { Vec::new() },
        server_auth: server,
        client_auth: !server,
        days: 30,
        certificate_path: String::new(),
        key_path: String::new(),
    }
}

/// Makes a folder only its owner enters.
pub(crate) fn private_folder(path: &Utf8Path) -> Result<(), KeysError> {
    windlass_files::private_folder(path).map_err(|source| KeysError::Write { path: path.to_owned(), source })
}

fn write_private(path: &Utf8Path, text: &str) -> Result<(), KeysError> {
    let written = windlass_files::replace(path, text.as_bytes(), 0o600, None);
    written.map_err(|source| KeysError::Write { path: path.to_owned(), source })
}
