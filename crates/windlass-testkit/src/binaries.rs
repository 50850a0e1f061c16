//! Where the real etcd, kube-apiserver and kubectl for tests lie.
//!
//! Inputs: `WINDLASS_TEST_BIN` (a folder), else the bundles in the cache folder. Output: a path, or an error that says
//! what to run.

use std::path::{Path, PathBuf};

/// No such program for tests.
#[derive(Debug, thiserror::Error)]
#[error("no `{program}` for tests in {looked:?}: run `make build`, or set WINDLASS_TEST_BIN to a folder that has it")]
pub struct NoBinary {
    program: String,
    looked: Vec<PathBuf>,
}

/// The path of a Kubernetes or etcd program.
///
/// # Errors
/// When neither place has it.
pub fn find(program: &str) -> Result<PathBuf, NoBinary> {
    let looked = folders();
    let found = looked.iter().map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or_else(|| NoBinary { program: program.to_owned(), looked })
}

fn folders() -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("WINDLASS_TEST_BIN").filter(|folder| !folder.is_empty()) {
        return vec![folder.into()];
    }
    let mut folders = Vec::new();
    bin_folders(&cache().join("bundles"), 4, &mut folders);
    folders.sort();
    folders
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("windlass")
}

fn bin_folders(at: &Path, depth: u8, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs_err::read_dir(at) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if path.file_name().is_some_and(|name| name == "bin") {
            found.push(path);
        } else if depth > 0 {
            bin_folders(&path, depth - 1, found);
        }
    }
}
