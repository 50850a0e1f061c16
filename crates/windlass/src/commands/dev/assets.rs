//! The bundle and machine image a cluster is raised from.

use windlass_assets::{Bundle, Cache, MachineImage, Silent, WindlassBinary, machine_image};
use windlass_providers::local::paths::Paths;

use crate::exit::{Code, Failure};

/// The image for a Kubernetes version; its bundle must have been built.
pub(super) fn image(paths: &Paths, kubernetes: &str) -> Result<MachineImage, Failure> {
    let cache = Cache::new(paths.cache());
    let bundle = Bundle::locate(kubernetes, &cache)?.ok_or_else(|| {
        Failure::new(Code::NotFound, anyhow::anyhow!("there is no bundle for Kubernetes {kubernetes}"))
            .hint("windlass bundle build")
    })?;
    Ok(machine_image(&bundle, &WindlassBinary::running()?, &cache, &Silent)?)
}
