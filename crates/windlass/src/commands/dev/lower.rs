//! `windlass dev lower`: removes what `dev raise` made.

use std::path::Path;
use std::sync::Arc;

use futures::future::try_join_all;

use windlass_providers::local;
use windlass_providers::local::paths::Paths;
use windlass_providers::ports::{Provider, ProviderError};

use super::state::State;
use crate::exit::{Code, Failure, Outcome};

/// Arguments of `windlass dev lower`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  windlass dev lower lab")]
pub(crate) struct Args {
    /// The cluster's name.
    name: String,
}

/// Removes machines, volumes and the network.
pub(crate) async fn run(args: Args) -> Outcome {
    let state = State::load(&args.name)?.ok_or_else(|| {
        Failure::new(Code::NotFound, anyhow::anyhow!("{}/dev.json does not exist: nothing was raised here", args.name))
    })?;
    let paths = Paths::from_environment()?;
    let provider: Arc<dyn Provider> = Arc::new(local::ensure_running(&paths).await?);
    match remove(provider.as_ref(), &state).await {
        Ok(()) | Err(ProviderError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    fs_err::remove_dir_all(Path::new(&args.name))?;
    eprintln!("cluster {} is gone", args.name);
    Ok(Code::Ok)
}

async fn remove(provider: &dyn Provider, state: &State) -> Result<(), ProviderError> {
    let scope = &state.scope;
    let inventory = provider.inventory(scope).await?;
    try_join_all(inventory.machines.iter().map(|machine| provider.delete_machine(scope, &machine.name))).await?;
    try_join_all(inventory.volumes.iter().map(|volume| provider.delete_volume(scope, &volume.name))).await?;
    provider.delete_network(scope).await
}
