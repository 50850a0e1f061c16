//! What the site asks for: scripts, hooks, users, kernel parameters, by role.

use std::collections::BTreeMap;

use windlass_spec::full::FullCluster;
use windlass_spec::node_config::{FirstBootScript, Hook, User};

use crate::inputs::NodeInputs;

/// Scripts of the machine's first boot.
pub(super) fn first_boot(inputs: &NodeInputs<'_>) -> Vec<FirstBootScript> {
    let wanted = inputs.full.extra_user_data.iter().filter(|data| data.roles.contains(&inputs.machine.role));
    wanted.map(|data| FirstBootScript { name: data.name.clone(), script: data.script.clone() }).collect()
}

/// Commands at fixed points.
pub(super) fn hooks(inputs: &NodeInputs<'_>) -> Vec<Hook> {
    let wanted = inputs.full.hooks.iter().filter(|hook| hook.roles.contains(&inputs.machine.role));
    wanted
        .map(|hook| Hook {
            name: hook.name.clone(),
            when: hook.when,
            command: hook.command.clone(),
            timeout_seconds: hook.timeout_seconds,
            on_failure: hook.on_failure,
        })
        .collect()
}

/// Login users.
pub(super) fn users(full: &FullCluster) -> Vec<User> {
    full.users
        .iter()
        .map(|user| User {
            name: user.name.clone(),
            ssh_authorized_keys: user.ssh_authorized_keys.clone(),
            sudo: user.sudo,
        })
        .collect()
}

/// Kernel parameters; pods of IPv6 need forwarding of their family as well.
pub(super) fn sysctls(full: &FullCluster) -> BTreeMap<String, String> {
    let mut sysctls = full.sysctls.clone();
    if full.network.pods.iter().any(|range| range.addr().is_ipv6()) {
        sysctls.entry("net.ipv6.conf.all.forwarding".to_owned()).or_insert_with(|| "1".to_owned());
    }
    sysctls
}
