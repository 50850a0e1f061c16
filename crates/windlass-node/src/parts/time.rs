//! The machine's clock.
//!
//! Inputs: NTP servers. Output: a drop-in for the client that is there (systemd-timesyncd or chrony), which is restarted.
//! A sandbox shares its host's clock: nothing to set, and that is said.

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::files;

/// A time client: its unit, where its unit file may lie, and its drop-in.
struct Client {
    unit: &'static str,
    unit_file: &'static str,
    drop_in: &'static str,
    text: fn(&[String]) -> String,
}

const CLIENTS: [Client; 2] = [
    Client {
        unit: "chrony.service",
        unit_file: "/lib/systemd/system/chrony.service",
        drop_in: "/etc/chrony/sources.d/windlass.sources",
        text: |servers| servers.iter().map(|server| format!("server {server} iburst\n")).collect(),
    },
    Client {
        unit: "systemd-timesyncd.service",
        unit_file: "/lib/systemd/system/systemd-timesyncd.service",
        drop_in: "/etc/systemd/timesyncd.conf.d/windlass.conf",
        text: |servers| format!("[Time]\nNTP={}\n", servers.join(" ")),
    },
];

/// Writes the drop-in and restarts its client when that changed.
///
/// # Errors
/// When servers are given and the machine has no client and a clock of its own.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let servers = &cx.config().ntp_servers;
    let Some(client) = CLIENTS.iter().find(|client| cx.host.root.at(client.unit_file).exists()) else {
        return match (servers.is_empty(), is_sandbox(cx)) {
            (true, _) => Ok(Changes::new()),
            (false, true) => Ok(vec!["the clock is the host's; NTP servers are the host's business".to_owned()]),
            (false, false) => Err(PartError::Config {
                what: "ntpServers".to_owned(),
                problem: "the machine has neither chrony nor systemd-timesyncd".to_owned(),
            }),
        };
    };
    let path = cx.host.root.at(client.drop_in);
    let changed = if servers.is_empty() {
        files::remove(&path)
    } else {
        files::ensure(&path, (client.text)(servers).as_bytes(), 0o644, None)
    };
    if !changed.map_err(PartError::file(&path))? {
        return Ok(Changes::new());
    }
    if is_sandbox(cx) {
        return Ok(vec![format!("{} is told; the clock is the host's", client.unit)]);
    }
    cx.host.units.restart(client.unit).await?;
    Ok(vec![format!("{} asks {}", client.unit, servers.join(", "))])
}

/// systemd says in `/run/systemd/container` that it runs in a container.
fn is_sandbox(cx: &Context) -> bool {
    cx.host.root.at("/run/systemd/container").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[tokio::test]
    async fn the_client_that_is_there_is_told_once() {
        let mut machine = fixture::machine();
        machine.change(|config| config.ntp_servers = vec!["ntp.example".into()]);
        assert!(apply(&machine.context()).await.is_err(), "no client, no sandbox");
        let unit = machine.path("/lib/systemd/system/systemd-timesyncd.service");
        fs_err::create_dir_all(unit.parent().unwrap()).unwrap();
        fs_err::write(unit, "").unwrap();
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(machine.units.asked(), ["restart systemd-timesyncd.service"]);
    }
}
