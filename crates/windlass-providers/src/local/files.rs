//! Documents of hostd on disk.
//!
//! Inputs: a path, a document, a mode. Outputs: the old document or the new one, never a part; none where none is.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Mode of secrets.
pub(crate) const PRIVATE: u32 = 0o600;
/// Mode of the rest.
pub(crate) const PUBLIC: u32 = 0o644;

/// Writes a document as JSON, durably.
pub(crate) fn write_json(path: &Path, document: &impl Serialize, mode: u32) -> io::Result<()> {
    windlass_files::replace_durably(path, &serde_json::to_vec_pretty(document)?, mode)
}

/// Reads a JSON document; none when it is not there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs_err::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file; none there is as good.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_document_comes_back_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.json");
        write_json(&path, &[1, 2], PRIVATE).unwrap();
        assert_eq!(read_json::<Vec<i32>>(&path).unwrap(), Some(vec![1, 2]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_json::<Vec<i32>>(&folder.path().join("none")).unwrap(), None);
    }
}
