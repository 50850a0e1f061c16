//! What can go wrong with keys and certificates.

/// Why a key, certificate or request could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A key pair could not be made.
    #[error("failed to generate a key: {0}")]
    Generate(rcgen::Error),
    /// A certificate could not be signed.
    #[error("failed to issue the certificate {name}: {cause}")]
    Issue {
        /// Which.
        name: String,
        /// Why.
        cause: rcgen::Error,
    },
    /// Stored PEM text is not what it should be.
    #[error("failed to read {what}: {cause}")]
    Read {
        /// What was read.
        what: String,
        /// Why it failed.
        cause: String,
    },
    /// A stored secret lacks an entry.
    #[error("the secret of the {kind} lacks {key}")]
    Missing {
        /// Which secret.
        kind: &'static str,
        /// Which entry.
        key: &'static str,
    },
    /// An authority is past its end.
    #[error("the authority that signs {name} ended at {ended}")]
    AuthorityEnded {
        /// Which certificate was wanted.
        name: String,
        /// When the authority ended.
        ended: jiff::Timestamp,
    },
    /// A moment outside what certificates can say.
    #[error("{0} cannot be written into a certificate")]
    Moment(jiff::Timestamp),
}
