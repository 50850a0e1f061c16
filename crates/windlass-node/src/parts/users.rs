//! Login users with their SSH keys.
//!
//! Inputs: names, keys. Outputs: accounts made by useradd, `authorized_keys`, a sudoers file. Whoever is no longer in the
//! configuration loses keys and rights, not the account: what a person left in a home directory is theirs. The SSH server
//! is a part of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;

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
    let mut changes = lock_out(cx)?;
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

/// Takes keys and rights from those who are no longer in the configuration, and notes those who are.
fn lock_out(cx: &Context) -> Result<Changes, PartError> {
    let wanted: BTreeSet<String> = cx.config().users.iter().map(|user| user.name.clone()).collect();
    let mut changes = Changes::new();
    for name in cx.ledger.get().logins.difference(&wanted) {
        let keys = find(cx, name)?.map(|account| authorized_keys(cx, &account));
        for path in keys.into_iter().chain([sudoers(cx, name)]) {
            files::remove(&path).map_err(PartError::file(&path))?;
        }
        changes.push(format!("{name} may no longer log in"));
    }
    cx.ledger.update(|ledger| ledger.logins = wanted)?;
    Ok(changes)
}

fn find(cx: &Context, name: &str) -> Result<Option<Account>, PartError> {
    accounts::account(&cx.host.root, name).map_err(PartError::file(&cx.host.root.at("/etc/passwd")))
}

fn authorized_keys(cx: &Context, account: &Account) -> PathBuf {
    cx.host.root.at(&account.home).join(".ssh/authorized_keys")
}

fn keys(cx: &Context, user: &User, account: &Account) -> Result<Option<String>, PartError> {
    let owner = (account.user, account.group);
    let path = authorized_keys(cx, account);
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        fs_err::create_dir_all(directory).map_err(PartError::file(directory))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs_err::set_permissions(directory, mode).map_err(PartError::file(directory))?;
        std::os::unix::fs::chown(directory, Some(owner.0), Some(owner.1)).map_err(PartError::file(directory))?;
    }
    let text: String = user.ssh_authorized_keys.iter().map(|key| format!("{}\n", key.trim_end())).collect();
    let changed = files::ensure(&path, text.as_bytes(), 0o600, Some(owner)).map_err(PartError::file(&path))?;
    Ok(changed.then(|| format!("{} keys of {}", user.ssh_authorized_keys.len(), user.name)))
}

fn sudoers(cx: &Context, user: &str) -> PathBuf {
    // sudo skips file names with a dot.
    cx.host.root.at(format!("/etc/sudoers.d/windlass-{}", user.replace('.', "_")))
}

fn sudo(cx: &Context, user: &User) -> Result<Option<String>, PartError> {
    let path = sudoers(cx, &user.name);
    let changed = if user.sudo {
        let text = format!("{} ALL=(ALL) NOPASSWD:ALL\n", user.name);
        files::ensure(&path, text.as_bytes(), 0o440, None)
    } else {
        files::remove(&path)
    };
    let word = if user.sudo { "may use sudo" } else { "may no longer use sudo" };
    Ok(changed.map_err(PartError::file(&path))?.then(|| format!("{} {word}", user.name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::parts::fixture;

    const KEYS: &str = "/home/ops/.ssh/authorized_keys";
    const SUDOERS: &str = "/etc/sudoers.d/windlass-ops";

    fn ops(keys: &[&str], sudo: bool) -> User {
        User { name: "ops".into(), ssh_authorized_keys: keys.iter().map(|&key| key.into()).collect(), sudo }
    }

    /// A machine on which useradd has been at work: with the account, owned by whoever runs the test.
    fn machine(user: User) -> fixture::Machine {
        let mut machine = fixture::machine();
        let (own, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        fs_err::create_dir_all(machine.path("/etc")).unwrap();
        let passwd = format!("root:x:0:0::/root:/bin/bash\nops:x:{own}:{group}::/home/ops:/bin/bash\n");
        fs_err::write(machine.path("/etc/passwd"), passwd).unwrap();
        machine.change(|config| config.users = vec![user]);
        machine
    }

    fn mode(machine: &fixture::Machine, path: &str) -> u32 {
        fs_err::metadata(machine.path(path)).unwrap().permissions().mode() & 0o7777
    }

    #[tokio::test]
    async fn a_user_gets_keys_and_rights_once() {
        let machine = machine(ops(&["ssh-ed25519 AAAA one\n", "ssh-ed25519 BBBB two"], true));
        assert_eq!(apply(&machine.context()).await.unwrap(), ["2 keys of ops", "ops may use sudo"]);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(machine.commands.ran(), Vec::<String>::new(), "the account is there");
        let keys = fs_err::read_to_string(machine.path(KEYS)).unwrap();
        assert_eq!(keys, "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n");
        let modes = [KEYS, "/home/ops/.ssh", SUDOERS].map(|path| mode(&machine, path));
        assert_eq!(modes, [0o600, 0o700, 0o440], "sshd and sudo refuse others");
    }

    #[tokio::test]
    async fn an_account_is_made_when_there_is_none() {
        let mut machine = fixture::machine();
        machine.change(|config| config.users = vec![ops(&[], false)]);
        let error = apply(&machine.context()).await.unwrap_err().to_string();
        assert!(error.contains("made no account"), "{error}");
        assert_eq!(machine.commands.ran(), ["useradd --create-home --shell /bin/bash ops"]);
    }

    #[tokio::test]
    async fn a_key_and_a_right_that_are_no_longer_wanted_go() {
        let mut machine = machine(ops(&["ssh-ed25519 AAAA", "ssh-ed25519 BBBB"], true));
        apply(&machine.context()).await.unwrap();
        machine.change(|config| config.users = vec![ops(&["ssh-ed25519 BBBB"], false)]);
        assert_eq!(apply(&machine.context()).await.unwrap(), ["1 keys of ops", "ops may no longer use sudo"]);
        assert_eq!(fs_err::read_to_string(machine.path(KEYS)).unwrap(), "ssh-ed25519 BBBB\n");
    }

    #[tokio::test]
    async fn a_user_that_is_no_longer_wanted_is_locked_out_and_keeps_the_home() {
        let mut machine = machine(ops(&["ssh-ed25519 AAAA"], true));
        apply(&machine.context()).await.unwrap();
        fs_err::write(machine.path("/home/ops/notes"), "mine").unwrap();
        machine.change(|config| config.users.clear());
        assert_eq!(apply(&machine.context()).await.unwrap(), ["ops may no longer log in"]);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        let there = [KEYS, SUDOERS, "/home/ops/notes"].map(|path| machine.path(path).exists());
        assert_eq!(there, [false, false, true]);
    }
}
