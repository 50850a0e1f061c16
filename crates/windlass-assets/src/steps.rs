//! Results of single build steps, kept by the hash of their inputs so that nothing is built twice and an interrupted
//! build goes on where it was.
//!
//! Inputs: a step's name, the digest of everything it depends on, and the work that fills a folder. Output: the folder,
//! whole or not at all; a result whose files are no longer what they were is made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::clear;
use crate::digest::Digest;

const STAMP: &str = "step.json";

/// The folder of results.
#[derive(Debug)]
pub(crate) struct Steps {
    folder: PathBuf,
}

/// A finished step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Files in it and their digests.
    pub(crate) files: BTreeMap<String, Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stamp {
    inputs: Digest,
    files: BTreeMap<String, Digest>,
}

impl Steps {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn place(&self, name: &str, inputs: Digest) -> PathBuf {
        self.folder.join(format!("{name}-{}", inputs.short()))
    }

    /// The result of a step, when it is there and whole.
    pub(crate) fn find(&self, name: &str, inputs: Digest) -> Option<Made> {
        let folder = self.place(name, inputs);
        let stamp: Stamp = serde_json::from_slice(&fs_err::read(folder.join(STAMP)).ok()?).ok()?;
        let whole = |(file, digest): (&String, &Digest)| {
            Digest::of_file(&folder.join(file)).is_ok_and(|found| found == *digest)
        };
        (stamp.inputs == inputs && stamp.files.iter().all(whole)).then_some(Made { folder, files: stamp.files })
    }

    /// Takes a folder that a step has filled, in place of any older result.
    pub(crate) fn keep(&self, name: &str, inputs: Digest, filled: &Path) -> io::Result<Made> {
        let mut files = BTreeMap::new();
        for entry in fs_err::read_dir(filled)? {
            let entry = entry?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), Digest::of_file(&entry.path())?);
        }
        let stamp = serde_json::to_vec_pretty(&Stamp { inputs, files: files.clone() })?;
        windlass_files::replace_durably(filled.join(STAMP), &stamp, 0o644)?;
        let folder = self.place(name, inputs);
        clear(&folder)?;
        fs_err::create_dir_all(&self.folder)?;
        fs_err::rename(filled, &folder)?;
        Ok(Made { folder, files })
    }

    /// Removes results of these steps whose inputs are not the ones in use.
    pub(crate) fn prune(&self, in_use: &BTreeMap<String, Digest>) -> io::Result<()> {
        if !self.folder.try_exists()? {
            return Ok(());
        }
        let keep: BTreeSet<PathBuf> = in_use.iter().map(|(name, inputs)| self.place(name, *inputs)).collect();
        for entry in fs_err::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let ours = name.rsplit_once('-').is_some_and(|(step, _)| in_use.contains_key(step));
            if ours && !keep.contains(&path) {
                clear(&path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(root: &Path, content: &str) -> PathBuf {
        let folder = root.join("work");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("tool"), content).unwrap();
        folder
    }

    #[test]
    fn a_result_is_found_by_its_inputs_and_not_when_damaged() {
        let root = tempfile::tempdir().unwrap();
        let steps = Steps::new(root.path().join("steps"));
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let made = steps.keep("tool", one, &filled(root.path(), "a")).unwrap();
        assert_eq!(steps.find("tool", one), Some(made.clone()));
        assert_eq!(steps.find("tool", two), None);
        fs_err::write(made.folder.join("tool"), "b").unwrap();
        assert_eq!(steps.find("tool", one), None);
    }

    #[test]
    fn old_results_of_the_same_step_go_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let steps = Steps::new(root.path().join("steps"));
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        steps.keep("tool", one, &filled(root.path(), "a")).unwrap();
        steps.keep("tool", two, &filled(root.path(), "b")).unwrap();
        steps.keep("other", one, &filled(root.path(), "c")).unwrap();
        steps.prune(&BTreeMap::from([("tool".to_owned(), two)])).unwrap();
        assert_eq!(steps.find("tool", one), None);
        assert!(steps.find("tool", two).is_some() && steps.find("other", one).is_some());
    }
}
