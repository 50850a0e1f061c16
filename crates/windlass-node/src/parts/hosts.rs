//! The block of names the agent keeps in `/etc/hosts`.
//!
//! Inputs: addresses and names. Output: the block between its markers, the rest of the file untouched. The file is
//! bind-mounted into pods, so it is rewritten in place, never renamed over.

use windlass_spec::node_config::HostEntry;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::files;

const FILE: &str = "/etc/hosts";
const BEGIN: &str = "# windlass: begin (kept by the agent, changes here are lost)";
const END: &str = "# windlass: end";

/// Rewrites the block when it differs.
///
/// # Errors
/// When the file cannot be read or written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let path = cx.host.root.at(FILE);
    let found = files::read_text(&path).map_err(PartError::file(&path))?.unwrap_or_default();
    let wanted = with_block(&found, &cx.config().hosts);
    let changed = files::rewrite(&path, wanted.as_bytes()).map_err(PartError::file(&path))?;
    Ok(changed.then(|| format!("{} names in {FILE}", cx.config().hosts.len())).into_iter().collect())
}

/// The text with our block at its end, and with `localhost` where it lacks it.
fn with_block(text: &str, entries: &[HostEntry]) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            BEGIN => inside = true,
            END => inside = false,
            _ if !inside => kept = kept + line + "\n",
            _ => {}
        }
    }
    let has_localhost = kept.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("127.0.0.1") && words.any(|name| name == "localhost")
    });
    let localhost = if has_localhost { "" } else { "127.0.0.1 localhost\n" };
    let lines: String = entries.iter().map(|entry| format!("{} {}\n", entry.address, entry.names.join(" "))).collect();
    format!("{kept}{BEGIN}\n{localhost}{lines}{END}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    use crate::parts::fixture;

    fn entry(address: &str, names: &[&str]) -> HostEntry {
        HostEntry { address: address.parse().unwrap(), names: names.iter().map(|&name| name.to_owned()).collect() }
    }

    #[test]
    fn the_rest_of_the_file_is_kept() {
        let before = "127.0.0.1 localhost\n10.0.0.1 mine\n";
        let first = with_block(before, &[entry("10.77.0.11", &["lab-cp-a", "etcd-a"])]);
        insta::assert_snapshot!(first, @r"
        127.0.0.1 localhost
        10.0.0.1 mine
        # windlass: begin (kept by the agent, changes here are lost)
        10.77.0.11 lab-cp-a etcd-a
        # windlass: end
        ");
        assert_eq!(with_block(&first, &[entry("10.77.0.11", &["lab-cp-a", "etcd-a"])]), first);
        assert!(with_block(&first, &[]).starts_with(before));
        assert!(with_block("", &[]).contains("127.0.0.1 localhost\n"));
    }

    #[tokio::test]
    async fn the_inode_stays() {
        let machine = fixture::machine();
        let path = machine.path("/etc/hosts");
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, "127.0.0.1 localhost\n").unwrap();
        let inode = fs_err::metadata(&path).unwrap().ino();
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        assert_eq!(fs_err::metadata(&path).unwrap().ino(), inode);
    }
}
