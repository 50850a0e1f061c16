//! What is issued is taken by a verifier, for the right names, clock skew included.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use windlass_pki::{
    Authorities, Credential, PkiError, admin_kubeconfig, inspect_certificate, inspect_request, issue, kubeconfig,
    request,
};
use windlass_spec::node_config::{Authority, Certificate};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a timestamp")
}

fn server() -> Certificate {
    Certificate {
        name: "apiserver".to_owned(),
        authority: Authority::Cluster,
        common_name: "kube-apiserver".to_owned(),
        organizations: vec![],
        dns_names: vec!["kubernetes.default.svc".to_owned(), "api.lab.windlass.internal".to_owned()],
        ip_addresses: vec!["127.0.0.1".parse().expect("v4"), "fd00::1".parse().expect("v6")],
        server_auth: true,
        client_auth: false,
        days: 365,
        certificate_path: String::new(),
        key_path: String::new(),
    }
}

fn verify_server(authority: &str, certificate: &str, name: &str, at: Timestamp) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate"))?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    let leaf = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at.as_second().unsigned_abs()));
    verifier.verify_server_cert(&leaf, &[], &name, &[], at).map(|_| ())
}

#[test]
fn a_server_certificate_holds_for_its_names_only() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let pair = issue(&authorities.cluster, &server(), now()).expect("a certificate");
    let verify = |ca: &str, name: &str| verify_server(ca, &pair.certificate_pem, name, now());
    let ca = &authorities.cluster.certificate_pem;
    for name in ["kubernetes.default.svc", "api.lab.windlass.internal", "127.0.0.1", "fd00::1"] {
        verify(ca, name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(verify(ca, "127.0.0.2").is_err());
    assert!(verify(&authorities.etcd.certificate_pem, "127.0.0.1").is_err(), "another authority");
}

#[test]
fn clocks_may_be_an_hour_behind_but_not_past_the_end() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let pair = issue(&authorities.cluster, &server(), now()).expect("a certificate");
    let at = |at| verify_server(&authorities.cluster.certificate_pem, &pair.certificate_pem, "127.0.0.1", at).is_ok();
    let table = [
        (SignedDuration::from_mins(-61), false),
        (SignedDuration::from_mins(-59), true),
        (SignedDuration::from_secs(-31), true),
        (SignedDuration::ZERO, true),
        (SignedDuration::from_hours(24 * 365 - 1), true),
        (SignedDuration::from_hours(24 * 365 + 1), false),
    ];
    for (skew, taken) in table {
        assert_eq!(at(now() + skew), taken, "{skew}");
    }
}

#[test]
fn a_client_certificate_carries_its_group_and_is_no_server() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let wanted = Certificate {
        common_name: "system:node:lab-cp-a".to_owned(),
        organizations: vec!["system:nodes".to_owned()],
        dns_names: vec![],
        ip_addresses: vec![],
        server_auth: false,
        client_auth: true,
        ..server()
    };
    let pair = issue(&authorities.cluster, &wanted, now()).expect("a certificate");
    let facts = inspect_certificate(&pair.certificate_pem).expect("facts");
    assert_eq!((facts.common_name.as_str(), facts.organizations), ("system:node:lab-cp-a", wanted.organizations));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(authorities.cluster.certificate_pem.as_bytes()).expect("a certificate");
    roots.add(ca).expect("an authority");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    let leaf = CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).expect("a certificate");
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_second().unsigned_abs()));
    verifier.verify_client_cert(&leaf, &[], at).expect("taken from a client");
    assert!(PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).is_ok());
}

#[test]
fn nothing_outlives_its_authority_and_an_ended_one_signs_nothing() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let end = inspect_certificate(&authorities.cluster.certificate_pem).expect("facts").not_after;
    let late = end - SignedDuration::from_hours(48);
    let pair = issue(&authorities.cluster, &server(), late).expect("a certificate");
    assert_eq!(inspect_certificate(&pair.certificate_pem).expect("facts").not_after, end);
    assert!(matches!(issue(&authorities.cluster, &server(), end), Err(PkiError::AuthorityEnded { .. })));
}

#[test]
fn renewal_is_wanted_when_a_fifth_is_left() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let pair = issue(&authorities.cluster, &server(), now()).expect("a certificate");
    let facts = inspect_certificate(&pair.certificate_pem).expect("facts");
    assert!(!facts.wants_renewal(now() + SignedDuration::from_hours(24 * 290)));
    assert!(facts.wants_renewal(now() + SignedDuration::from_hours(24 * 293)));
}

#[test]
fn authorities_survive_their_secrets() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let secrets = authorities.to_secrets();
    assert_eq!(Authorities::from_secrets(&secrets).expect("the same"), authorities);
    let mut broken = secrets;
    broken.remove(&windlass_pki::SecretKind::Etcd);
    let error = Authorities::from_secrets(&broken).expect_err("etcd is missing").to_string();
    assert_eq!(error, "the secret of the etcd lacks tls.crt");
}

#[test]
fn requests_are_read_back_and_forged_ones_refused() {
    let names = vec!["lab-md-1".to_owned()];
    let addresses = vec!["10.77.0.21".parse().expect("v4")];
    let groups = vec!["system:nodes".to_owned()];
    let (pem, _) = request("system:node:lab-md-1", &groups, &names, &addresses).expect("a request");
    let facts = inspect_request(&pem).expect("facts");
    assert_eq!(facts.common_name, "system:node:lab-md-1");
    assert_eq!((facts.organizations, facts.dns_names, facts.ip_addresses), (groups, names, addresses));
    assert!(facts.other_names.is_empty());
    assert!(inspect_request("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n").is_err());
}

#[test]
fn a_kubeconfig_is_text_with_everything_quoted() {
    let text = kubeconfig("lab", "https://10.77.0.2:6443", "CA", "system:bootstrap:abcdef", &Credential::Token("a.b"));
    insta::assert_snapshot!(text, @r#"
    apiVersion: v1
    kind: Config
    current-context: "system:bootstrap:abcdef@lab"
    clusters:
    - name: "lab"
      cluster:
        server: "https://10.77.0.2:6443"
        certificate-authority-data: "Q0E="
    contexts:
    - name: "system:bootstrap:abcdef@lab"
      context:
        cluster: "lab"
        user: "system:bootstrap:abcdef"
    users:
    - name: "system:bootstrap:abcdef"
      user:
        token: "a.b"
    "#);
}

#[test]
fn an_admin_is_a_member_of_a_group_that_rbac_can_take_away() {
    use base64::Engine as _;
    let authorities = Authorities::generate(now()).expect("authorities");
    let ttl = SignedDuration::from_hours(8);
    let text = admin_kubeconfig(&authorities, "lab", "https://10.77.0.2:6443", "admin", ttl, now()).expect("text");
    let data = text.lines().find_map(|line| line.trim().strip_prefix("client-certificate-data: ")).expect("data");
    let pem = base64::prelude::BASE64_STANDARD.decode(data.trim_matches('"')).expect("base64");
    let facts = inspect_certificate(&String::from_utf8(pem).expect("text")).expect("facts");
    assert_eq!(facts.organizations, ["windlass:admins"]);
    assert_eq!(facts.not_after, now() + ttl);
}

#[test]
fn keys_never_show_in_debug_output() {
    let authorities = Authorities::generate(now()).expect("authorities");
    let shown = format!("{authorities:?} {:?} {:?}", authorities.cluster, authorities.service_account);
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    assert!(!shown.contains(&authorities.encryption_key));
}
