//! systemd units of the configuration: written, started, restarted when what they depend on changed.
//!
//! Inputs: unit files, the files whose change restarts them. Outputs: the unit active, and a stamp below `/run` that says
//! with which content it was last started.

use sha2::{Digest as _, Sha256};
use windlass_spec::node_config::Unit;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::{Root, files};
use crate::{logs, paths};

/// Writes, starts or restarts one unit.
///
/// # Errors
/// When the file cannot be written or the unit does not start; with its last log lines.
pub async fn apply(cx: &Context, unit: &Unit) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    let path = cx.host.root.at(format!("/etc/systemd/system/{}", unit.name));
    if files::ensure(&path, unit.content.as_bytes(), 0o644, None).map_err(PartError::file(&path))? {
        cx.host.units.reload().await?;
        changes.push(format!("wrote {}", unit.name));
    }
    let stamp = cx.host.root.at(format!("{}/units/{}", paths::RUN_DIR, unit.name));
    let wanted = content_hash(&cx.host.root, Some(&unit.content), &unit.restart_on)?;
    let started_with = files::read_text(&stamp).map_err(PartError::file(&stamp))?;
    let state = cx.host.units.state(&unit.name).await?;
    let is_active = state.is_active();
    if started_with.as_deref() == Some(&wanted) {
        if is_active {
            return Ok(changes);
        }
        if state.keeps_ending() {
            let error = PartError::Component(format!("{} keeps ending", unit.name));
            return Err(error.with_log(logs::of_unit(&cx.host, &unit.name).await));
        }
    }
    let asked = if is_active { cx.host.units.restart(&unit.name).await } else { cx.host.units.start(&unit.name).await };
    if let Err(error) = asked {
        return Err(PartError::from(error).with_log(logs::of_unit(&cx.host, &unit.name).await));
    }
    changes.push(format!("{} {}", if is_active { "restarted" } else { "started" }, unit.name));
    files::ensure(&stamp, wanted.as_bytes(), 0o644, None).map_err(PartError::file(&stamp))?;
    Ok(changes)
}

/// Hash over a text and the content of files; an absent file counts as such.
pub(crate) fn content_hash(root: &Root, text: Option<&str>, paths: &[String]) -> Result<String, PartError> {
    let mut hash = Sha256::new();
    if let Some(text) = text {
        hash.update(text);
    }
    for path in paths {
        let at = root.at(path);
        let content = match fs_err::read(&at) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(PartError::file(&at)(error)),
        };
        hash.update(path);
        hash.update((content.len() as u64).to_be_bytes());
        hash.update(content);
    }
    Ok(hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[tokio::test]
    async fn started_once_and_restarted_for_a_change() {
        let machine = fixture::machine();
        let unit = Unit {
            name: "containerd.service".into(),
            content: "[Service]\n".into(),
            restart_on: vec!["/etc/containerd/config.toml".into()],
        };
        assert_eq!(apply(&machine.context(), &unit).await.unwrap().len(), 2);
        assert!(apply(&machine.context(), &unit).await.unwrap().is_empty());
        let config = machine.path("/etc/containerd/config.toml");
        fs_err::create_dir_all(config.parent().unwrap()).unwrap();
        fs_err::write(config, "version = 3").unwrap();
        assert_eq!(apply(&machine.context(), &unit).await.unwrap(), ["restarted containerd.service"]);
        assert_eq!(machine.units.asked(), ["reload", "start containerd.service", "restart containerd.service"]);
    }
}
