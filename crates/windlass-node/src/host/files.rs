//! Files written so that a reader never sees half of one.
//!
//! Inputs: path, content, mode, owner. Outputs: whether anything changed. [`ensure`] puts a new file in the place of the
//! old one; [`rewrite`] keeps the inode, for files that are bind-mounted into pods.

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fs_err as fs;
pub use windlass_files::{Owner, replace, replace_durably};

/// Makes the file be so; says whether it was not.
///
/// # Errors
/// When reading or writing fails.
pub fn ensure(path: &Path, content: &[u8], mode: u32, owner: Option<Owner>) -> io::Result<bool> {
    if is_so(path, content, mode, owner)? {
        return Ok(false);
    }
    replace(path, content, mode, owner)?;
    Ok(true)
}

fn is_so(path: &Path, content: &[u8], mode: u32, owner: Option<Owner>) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.mode() & 0o7777 != mode || metadata.len() != content.len() as u64 {
        return Ok(false);
    }
    if owner.is_some_and(|owner| owner != (metadata.uid(), metadata.gid())) {
        return Ok(false);
    }
    Ok(fs::read(path)? == content)
}

/// Changes a file's content without changing the file; says whether it differed.
///
/// # Errors
/// When reading or writing fails.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<bool> {
    match fs::read(path) {
        Ok(found) if found == content => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ensure(path, content, 0o644, None),
        Err(error) => return Err(error),
    }
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    Ok(true)
}

/// Removes a file; says whether it was there.
///
/// # Errors
/// When it is there and cannot be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The text of a file, or none when it is not there.
///
/// # Errors
/// When it is there and cannot be read.
pub fn read_text(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_time_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(ensure(&path, b"x", 0o600, None).unwrap());
        let inode = fs::metadata(&path).unwrap().ino();
        assert!(!ensure(&path, b"x", 0o600, None).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        assert!(ensure(&path, b"x", 0o644, None).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside");
    }

    #[test]
    fn rewriting_keeps_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        fs::write(&path, "a long content\n").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        assert!(rewrite(&path, b"short\n").unwrap());
        assert!(!rewrite(&path, b"short\n").unwrap());
        assert_eq!((fs::metadata(&path).unwrap().ino(), fs::read_to_string(&path).unwrap()), (inode, "short\n".into()));
    }
}
