//! Takes chosen files out of the root for images.

use std::collections::BTreeSet;
use std::path::Path;

use super::{DebianError, canonical, open};
use crate::oci::{Entry, Layer, read_all};

/// Paths one image wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Paths of packages: what of them is not in the root (left out when it was made) is no error.
    pub(crate) of_packages: BTreeSet<String>,
    /// Paths asked for by name: each must be there.
    pub(crate) by_name: BTreeSet<String>,
}

/// Reads the archive once and adds to each layer what its choice names.
pub(crate) fn select(archive: &Path, choices: &mut [(Choice, &mut Layer)]) -> Result<(), DebianError> {
    let read = |source| DebianError::Read { path: archive.to_path_buf(), source };
    for entry in open(archive).map_err(read)?.entries().map_err(read)? {
        let mut entry = entry.map_err(read)?;
        let path = canonical(&entry.path().map_err(read)?.to_string_lossy());
        let wanted = |choice: &Choice| choice.of_packages.contains(&path) || choice.by_name.contains(&path);
        if !choices.iter().any(|(choice, _)| wanted(choice)) {
            continue;
        }
        let Some(taken) = take(&mut entry).map_err(read)? else { continue };
        for (choice, layer) in choices.iter_mut() {
            if wanted(choice) {
                choice.by_name.remove(&path);
                layer.add(&path, taken.clone());
            }
        }
    }
    let missing: Vec<String> = choices.iter().flat_map(|(choice, _)| choice.by_name.iter().cloned()).collect();
    if missing.is_empty() { Ok(()) } else { Err(DebianError::Missing { missing }) }
}

/// An entry of the root as an entry of a layer; none for kinds an image has no use for.
fn take(entry: &mut tar::Entry<'_, impl std::io::Read>) -> std::io::Result<Option<Entry>> {
    let mode = entry.header().mode()? & 0o7777;
    let link = entry.link_name()?.map(|target| target.to_string_lossy().into_owned());
    Ok(match (entry.header().entry_type(), link) {
        (tar::EntryType::Regular, _) => Some(Entry::Bytes { mode, bytes: read_all(entry)? }),
        (tar::EntryType::Directory, _) => Some(Entry::Folder { mode }),
        (tar::EntryType::Symlink, Some(target)) => Some(Entry::Link { target }),
        // Within Debian packages hard links are rare; a link of the same meaning serves.
        (tar::EntryType::Link, Some(target)) => Some(Entry::Link { target: format!("/{}", canonical(&target)) }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(folder: &Path) -> std::path::PathBuf {
        let mut layer = Layer::default();
        layer.add("usr/sbin/nft", Entry::Bytes { mode: 0o755, bytes: b"nft".to_vec() });
        layer.add("usr/sbin/other", Entry::Bytes { mode: 0o755, bytes: b"other".to_vec() });
        layer.add("usr/sbin/link", Entry::Link { target: "nft".to_owned() });
        let path = folder.join("root.tar.zst");
        let mut encoder = zstd::Encoder::new(fs_err::File::create(&path).unwrap(), 1).unwrap();
        layer.write(&mut encoder).unwrap();
        encoder.finish().unwrap();
        path
    }

    #[test]
    fn only_what_was_chosen_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let archive = archive(folder.path());
        let mut layer = Layer::default();
        let choice = Choice {
            of_packages: ["usr/sbin/nft", "usr/share/left-out"].map(str::to_owned).into(),
            by_name: ["usr/sbin/link".to_owned()].into(),
        };
        select(&archive, &mut [(choice, &mut layer)]).unwrap();
        assert_eq!(layer.paths(), ["usr/sbin/link", "usr/sbin/nft"]);
    }

    #[test]
    fn a_path_asked_for_by_name_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let archive = archive(folder.path());
        let choice = Choice { by_name: ["etc/none".to_owned()].into(), ..Choice::default() };
        let failure = select(&archive, &mut [(choice, &mut Layer::default())]).unwrap_err();
        assert_eq!(failure.to_string(), "the Debian root has no etc/none");
    }
}
