//! Volumes of clusters.
//!
//! Inputs: wishes. Outputs: sparse files below the cluster's folder, gone again when asked for.

use super::super::protocol;
use super::host::{Host, check_name, failed};
use super::volumes;
use crate::ports::{ProviderError, Scope, Volume};

impl Host {
    /// Makes a volume; an existing one is kept with its content.
    pub(super) fn ensure_volume(&self, wish: &protocol::EnsureVolume) -> Result<Volume, ProviderError> {
        let protocol::EnsureVolume { scope, wanted } = wish;
        check_name("volume", &wanted.name)?;
        let file = self.paths.volume(&scope.cluster_id, &wanted.name);
        self.owned(scope, |cluster| {
            if let Some(volume) = cluster.holdings.want_volume(wanted)? {
                return Ok(volume);
            }
            volumes::make(&file, wanted.bytes).map_err(|error| failed("making the volume", &error))?;
            Ok(cluster.holdings.add_volume(wanted.clone(), file.display().to_string()))
        })
    }

    /// Removes a detached volume with its content.
    pub(super) async fn delete_volume(&self, scope: &Scope, name: &str) -> Result<(), ProviderError> {
        let id = &scope.cluster_id;
        if !self.clusters().contains_key(id) {
            return Ok(());
        }
        let there = self.owned(scope, |cluster| Ok(cluster.holdings.removable_volume(name)?.is_some()))?;
        if there {
            let file = self.paths.volume(id, name);
            volumes::detach(&file).await.map_err(|error| failed("detaching the volume", &error))?;
            super::super::files::remove_if_there(&file).map_err(|error| failed("removing the volume", &error))?;
            self.owned(scope, |cluster| {
                cluster.holdings.volumes.remove(name);
                Ok(())
            })?;
        }
        self.forget_empty(id)
    }
}
