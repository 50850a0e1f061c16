//! Makes a cluster's kubeconfig again when its folder is lost: the cluster itself has it.
//!
//! Input: what this computer knows of the cluster, a control-plane machine that runs here. Output: the file, as create
//! wrote it. The machine's break-glass identity is read as root of this host, used once and not kept.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use windlass_providers::local::survey::{self, Found};
use windlass_spec::identity::Role;
use windlass_workflows::access;
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};

use crate::local::paths;

/// Where a control-plane machine keeps its break-glass kubeconfig.
const SUPER_ADMIN: &str = "etc/kubernetes/super-admin.conf";

/// Makes the kubeconfig again if it is gone and the cluster is up; says so.
pub(crate) async fn kubeconfig(pointer: &Pointer) {
    let folder = ClusterFolder::new(&pointer.scope.cluster, pointer.folder.clone());
    if pointer.life != Life::Created || folder.kubeconfig().exists() {
        return;
    }
    match from_machine(pointer, &folder).await {
        Ok(()) => eprintln!("{} was gone; it was made again from the cluster", folder.kubeconfig()),
        Err(error) => eprintln!("warning: {} is gone and cannot be made again: {error:#}", folder.kubeconfig()),
    }
}

async fn from_machine(pointer: &Pointer, folder: &ClusterFolder) -> anyhow::Result<()> {
    let found = survey::machines(&paths().map_err(|_| anyhow::anyhow!("no state folder"))?)?;
    let running = found.iter().filter(|found| found.cluster_id == pointer.scope.cluster_id);
    let machine =
        running.filter(|found| found.machine.role == Some(Role::ControlPlane)).find(|found| found.init.is_some());
    let text = super_admin(machine.context("none of its control-plane machines runs here")?)?;
    let client = access::client(&text).await?;
    let secrets: Api<Secret> = Api::namespaced(client, &pointer.namespace);
    let name = format!("{}-kubeconfig", pointer.scope.cluster);
    let asked = tokio::time::timeout(std::time::Duration::from_secs(5), secrets.get(&name)).await;
    let data = asked.context("its API does not answer")??.data.unwrap_or_default();
    let value = data.get("value").with_context(|| format!("the Secret {name} has no kubeconfig"))?;
    folder.write_private(&folder.kubeconfig(), std::str::from_utf8(&value.0)?)?;
    Ok(())
}

/// The break-glass kubeconfig, with the machine's own address in place of its loopback.
fn super_admin(found: &Found) -> anyhow::Result<String> {
    let init = found.init.context("the machine does not run")?;
    let text = fs_err::read_to_string(format!("/proc/{init}/root/{SUPER_ADMIN}"))?;
    Ok(text.replace("https://127.0.0.1:", &format!("https://{}:", found.machine.address)))
}
