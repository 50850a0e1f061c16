//! Writes the images of a bundle: programs of the bundle and files of the Debian root.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::debian::{Choice, DebianError, Packages, select};
use crate::digest::Digest;
use crate::lock::{FileEntry, ImageEntry};
use crate::manifest::{Image, Manifest};
use crate::oci::{Entry, ImageSpec, Layer};
use crate::progress::{Progress, detail};

use super::{ASSEMBLE_STEP, BuildError};

/// Where programs lie in images.
const PROGRAMS: &str = "usr/local/bin";

/// Authorities every image trusts, out of the root.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Links that stand for the folders merged into `/usr`, in images with packages.
const MERGED: [(&str, &str); 4] =
    [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")];

/// Writes every image below `folder/images` and returns the lock's entries.
pub(super) fn write(
    manifest: &Manifest,
    folder: &Path,
    archive: &Path,
    packages: &Packages,
    progress: &dyn Progress,
) -> Result<BTreeMap<String, ImageEntry>, BuildError> {
    let mut layers: Vec<Layer> = manifest.images.iter().map(|image| own_files(manifest, image, folder)).collect();
    let choices = manifest.images.iter().map(|image| choice(image, packages)).collect::<Result<Vec<_>, _>>()?;
    select(archive, &mut choices.into_iter().zip(layers.iter_mut()).collect::<Vec<_>>())?;
    let mut entries = BTreeMap::new();
    for (image, layer) in manifest.images.iter().zip(layers) {
        let reference = manifest.reference(image);
        detail(progress, ASSEMBLE_STEP, &reference);
        let spec = ImageSpec { reference: reference.clone(), entrypoint: entrypoint(image), layer };
        let digest = spec.write(&folder.join("images").join(&image.name))?;
        entries.insert(image.name.clone(), ImageEntry { reference, digest });
    }
    Ok(entries)
}

/// What an image takes from the root.
fn choice(image: &Image, packages: &Packages) -> Result<Choice, DebianError> {
    let of_packages = packages.closure(&image.packages)?;
    let by_name = image.paths.iter().cloned().chain([CERTIFICATES.to_owned()]).collect();
    Ok(Choice { of_packages, by_name })
}

/// What an image has of its own: a skeleton, programs and links.
fn own_files(manifest: &Manifest, image: &Image, folder: &Path) -> Layer {
    let mut layer = skeleton();
    if !image.packages.is_empty() {
        for (path, target) in MERGED {
            layer.add(path, Entry::Link { target: target.to_owned() });
        }
    }
    for (component, program) in image.programs.iter().filter_map(|name| manifest.program(name)) {
        let source = folder.join(&component.folder).join(&program.name);
        layer.add(&format!("{PROGRAMS}/{}", program.name), Entry::File { mode: 0o755, source });
    }
    for (path, target) in &image.links {
        layer.add(path, Entry::Link { target: target.clone() });
    }
    layer
}

/// What programs expect of any root.
pub(crate) fn skeleton() -> Layer {
    let mut layer = Layer::default();
    let text = |text: &str| Entry::Bytes { mode: 0o644, bytes: text.as_bytes().to_vec() };
    let users = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n";
    layer.add("etc/passwd", text(users));
    layer.add("etc/group", text("root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n"));
    layer.add("etc/nsswitch.conf", text("hosts: files dns\n"));
    layer.add("tmp", Entry::Folder { mode: 0o1777 });
    layer
}

fn entrypoint(image: &Image) -> Vec<String> {
    match image.programs.first() {
        Some(program) if image.entrypoint.is_empty() => vec![format!("/{PROGRAMS}/{program}")],
        _ => image.entrypoint.clone(),
    }
}

/// The lock's entries for the files of every image.
pub(super) fn files(folder: &Path) -> io::Result<BTreeMap<String, FileEntry>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, FileEntry>) -> io::Result<()> {
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(root, &path, found)?;
            } else if let Ok(name) = path.strip_prefix(root) {
                let size = fs_err::metadata(&path)?.len();
                let entry = FileEntry { sha256: Digest::of_file(&path)?, size, executable: false, install: None };
                found.insert(name.to_string_lossy().into_owned(), entry);
            }
        }
        Ok(())
    }
    let mut found = BTreeMap::new();
    walk(folder, &folder.join("images"), &mut found)?;
    Ok(found)
}
