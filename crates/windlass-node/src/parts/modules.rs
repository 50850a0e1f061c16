//! Kernel modules.
//!
//! Inputs: names. Output: loaded where they can be; what is built into the kernel needs nothing, and a kernel without
//! loadable modules is reported, not failed: what really lacks shows in the part that needs it.

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::command::Command;
use crate::host::files;

/// Loads what is not there.
///
/// # Errors
/// When the list for the next boot cannot be written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let modules = &cx.config().modules;
    let mut changes = Changes::new();
    let path = cx.host.root.at("/etc/modules-load.d/windlass.conf");
    if modules.is_empty() {
        files::remove(&path).map_err(PartError::file(&path))?;
        return Ok(changes);
    }
    let list = modules.join("\n") + "\n";
    files::ensure(&path, list.as_bytes(), 0o644, None).map_err(PartError::file(&path))?;
    for module in modules {
        if is_there(cx, module) {
            continue;
        }
        match cx.host.commands.succeed(Command::new("modprobe", [module.as_str()])).await {
            Ok(_) => changes.push(format!("loaded {module}")),
            Err(error) => changes.push(format!("{module} is not loadable and taken as built in ({error})")),
        }
    }
    Ok(changes)
}

fn is_there(cx: &Context, module: &str) -> bool {
    let name = module.replace('-', "_");
    let listed = |path: &str, what: &str| {
        let text = files::read_text(&cx.host.root.at(path)).ok().flatten().unwrap_or_default();
        text.lines().any(|line| line.split_whitespace().any(|word| word == what))
    };
    cx.host.root.at(format!("/sys/module/{name}")).exists()
        || (name == "br_netfilter" && cx.host.root.at("/proc/sys/net/bridge").exists())
        || listed("/proc/filesystems", &name)
        || listed("/proc/modules", &name)
}
