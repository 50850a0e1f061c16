//! Moves a cluster's management objects from one API to another, so that at most one side acts at any moment.
//!
//! Inputs: two clients, a cluster's name and namespace; controllers on both sides that obey a pause. Output: the same
//! objects with the same status on the target, verified by hash, unpaused there and reported on.
//!
//! ```text
//! check -> pause the source, seen as Paused=True -> copy in layers (owners first), status too -> verify by hash
//!       -> unpause the target -> its controllers report Paused=False -> (the caller retires the source)
//! ```
//! Until the target is unpaused the way back is [`Pivot::resume_source`]; from then on the source stays paused for good.

pub mod graph;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use graph::{ForeignOwner, Item, Key};

/// Label of kinds that move, as clusterctl reads it.
const MOVES: &str = "clusterctl.cluster.x-k8s.io";
/// Label of clusterctl's own kinds, which do not.
const CLUSTERCTL_CORE: &str = "clusterctl.cluster.x-k8s.io/core";
/// Requests in flight within a layer.
const AT_ONCE: usize = 16;
/// Pause between two looks.
const TICK: Duration = Duration::from_millis(100);
/// How often an object is replaced again that somebody else wrote meanwhile.
const REPLACE_AGAIN: u32 = 10;

/// Why a move stopped.
#[derive(Debug, thiserror::Error)]
pub enum PivotError {
    /// An API refused or did not answer.
    #[error("failed to {operation}")]
    Api {
        /// What was asked.
        operation: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is no such Cluster on the source.
    #[error("the source holds no Cluster `{cluster}`")]
    NoCluster {
        /// Its name.
        cluster: String,
    },
    /// An object hangs from something that does not move.
    #[error(transparent)]
    Owner(#[from] ForeignOwner),
    /// Controllers do not report a pause, or its end.
    #[error("controllers did not report {wanted} within {} s for {}", waited.as_secs(), list(objects))]
    NotReported {
        /// `Paused=True` or `Paused=False`.
        wanted: &'static str,
        /// How long was waited.
        waited: Duration,
        /// For which objects.
        objects: Vec<Key>,
    },
    /// A copy differs from its source.
    #[error("the copy of {object} differs from its source in its {part}")]
    Differs {
        /// Which.
        object: Key,
        /// `content` or `status`.
        part: &'static str,
    },
}

fn list(keys: &[Key]) -> String {
    keys.iter().map(Key::to_string).collect::<Vec<_>>().join(", ")
}

fn api_error(operation: impl Into<String>) -> impl FnOnce(kube::Error) -> PivotError {
    let operation = operation.into();
    |source| PivotError::Api { operation, source: Box::new(source) }
}

/// A move of one cluster.
#[derive(Clone)]
pub struct Pivot {
    source: Client,
    target: Client,
    cluster: String,
    namespace: String,
    patience: Duration,
}

impl std::fmt::Debug for Pivot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pivot").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What was copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Copied {
    /// How many objects.
    pub objects: usize,
}

impl Pivot {
    /// A move of `cluster` from `source` to `target`. Controllers get `patience` to report.
    pub fn new(source: Client, target: Client, cluster: &str, namespace: &str, patience: Duration) -> Self {
        Self { source, target, cluster: cluster.to_owned(), namespace: namespace.to_owned(), patience }
    }

    /// Everything that would move, in layers. Fails before anything is touched when something could be lost.
    pub async fn check(&self) -> Result<Vec<Vec<Item>>, PivotError> {
        let items = self.items(&self.source).await?;
        if !items.iter().any(Item::is_root) {
            return Err(PivotError::NoCluster { cluster: self.cluster.clone() });
        }
        Ok(graph::layers(items)?)
    }

    /// Pauses the source and waits until every controller there has reported it.
    pub async fn pause_source(&self) -> Result<(), PivotError> {
        self.set_paused(&self.source, true).await?;
        self.reported(&self.source, true).await
    }

    /// The way back before the target was unpaused.
    pub async fn resume_source(&self) -> Result<(), PivotError> {
        self.set_paused(&self.source, false).await
    }

    /// Copies everything in layers with its status and verifies each copy. Safe to repeat.
    pub async fn copy(&self) -> Result<Copied, PivotError> {
        let layers = self.check().await?;
        self.ensure_namespace().await?;
        let mut uids: BTreeMap<String, String> = BTreeMap::new();
        let mut objects = 0;
        for layer in &layers {
            let made: Vec<(String, String)> = stream::iter(layer)
                .map(|item| self.copy_one(item, &uids))
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
            objects += made.len();
            uids.extend(made);
        }
        self.verify(&layers).await?;
        Ok(Copied { objects })
    }

    /// Unpauses the target and waits until its controllers have reported on every object. The source stays paused.
    pub async fn switch(&self) -> Result<(), PivotError> {
        self.set_paused(&self.target, false).await?;
        self.reported(&self.target, false).await
    }

    async fn items(&self, client: &Client) -> Result<Vec<Item>, PivotError> {
        let kinds = moving_kinds(client).await?;
        let lists: Vec<Vec<Item>> =
            stream::iter(kinds).map(|kind| self.items_of(client, kind)).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(graph::belonging(lists.into_iter().flatten().collect(), &self.cluster))
    }

    async fn items_of(&self, client: &Client, kind: ApiResource) -> Result<Vec<Item>, PivotError> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, &kind);
        let list = api
            .list(&ListParams::default())
            .await
            .map_err(api_error(format!("list {} in `{}`", kind.plural, self.namespace)))?;
        Ok(list.items.into_iter().map(|object| Item { kind: kind.clone(), object }).collect())
    }

    async fn set_paused(&self, client: &Client, paused: bool) -> Result<(), PivotError> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, &cluster_kind());
        // Taken away rather than set to false, as clusterctl does.
        let value = if paused { Value::Bool(true) } else { Value::Null };
        let patch = Patch::Merge(json!({"spec": {"paused": value}}));
        let verb = if paused { "pause" } else { "unpause" };
        api.patch(&self.cluster, &PatchParams::default(), &patch)
            .await
            .map_err(api_error(format!("{verb} the Cluster `{}`", self.cluster)))?;
        Ok(())
    }

    /// Waits until each object's `Paused` condition speaks of its present generation and says `paused`.
    async fn reported(&self, client: &Client, paused: bool) -> Result<(), PivotError> {
        let begun = Instant::now();
        loop {
            let items = self.items(client).await?;
            let silent: Vec<Key> = items
                .iter()
                .filter(|item| item.is_reported() && item.paused() != Some(paused))
                .map(Item::key)
                .collect();
            if silent.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > self.patience {
                let wanted = if paused { "Paused=True" } else { "Paused=False" };
                return Err(PivotError::NotReported { wanted, waited: self.patience, objects: silent });
            }
            tokio::time::sleep(TICK).await;
        }
    }

    async fn ensure_namespace(&self) -> Result<(), PivotError> {
        crate::apply::namespace(&self.target, &self.namespace)
            .await
            .map_err(api_error(format!("make the namespace `{}`", self.namespace)))
    }

    /// Makes one object on the target; returns its old and new uid.
    async fn copy_one(&self, item: &Item, uids: &BTreeMap<String, String>) -> Result<(String, String), PivotError> {
        let key = item.key();
        let failed = || api_error(format!("copy {key}"));
        let api: Api<DynamicObject> = Api::namespaced_with(self.target.clone(), &self.namespace, &item.kind);
        let wanted = graph::transplant(item, uids);
        let made = match api.create(&PostParams::default(), &wanted).await {
            Ok(made) => made,
            Err(kube::Error::Api(status)) if status.code == 409 => replace(&api, &wanted).await.map_err(failed())?,
            Err(error) => return Err(failed()(error)),
        };
        if let Some(status) = item.object.data.get("status").filter(|status| !status.is_null()) {
            let written = write_status(&api, &made.name_any(), status).await.map_err(failed())?;
            // Compared with what the API took; the target's controllers may report anew at once.
            if graph::status_hash(&written) != graph::status_hash(&item.object) {
                return Err(PivotError::Differs { object: key, part: "status" });
            }
        }
        Ok((item.object.uid().unwrap_or_default(), made.uid().unwrap_or_default()))
    }

    /// Reads both sides again and compares: nothing lost, nothing changed.
    async fn verify(&self, layers: &[Vec<Item>]) -> Result<(), PivotError> {
        let hashes = |items: Vec<Item>| -> BTreeMap<Key, String> {
            items.iter().map(|item| (item.key(), graph::content_hash(&item.object))).collect()
        };
        let (source, target) = tokio::try_join!(self.items(&self.source), self.items(&self.target))?;
        let (source, target) = (hashes(source), hashes(target));
        let copied = layers.iter().flatten().map(Item::key);
        match source.keys().cloned().chain(copied).find(|key| source.get(key) != target.get(key)) {
            Some(object) => Err(PivotError::Differs { object, part: "content" }),
            None => Ok(()),
        }
    }
}

/// Replaces what an earlier attempt left; again when another writer was faster.
async fn replace(api: &Api<DynamicObject>, wanted: &DynamicObject) -> Result<DynamicObject, kube::Error> {
    let name = wanted.name_any();
    let mut object = wanted.clone();
    let mut tries = 0;
    loop {
        object.metadata.resource_version = api.get(&name).await?.metadata.resource_version;
        match api.replace(&name, &PostParams::default(), &object).await {
            Err(kube::Error::Api(error)) if error.code == 409 && tries < REPLACE_AGAIN => tries += 1,
            other => return other,
        }
    }
}

/// Writes a status as a whole, whoever else writes: the controllers there report on what they see appear.
async fn write_status(api: &Api<DynamicObject>, name: &str, status: &Value) -> Result<DynamicObject, kube::Error> {
    let whole = serde_json::from_value(json!([{ "op": "add", "path": "/status", "value": status }]));
    let patch: Patch<()> = Patch::Json(whole.map_err(kube::Error::SerdeError)?);
    api.patch_status(name, &PatchParams::default(), &patch).await
}

fn cluster_kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"))
}

/// Kinds that move: those of labelled definitions (the stored version), Secrets and ConfigMaps.
async fn moving_kinds(client: &Client) -> Result<Vec<ApiResource>, PivotError> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let selector = ListParams::default().labels(MOVES);
    let definitions = crds.list(&selector).await.map_err(api_error("list the kinds that move"))?;
    let core = |kind: &str, plural: &str| ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    let mut kinds = vec![core("Secret", "secrets"), core("ConfigMap", "configmaps")];
    kinds.extend(
        definitions.items.iter().filter(|crd| !crd.labels().contains_key(CLUSTERCTL_CORE)).filter_map(stored_kind),
    );
    Ok(kinds)
}

fn stored_kind(crd: &CustomResourceDefinition) -> Option<ApiResource> {
    let version = crd.spec.versions.iter().find(|version| version.storage)?;
    Some(ApiResource {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        api_version: format!("{}/{}", crd.spec.group, version.name),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    })
}
