//! Static pods: their manifests in kubelet's directory, and nothing else there.
//!
//! Inputs: manifests of the configuration, files whose change restarts them. Outputs: the manifests, with the hash of
//! those files in an annotation; foreign files (backups, leftovers) moved away and reported, since kubelet runs them all.
//!
//! When a cluster is formed, its first control plane goes ahead: each API server makes the same objects when it starts
//! into an empty etcd, and three that do so at once spend their time on each other's conflicts.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_spec::node_config::{NodeConfig, StaticPod};

use super::{Context, units};
use crate::balancer::pool::Health;
use crate::error::{Changes, PartError};
use crate::health::API_SERVER;
use crate::host::files;
use crate::paths;

/// How long the first control plane may take until the others go on without it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Annotation whose value changes with the files a pod depends on.
pub const RESTART_ANNOTATION: &str = "windlass.dev/restart-on";

/// Writes what differs, moves away what is foreign.
///
/// # Errors
/// When a manifest is no Pod or a file cannot be written.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let directory = cx.host.root.at(&cx.config().kubelet.manifest_dir);
    fs::create_dir_all(&directory).map_err(PartError::file(&directory))?;
    let mut changes = move_foreign(cx, &directory)?;
    if follows_another(cx.config(), &directory) {
        cx.board.waiting("manifests", "the first control plane's API server");
        if tokio::time::timeout(PATIENCE, cx.api_servers.until(Health::Ready)).await.is_err() {
            changes.push(format!("did not wait longer than {} s for the first API server", PATIENCE.as_secs()));
        }
    }
    for pod in &cx.config().static_pods {
        let path = directory.join(file_name(&pod.name));
        let text = text(cx, pod)?;
        if files::ensure(&path, text.as_bytes(), 0o600, None).map_err(PartError::file(&path))? {
            changes.push(format!("wrote the manifest of {}", pod.name));
        }
    }
    Ok(changes)
}

/// Is this a control plane before its first start, and not the cluster's first one?
fn follows_another(config: &NodeConfig, directory: &Path) -> bool {
    let Some(member) = &config.etcd else { return false };
    let is_first = member.members.first().is_none_or(|first| first.name == member.name);
    !is_first && !directory.join(file_name(API_SERVER)).exists()
}

fn file_name(pod: &str) -> String {
    format!("{pod}.yaml")
}

fn text(cx: &Context, pod: &StaticPod) -> Result<String, PartError> {
    if pod.restart_on.is_empty() {
        return Ok(pod.manifest.clone());
    }
    let hash = units::content_hash(&cx.host.root, None, &pod.restart_on)?;
    annotate(&pod.manifest, &hash)
        .map_err(|problem| PartError::Config { what: format!("static pod {}", pod.name), problem })
}

/// Adds the hash to the manifest's annotations.
fn annotate(manifest: &str, hash: &str) -> Result<String, String> {
    let mut pod: Value = serde_saphyr::from_str(manifest).map_err(|error| error.to_string())?;
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut).ok_or("it has no metadata")?;
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    let annotations = annotations.as_object_mut().ok_or("its annotations are no map")?;
    annotations.insert(RESTART_ANNOTATION.to_owned(), json!(hash));
    serde_saphyr::to_string(&pod).map_err(|error| error.to_string())
}

/// The value of an annotation in a manifest.
pub(crate) fn annotation(manifest: &str, name: &str) -> Option<String> {
    let pod: Value = serde_saphyr::from_str(manifest).ok()?;
    Some(pod.get("metadata")?.get("annotations")?.get(name)?.as_str()?.to_owned())
}

fn move_foreign(cx: &Context, directory: &Path) -> Result<Changes, PartError> {
    let config = cx.config();
    let etcd = config.etcd.as_ref().and_then(|member| Path::new(&member.manifest_path).file_name());
    let known: BTreeSet<String> = config
        .static_pods
        .iter()
        .map(|pod| file_name(&pod.name))
        .chain(etcd.map(|name| name.to_string_lossy().into_owned()))
        .collect();
    let mut changes = Changes::new();
    for entry in fs::read_dir(directory).map_err(PartError::file(directory))? {
        let entry = entry.map_err(PartError::file(directory))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // kubelet passes over names that begin with a dot.
        if known.contains(&name) || name.starts_with('.') {
            continue;
        }
        let shelter = cx.host.root.at(paths::FOREIGN_MANIFESTS);
        fs::create_dir_all(&shelter).map_err(PartError::file(&shelter))?;
        let target = shelter.join(format!("{}-{name}", Timestamp::now().as_second()));
        move_file(&entry.path(), &target)?;
        changes.push(format!("{name} is not of this configuration: moved to {}", target.display()));
    }
    Ok(changes)
}

/// Moves across file systems too.
fn move_file(from: &Path, to: &Path) -> Result<(), PartError> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map_err(PartError::file(from))?;
    fs::remove_file(from).map_err(PartError::file(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;
    use windlass_spec::node_config::EtcdPermit;

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-apiserver\nspec:\n  containers: []\n";

    fn pod(restart_on: &[&str]) -> StaticPod {
        StaticPod {
            name: "kube-apiserver".into(),
            manifest: POD.into(),
            restart_on: restart_on.iter().map(|&path| path.into()).collect(),
            health_url: None,
        }
    }

    #[tokio::test]
    async fn r04_foreign_files_are_moved_and_reported() {
        let mut machine = fixture::machine();
        machine.change(|config| config.static_pods = vec![pod(&[])]);
        let directory = machine.path("/etc/kubernetes/manifests");
        fs::create_dir_all(&directory).unwrap();
        for name in ["kube-apiserver.yaml.bak", "kube-apiserver.yaml~", "x.tmp", ".kept"] {
            fs::write(directory.join(name), POD).unwrap();
        }
        assert_eq!(apply(&machine.context()).await.unwrap().len(), 4);
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".kept", "kube-apiserver.yaml"]);
        assert_eq!(fs::read_dir(machine.path(paths::FOREIGN_MANIFESTS)).unwrap().count(), 3);
    }

    #[tokio::test]
    async fn the_first_control_plane_of_a_new_cluster_goes_ahead() {
        let mut machine = fixture::machine();
        let directory = machine.path("/etc/kubernetes/manifests");
        fs::create_dir_all(&directory).unwrap();
        let follows = |machine: &fixture::Machine| follows_another(machine.context().config(), &directory);
        assert!(!follows(&machine), "a worker");
        machine.etcd(EtcdPermit::Form { attempt: "1".into() });
        assert!(!follows(&machine), "the first");
        machine.change(|config| config.etcd.as_mut().unwrap().members.reverse());
        assert!(follows(&machine), "the second");
        fs::write(directory.join("kube-apiserver.yaml"), POD).unwrap();
        assert!(!follows(&machine), "it has started before");
    }

    #[tokio::test]
    async fn a_changed_file_changes_the_manifest() {
        let mut machine = fixture::machine();
        machine.change(|config| config.static_pods = vec![pod(&["/etc/kubernetes/pki/apiserver.crt"])]);
        apply(&machine.context()).await.unwrap();
        assert!(apply(&machine.context()).await.unwrap().is_empty());
        let path = machine.path("/etc/kubernetes/pki/apiserver.crt");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "new").unwrap();
        assert_eq!(apply(&machine.context()).await.unwrap(), ["wrote the manifest of kube-apiserver"]);
        let manifest = fs::read_to_string(machine.path("/etc/kubernetes/manifests/kube-apiserver.yaml")).unwrap();
        assert!(annotation(&manifest, RESTART_ANNOTATION).is_some(), "{manifest}");
    }
}
