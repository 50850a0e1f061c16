//! Machine images in the cache, as machines are cloned from them.
//!
//! Input: `CACHE/machine-images/ID/image.json`. Output: the layers of the root and the filled containerd store.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use super::super::files;
use crate::ports::ProviderError;

/// Name of the description in an image's folder.
const DESCRIPTION: &str = "image.json";

/// A machine image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Its name.
    pub(crate) id: String,
    /// Layers of the root, topmost first.
    pub(crate) lower: Vec<PathBuf>,
    /// containerd's filled store, linked file by file into each machine; its databases are copied.
    pub(crate) containerd: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    lowerdirs: Vec<PathBuf>,
    containerd: Option<PathBuf>,
}

impl Image {
    /// The image of this name, or the newest when the name is empty.
    pub(crate) fn find(images: &Path, id: &str) -> Result<Self, ProviderError> {
        let id = if id.is_empty() { newest(images)? } else { id.to_owned() };
        let folder = images.join(&id);
        let failed = |error: io::Error| ProviderError::Failed {
            operation: format!("reading the machine image in {}", folder.display()),
            cause: error.to_string(),
        };
        let description: Option<Description> = files::read_json(&folder.join(DESCRIPTION)).map_err(failed)?;
        let Some(description) = description else {
            return Err(ProviderError::NotFound { what: format!("machine image {id} in {}", images.display()) });
        };
        let image = Self {
            lower: description.lowerdirs.iter().map(|path| folder.join(path)).collect(),
            containerd: description.containerd.map(|path| folder.join(path)),
            id,
        };
        image.check().map_err(failed)?;
        Ok(image)
    }

    fn check(&self) -> io::Result<()> {
        if self.lower.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no layers"));
        }
        let missing = self.lower.iter().chain(&self.containerd).find(|path| !path.is_dir());
        missing.map_or(Ok(()), |path| {
            Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", path.display())))
        })
    }
}

fn newest(images: &Path) -> Result<String, ProviderError> {
    let entries = std::fs::read_dir(images).into_iter().flatten().flatten();
    let made = |folder: &Path| {
        let time = std::fs::metadata(folder.join(DESCRIPTION)).and_then(|meta| meta.modified());
        time.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    entries
        .map(|entry| entry.path())
        .filter(|folder| folder.join(DESCRIPTION).is_file())
        .max_by_key(|folder| made(folder))
        .and_then(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
        .ok_or_else(|| ProviderError::Ground {
            missing: format!("no machine image in {}", images.display()),
            remedy: "make one with: windlass bundle build".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(folder: &Path, id: &str, json: &str) {
        std::fs::create_dir_all(folder.join(id).join("root")).unwrap();
        std::fs::write(folder.join(id).join(DESCRIPTION), json).unwrap();
    }

    #[test]
    fn images_are_found_by_name_or_age() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path();
        assert!(matches!(Image::find(images, ""), Err(ProviderError::Ground { .. })));
        assert!(matches!(Image::find(images, "a"), Err(ProviderError::NotFound { .. })));
        image(images, "a", r#"{"format":1,"lowerdirs":["root"],"containerd":null}"#);
        let found = Image::find(images, "").unwrap();
        assert_eq!((found.id.as_str(), found.lower), ("a", vec![images.join("a/root")]));
        image(images, "b", r#"{"lowerdirs":["root","gone"]}"#);
        let error = Image::find(images, "b").unwrap_err().to_string();
        assert!(error.contains("gone is missing"), "{error}");
    }
}
