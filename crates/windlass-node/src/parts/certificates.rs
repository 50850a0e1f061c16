//! Certificates the machine issues itself, and kubeconfigs made from them.
//!
//! Inputs: wishes of the configuration, authorities in its secrets. Outputs: certificate and key files, issued anew when
//! names or authority change or the end comes near; kubeconfigs, mode 0600.

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use windlass_pki::{Credential, KeyPair, inspect_certificate};
use windlass_spec::node_config::{Authority, Certificate, Kubeconfig, KubeconfigIdentity};

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::{Root, files};

/// Issues and writes what is missing, wrong or near its end.
///
/// # Errors
/// When an authority is missing or a file cannot be written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    for wanted in &cx.config().certificates {
        if let Some(reason) = reason_to_issue(cx, wanted, Timestamp::now())? {
            issue(cx, wanted)?;
            changes.push(format!("issued {} ({reason})", wanted.name));
        }
    }
    for kubeconfig in &cx.config().kubeconfigs {
        let path = cx.host.root.at(&kubeconfig.path);
        let text = kubeconfig_text(cx, kubeconfig)?;
        if files::ensure(&path, text.as_bytes(), 0o600, None).map_err(PartError::file(&path))? {
            changes.push(format!("wrote {}", kubeconfig.path));
        }
    }
    Ok(changes)
}

fn wrong(name: &str, cause: impl std::fmt::Display) -> PartError {
    PartError::Certificate { name: name.to_owned(), cause: cause.to_string() }
}

fn authority_pem(cx: &Context, wanted: &Certificate) -> Result<String, PartError> {
    let found = cx.secrets().authorities.get(&wanted.authority).cloned();
    found.ok_or_else(|| wrong(&wanted.name, format!("the authority {:?} is missing", wanted.authority)))
}

/// Why a certificate must be issued, or none.
fn reason_to_issue(cx: &Context, wanted: &Certificate, now: Timestamp) -> Result<Option<String>, PartError> {
    let Some(pair) = read_pair(&cx.host.root, wanted)? else { return Ok(Some("it was missing".to_owned())) };
    let authority = authority_pem(cx, wanted)?;
    let facts = match inspect_certificate(&pair.certificate_pem) {
        Ok(facts) => facts,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    let addresses = |list: &[std::net::IpAddr]| sorted(list.iter().map(ToString::to_string).collect());
    let reason = if facts.common_name != wanted.common_name
        || sorted(facts.organizations.clone()) != sorted(wanted.organizations.clone())
    {
        Some("its subject differs")
    } else if sorted(facts.dns_names.clone()) != sorted(wanted.dns_names.clone())
        || addresses(&facts.ip_addresses) != addresses(&wanted.ip_addresses)
    {
        Some("its names differ")
    } else if !is_signed_by(&pair.certificate_pem, &authority) {
        Some("it is of another authority")
    } else if !fits_key(&pair) {
        Some("its key does not fit")
    } else if facts.wants_renewal(now) {
        Some("its end is near")
    } else {
        None
    };
    Ok(reason.map(str::to_owned))
}

/// Certificate and key as they lie on the machine. Both may lie in one file.
pub(crate) fn read_pair(root: &Root, wanted: &Certificate) -> Result<Option<KeyPair>, PartError> {
    let read = |path: &str| {
        let path = root.at(path);
        files::read_text(&path).map_err(PartError::file(&path))
    };
    Ok(match (read(&wanted.certificate_path)?, read(&wanted.key_path)?) {
        (Some(certificate_pem), Some(key_pem)) => Some(KeyPair { certificate_pem, key_pem }),
        _ => None,
    })
}

fn is_signed_by(certificate_pem: &str, authority_pem: &str) -> bool {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    let (Some(certificate), Some(authority)) = (der(certificate_pem), der(authority_pem)) else { return false };
    let parse = x509_parser::parse_x509_certificate;
    let (Ok((_, certificate)), Ok((_, authority))) = (parse(&certificate), parse(&authority)) else { return false };
    certificate.verify_signature(Some(authority.public_key())).is_ok()
}

fn fits_key(pair: &KeyPair) -> bool {
    let certificate = CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes());
    let (Ok(certificate), Ok(key)) = (certificate, key) else { return false };
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    rustls::sign::CertifiedKey::from_der(vec![certificate], key, &provider).is_ok()
}

fn issue(cx: &Context, wanted: &Certificate) -> Result<(), PartError> {
    let key = cx.secrets().authority_keys.get(&wanted.authority).cloned();
    let authority = KeyPair {
        certificate_pem: authority_pem(cx, wanted)?,
        key_pem: key.ok_or_else(|| wrong(&wanted.name, "the authority's key is not on this machine"))?,
    };
    let pair = windlass_pki::issue(&authority, wanted, Timestamp::now()).map_err(|error| wrong(&wanted.name, error))?;
    let key_path = cx.host.root.at(&wanted.key_path);
    if wanted.key_path == wanted.certificate_path {
        let both = pair.certificate_pem + &pair.key_pem;
        return files::replace(&key_path, both.as_bytes(), 0o600, None).map_err(PartError::file(&key_path));
    }
    let certificate_path = cx.host.root.at(&wanted.certificate_path);
    files::replace(&key_path, pair.key_pem.as_bytes(), 0o600, None).map_err(PartError::file(&key_path))?;
    files::replace(&certificate_path, pair.certificate_pem.as_bytes(), 0o644, None)
        .map_err(PartError::file(&certificate_path))
}

fn kubeconfig_text(cx: &Context, wanted: &Kubeconfig) -> Result<String, PartError> {
    let ca = cx
        .secrets()
        .authorities
        .get(&Authority::Cluster)
        .ok_or_else(|| wrong(&wanted.path, "the cluster's authority is missing"))?;
    let cluster = &cx.config().cluster;
    let text = |user: &str, credential: &Credential<'_>| {
        windlass_pki::kubeconfig(cluster, &wanted.server, ca, user, credential)
    };
    match &wanted.identity {
        KubeconfigIdentity::Certificate(name) => {
            let certificate = find(cx, name)?;
            let pair = read_pair(&cx.host.root, certificate)?;
            let pair = pair.ok_or_else(|| wrong(name, "it is not on the machine"))?;
            Ok(text(&certificate.common_name, &Credential::Certificate(&pair)))
        }
        KubeconfigIdentity::BootstrapToken => {
            let token = cx.secrets().bootstrap_token.as_deref();
            let token = token.ok_or_else(|| wrong(&wanted.path, "there is no bootstrap token"))?;
            Ok(text("bootstrap", &Credential::Token(token)))
        }
        KubeconfigIdentity::Files { certificate, key } => {
            let user = format!("system:node:{}", cx.config().machine.name);
            Ok(text(&user, &Credential::Files { certificate, key }))
        }
    }
}

/// The wish of that name.
pub(crate) fn find<'a>(cx: &'a Context, name: &str) -> Result<&'a Certificate, PartError> {
    let found = cx.config().certificates.iter().find(|certificate| certificate.name == name);
    found.ok_or_else(|| wrong(name, "the configuration has no certificate of that name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    fn certificate(name: &str, dns_names: &[&str]) -> Certificate {
        Certificate {
            name: name.into(),
            authority: Authority::Cluster,
            common_name: "kube-apiserver".into(),
            organizations: vec!["system:masters".into()],
            dns_names: dns_names.iter().map(|&name| name.into()).collect(),
            ip_addresses: vec!["127.0.0.1".parse().unwrap()],
            server_auth: true,
            client_auth: true,
            days: 365,
            certificate_path: format!("/etc/kubernetes/pki/{name}.crt"),
            key_path: format!("/etc/kubernetes/pki/{name}.key"),
        }
    }

    #[tokio::test]
    async fn issued_once_and_again_when_names_authority_or_key_change() {
        let mut machine = fixture::machine();
        machine.change(|config| config.certificates = vec![certificate("apiserver", &["a"])]);
        assert_eq!(apply(&machine.context()).await.unwrap(), ["issued apiserver (it was missing)"]);
        assert!(apply(&machine.context()).await.unwrap().is_empty());

        machine.change(|config| config.certificates = vec![certificate("apiserver", &["a", "b"])]);
        assert_eq!(apply(&machine.context()).await.unwrap(), ["issued apiserver (its names differ)"]);

        let other = windlass_pki::authority("other", Timestamp::now()).unwrap();
        machine.secrets(|secrets| {
            secrets.authorities.insert(Authority::Cluster, other.certificate_pem);
            secrets.authority_keys.insert(Authority::Cluster, other.key_pem.clone());
        });
        assert_eq!(apply(&machine.context()).await.unwrap(), ["issued apiserver (it is of another authority)"]);

        fs_err::write(machine.path("/etc/kubernetes/pki/apiserver.key"), &other.key_pem).unwrap();
        assert_eq!(apply(&machine.context()).await.unwrap(), ["issued apiserver (its key does not fit)"]);
    }

    #[tokio::test]
    async fn it_is_renewed_before_its_end() {
        let mut machine = fixture::machine();
        machine.change(|config| config.certificates = vec![certificate("apiserver", &["a"])]);
        apply(&machine.context()).await.unwrap();
        let later = Timestamp::now() + jiff::SignedDuration::from_hours(24 * 300);
        let context = machine.context();
        let reason = reason_to_issue(&context, &context.config().certificates[0], later).unwrap();
        assert_eq!(reason.as_deref(), Some("its end is near"));
    }

    #[tokio::test]
    async fn kubeconfigs_hold_what_they_should() {
        let mut machine = fixture::machine();
        machine.change(|config| {
            config.certificates = vec![certificate("admin", &[])];
            config.kubeconfigs = vec![Kubeconfig {
                path: "/etc/kubernetes/admin.conf".into(),
                server: "https://127.0.0.1:6443".into(),
                identity: KubeconfigIdentity::Certificate("admin".into()),
            }];
        });
        apply(&machine.context()).await.unwrap();
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        let text = fs_err::read_to_string(machine.path("/etc/kubernetes/admin.conf")).unwrap();
        assert!(text.contains("client-key-data"), "{text}");
    }
}
