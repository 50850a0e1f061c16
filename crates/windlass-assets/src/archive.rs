//! A bundle as one file, for places without a network: `tar.zst`, the lock first.
//!
//! Inputs: a bundle, or an archive. Outputs: the archive, or the bundle in the cache after every file was compared with
//! the lock.

use fs_err::os::unix::fs::OpenOptionsExt;
use std::collections::BTreeSet;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, BundleError};
use crate::cache::{Cache, CacheError};
use crate::digest::{Digest, HashingWriter};
use crate::lock::{FileEntry, Lock, LockError};
use crate::oci::read_all;
use crate::progress::{Progress, detail, step};

/// Level of compression: a bundle of over a gigabyte should not take minutes.
const COMPRESSION: i32 = 3;

/// log₂ of the distance at which the same bytes are found again: a program and the image layer that holds it lie next
/// to each other, and no program is larger than this. Also what a reader has to hold in memory.
const WINDOW: u32 = 27;

/// Largest lock that is read.
const MAX_LOCK: u64 = 16 << 20;

/// Why an archive could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be written.
    #[error("the archive {} cannot be written", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("the archive {} cannot be read", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its first entry is not a lock that can be used.
    #[error("the archive {} does not begin with a usable lock", path.display())]
    Lock {
        /// Where.
        path: PathBuf,
        /// Why.
        source: LockError,
    },
    /// A file in it is not what the lock says.
    #[error("{file} in the archive {} is not what the lock says: expected {expected}, found {found}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The file.
        file: String,
        /// Digest in the lock, or that it is not there.
        expected: String,
        /// Digest found, or that it is missing.
        found: String,
    },
    /// The bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Writes a bundle into one archive, after having verified it.
pub fn export(bundle: &Bundle, path: &Path, progress: &dyn Progress) -> Result<(), ArchiveError> {
    step(progress, "verify", || bundle.verify())?;
    let write = |source| ArchiveError::Write { path: path.to_path_buf(), source };
    step(progress, "export", || write_archive(bundle, path, progress).map_err(write))
}

fn write_archive(bundle: &Bundle, path: &Path, progress: &dyn Progress) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let mut encoder = zstd::Encoder::new(BufWriter::new(fs_err::File::create(&part)?), COMPRESSION)?;
    encoder.include_checksum(true)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(WINDOW)?;
    let mut tar = tar::Builder::new(encoder);
    for name in std::iter::once(Lock::FILE.to_owned()).chain(order(bundle.lock())) {
        detail(progress, "export", &name);
        let executable = bundle.lock().files.get(&name).is_some_and(|entry| entry.executable);
        append(&mut tar, &bundle.folder().join(&name), &name, executable)?;
    }
    let mut file = tar.into_inner()?.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.flush()?;
    file.sync_all()?;
    fs_err::rename(part, path)
}

/// Files in the order in which like lies near like: each image after the program it holds.
fn order(lock: &Lock) -> Vec<String> {
    let belongs = |path: &str| {
        let name = path.strip_prefix("images/").and_then(|rest| rest.split('/').next());
        name.or_else(|| path.rsplit('/').next()).unwrap_or(path).to_owned()
    };
    let mut paths: Vec<String> = lock.files.keys().cloned().collect();
    paths.sort_by_key(|path| (belongs(path), path.clone()));
    paths
}

fn append(tar: &mut tar::Builder<impl Write>, source: &Path, name: &str, executable: bool) -> io::Result<()> {
    let file = fs_err::File::open(source)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(file.metadata()?.len());
    header.set_mode(if executable { 0o755 } else { 0o644 });
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    tar.append_data(&mut header, name, file)
}

/// Takes a bundle out of an archive into the cache.
pub fn import(path: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Bundle, ArchiveError> {
    let lock = cache.lock(progress)?;
    let read = |source| ArchiveError::Read { path: path.to_path_buf(), source };
    let folder = lock.work_folder("import").map_err(read)?;
    step(progress, "import", || Import { path, folder: &folder, progress }.run())?;
    Ok(Bundle::take_in(&folder, cache)?)
}

struct Import<'a> {
    path: &'a Path,
    folder: &'a Path,
    progress: &'a dyn Progress,
}

impl Import<'_> {
    fn run(&self) -> Result<(), ArchiveError> {
        let read = |source| ArchiveError::Read { path: self.path.to_path_buf(), source };
        let file = fs_err::File::open(self.path).map_err(read)?;
        let decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 18, file)).map_err(read)?;
        let mut tar = tar::Archive::new(decoder);
        let mut entries = tar.entries().map_err(read)?;
        let first = entries.next().ok_or_else(|| read(io::Error::other("it is empty")))?.map_err(read)?;
        let lock = self.lock(first)?;
        let mut open: BTreeSet<&String> = lock.files.keys().collect();
        for entry in entries {
            let mut entry = entry.map_err(read)?;
            let name = entry.path().map_err(read)?.to_string_lossy().into_owned();
            let Some((known, wanted)) = lock.files.get_key_value(&name) else {
                return Err(self.damaged(&name, &"nothing of that name", &"a file"));
            };
            if !open.remove(known) {
                return Err(self.damaged(&name, &"one file", &"a second"));
            }
            detail(self.progress, "import", &name);
            let found = self.write(&name, wanted, &mut entry).map_err(read)?;
            if found != wanted.sha256 {
                return Err(self.damaged(&name, &wanted.sha256, &found));
            }
        }
        open.first().map_or(Ok(()), |name| Err(self.damaged(name, &"a file", &"nothing")))
    }

    fn damaged(&self, file: &str, expected: &dyn ToString, found: &dyn ToString) -> ArchiveError {
        let (expected, found) = (expected.to_string(), found.to_string());
        ArchiveError::Damaged { path: self.path.to_path_buf(), file: file.to_owned(), expected, found }
    }

    /// Reads the lock, which comes first, and lays it down as it is.
    fn lock(&self, first: tar::Entry<'_, impl Read>) -> Result<Lock, ArchiveError> {
        let read = |source| ArchiveError::Read { path: self.path.to_path_buf(), source };
        if first.path().map_err(read)? != Path::new(Lock::FILE) {
            return Err(read(io::Error::other(format!("it does not begin with {}", Lock::FILE))));
        }
        let bytes = read_all(&mut first.take(MAX_LOCK)).map_err(read)?;
        let lock =
            Lock::parse(&bytes).map_err(|source| ArchiveError::Lock { path: self.path.to_path_buf(), source })?;
        fs_err::write(self.folder.join(Lock::FILE), bytes).map_err(read)?;
        Ok(lock)
    }

    fn write(&self, name: &str, wanted: &FileEntry, entry: &mut impl Read) -> io::Result<Digest> {
        let target = self.folder.join(name);
        if let Some(parent) = target.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let mut options = fs_err::OpenOptions::new();
        options.write(true).create_new(true).mode(if wanted.executable { 0o755 } else { 0o644 });
        let mut writer = HashingWriter::new(options.open(target)?);
        // One byte more than the lock says is enough to see that it is another file.
        io::copy(&mut entry.take(wanted.size + 1), &mut writer)?;
        Ok(writer.finish().1)
    }
}
