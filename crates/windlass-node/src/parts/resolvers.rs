//! Nameservers of the machine and of pods that use the machine's.
//!
//! Inputs: two lists. Outputs: `/etc/windlass/resolv.conf` for pods (no search domains, never a loopback address) and,
//! when a list is given, the machine's own `/etc/resolv.conf`.

use std::net::IpAddr;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::files;
use crate::paths;

const OWN: &str = "/etc/resolv.conf";

/// Writes what differs.
///
/// # Errors
/// When a file cannot be written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let resolvers = &cx.config().resolvers;
    let mut changes = Changes::new();
    let (for_pods, left_out): (Vec<IpAddr>, Vec<IpAddr>) =
        resolvers.pods.iter().partition(|address| !address.is_loopback());
    let path = cx.host.root.at(paths::POD_RESOLV_CONF);
    if files::ensure(&path, text(&for_pods).as_bytes(), 0o644, None).map_err(PartError::file(&path))? {
        changes.push(format!("{} nameservers for pods", for_pods.len()));
        changes.extend(left_out.iter().map(|address| format!("{address} is loopback and not passed on to pods")));
    }
    if !resolvers.machine.is_empty() {
        let path = cx.host.root.at(OWN);
        if files::ensure(&path, text(&resolvers.machine).as_bytes(), 0o644, None).map_err(PartError::file(&path))? {
            changes.push(format!("{} nameservers for the machine", resolvers.machine.len()));
        }
    }
    Ok(changes)
}

fn text(servers: &[IpAddr]) -> String {
    let lines: String = servers.iter().map(|address| format!("nameserver {address}\n")).collect();
    format!("# Kept by the Windlass agent.\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[tokio::test]
    async fn b15_loopback_is_never_passed_on_and_a_dangling_link_is_replaced() {
        let mut machine = fixture::machine();
        machine.change(|config| {
            config.resolvers.machine = vec!["10.77.0.1".parse().unwrap()];
            config.resolvers.pods = ["127.0.0.53", "::1", "10.77.0.1"].map(|text| text.parse().unwrap()).to_vec();
        });
        let own = machine.path(OWN);
        fs_err::create_dir_all(own.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("../run/systemd/resolve/stub-resolv.conf", &own).unwrap();
        apply(&machine.context()).await.unwrap();
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        let pods = fs_err::read_to_string(machine.path(paths::POD_RESOLV_CONF)).unwrap();
        assert_eq!(pods, "# Kept by the Windlass agent.\nnameserver 10.77.0.1\n");
        assert_eq!(fs_err::read_to_string(&own).unwrap(), pods);
    }
}
