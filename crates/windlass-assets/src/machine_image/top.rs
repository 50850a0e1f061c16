//! The upper half of a machine image: Windlass's binary and files over the root, its controllers' image over the store.
//! Made again in seconds for each build of the binary.
//!
//! Inputs: a base and a binary. Output: a folder with `lower`, `containerd` and `image.json`, whole or not at all.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::build::skeleton;
use crate::bundle::Bundle;
use crate::cache::{Cache, CacheLock};
use crate::oci::{Entry, ImageSpec};
use crate::progress::{Progress, detail, step};

use super::{Document, MachineImage, MachineImageError, WindlassBinary, base, containerd, files, store};

/// Windlass's own half of a machine's root.
const LOWER: &str = "lower";

/// Where the binary lies, on machines and in the controllers' image.
const BINARY: &str = "usr/local/bin/windlass";

/// Name of the step.
const STEP: &str = "machine image";

/// Makes the image of a binary over a base.
pub(super) fn make(
    bundle: &Bundle,
    binary: &WindlassBinary,
    base: &Path,
    cache: &Cache,
    lock: &CacheLock,
    progress: &dyn Progress,
) -> Result<MachineImage, MachineImageError> {
    step(progress, STEP, || {
        bundle.verify_programs(&containerd::PROGRAMS)?;
        let work = lock.work_folder("top").map_err(MachineImageError::Write)?;
        make_lower(binary, &work.join(LOWER)).map_err(MachineImageError::Write)?;

        let layout = lock.work_folder("controllers").map_err(MachineImageError::Write)?;
        controllers_image(binary).write(&layout)?;
        let target = work.join(base::STORE);
        store::clone(&base.join(base::STORE), &target).map_err(MachineImageError::Write)?;
        let said = |text: &str| detail(progress, STEP, text);
        containerd::fill(bundle, cache, &target, &[layout], &[binary.reference()], &said)?;

        let document = document(bundle, binary, base);
        let bytes = serde_json::to_vec_pretty(&document)?;
        let written = windlass_files::replace_durably(work.join(MachineImage::FILE), &bytes, 0o644);
        written.map_err(MachineImageError::Write)?;
        let place = cache.machine_images().join(&document.id);
        fs_err::rename(&work, &place).map_err(MachineImageError::Write)?;
        MachineImage::open_folder(&place)
    })
}

fn make_lower(binary: &WindlassBinary, lower: &Path) -> io::Result<()> {
    fs_err::create_dir_all(lower)?;
    fs_err::set_permissions(lower, PermissionsExt::from_mode(0o755))?;
    files::lay(lower)?;
    let target = lower.join(BINARY);
    files::folder(lower, "usr/local/bin")?;
    fs_err::copy(&binary.path, &target)?;
    fs_err::set_permissions(&target, PermissionsExt::from_mode(0o755))?;
    files::mark_updated(lower)
}

/// The image the controllers run from in a cluster.
fn controllers_image(binary: &WindlassBinary) -> ImageSpec {
    let mut layer = skeleton();
    layer.add(BINARY, Entry::File { mode: 0o755, source: binary.path.clone() });
    ImageSpec { reference: binary.reference(), entrypoint: vec![format!("/{BINARY}")], layer }
}

fn document(bundle: &Bundle, binary: &WindlassBinary, base: &Path) -> Document {
    let base = base.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Document {
        format: MachineImage::FORMAT,
        id: super::id(bundle, binary),
        lowerdirs: vec![LOWER.to_owned(), format!("../{base}/{}", base::ROOT)],
        containerd: base::STORE.to_owned(),
        bundle: bundle.digest(),
        windlass: binary.digest,
        release: binary.complete(bundle.release()),
    }
}
