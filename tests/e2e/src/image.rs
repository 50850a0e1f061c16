//! The probe's image.
//!
//! Input: the static binary. Output: an OCI archive for `ctr image import`, the same for the same binary.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How pods name it.
pub const NAME: &str = "windlass.dev/e2e-probe:v1";

/// The archive with this binary as `/probe`.
///
/// # Errors
/// When the binary cannot be read.
pub fn archive(probe: &Path) -> Result<Vec<u8>> {
    let layer = layer(&fs_err::read(probe)?)?;
    let mut blobs = Blobs(tar::Builder::new(Vec::new()));
    let layer = blobs.add("application/vnd.oci.image.layer.v1.tar", &layer)?;
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": ["/probe"], "Env": ["PATH=/"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = blobs.add("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let document = json!({"schemaVersion": 2, "mediaType": manifest, "config": config, "layers": [layer]});
    let mut manifest = blobs.add(manifest, document.to_string().as_bytes())?;
    manifest["platform"] = json!({"architecture": "amd64", "os": "linux"});
    manifest["annotations"] = json!({"io.containerd.image.name": NAME, "org.opencontainers.image.ref.name": "v1"});
    blobs.file("index.json", json!({"schemaVersion": 2, "manifests": [manifest]}).to_string().as_bytes(), 0o644)?;
    blobs.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    Ok(blobs.0.into_inner()?)
}

fn layer(probe: &[u8]) -> Result<Vec<u8>> {
    let mut layer = Blobs(tar::Builder::new(Vec::new()));
    layer.file("probe", probe, 0o755)?;
    Ok(layer.0.into_inner()?)
}

struct Blobs(tar::Builder<Vec<u8>>);

impl Blobs {
    fn file(&mut self, path: &str, data: &[u8], mode: u32) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(mode);
        self.0.append_data(&mut header, path, data)?;
        Ok(())
    }

    fn add(&mut self, media_type: &str, data: &[u8]) -> Result<Value> {
        let digest = hex::encode(Sha256::digest(data));
        self.file(&format!("blobs/sha256/{digest}"), data, 0o644)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": data.len()}))
    }
}
