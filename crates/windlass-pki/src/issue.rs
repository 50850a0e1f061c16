//! Making certificates: authorities, what they sign, and requests for someone else to sign.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, SanType,
};
use time::OffsetDateTime;

use windlass_spec::node_config::Certificate;

use crate::authorities::KeyPair;
use crate::error::PkiError;
use crate::inspect::inspect_certificate;

/// How far before its making a certificate begins to be valid.
pub const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
/// Validity of authorities: ten years.
pub const AUTHORITY_DAYS: u32 = 3650;

/// Makes a self-signed authority.
///
/// # Errors
/// When no key can be made.
pub fn authority(common_name: &str, now: Timestamp) -> Result<KeyPair, PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(common_name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.not_before = moment(now - BACKDATE)?;
    params.not_after = moment(now + days(AUTHORITY_DAYS))?;
    let key = rcgen::KeyPair::generate().map_err(PkiError::Generate)?;
    let certificate = params.self_signed(&key).map_err(failed(common_name))?;
    Ok(KeyPair { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

/// Issues what a node config wants, with a new key.
///
/// # Errors
/// When the authority cannot be read or has ended, or a name cannot stand in a certificate.
pub fn issue(authority: &KeyPair, wanted: &Certificate, now: Timestamp) -> Result<KeyPair, PkiError> {
    issue_for(authority, wanted, days(wanted.days), now)
}

/// Like [`issue`], for another validity than the wanted days (admin kubeconfigs live for hours).
///
/// # Errors
/// As [`issue`].
pub fn issue_for(
    authority: &KeyPair,
    wanted: &Certificate,
    valid_for: SignedDuration,
    now: Timestamp,
) -> Result<KeyPair, PkiError> {
    let ends = inspect_certificate(&authority.certificate_pem)?.not_after;
    if ends <= now {
        return Err(PkiError::AuthorityEnded { name: wanted.name.clone(), ended: ends });
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(&wanted.common_name, &wanted.organizations);
    params.subject_alt_names = alternative_names(&wanted.name, &wanted.dns_names, &wanted.ip_addresses)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages(wanted);
    params.use_authority_key_identifier_extension = true;
    params.not_before = moment(now - BACKDATE)?;
    params.not_after = moment((now + valid_for).min(ends))?;
    let signer = rcgen::KeyPair::from_pem(&authority.key_pem).map_err(failed(&wanted.name))?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate_pem, signer).map_err(failed(&wanted.name))?;
    let key = rcgen::KeyPair::generate().map_err(PkiError::Generate)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed(&wanted.name))?;
    Ok(KeyPair { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

/// Makes a certificate signing request and its key: `(request PEM, key PEM)`.
///
/// # Errors
/// When no key can be made or a name cannot stand in a request.
pub fn request(
    common_name: &str,
    organizations: &[String],
    dns_names: &[String],
    ip_addresses: &[IpAddr],
) -> Result<(String, String), PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(common_name, organizations);
    params.subject_alt_names = alternative_names(common_name, dns_names, ip_addresses)?;
    let key = rcgen::KeyPair::generate().map_err(PkiError::Generate)?;
    let request = params.serialize_request(&key).map_err(failed(common_name))?;
    Ok((request.pem().map_err(failed(common_name))?, key.serialize_pem()))
}

fn subject(common_name: &str, organizations: &[String]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    // A map keyed by attribute holds one organization; nothing here has two.
    if let Some(organization) = organizations.first() {
        subject.push(DnType::OrganizationName, organization.as_str());
    }
    subject.push(DnType::CommonName, common_name);
    subject
}

fn alternative_names(name: &str, dns_names: &[String], addresses: &[IpAddr]) -> Result<Vec<SanType>, PkiError> {
    let mut names = Vec::with_capacity(dns_names.len() + addresses.len());
    for dns_name in dns_names {
        names.push(SanType::DnsName(dns_name.as_str().try_into().map_err(failed(name))?));
    }
    names.extend(addresses.iter().copied().map(SanType::IpAddress));
    Ok(names)
}

fn usages(wanted: &Certificate) -> Vec<ExtendedKeyUsagePurpose> {
    let server = wanted.server_auth.then_some(ExtendedKeyUsagePurpose::ServerAuth);
    let client = wanted.client_auth.then_some(ExtendedKeyUsagePurpose::ClientAuth);
    server.into_iter().chain(client).collect()
}

fn days(count: u32) -> SignedDuration {
    SignedDuration::from_hours(i64::from(count) * 24)
}

fn moment(at: Timestamp) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| PkiError::Moment(at))
}

fn failed(name: &str) -> impl Fn(rcgen::Error) -> PkiError + use<> {
    let name = name.to_owned();
    move |cause| PkiError::Issue { name: name.clone(), cause }
}
