//! The cache folder: where bundles, steps and machine images lie, and the lock that keeps builders apart.
//!
//! Input: a folder. Output: paths below it, [`CacheLock`], and clean-up of what a killed builder left.

use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::progress::{Event, Progress};

/// The cache folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The lock cannot be taken.
    #[error("the cache's lock cannot be taken")]
    Lock(#[source] io::Error),
    /// What a killed builder left cannot be removed.
    #[error("left-overs of a builder cannot be removed")]
    CleanUp(#[source] io::Error),
}

impl Cache {
    /// The cache in this folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of bundles, one each.
    pub fn bundles(&self) -> PathBuf {
        self.folder.join("bundles")
    }

    /// Folder of machine images and their bases.
    pub fn machine_images(&self) -> PathBuf {
        self.folder.join("machine-images")
    }

    /// Folder of single results of builds.
    pub(crate) fn steps(&self) -> PathBuf {
        self.folder.join("steps")
    }

    /// Folder for work in progress; emptied by the next holder of the lock.
    pub(crate) fn staging(&self) -> PathBuf {
        self.folder.join("staging")
    }

    /// Takes the lock, waiting for whoever holds it, and clears what a killed holder left. The kernel frees the lock
    /// when its holder dies.
    pub fn lock(&self, progress: &dyn Progress) -> Result<CacheLock, CacheError> {
        fs_err::create_dir_all(&self.folder).map_err(CacheError::Lock)?;
        let path = self.folder.join("lock");
        let mut options = fs_err::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(CacheError::Lock)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(CacheError::Lock)?;
            progress.report(Event::Waiting { holder: holder.trim().parse().ok() });
            flock(&file, FlockOperation::LockExclusive).map_err(|errno| CacheError::Lock(errno.into()))?;
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(CacheError::Lock)?;
        writeln!(file, "{}", std::process::id()).map_err(CacheError::Lock)?;
        clear(&self.staging()).map_err(CacheError::CleanUp)?;
        fs_err::create_dir_all(self.staging()).map_err(CacheError::Lock)?;
        Ok(CacheLock { file, staging: self.staging() })
    }
}

/// The right to change the cache; given back when dropped.
#[derive(Debug)]
pub struct CacheLock {
    file: fs_err::File,
    staging: PathBuf,
}

impl CacheLock {
    /// An empty folder for work in progress.
    pub(crate) fn work_folder(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.staging.join(name);
        clear(&folder)?;
        fs_err::create_dir_all(&folder)?;
        Ok(folder)
    }
}

impl Drop for CacheLock {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next holder, which reports an error.
        clear(&self.staging).ok();
        self.file.set_len(0).ok();
    }
}

/// Removes a folder and all in it, but refuses where something is mounted below it.
pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    if !folder.try_exists()? {
        return Ok(());
    }
    if let Some(mounted) = mount_below(&fs_err::canonicalize(folder)?)? {
        return Err(io::Error::other(format!("{} is a mount point; unmount it first", mounted.display())));
    }
    fs_err::remove_dir_all(folder)
}

/// The first mount point at or below a folder.
fn mount_below(folder: &Path) -> io::Result<Option<PathBuf>> {
    let table = fs_err::read_to_string("/proc/self/mountinfo")?;
    Ok(table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .find(|point| point.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::progress::Silent;

    #[test]
    fn a_second_builder_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let first = cache.lock(&Silent).unwrap();
        let seen = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| cache.lock(&|event| seen.lock().unwrap().push(event)).map(drop));
            while seen.lock().unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(2));
            }
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap().unwrap();
        });
        assert_eq!(*seen.lock().unwrap(), [Event::Waiting { holder: Some(std::process::id()) }]);
    }

    #[test]
    fn the_next_holder_clears_what_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        fs_err::create_dir_all(cache.staging().join("half")).unwrap();
        let lock = cache.lock(&Silent).unwrap();
        assert!(!cache.staging().join("half").exists());
        assert!(lock.work_folder("x").unwrap().is_dir());
    }
}
