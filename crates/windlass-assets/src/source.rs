//! Where bundles come from, in the order configured: the port and the sources there are.
//!
//! Inputs: a recipe and a list of sources. Output: a bundle in the cache. Mirrors and upstream's own sites are further
//! implementations of [`Source`].

use std::path::PathBuf;

use crate::archive::{ArchiveError, import};
use crate::build::{BuildError, build};
use crate::bundle::{Bundle, BundleError};
use crate::cache::Cache;
use crate::progress::Progress;
use crate::recipe::Recipe;
use crate::tool::Tools;

/// A place a bundle can be had from.
pub trait Source {
    /// For people: `the local cache`.
    fn name(&self) -> String;

    /// The bundle, laid into the cache; none when this place does not have it.
    fn obtain(&self, recipe: &Recipe, cache: &Cache, progress: &dyn Progress) -> Result<Option<Bundle>, SourceError>;
}

/// Why a source failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The cache.
    #[error(transparent)]
    Cache(#[from] BundleError),
    /// An archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No source has it.
    #[error("no source has a bundle for Kubernetes {kubernetes}; asked: {}", asked.join(", "))]
    Nowhere {
        /// The version.
        kubernetes: String,
        /// Sources asked.
        asked: Vec<String>,
    },
}

/// What is in the cache already.
#[derive(Clone, Copy, Debug)]
pub struct LocalCache;

impl Source for LocalCache {
    fn name(&self) -> String {
        "the local cache".to_owned()
    }

    fn obtain(&self, recipe: &Recipe, cache: &Cache, _: &dyn Progress) -> Result<Option<Bundle>, SourceError> {
        Ok(Bundle::locate(&recipe.manifest.kubernetes, cache)?)
    }
}

/// An archive file written by [`crate::export`].
#[derive(Clone, Debug)]
pub struct ArchiveFile {
    /// Where it is.
    pub path: PathBuf,
}

impl Source for ArchiveFile {
    fn name(&self) -> String {
        format!("the archive {}", self.path.display())
    }

    fn obtain(&self, recipe: &Recipe, cache: &Cache, progress: &dyn Progress) -> Result<Option<Bundle>, SourceError> {
        let bundle = import(&self.path, cache, progress)?;
        Ok((bundle.lock().kubernetes == recipe.manifest.kubernetes).then_some(bundle))
    }
}

/// A build from Go modules on this computer.
#[derive(Clone, Debug)]
pub struct GoModules {
    /// Its tools.
    pub tools: Tools,
}

impl Source for GoModules {
    fn name(&self) -> String {
        "Go modules".to_owned()
    }

    fn obtain(&self, recipe: &Recipe, cache: &Cache, progress: &dyn Progress) -> Result<Option<Bundle>, SourceError> {
        Ok(Some(build(recipe, cache, &self.tools, progress)?))
    }
}

/// Asks sources in order until one has the bundle.
pub fn obtain(
    sources: &[&dyn Source],
    recipe: &Recipe,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Bundle, SourceError> {
    for source in sources {
        if let Some(bundle) = source.obtain(recipe, cache, progress)? {
            return Ok(bundle);
        }
    }
    let asked = sources.iter().map(|source| source.name()).collect();
    Err(SourceError::Nowhere { kubernetes: recipe.manifest.kubernetes.clone(), asked })
}
