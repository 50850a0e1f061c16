//! One operation a cluster at a time.
//!
//! Input: a path. Output: a held lock, or who holds it. The kernel's advisory lock is the truth, so a dead holder holds
//! nothing; the file's content only names the holder for people.

use std::fs::File;
use std::io::Write;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Holder {
    /// Process id on that host.
    pub pid: u32,
    /// The host's name.
    pub host: String,
    /// Since when.
    pub since: Timestamp,
    /// What it does: `create cluster lab`.
    pub purpose: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` (process {} on {}, since {})",
            self.purpose,
            self.pid,
            self.host,
            self.since.strftime("%F %T UTC")
        )
    }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone else has it.
    #[error("another run is at work: {}", holder.as_ref().map_or_else(|| "it has not said which".to_owned(), Holder::to_string))]
    Held {
        /// Who, as far as the file says.
        holder: Option<Holder>,
    },
    /// The file cannot be used.
    #[error("failed to take the lock `{path}`")]
    File {
        /// The lock file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A held lock; dropped, it is free.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock at `path` for `purpose`, or says who has it.
    pub fn take(path: &Utf8Path, purpose: &str) -> Result<Self, LockError> {
        let failed = |source| LockError::File { path: path.to_owned(), source };
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent).map_err(failed)?;
        }
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path).map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LockError::Held { holder: Self::read(path) }),
            Err(errno) => return Err(failed(errno.into())),
        }
        let mut lock = Self { file };
        lock.sign(purpose).map_err(failed)?;
        Ok(lock)
    }

    /// Who holds the lock at `path` now, if anyone does.
    pub fn holder(path: &Utf8Path) -> Option<Holder> {
        let file = File::open(path).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => None,
            Err(_) => Self::read(path),
        }
    }

    fn sign(&mut self, purpose: &str) -> std::io::Result<()> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let holder = Holder { pid: std::process::id(), host, since: Timestamp::now(), purpose: purpose.to_owned() };
        self.file.set_len(0)?;
        self.file.write_all(serde_json::to_string(&holder)?.as_bytes())
    }

    fn read(path: &Utf8Path) -> Option<Holder> {
        serde_json::from_str(&fs_err::read_to_string(path).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(dir: &tempfile::TempDir) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(dir.path().join("clusters/lab/lock")).expect("utf-8")
    }

    #[test]
    fn a_second_run_learns_who_holds_it() {
        let dir = tempfile::tempdir().expect("folder");
        let held = Lock::take(&path(&dir), "create cluster lab").expect("free");
        let LockError::Held { holder: Some(holder) } = Lock::take(&path(&dir), "delete cluster lab").expect_err("held")
        else {
            panic!("must name the holder")
        };
        assert_eq!((holder.pid, holder.purpose.as_str()), (std::process::id(), "create cluster lab"));
        assert_eq!(Lock::holder(&path(&dir)), Some(holder));
        drop(held);
        assert_eq!(Lock::holder(&path(&dir)), None);
        Lock::take(&path(&dir), "delete cluster lab").expect("free again");
    }

    #[test]
    fn what_a_dead_holder_wrote_does_not_hold() {
        let dir = tempfile::tempdir().expect("folder");
        fs_err::create_dir_all(path(&dir).parent().expect("parent")).expect("made");
        fs_err::write(path(&dir), r#"{"pid":1,"host":"h","since":"2026-01-01T00:00:00Z","purpose":"create"}"#)
            .expect("written");
        Lock::take(&path(&dir), "create cluster lab").expect("its holder is dead");
    }
}
