//! Who uses a machine image, and which images nobody uses.
//!
//! Inputs: paths that exist as long as their machine does; the table of mounts. Output: images that are gone for good.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::cache::{Cache, clear};
use crate::digest::Digest;

use super::{MachineImage, base};

const HOLDERS: &str = "holders";

/// Images kept though nobody holds them, the newest first: other builds of the binary may come back.
const KEPT: usize = 3;

/// Images looked at since then are kept too: somebody may be about to hold them.
const FRESH: Duration = Duration::from_secs(3600);

/// Notes that `holder`, a path that exists as long as it needs the image, uses it.
pub(super) fn hold(image: &Path, holder: &Path) -> io::Result<()> {
    let folder = image.join(HOLDERS);
    fs_err::create_dir_all(&folder)?;
    fs_err::write(note(&folder, holder), holder.as_os_str().as_encoded_bytes())
}

/// Takes the note away.
pub(super) fn release(image: &Path, holder: &Path) -> io::Result<()> {
    match fs_err::remove_file(note(&image.join(HOLDERS), holder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn note(folder: &Path, holder: &Path) -> PathBuf {
    folder.join(Digest::of(holder.as_os_str().as_encoded_bytes()).short())
}

/// Is there a holder that still exists?
fn held(image: &Path) -> bool {
    let Ok(notes) = fs_err::read_dir(image.join(HOLDERS)) else { return false };
    notes.filter_map(Result::ok).any(|note| {
        fs_err::read_to_string(note.path()).is_ok_and(|holder| Path::new(&holder).symlink_metadata().is_ok())
    })
}

/// Removes images, then bases, that nobody holds, mounts or has looked at lately.
pub(super) fn prune(cache: &Cache, now: SystemTime) -> io::Result<Vec<PathBuf>> {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo")?;
    let mut images = Vec::new();
    let mut bases = Vec::new();
    for entry in fs_err::read_dir(cache.machine_images())? {
        let path = entry?.path();
        match MachineImage::open_folder(&path) {
            Ok(image) => images.push(image),
            Err(_) if is_base(&path) => bases.push(path),
            Err(_) => (),
        }
    }
    images.sort_by_key(|image| std::cmp::Reverse(looked_at(&image.folder)));
    let (mut kept, mut removed) = (BTreeSet::new(), Vec::new());
    for (rank, image) in images.iter().enumerate() {
        let fresh = now.duration_since(looked_at(&image.folder)).is_ok_and(|age| age < FRESH);
        let mounted = mounts.contains(&*image.folder.to_string_lossy());
        if rank < KEPT || fresh || mounted || held(&image.folder) {
            kept.extend(image.lowerdirs());
        } else {
            clear(&image.folder)?;
            removed.push(image.folder.clone());
        }
    }
    let bundles: BTreeSet<String> = names(&cache.bundles())?;
    for base in bases {
        let of_bundle = bundles.iter().any(|bundle| base.to_string_lossy().contains(bundle.as_str()));
        let mounted = mounts.contains(&*base.to_string_lossy());
        if !of_bundle && !mounted && !kept.contains(&base.join(base::ROOT)) {
            clear(&base)?;
            removed.push(base);
        }
    }
    Ok(removed)
}

fn is_base(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("base-")) && path.join(base::ROOT).is_dir()
}

fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    if !folder.try_exists()? {
        return Ok(BTreeSet::new());
    }
    fs_err::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// When the image was last made or opened.
fn looked_at(image: &Path) -> SystemTime {
    let document = image.join(MachineImage::FILE);
    fs_err::metadata(document).and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Notes that somebody looked at the image.
pub(super) fn touch(image: &Path) -> io::Result<()> {
    fs_err::OpenOptions::new()
        .append(true)
        .open(image.join(MachineImage::FILE))?
        .into_parts()
        .0
        .set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with images of these names, the first looked at longest ago, all of them hours ago; `base-x` below all.
    fn cache(folder: &Path, images: &[&str]) -> Cache {
        let cache = Cache::new(folder);
        fs_err::create_dir_all(cache.machine_images().join("base-x").join(base::ROOT)).unwrap();
        for (age, id) in (1..).zip(images.iter().rev()) {
            let image = cache.machine_images().join(id);
            fs_err::create_dir_all(image.join("containerd")).unwrap();
            let digest = Digest::of(id.as_bytes());
            let document = serde_json::json!({
                "format": MachineImage::FORMAT, "id": id, "lowerdirs": ["../base-x/root"], "containerd": "containerd",
                "bundle": digest, "windlass": digest,
                "release": {"kubernetes": "1.2.3", "bundle": "", "versions": {}, "images": {}},
            });
            fs_err::write(image.join(MachineImage::FILE), document.to_string()).unwrap();
            let file = std::fs::File::options().append(true).open(image.join(MachineImage::FILE)).unwrap();
            file.set_modified(SystemTime::now() - 2 * FRESH - Duration::from_secs(age)).unwrap();
        }
        cache
    }

    fn removed(cache: &Cache) -> Vec<String> {
        let removed = prune(cache, SystemTime::now()).unwrap();
        removed.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn images_that_nobody_uses_go_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &["a", "b", "c", "d", "e"]);
        let mut gone = removed(&cache);
        gone.sort();
        assert_eq!(gone, ["a", "b"]);
        assert!(removed(&cache).is_empty());
    }

    #[test]
    fn an_image_stays_as_long_as_its_holder_exists() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &["a", "b", "c", "d"]);
        let machine = folder.path().join("machine");
        fs_err::create_dir(&machine).unwrap();
        let image = cache.machine_images().join("a");
        hold(&image, &machine).unwrap();
        hold(&image, &folder.path().join("gone")).unwrap();
        assert!(removed(&cache).is_empty());
        release(&image, &machine).unwrap();
        release(&image, &machine).unwrap();
        assert_eq!(removed(&cache), ["a"]);
    }

    #[test]
    fn an_image_looked_at_lately_stays() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &["a", "b", "c", "d"]);
        touch(&cache.machine_images().join("a")).unwrap();
        assert_eq!(removed(&cache), ["b"]);
    }

    #[test]
    fn a_base_goes_with_its_last_image_and_its_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &[]);
        let other = cache.machine_images().join("base-1.2.3-0123-1").join(base::ROOT);
        fs_err::create_dir_all(&other).unwrap();
        fs_err::create_dir_all(cache.bundles().join("1.2.3-0123")).unwrap();
        assert_eq!(removed(&cache), ["base-x"]);
        assert!(other.is_dir());
    }
}
