//! The bundle's files on this machine are what the bundle's lock says.
//!
//! Inputs: the digest of the lock in the configuration, the lock on the machine. Output: nothing, or a refusal that names
//! each file that is damaged or was swapped; containerd and kubelet start only after this part. What was found whole is
//! looked at again when the machine starts or a file is no longer the one that was read.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use windlass_assets::{Digest, Lock};

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::{Root, files};
use crate::paths;

/// Tools for people at the machine, almost half of all bytes: nothing that runs by itself starts them.
const TOOLS: [&str; 5] = ["crictl", "ctr", "etcdctl", "etcdutl", "kubectl"];

/// Checks what the agent starts and what those that it starts will start.
///
/// # Errors
/// When a file is not what the lock says, or the lock is not the configuration's.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let (root, bundle) = (cx.host.root.clone(), cx.config().bundle.clone());
    let checked = tokio::task::spawn_blocking(move || check(&root, &bundle)).await;
    checked.unwrap_or_else(|stopped| Err(damaged(vec![stopped.to_string()])))
}

fn check(root: &Root, bundle: &str) -> Result<Changes, PartError> {
    let lock = lock(root, bundle)?;
    let wanted: Vec<&str> = lock.installed().map(|(path, _)| path).filter(|path| !is_tool(path)).collect();
    let stamp = root.at(format!("{}/programs", paths::RUN_DIR));
    let now = looks(root, bundle, &wanted);
    if files::read_text(&stamp).map_err(PartError::file(&stamp))?.as_ref() == Some(&now) {
        return Ok(Changes::new());
    }
    let found = lock.verify_installed(&root.at("/"), Some(&wanted));
    if !found.is_empty() {
        return Err(damaged(found.iter().map(ToString::to_string).collect()));
    }
    files::ensure(&stamp, now.as_bytes(), 0o644, None).map_err(PartError::file(&stamp))?;
    Ok(vec![format!("{} files of the bundle are whole", wanted.len())])
}

fn is_tool(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| TOOLS.contains(&name))
}

fn damaged(files: Vec<String>) -> PartError {
    PartError::Damaged { files }
}

/// The lock on the machine, when it is the one the configuration names.
fn lock(root: &Root, bundle: &str) -> Result<Lock, PartError> {
    let path = root.at(Lock::INSTALLED);
    let bytes = fs_err::read(&path).map_err(PartError::file(&path))?;
    let found = Digest::of(&bytes).to_string();
    if found != bundle {
        return Err(damaged(vec![format!("{} was changed: expected {bundle}, found {found}", Lock::INSTALLED)]));
    }
    Lock::parse(&bytes).map_err(|error| PartError::file(&path)(io::Error::other(error)))
}

/// How files look without reading them: another one, or one that was written to, looks different.
fn looks(root: &Root, bundle: &str, files: &[&str]) -> String {
    let look = |path: &&str| match root.at(path).symlink_metadata() {
        Ok(found) => {
            let changed = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
            format!("{path} {} {} {} {changed:?}\n", found.ino(), found.mode(), found.size())
        }
        Err(error) => format!("{path} {error}\n"),
    };
    std::iter::once(format!("{bundle}\n")).chain(files.iter().map(look)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::parts::fixture;

    const KUBELET: &str = "/usr/local/bin/kubelet";

    fn machine() -> fixture::Machine {
        let mut machine = fixture::machine();
        machine.install(&[
            (KUBELET, "kubelet"),
            ("/usr/local/bin/kubectl", "kubectl"),
            ("/opt/cni/bin/bridge", "bridge"),
        ]);
        machine
    }

    fn write(machine: &fixture::Machine, path: &str, content: &str) {
        fs_err::write(machine.path(path), content).unwrap();
    }

    #[tokio::test]
    async fn whole_files_are_read_once_a_start() {
        let machine = machine();
        assert_eq!(apply(&machine.context()).await.unwrap(), ["2 files of the bundle are whole"]);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        fs_err::remove_dir_all(machine.path(paths::RUN_DIR)).unwrap();
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 1, "after a restart of the machine");
    }

    #[tokio::test]
    async fn a_flipped_bit_is_refused_by_name_before_and_after_it_was_whole() {
        let machine = machine();
        write(&machine, KUBELET, "kubelev");
        let first = apply(&machine.context()).await.unwrap_err().to_string();
        assert!(first.contains("/usr/local/bin/kubelet was changed: expected sha256:"), "{first}");
        write(&machine, KUBELET, "kubelet");
        apply(&machine.context()).await.unwrap();
        // A file system's clock ticks every few milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        write(&machine, KUBELET, "kubelev");
        assert_eq!(apply(&machine.context()).await.unwrap_err().to_string(), first);
    }

    #[tokio::test]
    async fn swapped_missing_and_unusable_files_are_named() {
        let machine = machine();
        write(&machine, KUBELET, "bridge");
        fs_err::remove_file(machine.path("/opt/cni/bin/bridge")).unwrap();
        let error = apply(&machine.context()).await.unwrap_err().to_string();
        assert!(error.contains("(the content of bin/bridge)"), "{error}");
        assert!(error.contains("/opt/cni/bin/bridge is missing"), "{error}");
        write(&machine, KUBELET, "kubelet");
        write(&machine, "/opt/cni/bin/bridge", "bridge");
        let no_program = std::fs::Permissions::from_mode(0o644);
        fs_err::set_permissions(machine.path(KUBELET), no_program).unwrap();
        let error = apply(&machine.context()).await.unwrap_err().to_string();
        assert!(error.contains("lost the permission"), "{error}");
    }

    #[tokio::test]
    async fn a_lock_that_is_not_the_configurations_vouches_for_nothing() {
        let machine = machine();
        let path = machine.path(Lock::INSTALLED);
        fs_err::write(&path, fs_err::read_to_string(&path).unwrap().replace("1.2.3", "1.2.4")).unwrap();
        let error = apply(&machine.context()).await.unwrap_err().to_string();
        assert!(error.contains("bundle.lock.json was changed"), "{error}");
        fs_err::remove_file(&path).unwrap();
        let error = apply(&machine.context()).await.unwrap_err().to_string();
        assert!(error.contains("bundle.lock.json"), "{error}");
    }

    #[tokio::test]
    async fn nothing_of_the_bundle_starts_while_a_file_is_damaged() {
        use windlass_spec::node_config::Unit;

        let mut machine = machine();
        machine.change(|config| {
            let unit = |name: &str| Unit { name: name.into(), content: "[Service]\n".into(), restart_on: Vec::new() };
            config.units = ["containerd.service", "kubelet.service"].map(unit).to_vec();
        });
        write(&machine, KUBELET, "kubelev");
        let cx = machine.context();
        let passes = crate::schedule::run(crate::parts::tasks(&cx), &cx.board);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(700), passes).await;
        assert!(waited.is_err(), "the pass goes on trying");
        assert_eq!(machine.units.asked(), Vec::<String>::new());
    }
}
