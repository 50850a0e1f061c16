//! Files that survive a crash: written beside, synced, renamed.
//!
//! Inputs: a path, content, a mode. Outputs: the old content or the new one, never a part.

use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Mode of secrets.
pub(crate) const PRIVATE: u32 = 0o600;
/// Mode of the rest.
pub(crate) const PUBLIC: u32 = 0o644;

/// Makes a folder only root can enter, with its parents.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file durably.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_beside(path, content, mode, true)
}

/// Writes a file that may be lost when the host crashes, but is never torn.
pub(crate) fn write_loosely(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_beside(path, content, mode, false)
}

fn write_beside(path: &Path, content: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.new"));
    // A stale file of a crashed writer may have another mode.
    remove_if_there(&beside)?;
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true);
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = options.open(&beside)?;
    file.write_all(content)?;
    if durable {
        file.sync_all()?;
    }
    fs_err::rename(&beside, path)?;
    match path.parent() {
        Some(folder) if durable => fs_err::File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Writes a document as JSON, durably.
pub(crate) fn write_json(path: &Path, document: &impl Serialize, mode: u32) -> io::Result<()> {
    write(path, &serde_json::to_vec_pretty(document)?, mode)
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
    fn a_stale_half_written_file_is_replaced_with_the_right_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.json");
        std::fs::write(folder.path().join(".secret.json.new"), "torn").unwrap();
        write_json(&path, &[1, 2], PRIVATE).unwrap();
        assert_eq!(read_json::<Vec<i32>>(&path).unwrap(), Some(vec![1, 2]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_json::<Vec<i32>>(&folder.path().join("none")).unwrap(), None);
    }
}
