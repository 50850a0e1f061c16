//! Reading certificates and signing requests: who, for which names, until when.

use std::net::IpAddr;

use jiff::Timestamp;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension, SubjectAlternativeName};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

use crate::error::PkiError;

/// What stands in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Subject common name.
    pub common_name: String,
    /// Subject organizations.
    pub organizations: Vec<String>,
    /// DNS subject alternative names.
    pub dns_names: Vec<String>,
    /// IP subject alternative names.
    pub ip_addresses: Vec<IpAddr>,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
}

impl CertificateFacts {
    /// Is less than a fifth of its life left?
    pub fn wants_renewal(&self, now: Timestamp) -> bool {
        let life = self.not_after.duration_since(self.not_before);
        self.not_after.duration_since(now) < life / 5
    }
}

/// What stands in a signing request. The signature over it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// Subject common name.
    pub common_name: String,
    /// Subject organizations.
    pub organizations: Vec<String>,
    /// DNS subject alternative names.
    pub dns_names: Vec<String>,
    /// IP subject alternative names.
    pub ip_addresses: Vec<IpAddr>,
    /// Subject alternative names of any other kind (mail, URI …), as text.
    pub other_names: Vec<String>,
}

/// Reads the first certificate of a PEM text.
///
/// # Errors
/// When there is none.
pub fn inspect_certificate(pem: &str) -> Result<CertificateFacts, PkiError> {
    let what = "a certificate";
    let der = first_block(pem, what)?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).map_err(unreadable(what))?;
    let names = match certificate.subject_alternative_name().map_err(unreadable(what))? {
        Some(extension) => Names::of(extension.value),
        None => Names::default(),
    };
    Ok(CertificateFacts {
        common_name: common_name(certificate.subject()),
        organizations: organizations(certificate.subject()),
        dns_names: names.dns,
        ip_addresses: names.addresses,
        not_before: timestamp(certificate.validity().not_before.timestamp(), what)?,
        not_after: timestamp(certificate.validity().not_after.timestamp(), what)?,
    })
}

/// Reads a PEM signing request and checks that it is signed by the key it names.
///
/// # Errors
/// When it is no request, or its signature does not hold.
pub fn inspect_request(pem: &str) -> Result<RequestFacts, PkiError> {
    let what = "a certificate request";
    let der = first_block(pem, what)?;
    let (_, request) = X509CertificationRequest::from_der(&der).map_err(unreadable(what))?;
    request.verify_signature().map_err(unreadable(what))?;
    let mut names = Names::default();
    for extension in request.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(found) = extension {
            names = Names::of(found);
        }
    }
    let subject = &request.certification_request_info.subject;
    Ok(RequestFacts {
        common_name: common_name(subject),
        organizations: organizations(subject),
        dns_names: names.dns,
        ip_addresses: names.addresses,
        other_names: names.other,
    })
}

#[derive(Default)]
struct Names {
    dns: Vec<String>,
    addresses: Vec<IpAddr>,
    other: Vec<String>,
}

impl Names {
    fn of(extension: &SubjectAlternativeName<'_>) -> Self {
        let mut names = Self::default();
        for name in &extension.general_names {
            match name {
                GeneralName::DNSName(dns) => names.dns.push((*dns).to_owned()),
                GeneralName::IPAddress(bytes) => match address(bytes) {
                    Some(address) => names.addresses.push(address),
                    None => names.other.push(name.to_string()),
                },
                _ => names.other.push(name.to_string()),
            }
        }
        names
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn common_name(name: &X509Name<'_>) -> String {
    name.iter_common_name().next().and_then(|part| part.as_str().ok()).unwrap_or_default().to_owned()
}

fn organizations(name: &X509Name<'_>) -> Vec<String> {
    name.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_owned).collect()
}

fn first_block(pem: &str, what: &'static str) -> Result<Vec<u8>, PkiError> {
    let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(unreadable(what))?;
    Ok(block.contents)
}

fn timestamp(seconds: i64, what: &'static str) -> Result<Timestamp, PkiError> {
    Timestamp::from_second(seconds).map_err(unreadable(what))
}

fn unreadable<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> PkiError {
    move |cause| PkiError::Read { what: what.to_owned(), cause: cause.to_string() }
}
