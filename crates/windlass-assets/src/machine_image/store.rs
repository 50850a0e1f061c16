//! Clones a containerd store: files shared by hard links, databases copied.
//!
//! Inputs: a store that no containerd uses, an empty or missing target. Output: a store of its own for another
//! containerd, which shares the disk blocks of every image.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// What containerd rewrites in place; everything else in a store is written once.
const DATABASE: &str = "db";

/// Clones a store. Where hard links cannot reach (another file system), files are copied.
pub(super) fn clone(source: &Path, target: &Path) -> io::Result<()> {
    let found = fs_err::symlink_metadata(source)?;
    if !target.try_exists()? {
        fs_err::create_dir_all(target)?;
    }
    for entry in fs_err::read_dir(source)? {
        let entry = entry?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            clone(&from, &to)?;
        } else if kind.is_symlink() {
            symlink(fs_err::read_link(&from)?, &to)?;
            let owner = entry.metadata()?;
            std::os::unix::fs::lchown(&to, Some(owner.uid()), Some(owner.gid()))?;
        } else if kind.is_file() {
            share(&from, &to)?;
        }
    }
    chown(target, Some(found.uid()), Some(found.gid()))?;
    fs_err::set_permissions(target, found.permissions())
}

fn share(from: &Path, to: &Path) -> io::Result<()> {
    let database = from.extension().is_some_and(|extension| extension == DATABASE);
    if !database && std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs_err::copy(from, to)?;
    let found = fs_err::metadata(from)?;
    chown(to, Some(found.uid()), Some(found.gid()))?;
    fs_err::set_permissions(to, PermissionsExt::from_mode(found.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_and_databases_are_not() {
        let root = tempfile::tempdir().unwrap();
        let (source, target) = (root.path().join("a"), root.path().join("b"));
        fs_err::create_dir_all(source.join("blobs")).unwrap();
        fs_err::create_dir_all(source.join("snapshots/1/fs/tmp")).unwrap();
        fs_err::set_permissions(source.join("snapshots/1/fs/tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
        fs_err::write(source.join("blobs/x"), "x").unwrap();
        fs_err::write(source.join("meta.db"), "db").unwrap();
        symlink("x", source.join("blobs/y")).unwrap();
        clone(&source, &target).unwrap();
        let inode = |path: &Path| fs_err::metadata(path).unwrap().ino();
        assert_eq!(inode(&source.join("blobs/x")), inode(&target.join("blobs/x")));
        assert_ne!(inode(&source.join("meta.db")), inode(&target.join("meta.db")));
        assert_eq!(fs_err::read(target.join("meta.db")).unwrap(), b"db");
        assert_eq!(fs_err::read_link(target.join("blobs/y")).unwrap(), Path::new("x"));
        let mode = fs_err::metadata(target.join("snapshots/1/fs/tmp")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }
}
