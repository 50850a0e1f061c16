//! hostd's own certificate authority and the identities it gives.
//!
//! Inputs: who is to be named. Outputs: certificates for hostd's servers, machines and owners elsewhere; and back from
//! a client certificate's common name to an [`Identity`]. Certificates are back-dated by an hour.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership};

use super::files;
use crate::ports::{ProviderError, Scope};

const HOUR: Duration = Duration::from_secs(3600);
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// root, over the socket.
    Root,
    /// An owner elsewhere, for its cluster and epoch only.
    Owner {
        /// The cluster.
        cluster: ClusterId,
        /// The owner.
        ownership: Ownership,
    },
    /// A machine: its own configuration and report only.
    Machine {
        /// The cluster.
        cluster: ClusterId,
        /// The machine.
        machine: String,
    },
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Owner { cluster, ownership } => {
                write!(f, "owner:{cluster}:{}:{}", ownership.owner, ownership.epoch)
            }
            Self::Machine { cluster, machine } => write!(f, "machine:{cluster}:{machine}"),
        }
    }
}

impl Identity {
    /// From a client certificate's common name.
    pub fn parse(common_name: &str) -> Option<Self> {
        let mut parts = common_name.split(':');
        let identity = match (parts.next()?, parts.next()?, parts.next()?) {
            ("machine", cluster, machine) => {
                Self::Machine { cluster: ClusterId::from(cluster), machine: machine.to_owned() }
            }
            ("owner", cluster, owner) => Self::Owner {
                cluster: ClusterId::from(cluster),
                ownership: Ownership { owner: OwnerId::from(owner), epoch: Epoch(parts.next()?.parse().ok()?) },
            },
            _ => return None,
        };
        parts.next().is_none().then_some(identity)
    }

    /// May it act under this scope?
    pub fn may_act(&self, scope: &Scope) -> Result<(), ProviderError> {
        match self {
            Self::Root => Ok(()),
            Self::Owner { cluster, ownership } if *cluster == scope.cluster_id && *ownership == scope.ownership => {
                Ok(())
            }
            _ => Err(self.denied(&format!(
                "act on cluster {} as {} in epoch {}",
                scope.cluster_id, scope.ownership.owner, scope.ownership.epoch
            ))),
        }
    }

    /// May it read what is held for this cluster? An owner may learn that it is no longer the current one.
    pub fn may_read(&self, scope: &Scope) -> Result<(), ProviderError> {
        match self {
            Self::Root => Ok(()),
            Self::Owner { cluster, .. } if *cluster == scope.cluster_id => Ok(()),
            _ => Err(self.denied(&format!("read about cluster {}", scope.cluster_id))),
        }
    }

    /// May it read about the host at large?
    pub fn may_look_around(&self) -> Result<(), ProviderError> {
        match self {
            Self::Root | Self::Owner { .. } => Ok(()),
            Self::Machine { .. } => Err(self.denied("read about the host")),
        }
    }

    /// May it do what only this computer's administrator may?
    pub fn must_be_root(&self, what: &str) -> Result<(), ProviderError> {
        if *self == Self::Root { Ok(()) } else { Err(self.denied(what)) }
    }

    fn denied(&self, what: &str) -> ProviderError {
        ProviderError::Denied { who: self.to_string(), what: what.to_owned() }
    }
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// hostd's authority.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Why the authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Its files.
    #[error("hostd's authority in {folder}")]
    Files {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Making a certificate.
    #[error("issuing a certificate for {subject}")]
    Issue {
        /// For whom.
        subject: String,
        /// Why.
        source: rcgen::Error,
    },
}

impl Authority {
    /// Reads the authority from a folder, or makes it there.
    pub fn load_or_make(folder: &Path) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Files { folder: folder.to_owned(), source };
        let (certificate_path, key_path) = (folder.join("ca.crt"), folder.join("ca.key"));
        if !certificate_path.exists() || !key_path.exists() {
            let made = make().map_err(|source| AuthorityError::Issue { subject: "hostd".to_owned(), source })?;
            windlass_files::private_folder(folder).map_err(failed)?;
            windlass_files::replace_durably(&key_path, made.key.as_bytes(), files::PRIVATE).map_err(failed)?;
            windlass_files::replace_durably(&certificate_path, made.certificate.as_bytes(), files::PUBLIC)
                .map_err(failed)?;
        }
        let certificate = fs_err::read_to_string(&certificate_path).map_err(failed)?;
        let key = fs_err::read_to_string(&key_path).map_err(failed)?;
        let issuer = KeyPair::from_pem(&key)
            .and_then(|key| Issuer::from_ca_cert_pem(&certificate, key))
            .map_err(|source| AuthorityError::Issue { subject: "hostd".to_owned(), source })?;
        Ok(Self { certificate, issuer })
    }

    /// The authority's certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a client.
    pub fn client(&self, identity: &Identity) -> Result<Issued, AuthorityError> {
        self.issue(&identity.to_string(), &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A certificate for hostd's server on these addresses.
    pub fn server(&self, addresses: &[IpAddr]) -> Result<Issued, AuthorityError> {
        self.issue("windlass-hostd", addresses, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn issue(
        &self,
        subject: &str,
        addresses: &[IpAddr],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Issued, AuthorityError> {
        let failed = |source| AuthorityError::Issue { subject: subject.to_owned(), source };
        let mut params = dated(subject);
        params.subject_alt_names = addresses.iter().map(|&address| SanType::IpAddress(address)).collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn make() -> Result<Issued, rcgen::Error> {
    let mut params = dated("windlass-hostd-authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn dated(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = SystemTime::now();
    params.not_before = (now - HOUR).into();
    params.not_after = (now + TEN_YEARS).into();
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(cluster: &str, owner: &str, epoch: u64) -> Scope {
        Scope {
            cluster_id: ClusterId::from(cluster),
            cluster: "lab".to_owned(),
            ownership: Ownership { owner: OwnerId::from(owner), epoch: Epoch(epoch) },
        }
    }

    #[test]
    fn identities_survive_the_certificate() {
        for text in ["machine:00ff:lab-cp-a", "owner:00ff:me:3"] {
            assert_eq!(Identity::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "root", "machine:x", "owner:a:b", "owner:a:b:c", "machine:a:b:c", "owner:a:b:1:2"] {
            assert_eq!(Identity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_owner_reaches_its_own_cluster_and_epoch_only() {
        let owner = Identity::parse("owner:00ff:me:3").unwrap();
        assert!(owner.may_act(&scope("00ff", "me", 3)).is_ok());
        for other in [scope("11ff", "me", 3), scope("00ff", "you", 3), scope("00ff", "me", 4), scope("00ff", "me", 2)] {
            assert!(matches!(owner.may_act(&other), Err(ProviderError::Denied { .. })));
        }
        let machine = Identity::parse("machine:00ff:m").unwrap();
        assert!(machine.may_act(&scope("00ff", "m", 1)).is_err());
        assert!(machine.may_look_around().is_err());
        assert!(owner.must_be_root("stop hostd").is_err());
    }

    #[test]
    fn the_authority_is_kept_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("authority");
        let first = Authority::load_or_make(&folder).unwrap();
        let second = Authority::load_or_make(&folder).unwrap();
        assert_eq!(first.certificate(), second.certificate());
        let mode = std::fs::metadata(folder.join("ca.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let issued = second.server(&["10.77.0.1".parse().unwrap()]).unwrap();
        assert!(issued.certificate.contains("BEGIN CERTIFICATE"));
    }
}
