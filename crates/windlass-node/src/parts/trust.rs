//! Further certificate authorities the machine trusts.
//!
//! Inputs: PEM texts. Output: files below `/usr/local/share/ca-certificates`, taken up by update-ca-certificates; those
//! no longer wanted go.

use std::collections::BTreeMap;
use std::time::Duration;

use fs_err as fs;
use sha2::{Digest as _, Sha256};

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::command::Command;
use crate::host::files;

const DIRECTORY: &str = "/usr/local/share/ca-certificates";
const PREFIX: &str = "windlass-";

/// Adds and removes.
///
/// # Errors
/// When a file cannot be written or update-ca-certificates fails.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let directory = cx.host.root.at(DIRECTORY);
    let wanted: BTreeMap<String, &String> = cx.config().trusted_cas.iter().map(|pem| (file_name(pem), pem)).collect();
    let mut changes = Changes::new();
    for name in present(cx)?.into_iter().filter(|name| !wanted.contains_key(name)) {
        let path = directory.join(&name);
        files::remove(&path).map_err(PartError::file(&path))?;
        changes.push(format!("no longer trusts {name}"));
    }
    for (name, pem) in &wanted {
        let path = directory.join(name);
        if files::ensure(&path, pem.as_bytes(), 0o644, None).map_err(PartError::file(&path))? {
            changes.push(format!("trusts {name}"));
        }
    }
    if !changes.is_empty() {
        let update = Command::new("update-ca-certificates", ["--fresh"]).timeout(Duration::from_secs(60));
        cx.host.commands.succeed(update).await?;
    }
    Ok(changes)
}

fn file_name(pem: &str) -> String {
    format!("{PREFIX}{}.crt", &hex::encode(Sha256::digest(pem.as_bytes()))[..12])
}

fn present(cx: &Context) -> Result<Vec<String>, PartError> {
    let directory = cx.host.root.at(DIRECTORY);
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&directory).map_err(PartError::file(&directory))?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    Ok(names.filter(|name| name.starts_with(PREFIX)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[tokio::test]
    async fn added_once_and_taken_away() {
        let mut machine = fixture::machine();
        machine.change(|config| config.trusted_cas = vec!["PEM".into()]);
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        machine.change(|config| config.trusted_cas.clear());
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1);
        assert_eq!(machine.commands.ran(), ["update-ca-certificates --fresh"; 2]);
    }
}
