//! An identity for each start of the machine.
//!
//! Inputs: the kernel's boot id, `/run` (empty at each start), the ledger. Output: the kernel's id where it is fresh,
//! else a random one (a sandbox may show its host's id for many starts).

use rand::RngCore as _;

use crate::error::PartError;
use crate::host::{Root, files};
use crate::ledger::LedgerStore;
use crate::paths;

const KERNEL: &str = "/proc/sys/kernel/random/boot_id";

/// The id of this start; made at the first call after it.
///
/// # Errors
/// When `/run` or the ledger cannot be written.
pub fn of_this_start(root: &Root, ledger: &LedgerStore) -> Result<String, PartError> {
    let path = root.at(paths::BOOT_ID);
    if let Some(known) = files::read_text(&path).map_err(PartError::file(&path))? {
        return Ok(known.trim().to_owned());
    }
    let kernel = files::read_text(&root.at(KERNEL)).ok().flatten().map(|text| text.trim().to_owned());
    let fresh = kernel.filter(|id| !id.is_empty() && ledger.get().last_boot_id.as_ref() != Some(id));
    let id = fresh.unwrap_or_else(random_uuid);
    ledger.update(|ledger| ledger.last_boot_id = Some(id.clone()))?;
    files::ensure(&path, format!("{id}\n").as_bytes(), 0o644, None).map_err(PartError::file(&path))?;
    Ok(id)
}

/// The boot id kubelet reports in its Node's status.
pub fn of_kernel(root: &Root) -> Option<String> {
    files::read_text(&root.at(KERNEL)).ok().flatten().map(|text| text.trim().to_owned())
}

/// A random version 4 UUID.
pub fn random_uuid() -> String {
    let mut bytes = [0_u8; 16];
    rand::rng().fill_bytes(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        fs_err::create_dir_all(dir.path().join("proc/sys/kernel/random")).unwrap();
        fs_err::write(dir.path().join("proc/sys/kernel/random/boot_id"), "the-hosts\n").unwrap();
        let ledger = LedgerStore::open(&root).unwrap();
        let first = of_this_start(&root, &ledger).unwrap();
        assert_eq!((first.as_str(), of_this_start(&root, &ledger).unwrap()), ("the-hosts", first.clone()));
        fs_err::remove_file(root.at(paths::BOOT_ID)).unwrap();
        let second = of_this_start(&root, &ledger).unwrap();
        assert_ne!(second, first);
        assert_eq!(second.len(), 36);
    }
}
