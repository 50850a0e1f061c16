//! Which machine image a machine is cloned from.
//!
//! Inputs: the cache, the name wished for. Output: that image, or the newest where none was named.

use std::path::Path;
use std::time::SystemTime;

use windlass_assets::{Cache, MachineImage, MachineImageError};

use super::host::failed;
use crate::ports::ProviderError;

/// The image of this name, or the newest when the name is empty.
pub(crate) fn find(cache: &Path, id: &str) -> Result<MachineImage, ProviderError> {
    let cache = Cache::new(cache);
    if id.is_empty() {
        return newest(&cache);
    }
    MachineImage::open(&cache, id).map_err(|error| match error {
        MachineImageError::NotFound { .. } => ProviderError::NotFound { what: format!("machine image {id}") },
        error => failed("opening the machine image", &error),
    })
}

fn newest(cache: &Cache) -> Result<MachineImage, ProviderError> {
    let images = MachineImage::list(cache).map_err(|error| failed("listing machine images", &error))?;
    let made = |image: &MachineImage| {
        let document = std::fs::metadata(image.folder().join(MachineImage::FILE));
        document.and_then(|document| document.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    images.into_iter().max_by_key(made).ok_or_else(|| ProviderError::Ground {
        missing: format!("no machine image in {}", cache.machine_images().display()),
        remedy: "make one with: windlass bundle build".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_image_is_said_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(find(folder.path(), ""), Err(ProviderError::Ground { .. })));
        assert!(matches!(find(folder.path(), "a"), Err(ProviderError::NotFound { .. })));
    }
}
