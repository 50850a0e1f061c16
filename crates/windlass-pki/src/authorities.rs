//! The authorities of one cluster, made once and kept as Secrets.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use rand::TryRngCore as _;
use serde::{Deserialize, Serialize};

use windlass_spec::node_config::Authority;

use crate::error::PkiError;
use crate::issue;

/// A certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyPair {
    /// The certificate.
    pub certificate_pem: String,
    /// The key, PKCS #8.
    pub key_pem: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// The key pair that signs and proves service-account tokens, PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceAccountKeys {
    /// The public half.
    pub public: String,
    /// The private half.
    pub private: String,
}

impl fmt::Debug for ServiceAccountKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountKeys").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Every root of trust of one cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorities {
    /// API servers and their clients.
    pub cluster: KeyPair,
    /// etcd's servers, peers and clients.
    pub etcd: KeyPair,
    /// Calls to aggregated API servers.
    pub front_proxy: KeyPair,
    /// Service-account tokens.
    pub service_account: ServiceAccountKeys,
    /// 32 random bytes, base64: the key of the encryption configuration.
    pub encryption_key: String,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").finish_non_exhaustive()
    }
}

/// The Secrets authorities are kept in. The first four are named as Cluster API names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretKind {
    /// The cluster authority.
    Cluster,
    /// etcd's authority.
    Etcd,
    /// The front proxy's authority.
    FrontProxy,
    /// The service-account pair.
    ServiceAccount,
    /// The encryption key.
    Encryption,
}

impl SecretKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Cluster, Self::Etcd, Self::FrontProxy, Self::ServiceAccount, Self::Encryption];

    /// What follows the cluster's name and a dash in the Secret's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Cluster => "ca",
            Self::Etcd => "etcd",
            Self::FrontProxy => "proxy",
            Self::ServiceAccount => "sa",
            Self::Encryption => "encryption",
        }
    }
}

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const ENCRYPTION: &str = "key";

/// Entries of one Secret: key to text.
type Entries = BTreeMap<String, String>;

impl Authorities {
    /// Makes new ones.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        let pair = rcgen::KeyPair::generate().map_err(PkiError::Generate)?;
        let mut key = [0_u8; 32];
        rand::rngs::OsRng.try_fill_bytes(&mut key).map_err(|_| PkiError::Generate(rcgen::Error::RingUnspecified))?;
        Ok(Self {
            cluster: issue::authority("kubernetes", now)?,
            etcd: issue::authority("etcd", now)?,
            front_proxy: issue::authority("front-proxy", now)?,
            service_account: ServiceAccountKeys { public: pair.public_key_pem(), private: pair.serialize_pem() },
            encryption_key: BASE64_STANDARD.encode(key),
        })
    }

    /// The pair behind an [`Authority`].
    pub fn get(&self, authority: Authority) -> &KeyPair {
        match authority {
            Authority::Cluster => &self.cluster,
            Authority::Etcd => &self.etcd,
            Authority::FrontProxy => &self.front_proxy,
        }
    }

    /// The entries of each Secret.
    pub fn to_secrets(&self) -> BTreeMap<SecretKind, Entries> {
        let pair = |certificate: &str, key: &str| {
            BTreeMap::from([(CERTIFICATE.to_owned(), certificate.to_owned()), (KEY.to_owned(), key.to_owned())])
        };
        let authority = |authority: &KeyPair| pair(&authority.certificate_pem, &authority.key_pem);
        BTreeMap::from([
            (SecretKind::Cluster, authority(&self.cluster)),
            (SecretKind::Etcd, authority(&self.etcd)),
            (SecretKind::FrontProxy, authority(&self.front_proxy)),
            (SecretKind::ServiceAccount, pair(&self.service_account.public, &self.service_account.private)),
            (SecretKind::Encryption, BTreeMap::from([(ENCRYPTION.to_owned(), self.encryption_key.clone())])),
        ])
    }

    /// Reads what [`Authorities::to_secrets`] gave.
    ///
    /// # Errors
    /// When a Secret or an entry is missing.
    pub fn from_secrets(secrets: &BTreeMap<SecretKind, Entries>) -> Result<Self, PkiError> {
        let entry = |kind: SecretKind, key: &'static str| {
            let found = secrets.get(&kind).and_then(|entries| entries.get(key)).cloned();
            found.ok_or(PkiError::Missing { kind: kind.suffix(), key })
        };
        let authority = |kind| {
            Ok::<_, PkiError>(KeyPair { certificate_pem: entry(kind, CERTIFICATE)?, key_pem: entry(kind, KEY)? })
        };
        Ok(Self {
            cluster: authority(SecretKind::Cluster)?,
            etcd: authority(SecretKind::Etcd)?,
            front_proxy: authority(SecretKind::FrontProxy)?,
            service_account: ServiceAccountKeys {
                public: entry(SecretKind::ServiceAccount, CERTIFICATE)?,
                private: entry(SecretKind::ServiceAccount, KEY)?,
            },
            encryption_key: entry(SecretKind::Encryption, ENCRYPTION)?,
        })
    }
}
