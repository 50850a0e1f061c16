//! OCI images written by us: one uncompressed layer, the same input always giving the same digest.
//!
//! Inputs: files from disk or memory, folders and links by their path in the image. Outputs: an OCI image layout in a
//! folder, and layouts packed into one archive for containerd. A layer is not compressed: importing it is then a copy.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::ARCHITECTURE;
use crate::digest::{Digest, HashingWriter};

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// The annotation from which containerd takes an image's name.
const NAME_ANNOTATION: &str = "io.containerd.image.name";
const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Why an image could not be written or packed.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// A file could not be read or written.
    #[error("the image {image} cannot be written")]
    Write {
        /// Its name.
        image: String,
        /// Why.
        source: io::Error,
    },
    /// A layout could not be packed.
    #[error("the image layout {} cannot be packed", layout.display())]
    Pack {
        /// Its folder.
        layout: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// One thing in a layer.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A folder.
    Folder {
        /// Permissions.
        mode: u32,
    },
    /// A file with content in memory.
    Bytes {
        /// Permissions.
        mode: u32,
        /// Content.
        bytes: Vec<u8>,
    },
    /// A file copied from disk.
    File {
        /// Permissions.
        mode: u32,
        /// Where it is.
        source: PathBuf,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        target: String,
    },
}

/// The content of a layer by path without leading slash. Missing parent folders are made with mode 0755.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    entries: BTreeMap<String, Entry>,
}

impl Layer {
    pub(crate) fn add(&mut self, path: &str, entry: Entry) {
        self.entries.insert(path.trim_matches('/').to_owned(), entry);
    }

    /// Paths in order.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> Vec<&str> {
        self.entries.keys().map(String::as_str).collect()
    }

    /// Writes the tar stream: sorted by path, times and owners zero.
    pub(crate) fn write(&self, writer: impl Write) -> io::Result<()> {
        let mut tar = tar::Builder::new(writer);
        let mut entries = self.entries.clone();
        for path in self.entries.keys() {
            for (at, _) in path.match_indices('/') {
                entries.entry(path[..at].to_owned()).or_insert(Entry::Folder { mode: 0o755 });
            }
        }
        for (path, entry) in &entries {
            append(&mut tar, path, entry)?;
        }
        tar.into_inner()?.flush()
    }
}

fn append(tar: &mut tar::Builder<impl Write>, path: &str, entry: &Entry) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    match entry {
        Entry::Folder { mode } => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(*mode);
            tar.append_data(&mut header, format!("{path}/"), io::empty())
        }
        Entry::Bytes { mode, bytes } => {
            header.set_mode(*mode);
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, path, bytes.as_slice())
        }
        Entry::File { mode, source } => {
            let file = fs_err::File::open(source)?;
            header.set_mode(*mode);
            header.set_size(file.metadata()?.len());
            tar.append_data(&mut header, path, file)
        }
        Entry::Link { target } => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            tar.append_link(&mut header, path, target)
        }
    }
}

/// An image about to be written.
#[derive(Clone, Debug)]
pub(crate) struct ImageSpec {
    /// Full name.
    pub(crate) reference: String,
    /// Entry point.
    pub(crate) entrypoint: Vec<String>,
    /// Its one layer.
    pub(crate) layer: Layer,
}

impl ImageSpec {
    /// Writes the image's layout into a folder and returns the digest of its manifest.
    pub(crate) fn write(&self, folder: &Path) -> Result<Digest, OciError> {
        self.write_layout(folder).map_err(|source| OciError::Write { image: self.reference.clone(), source })
    }

    fn write_layout(&self, folder: &Path) -> io::Result<Digest> {
        let blobs = folder.join("blobs/sha256");
        fs_err::create_dir_all(&blobs)?;
        let unfinished = blobs.join("layer");
        let mut writer = HashingWriter::new(BufWriter::with_capacity(1 << 20, fs_err::File::create(&unfinished)?));
        self.layer.write(&mut writer)?;
        let (mut below, layer, layer_size) = writer.finish();
        below.flush()?;
        fs_err::rename(&unfinished, blobs.join(layer.hex()))?;

        let (config, config_size) = write_blob(&blobs, &self.config(layer))?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": config, "size": config_size},
            "layers": [{"mediaType": LAYER_TYPE, "digest": layer, "size": layer_size}],
        });
        let (manifest, manifest_size) = write_blob(&blobs, &manifest)?;
        let tag = self.reference.rsplit_once(':').map_or("", |(_, tag)| tag);
        let index = index(&[json!({
            "mediaType": MANIFEST_TYPE,
            "digest": manifest,
            "size": manifest_size,
            "platform": {"architecture": ARCHITECTURE, "os": "linux"},
            "annotations": {NAME_ANNOTATION: self.reference, "org.opencontainers.image.ref.name": tag},
        })]);
        fs_err::write(folder.join("index.json"), index.to_string())?;
        fs_err::write(folder.join("oci-layout"), LAYOUT)?;
        Ok(manifest)
    }

    fn config(&self, layer: Digest) -> Value {
        json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [layer]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "windlass bundle build"}],
        })
    }
}

fn index(manifests: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests})
}

fn write_blob(blobs: &Path, value: &Value) -> io::Result<(Digest, usize)> {
    let bytes = value.to_string().into_bytes();
    let digest = Digest::of(&bytes);
    fs_err::write(blobs.join(digest.hex()), &bytes)?;
    Ok((digest, bytes.len()))
}

/// Packs layouts into one archive that containerd imports; blobs they share are written once.
pub(crate) fn pack(layouts: &[PathBuf], writer: impl Write) -> Result<(), OciError> {
    let mut tar = tar::Builder::new(BufWriter::with_capacity(1 << 20, writer));
    let mut manifests = Vec::new();
    let mut blobs = BTreeMap::new();
    for layout in layouts {
        let pack = |source| OciError::Pack { layout: layout.clone(), source };
        let index: Value = fs_err::read(layout.join("index.json"))
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::other))
            .map_err(pack)?;
        manifests.extend(index["manifests"].as_array().into_iter().flatten().cloned());
        for blob in fs_err::read_dir(layout.join("blobs/sha256")).map_err(pack)? {
            let blob = blob.map_err(pack)?;
            blobs.insert(blob.file_name(), (blob.path(), layout));
        }
    }
    let head = |source| OciError::Pack { layout: layouts.first().cloned().unwrap_or_default(), source };
    let bytes = |text: String| Entry::Bytes { mode: 0o644, bytes: text.into_bytes() };
    append(&mut tar, "oci-layout", &bytes(LAYOUT.to_owned())).map_err(head)?;
    append(&mut tar, "index.json", &bytes(index(&manifests).to_string())).map_err(head)?;
    for (name, (source, layout)) in blobs {
        let path = format!("blobs/sha256/{}", name.to_string_lossy());
        let entry = Entry::File { mode: 0o644, source };
        append(&mut tar, &path, &entry).map_err(|source| OciError::Pack { layout: layout.clone(), source })?;
    }
    tar.into_inner().and_then(|mut below| below.flush()).map_err(head)
}

/// Reads a tar stream's entry into memory.
pub(crate) fn read_all(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    BufReader::new(entry).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> ImageSpec {
        let mut layer = Layer::default();
        layer.add("/usr/local/bin/tool", Entry::Bytes { mode: 0o755, bytes: b"#!/bin/sh\n".to_vec() });
        layer.add("tmp", Entry::Folder { mode: 0o1777 });
        layer.add("bin", Entry::Link { target: "usr/bin".to_owned() });
        let long = format!("usr/share/{}/file", "x".repeat(150));
        layer.add(&long, Entry::Bytes { mode: 0o644, bytes: vec![7; 3000] });
        ImageSpec {
            reference: "windlass.dev/tool:v1".to_owned(),
            entrypoint: vec!["/usr/local/bin/tool".to_owned()],
            layer,
        }
    }

    #[test]
    fn the_same_input_gives_the_same_digest() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let digest = image().write(first.path()).unwrap();
        assert_eq!(image().write(second.path()).unwrap(), digest);
        insta::assert_snapshot!(digest, @"sha256:1ca18361850f0c4e7ee36aca022052688a1cf45ddfb0d0047071f95e0751ab58");
    }

    #[test]
    fn the_layout_is_complete_and_every_blob_is_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let digest = image().write(folder.path()).unwrap();
        let index: Value = serde_json::from_slice(&fs_err::read(folder.path().join("index.json")).unwrap()).unwrap();
        assert_eq!(index["manifests"][0]["digest"], json!(digest));
        assert_eq!(index["manifests"][0]["annotations"][NAME_ANNOTATION], "windlass.dev/tool:v1");
        let blobs: Vec<_> = fs_err::read_dir(folder.path().join("blobs/sha256")).unwrap().map(Result::unwrap).collect();
        assert_eq!(blobs.len(), 3);
        for blob in blobs {
            assert_eq!(Digest::of_file(&blob.path()).unwrap().hex(), blob.file_name().to_string_lossy());
        }
    }

    #[test]
    fn the_layer_has_parents_before_children_and_no_times_or_owners() {
        let mut bytes = Vec::new();
        image().layer.write(&mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let listed: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
                format!("{:o} {}", header.mode().unwrap(), entry.path().unwrap().display())
            })
            .map(|line| line.replace(&"x".repeat(150), "x…"))
            .collect();
        let wanted = [
            "777 bin",
            "1777 tmp/",
            "755 usr/",
            "755 usr/local/",
            "755 usr/local/bin/",
            "755 usr/local/bin/tool",
            "755 usr/share/",
            "755 usr/share/x…/",
            "644 usr/share/x…/file",
        ];
        assert_eq!(listed, wanted);
    }

    #[test]
    fn two_images_pack_into_one_archive() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        image().write(one.path()).unwrap();
        ImageSpec { reference: "windlass.dev/other:v2".to_owned(), ..image() }.write(two.path()).unwrap();
        let mut bytes = Vec::new();
        pack(&[one.path().to_path_buf(), two.path().to_path_buf()], &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut blobs = 0;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            if path == "index.json" {
                let index: Value = serde_json::from_slice(&read_all(&mut entry).unwrap()).unwrap();
                assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
            }
            blobs += usize::from(path.starts_with("blobs/"));
        }
        assert_eq!(blobs, 3, "config, layer and manifest are the same for both and are shared");
    }
}
