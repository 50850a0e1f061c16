//! What can go wrong in a reconcile, one variant an operation.

use windlass_providers::ports::ProviderError;

/// Why a reconcile did not end.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Somebody else changed the object in between; the next run sees it.
    #[error("{what} was changed by somebody else meanwhile")]
    Conflict {
        /// Which object.
        what: String,
    },
    /// The API refused or did not answer.
    #[error("{operation} {what}: {source}")]
    Api {
        /// What was tried.
        operation: &'static str,
        /// On which object.
        what: String,
        /// The API's answer.
        source: Box<kube::Error>,
    },
    /// An object could not be written as JSON.
    #[error("{what} cannot be written as JSON: {source}")]
    Encode {
        /// Which object.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The machine provider refused or failed.
    #[error("machine provider: {0}")]
    Provider(#[from] ProviderError),
    /// The authorities could not be made, read or used.
    #[error("authorities of cluster {cluster}: {cause}")]
    Authorities {
        /// Which cluster.
        cluster: String,
        /// Why.
        cause: String,
    },
    /// The workload cluster's API refused or did not answer.
    #[error("{operation} in cluster {cluster}: {source}")]
    Workload {
        /// What was tried.
        operation: &'static str,
        /// Which cluster.
        cluster: String,
        /// Its answer.
        source: Box<kube::Error>,
    },
}

/// Is this the API saying "no such object"?
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Is this the API saying "it changed" or "it exists"?
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
