//! Login users with their SSH keys.
//!
//! Inputs: names, keys. Outputs: accounts made by useradd, `authorized_keys`, a sudoers file. Accounts are never taken
//! away: what a person left in a home directory is theirs.

use windlass_spec::node_config::User;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::accounts::{self, Account};
use crate::host::command::Command;
use crate::host::files;

/// Makes what is missing.
///
/// # Errors
/// When useradd fails or a file cannot be written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    for user in &cx.config().users {
        let account = match find(cx, &user.name)? {
            Some(account) => account,
            None => {
                let args = ["--create-home", "--shell", "/bin/bash", user.name.as_str()];
                cx.host.commands.succeed(Command::new("useradd", args)).await?;
                changes.push(format!("made user {}", user.name));
                find(cx, &user.name)?.ok_or_else(|| PartError::Config {
                    what: format!("user {}", user.name),
                    problem: "useradd succeeded and made no account".to_owned(),
                })?
            }
        };
        changes.extend(keys(cx, user, &account)?);
        changes.extend(sudo(cx, user)?);
    }
    Ok(changes)
}

fn find(cx: &Context, name: &str) -> Result<Option<Account>, PartError> {
    accounts::account(&cx.host.root, name).map_err(PartError::file(&cx.host.root.at("/etc/passwd")))
}

fn keys(cx: &Context, user: &User, account: &Account) -> Result<Option<String>, PartError> {
    let owner = (account.user, account.group);
    let directory = cx.host.root.at(&account.home).join(".ssh");
    if !directory.exists() {
        fs_err::create_dir_all(&directory).map_err(PartError::file(&directory))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs_err::set_permissions(&directory, mode).map_err(PartError::file(&directory))?;
        std::os::unix::fs::chown(&directory, Some(owner.0), Some(owner.1)).map_err(PartError::file(&directory))?;
    }
    let path = directory.join("authorized_keys");
    let text: String = user.ssh_authorized_keys.iter().map(|key| format!("{}\n", key.trim_end())).collect();
    let changed = files::ensure(&path, text.as_bytes(), 0o600, Some(owner)).map_err(PartError::file(&path))?;
    Ok(changed.then(|| format!("{} keys of {}", user.ssh_authorized_keys.len(), user.name)))
}

fn sudo(cx: &Context, user: &User) -> Result<Option<String>, PartError> {
    // sudo skips file names with a dot.
    let path = cx.host.root.at(format!("/etc/sudoers.d/windlass-{}", user.name.replace('.', "_")));
    let changed = if user.sudo {
        let text = format!("{} ALL=(ALL) NOPASSWD:ALL\n", user.name);
        files::ensure(&path, text.as_bytes(), 0o440, None)
    } else {
        files::remove(&path)
    };
    let word = if user.sudo { "may use sudo" } else { "may no longer use sudo" };
    Ok(changed.map_err(PartError::file(&path))?.then(|| format!("{} {word}", user.name)))
}
