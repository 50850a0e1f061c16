//! `oci-archive OUT CONFIGURATION NAME[,NAME…] LAYER.tar…`: writes an image archive. Used by the conformance run.

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, configuration, names, layers @ ..] = arguments.as_slice() else {
        bail!("usage: oci-archive OUT CONFIGURATION NAME[,NAME…] LAYER.tar…");
    };
    let names: Vec<&str> = names.split(',').collect();
    let layers = layers.iter().map(fs_err::read).collect::<Result<Vec<_>, _>>()?;
    fs_err::write(out, windlass_e2e::image::archive(&serde_json::from_str(configuration)?, &names, &layers)?)?;
    Ok(())
}
