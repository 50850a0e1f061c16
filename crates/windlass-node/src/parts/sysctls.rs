//! Kernel parameters.
//!
//! Inputs: names and values. Output: the same below `/proc/sys`, now and, through a file, at the next boot.

use fs_err as fs;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::files;

const FILE: &str = "/etc/sysctl.d/90-windlass.conf";

/// Sets what differs.
///
/// # Errors
/// When a parameter is unknown to the kernel or refuses its value.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    let path = cx.host.root.at(FILE);
    let lines: String = cx.config().sysctls.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    files::ensure(&path, lines.as_bytes(), 0o644, None).map_err(PartError::file(&path))?;
    for (name, value) in &cx.config().sysctls {
        let path = cx.host.root.at(proc_path(name));
        let found = fs::read_to_string(&path).map_err(PartError::file(&path))?;
        if words(&found) == words(value) {
            continue;
        }
        fs::write(&path, value).map_err(PartError::file(&path))?;
        changes.push(format!("{name} = {value}"));
    }
    Ok(changes)
}

/// Where a parameter lies: dots are slashes, unless the name is written with slashes, where dots stay.
fn proc_path(name: &str) -> String {
    let relative = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    format!("/proc/sys/{relative}")
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[test]
    fn names_are_paths() {
        assert_eq!(proc_path("vm.max_map_count"), "/proc/sys/vm/max_map_count");
        assert_eq!(proc_path("net/ipv4/conf/eth0.1/rp_filter"), "/proc/sys/net/ipv4/conf/eth0.1/rp_filter");
    }

    #[tokio::test]
    async fn a_second_time_changes_nothing() {
        let mut machine = fixture::machine();
        machine.change(|config| config.sysctls = [("net.ipv4.ip_local_port_range".into(), "1 2".into())].into());
        let path = machine.path("/proc/sys/net/ipv4/ip_local_port_range");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "32768\t60999\n").unwrap();
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(fs::read_to_string(&path).unwrap(), "1 2");
    }
}
