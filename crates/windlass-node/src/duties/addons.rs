//! Add-ons, each an ApplySet (KEP-3659), so that pruning is kubectl's own notion.
//!
//! Inputs: objects of the configuration. Outputs: the objects applied server-side with the set's label; those of an earlier
//! version that are no longer in it removed; version and hash recorded in the set's parent; a part that is done when the
//! workloads answer.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::future::try_join_all;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_spec::node_config::Addon;

use crate::board::Board;
use crate::error::PartError;
use crate::kubernetes;

const ID_LABEL: &str = "applyset.kubernetes.io/id";
const PART_OF_LABEL: &str = "applyset.kubernetes.io/part-of";
const TOOLING: &str = "applyset.kubernetes.io/tooling";
const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// Looks of the record.
const VERSION_KEY: &str = "version";
const HASH_KEY: &str = "hash";

const RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(15);
const UNHEALTHY: Duration = Duration::from_millis(500);
const HEALTHY: Duration = Duration::from_secs(30);
/// Health checks between two applications against drift.
const CHECKS_PER_APPLY: u32 = 20;

/// Keeps one add-on for ever.
pub async fn keep(client: &Client, addon: &Addon, board: &Board, part: &str) {
    let mut pause = RETRY;
    board.waiting(part, "being applied");
    loop {
        match apply(client, addon).await {
            Ok(objects) => {
                pause = RETRY;
                for _ in 0..CHECKS_PER_APPLY {
                    let missing = unhealthy(client, &objects).await;
                    match &missing {
                        None => board.done(part, vec![format!("version {}", addon.version)]),
                        Some(missing) => board.waiting(part, missing),
                    }
                    tokio::time::sleep(if missing.is_some() { UNHEALTHY } else { HEALTHY }).await;
                }
            }
            Err(error) => {
                tracing::info!("add-on {}: {error}", addon.name);
                board.failed(part, error.to_string(), Vec::new());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_RETRY);
            }
        }
    }
}

fn parent_name(addon: &str) -> String {
    format!("windlass-addon-{addon}")
}

/// The set's id, as the KEP derives it from its parent.
fn set_id(addon: &Addon) -> String {
    let identity = format!("{}.{}.ConfigMap.", parent_name(&addon.name), addon.namespace);
    format!("applyset-{}-v1", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(identity)))
}

/// Kinds and namespaces an object set reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reach {
    /// `Kind` or `Kind.group`.
    kinds: BTreeSet<String>,
    /// Namespaces other than the parent's.
    namespaces: BTreeSet<String>,
}

fn reach(addon: &Addon, objects: &[DynamicObject]) -> Result<Reach, PartError> {
    let mut reach = Reach::default();
    for object in objects {
        let resource = kubernetes::resource(object)?;
        reach.kinds.insert(match resource.group.as_str() {
            "" => resource.kind,
            group => format!("{}.{group}", resource.kind),
        });
        reach.namespaces.extend(object.metadata.namespace.clone().filter(|namespace| *namespace != addon.namespace));
    }
    Ok(reach)
}

fn join(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

fn split(text: &str) -> BTreeSet<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The set's parent, which also records version and hash.
fn parent(addon: &Addon, reach: &Reach) -> Result<DynamicObject, PartError> {
    let hash = hex::encode(Sha256::digest(addon.objects.join("\n---\n")));
    let value = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": parent_name(&addon.name),
            "namespace": addon.namespace,
            "labels": { ID_LABEL: set_id(addon), "windlass.dev/addon": addon.name },
            "annotations": {
                TOOLING: concat!("windlass/v", env!("CARGO_PKG_VERSION")),
                KINDS: join(&reach.kinds),
                NAMESPACES: join(&reach.namespaces),
            },
        },
        "data": { VERSION_KEY: addon.version, HASH_KEY: hash },
    });
    object(value)
}

fn object(value: Value) -> Result<DynamicObject, PartError> {
    serde_json::from_value(value)
        .map_err(|error| PartError::Api { operation: "making an object".to_owned(), cause: error.to_string() })
}

/// What an earlier application may have left.
async fn reached_before(client: &Client, addon: &Addon, parent: &DynamicObject) -> Result<Reach, PartError> {
    let api = kubernetes::api(client, parent, &kubernetes::resource(parent)?);
    let found = api.get_opt(&parent_name(&addon.name)).await.map_err(PartError::api("reading the add-on's record"))?;
    let annotations = found.and_then(|found| found.metadata.annotations).unwrap_or_default();
    let list = |name: &str| annotations.get(name).map(|text| split(text)).unwrap_or_default();
    Ok(Reach { kinds: list(KINDS), namespaces: list(NAMESPACES) })
}

async fn apply(client: &Client, addon: &Addon) -> Result<Vec<DynamicObject>, PartError> {
    let mut objects = kubernetes::objects(&addon.objects)?;
    let id = set_id(addon);
    for object in &mut objects {
        object.metadata.labels.get_or_insert_default().insert(PART_OF_LABEL.to_owned(), id.clone());
    }
    let now = reach(addon, &objects)?;
    let namespaces: Vec<_> = objects.iter().filter(|object| kubernetes::is_foundation(object)).collect();
    // The parent's own namespace may be one of the set.
    apply_all(client, &namespaces).await?;
    let record = parent(addon, &now)?;
    let before = reached_before(client, addon, &record).await?;
    // First the union, so that nothing applied is ever out of the set's reach; at the end what is.
    let union = Reach { kinds: &now.kinds | &before.kinds, namespaces: &now.namespaces | &before.namespaces };
    apply_all(client, &[&parent(addon, &union)?]).await?;
    let rest: Vec<_> = objects.iter().filter(|object| !kubernetes::is_foundation(object)).collect();
    apply_all(client, &rest).await?;
    if !before.kinds.is_empty() {
        prune(client, addon, &union, &objects).await?;
    }
    if union != now {
        apply_all(client, &[&record]).await?;
    }
    Ok(objects)
}

async fn apply_all(client: &Client, objects: &[&DynamicObject]) -> Result<(), PartError> {
    let applied = objects.iter().map(|object| async move {
        let done = kubernetes::apply(client, object).await;
        done.map(drop).map_err(PartError::api(format!("applying {}", kubernetes::title(object))))
    });
    try_join_all(applied).await.map(drop)
}

/// Removes members that are no longer in the set.
async fn prune(client: &Client, addon: &Addon, reach: &Reach, objects: &[DynamicObject]) -> Result<(), PartError> {
    let selector = ListParams::default().labels(&format!("{PART_OF_LABEL}={}", set_id(addon)));
    let kept: BTreeSet<_> = objects.iter().map(kubernetes::title).collect();
    for kind in &reach.kinds {
        let Some((resource, is_namespaced)) = discover(client, kind).await? else { continue };
        let apis: Vec<Api<DynamicObject>> = if is_namespaced {
            let namespaces = reach.namespaces.iter().chain([&addon.namespace]);
            namespaces.map(|namespace| Api::namespaced_with(client.clone(), namespace, &resource)).collect()
        } else {
            vec![Api::all_with(client.clone(), &resource)]
        };
        for api in apis {
            prune_kind(&api, &resource, &selector, &kept).await?;
        }
    }
    Ok(())
}

async fn prune_kind(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    selector: &ListParams,
    kept: &BTreeSet<String>,
) -> Result<(), PartError> {
    let list = api.list(selector).await.map_err(PartError::api(format!("listing {}", resource.plural)))?;
    for mut found in list.items {
        // Items of a list do not name their kind.
        found.types.get_or_insert_with(|| kube::api::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        let title = kubernetes::title(&found);
        if kept.contains(&title) {
            continue;
        }
        let name = found.metadata.name.clone().unwrap_or_default();
        match api.delete(&name, &DeleteParams::background()).await {
            Ok(_) => tracing::info!("{title} is no longer part of its add-on: removed"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(PartError::api(format!("removing {title}"))(error)),
        }
    }
    Ok(())
}

/// The preferred version of a `Kind.group`; none when the API no longer has it.
async fn discover(client: &Client, kind: &str) -> Result<Option<(ApiResource, bool)>, PartError> {
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    if group.is_empty() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        return Ok(Some((resource, !matches!(kind, "Namespace" | "Node" | "PersistentVolume"))));
    }
    let found = kube::discovery::group(client, group).await;
    match found {
        Ok(found) => Ok(found
            .recommended_kind(kind)
            .map(|(resource, capabilities)| (resource, capabilities.scope == kube::discovery::Scope::Namespaced))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(error) => Err(PartError::api(format!("discovering {group}"))(error)),
    }
}

/// What the add-on's workloads still lack; none when they are healthy.
async fn unhealthy(client: &Client, objects: &[DynamicObject]) -> Option<String> {
    for object in objects {
        let kind = object.types.as_ref().map(|types| types.kind.as_str());
        if !matches!(kind, Some("Deployment" | "DaemonSet" | "StatefulSet")) {
            continue;
        }
        let title = kubernetes::title(object);
        let Ok(resource) = kubernetes::resource(object) else { continue };
        let api = kubernetes::api(client, object, &resource);
        match api.get(object.metadata.name.as_deref().unwrap_or_default()).await {
            Ok(found) => {
                if let Some(missing) = missing_replicas(kind.unwrap_or_default(), &found.data) {
                    return Some(format!("{title}: {missing}"));
                }
            }
            Err(error) => return Some(format!("{title}: {error}")),
        }
    }
    None
}

/// Compares a workload's status with its wish.
fn missing_replicas(kind: &str, object: &Value) -> Option<String> {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let observed = number("/status/observedGeneration");
    let (wanted, ready) = match kind {
        "DaemonSet" => (number("/status/desiredNumberScheduled"), number("/status/numberAvailable")),
        "StatefulSet" => (number("/spec/replicas"), number("/status/readyReplicas")),
        _ => (number("/spec/replicas"), number("/status/availableReplicas")),
    };
    let wanted = wanted.unwrap_or(1);
    let ready = ready.unwrap_or(0);
    match observed {
        None => Some("its controller has not seen it yet".to_owned()),
        Some(_) if ready < wanted => Some(format!("{ready} of {wanted} pods are ready")),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addon() -> Addon {
        Addon {
            name: "coredns".into(),
            version: "1.14.6".into(),
            namespace: "kube-system".into(),
            objects: vec![
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: coredns, namespace: kube-system}\n".into(),
                "apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: other}\n".into(),
            ],
        }
    }

    #[test]
    fn the_parent_is_what_kubectl_expects() {
        let objects = kubernetes::objects(&addon().objects).unwrap();
        let parent = parent(&addon(), &reach(&addon(), &objects).unwrap()).unwrap();
        let annotations = parent.metadata.annotations.unwrap();
        assert_eq!(annotations[KINDS], "Deployment.apps,Service");
        assert_eq!(annotations[NAMESPACES], "other");
        let id = &parent.metadata.labels.unwrap()[ID_LABEL];
        assert!(id.starts_with("applyset-") && id.ends_with("-v1") && id.len() == 9 + 43 + 3, "{id}");
        assert_eq!(parent.data["data"][VERSION_KEY], "1.14.6");
    }

    #[test]
    fn health_is_what_the_status_says() {
        assert!(missing_replicas("Deployment", &json!({ "spec": { "replicas": 2 } })).is_some());
        let status = |available| json!({ "spec": { "replicas": 2 }, "status": { "observedGeneration": 1, "availableReplicas": available } });
        assert_eq!(missing_replicas("Deployment", &status(1)).unwrap(), "1 of 2 pods are ready");
        assert_eq!(missing_replicas("Deployment", &status(2)), None);
        let daemons =
            json!({ "status": { "observedGeneration": 1, "desiredNumberScheduled": 3, "numberAvailable": 3 } });
        assert_eq!(missing_replicas("DaemonSet", &daemons), None);
    }
}
