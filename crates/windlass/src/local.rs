//! The local provider at the command line: paths, a client, and exit codes for what it refuses.

use std::future::Future;

use windlass_providers::local::{self, Client, Paths};
use windlass_providers::ports::ProviderError;

use crate::exit::{Code, Failure};

/// A provider's refusal as the failure a person reads.
pub(crate) fn failure(error: ProviderError) -> Failure {
    let code = match &error {
        ProviderError::NotFound { .. } => Code::NotFound,
        ProviderError::Conflict { .. } | ProviderError::Fenced { .. } | ProviderError::Denied { .. } => Code::Refused,
        ProviderError::Ground { .. } => Code::Ground,
        ProviderError::Unreachable { .. } | ProviderError::Failed { .. } => Code::Failed,
    };
    match error {
        ProviderError::Ground { missing, remedy } => Failure::new(code, anyhow::anyhow!(missing)).hint(remedy),
        error => Failure::new(code, error),
    }
}

/// The paths of this environment.
pub(crate) fn paths() -> Result<Paths, Failure> {
    Ok(Paths::from_environment()?)
}

/// A client of hostd, which is started when it does not run.
pub(crate) async fn client(paths: &Paths) -> Result<Client, Failure> {
    local::ensure_running(paths).await.map_err(failure)
}

/// Runs a command's asynchronous part.
pub(crate) fn block_on<T>(act: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(act)
}
