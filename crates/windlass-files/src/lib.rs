//! Files written whole: a reader sees the old one or the new one, never a part.
//!
//! Inputs: a path, content, a mode, an owner. Output: the file, with no more than its mode from the moment it exists.
//! [`replace`] is enough for what can be made again, [`replace_durably`] holds after a power loss too.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fs_err::os::unix::fs::OpenOptionsExt as _;

/// User and group of a file.
pub type Owner = (u32, u32);

/// Writes a new file in the place of an old one; folders above it are made. A power loss may bring the old one back.
///
/// # Errors
/// When writing fails; the old file stays.
pub fn replace(path: impl AsRef<Path>, content: &[u8], mode: u32, owner: Option<Owner>) -> io::Result<()> {
    let path = path.as_ref();
    let (beside, _) = write_beside(path, content, mode, owner)?;
    beside.take_the_place_of(path)
}

/// As [`replace`], and returns when the disk has it.
///
/// # Errors
/// When writing fails; the old file stays.
pub fn replace_durably(path: impl AsRef<Path>, content: &[u8], mode: u32) -> io::Result<()> {
    let path = path.as_ref();
    let (beside, file) = write_beside(path, content, mode, None)?;
    file.sync_all()?;
    beside.take_the_place_of(path)?;
    fs_err::File::open(folder_of(path))?.sync_all()
}

/// Makes a folder that only its owner enters, and those above it.
///
/// # Errors
/// When it cannot be made.
pub fn private_folder(path: impl AsRef<Path>) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_beside(path: &Path, content: &[u8], mode: u32, owner: Option<Owner>) -> io::Result<(Beside, fs_err::File)> {
    fs_err::create_dir_all(folder_of(path))?;
    let beside = Beside::of(path)?;
    let mut file = beside.create(mode)?;
    file.write_all(content)?;
    if let Some((user, group)) = owner {
        std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
    }
    // What the process's mask or the change of owner took away.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    Ok((beside, file))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file that has yet to take the place of an old one. Dropped before, it is removed.
struct Beside {
    path: PathBuf,
}

impl Beside {
    /// A hidden name in the same folder which no other writer uses.
    fn of(path: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().ok_or_else(|| io::Error::other(format!("{} is no file's name", path.display())))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        Ok(Self { path: path.with_file_name(hidden) })
    }

    fn create(&self, mode: u32) -> io::Result<fs_err::File> {
        // Left by a process that died and had the same number.
        self.remove()?;
        fs_err::OpenOptions::new().write(true).create_new(true).mode(mode).open(&self.path)
    }

    fn take_the_place_of(self, path: &Path) -> io::Result<()> {
        fs_err::rename(&self.path, path)
    }

    fn remove(&self) -> io::Result<()> {
        match fs_err::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Nothing is there after the rename; what cannot be removed is hidden and no larger than the file.
        let _ = self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs_err::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    fn mode(path: &Path) -> u32 {
        fs_err::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_file_has_its_content_and_mode_and_nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/secret");
        for (content, wanted) in [("old", 0o666), ("new", 0o600), ("shorter", 0o644)] {
            replace_durably(&path, content.as_bytes(), wanted).unwrap();
            assert_eq!((fs_err::read_to_string(&path).unwrap().as_str(), mode(&path)), (content, wanted));
            replace(&path, content.as_bytes(), wanted, None).unwrap();
            assert_eq!((fs_err::read_to_string(&path).unwrap().as_str(), mode(&path)), (content, wanted));
        }
        assert_eq!(names(path.parent().unwrap()), ["secret"]);
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs_err::create_dir_all(path.join("inside")).unwrap();
        replace(&path, b"x", 0o600, None).unwrap_err();
        replace_durably(&path, b"x", 0o600).unwrap_err();
        replace(Path::new("/"), b"x", 0o600, None).unwrap_err();
        assert_eq!(names(folder.path()), ["taken"]);
    }

    #[test]
    fn a_link_is_replaced_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("link"), folder.path().join("target"));
        fs_err::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        replace(&path, b"new", 0o644, None).unwrap();
        assert_eq!(fs_err::read_to_string(&target).unwrap(), "kept");
        assert!(!fs_err::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[test]
    fn an_owner_is_given_and_keeps_the_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owned");
        let own = fs_err::metadata(folder.path()).unwrap();
        replace(&path, b"x", 0o2750, Some((own.uid(), own.gid()))).unwrap();
        let made = fs_err::metadata(&path).unwrap();
        assert_eq!((made.uid(), made.gid(), mode(&path)), (own.uid(), own.gid(), 0o2750));
    }

    #[test]
    fn a_reader_sees_one_writers_whole_file_whoever_else_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        replace(&path, &[b'0'; 4096], 0o600, None).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let write = |letter: u8| {
                let path = &path;
                move || (0..100).for_each(|_| replace(path, &[letter; 4096], 0o600, None).unwrap())
            };
            let reader = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let content = fs_err::read(&path).unwrap();
                    assert!(content.len() == 4096 && content.iter().all(|letter| *letter == content[0]));
                }
            });
            let writers = [scope.spawn(write(b'a')), scope.spawn(write(b'b'))];
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        assert_eq!(names(folder.path()), ["shared"]);
    }

    #[test]
    fn a_private_folder_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        private_folder(&path).unwrap();
        private_folder(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    }
}
