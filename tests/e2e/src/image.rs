//! Images for tests, as OCI archives that `ctr images import` takes.
//!
//! Input: layers as tar archives, a configuration, names. Output: the archive, the same for the same input.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How pods name the probe's image.
pub const PROBE: &str = "windlass.dev/e2e-probe:v1";

/// The probe's image: one layer with this binary as `/probe`.
///
/// # Errors
/// When the binary cannot be read.
pub fn probe(binary: &Path) -> Result<Vec<u8>> {
    let mut layer = Archive(tar::Builder::new(Vec::new()));
    layer.file("probe", &fs_err::read(binary)?, 0o755)?;
    archive(&json!({"Entrypoint": ["/probe"], "Env": ["PATH=/"]}), &[PROBE], &[layer.0.into_inner()?])
}

/// An image of these layers with this run configuration, under each of the names.
///
/// # Errors
/// When a size does not fit into an archive.
pub fn archive(configuration: &Value, names: &[&str], layers: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut archive = Archive(tar::Builder::new(Vec::new()));
    let blobs = layers.iter().map(|layer| archive.blob("application/vnd.oci.image.layer.v1.tar", layer));
    let blobs = blobs.collect::<Result<Vec<_>>>()?;
    let digests: Vec<&Value> = blobs.iter().map(|blob| &blob["digest"]).collect();
    let mut run = json!({"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]});
    for (key, value) in configuration.as_object().into_iter().flatten() {
        run[key] = value.clone();
    }
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": run,
        "rootfs": {"type": "layers", "diff_ids": digests},
    });
    let config = archive.blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": blobs});
    let manifest = archive.blob(kind, manifest.to_string().as_bytes())?;
    let named: Vec<Value> = names.iter().map(|name| entry(&manifest, name)).collect();
    archive.file("index.json", json!({"schemaVersion": 2, "manifests": named}).to_string().as_bytes(), 0o644)?;
    archive.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    Ok(archive.0.into_inner()?)
}

/// A line of the index: the manifest under one name.
fn entry(manifest: &Value, name: &str) -> Value {
    let tag = name.rsplit(':').next().unwrap_or_default();
    let mut entry = manifest.clone();
    entry["platform"] = json!({"architecture": "amd64", "os": "linux"});
    entry["annotations"] = json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag});
    entry
}

struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    fn file(&mut self, path: &str, data: &[u8], mode: u32) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(mode);
        self.0.append_data(&mut header, path, data)?;
        Ok(())
    }

    fn blob(&mut self, media_type: &str, data: &[u8]) -> Result<Value> {
        let digest = hex::encode(Sha256::digest(data));
        self.file(&format!("blobs/sha256/{digest}"), data, 0o644)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": data.len()}))
    }
}
