//! What every operation works with on this computer.

use std::sync::Arc;

use camino::Utf8PathBuf;
use windlass_providers::ports::Provider;

use crate::folder::Registry;

/// This computer, as an operation sees it.
#[derive(Clone)]
pub struct Site {
    /// The state folder.
    pub state: Utf8PathBuf,
    /// The cache folder: bundles and machine images.
    pub cache: Utf8PathBuf,
    /// The local provider's folder for sockets; a short path. It goes when hostd holds nothing.
    pub run: Utf8PathBuf,
    /// Where machines live.
    pub provider: Arc<dyn Provider>,
    /// Windlass's version.
    pub version: String,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Site {
    /// The clusters this computer knows.
    pub fn registry(&self) -> Registry {
        Registry::new(&self.state)
    }

    /// Where a cluster's bootstrap plane has its sockets: beside hostd's folder, not in it, since hostd removes that when
    /// it stops before the first machine is asked for.
    pub fn plane_sockets(&self, cluster_id: &str) -> Utf8PathBuf {
        Utf8PathBuf::from(format!("{}-plane-{cluster_id}", self.run))
    }
}
