//! Files as the configuration has them.
//!
//! Inputs: path, content (text, base64 or a secret's name), mode, owner. Output: each written beside and renamed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use windlass_spec::node_config::{Content, File};

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::{accounts, files};

/// Writes what differs.
///
/// # Errors
/// When content cannot be found or decoded, an owner is unknown, or a file cannot be written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    for file in &cx.config().files {
        let content = content(cx, file)?;
        let mode = u32::from_str_radix(&file.mode, 8).map_err(|_| wrong(file, "its mode is not octal"))?;
        let path = cx.host.root.at(&file.path);
        let owner = match &file.owner {
            Some(owner) => Some(accounts::owner(&cx.host.root, owner).map_err(PartError::file(&path))?),
            None => None,
        };
        if files::ensure(&path, &content, mode, owner).map_err(PartError::file(&path))? {
            changes.push(format!("wrote {}", file.path));
        }
    }
    Ok(changes)
}

fn wrong(file: &File, problem: &str) -> PartError {
    PartError::Config { what: format!("file {}", file.path), problem: problem.to_owned() }
}

fn content(cx: &Context, file: &File) -> Result<Vec<u8>, PartError> {
    match &file.content {
        Content::Text(text) => Ok(text.clone().into_bytes()),
        Content::Base64(text) => BASE64_STANDARD.decode(text).map_err(|_| wrong(file, "its content is not base64")),
        Content::Secret(name) => match cx.secrets().values.get(name) {
            Some(value) => Ok(value.clone().into_bytes()),
            None => Err(wrong(file, &format!("there is no secret {name:?}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;
    use std::os::unix::fs::MetadataExt as _;

    fn file(path: &str, mode: &str, content: Content) -> File {
        File { path: path.into(), mode: mode.into(), owner: None, content }
    }

    #[tokio::test]
    async fn every_kind_of_content_is_written_once() {
        let mut machine = fixture::machine();
        machine.change(|config| {
            config.files = vec![
                file("/etc/motd", "0644", Content::Text("lab".into())),
                file("/etc/raw", "0600", Content::Base64("AAH/".into())),
                file("/etc/kubernetes/pki/sa.key", "0600", Content::Secret("sa".into())),
            ];
        });
        machine.secrets(|secrets| {
            secrets.values.insert("sa".into(), "key".into());
        });
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 3);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(fs_err::read(machine.path("/etc/raw")).unwrap(), [0, 1, 255]);
        assert_eq!(fs_err::metadata(machine.path("/etc/kubernetes/pki/sa.key")).unwrap().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_missing_secret_is_named() {
        let mut machine = fixture::machine();
        machine.change(|config| config.files = vec![file("/x", "0600", Content::Secret("gone".into()))]);
        let error = apply(&machine.context()).await.unwrap_err();
        assert_eq!(error.to_string(), r#"file /x: there is no secret "gone""#);
    }
}
