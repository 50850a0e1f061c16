//! The SSH server, while there are users with keys to log in.
//!
//! Inputs: users of the configuration, the ledger. Output: `ssh.service` enabled and running, or, when the agent had
//! started it and nobody needs it any more, stopped. A server that already ran is somebody else's and left alone. Host
//! keys are made on the machine at the server's first start; passwords are refused by the image's settings.

use super::Context;
use crate::error::{Changes, PartError};
use crate::logs;

/// Debian's name of it.
const UNIT: &str = "ssh.service";

/// Starts or stops it.
///
/// # Errors
/// When systemd does not; with the server's last log lines.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let is_needed = cx.config().users.iter().any(|user| !user.ssh_authorized_keys.is_empty());
    match (is_needed, cx.ledger.get().ssh_server) {
        (true, _) if !cx.host.units.state(UNIT).await?.is_active() => start(cx).await,
        (false, true) => stop(cx).await,
        _ => Ok(Changes::new()),
    }
}

async fn start(cx: &Context) -> Result<Changes, PartError> {
    // Noted first, so that what was begun can be taken back.
    cx.ledger.update(|ledger| ledger.ssh_server = true)?;
    cx.host.units.enable(UNIT).await?;
    if let Err(error) = cx.host.units.start(UNIT).await {
        return Err(PartError::from(error).with_log(logs::of_unit(&cx.host, UNIT).await));
    }
    Ok(vec!["started the SSH server".to_owned()])
}

async fn stop(cx: &Context) -> Result<Changes, PartError> {
    cx.host.units.disable(UNIT).await?;
    cx.host.units.stop(UNIT).await?;
    cx.ledger.update(|ledger| ledger.ssh_server = false)?;
    Ok(vec!["stopped the SSH server: no user has a key".to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;
    use windlass_spec::node_config::User;

    fn users(keys: &[&[&str]]) -> Vec<User> {
        let user = |(number, keys): (usize, &&[&str])| User {
            name: format!("ops-{number}"),
            ssh_authorized_keys: keys.iter().map(|&key| key.to_owned()).collect(),
            sudo: true,
        };
        keys.iter().enumerate().map(user).collect()
    }

    #[tokio::test]
    async fn it_runs_while_a_user_has_a_key() {
        let mut machine = fixture::machine();
        machine.change(|config| config.users = users(&[&[]]));
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(machine.units.asked(), Vec::<String>::new(), "nothing listens without a key");

        machine.change(|config| config.users = users(&[&[], &["ssh-ed25519 AAAA"]]));
        assert_eq!(apply(&machine.context()).await.unwrap(), ["started the SSH server"]);
        assert!(apply(&machine.context()).await.unwrap().is_empty());

        machine.change(|config| config.users.clear());
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        let asked = ["enable ssh.service", "start ssh.service", "disable ssh.service", "stop ssh.service"];
        assert_eq!(machine.units.asked(), asked);
    }

    #[tokio::test]
    async fn a_server_of_somebody_else_is_left_alone() {
        use crate::host::units::Units as _;

        let mut machine = fixture::machine();
        machine.units.start(UNIT).await.unwrap();
        machine.change(|config| config.users = users(&[&["ssh-ed25519 AAAA"]]));
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        machine.change(|config| config.users.clear());
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(machine.units.asked(), ["start ssh.service"]);
    }
}
