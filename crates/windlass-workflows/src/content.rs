//! The content a cluster runs: its bundle and machine image, had or built.
//!
//! Inputs: a Kubernetes version or a bundle's digest, the cache. Outputs: programs for the bootstrap plane, the release
//! and the machine image's name; progress as events.

use camino::{Utf8Path, Utf8PathBuf};
use windlass_assets::{
    Bundle, BundleError, Cache, Event as Told, GoModules, LocalCache, MachineImageError, Progress as Listener, Recipe,
    RecipeError, Source, SourceError, Tools, WindlassBinary, machine_image, obtain,
};
use windlass_engine::{EventKind, Events};
use windlass_spec::full::Release;

use crate::plane::Programs;

/// What a cluster runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bootstrap plane's programs.
    pub programs: Programs,
    /// Versions and images, the controllers' own included.
    pub release: Release,
    /// Machine image.
    pub image: String,
}

/// Why there is no content.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// No such release.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// No source gave a bundle.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A bundle cannot be opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// No machine image.
    #[error(transparent)]
    Image(#[from] MachineImageError),
    /// The running binary cannot be read.
    #[error("failed to read the running binary")]
    Binary(#[source] std::io::Error),
    /// The bundle lacks a program.
    #[error("the bundle has no `{program}`")]
    Program {
        /// Which.
        program: &'static str,
    },
    /// A bundle that is no longer there.
    #[error("the bundle {digest} is not in the cache")]
    Gone {
        /// Its digest.
        digest: String,
    },
}

/// The content for a Kubernetes version, built with progress when it is not there. Blocks for long.
pub fn obtain_for(kubernetes: &str, cache: &Utf8Path, events: &Events) -> Result<Content, ContentError> {
    let cache = Cache::new(cache.as_std_path());
    let listener = Teller { events };
    let recipe = Recipe::find(kubernetes)?;
    let modules = GoModules { tools: Tools::from_environment() };
    let sources: [&dyn Source; 2] = [&LocalCache, &modules];
    let bundle = obtain(&sources, &recipe, &cache, &listener)?;
    finish(&bundle, &cache, &listener)
}

/// The release that a cluster of this Kubernetes version would run: its bundle's, or while none was built its recipe's,
/// and the image of the running binary. Nothing is built.
pub fn release_for(kubernetes: &str, cache: &Utf8Path) -> Result<Release, ContentError> {
    let release = match Bundle::locate(kubernetes, &Cache::new(cache.as_std_path()))? {
        Some(bundle) => bundle.release(),
        None => Recipe::find(kubernetes)?.manifest.release(),
    };
    Ok(WindlassBinary::running().map_err(ContentError::Binary)?.complete(release))
}

/// The programs of the bundle a cluster was made from. Nothing is built.
pub fn programs_of(digest: &str, cache: &Utf8Path) -> Result<Programs, ContentError> {
    let bundle = Bundle::with_digest(digest, &Cache::new(cache.as_std_path()))?;
    programs(&bundle.ok_or_else(|| ContentError::Gone { digest: digest.to_owned() })?)
}

fn finish(bundle: &Bundle, cache: &Cache, listener: &dyn Listener) -> Result<Content, ContentError> {
    let binary = WindlassBinary::running().map_err(ContentError::Binary)?;
    let image = machine_image(bundle, &binary, cache, listener)?;
    Ok(Content { programs: programs(bundle)?, release: image.release(), image: image.id().to_owned() })
}

/// The bootstrap plane's programs, read again before they are run: a damaged or swapped one is refused by name.
fn programs(bundle: &Bundle) -> Result<Programs, ContentError> {
    bundle.verify_programs(&["etcd", "kube-apiserver", "kube-controller-manager"])?;
    let path = |program: &'static str| {
        let found = bundle.program(program).and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
        found.ok_or(ContentError::Program { program })
    };
    Ok(Programs {
        etcd: path("etcd")?,
        apiserver: path("kube-apiserver")?,
        controller_manager: path("kube-controller-manager")?,
    })
}

/// Passes the builder's progress on to the stream.
struct Teller<'a> {
    events: &'a Events,
}

impl Listener for Teller<'_> {
    fn report(&self, event: Told) {
        let waiting = |reason: String| EventKind::StepWaiting { step: super::create::BUNDLE.into(), reason };
        let line = match event {
            Told::Planned { .. } | Told::Reused { .. } => return,
            Told::Waiting { holder: Some(pid) } => waiting(format!("another build is at work (process {pid})")),
            Told::Waiting { holder: None } => waiting("another build is at work".to_owned()),
            Told::Started { step } => waiting(step),
            Told::Detail { step, text } => waiting(format!("{step}: {text}")),
            Told::Finished { step, took } => {
                EventKind::Log { source: "bundle".into(), line: format!("{step} done in {:.1} s", took.as_secs_f64()) }
            }
        };
        self.events.send(line);
    }
}
