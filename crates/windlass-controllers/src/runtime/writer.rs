//! Writes to the management API: server-side apply under one field manager a controller, and nothing where nothing
//! would change. What the API answers goes into the index at once, so the next decision sees it.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{ReconcileError, is_conflict, is_not_found};
use crate::index::{Index, Key, Table};
use crate::objects;
use crate::runtime::metrics::Metrics;
use crate::runtime::routes::Routed;
use crate::runtime::workers::Queues;

/// What the writer asks of a kind.
pub(crate) trait Written:
    Routed + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug
{
}
impl<K> Written for K where
    K: Routed + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug
{
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Object,
    Status,
}

type AppliedKey = (&'static str, String, Key, Part);

/// The writer.
pub(crate) struct Writer {
    client: Client,
    index: Arc<Index>,
    queues: Arc<Queues>,
    /// Hash of what was applied last, by manager, kind, name and part: a field no longer wanted must be applied away
    /// even if all that is wanted is there.
    applied: Mutex<HashMap<AppliedKey, u64>>,
    metrics: Arc<Metrics>,
}

impl Writer {
    pub(crate) fn new(client: Client, index: Arc<Index>, queues: Arc<Queues>, metrics: Arc<Metrics>) -> Self {
        Self { client, index, queues, applied: Mutex::default(), metrics }
    }

    /// Applies an object without its status.
    pub(crate) async fn apply<K: Written>(
        &self,
        table: &Table<K>,
        manager: &'static str,
        object: &K,
    ) -> Result<Arc<K>, ReconcileError> {
        let mut wanted = encode(object)?;
        if let Some(tree) = wanted.as_object_mut() {
            tree.remove("status");
        }
        self.patch(table, manager, Key::of(object), wanted, Part::Object).await
    }

    /// Applies a part of an object given as a tree with `metadata` and some of `spec`.
    pub(crate) async fn apply_fields<K: Written>(
        &self,
        table: &Table<K>,
        manager: &'static str,
        of: &K,
        fields: Value,
    ) -> Result<Arc<K>, ReconcileError> {
        let mut wanted = header(of);
        merge(&mut wanted, fields);
        self.patch(table, manager, Key::of(of), wanted, Part::Object).await
    }

    /// Applies a status. An object that is gone has none to write.
    pub(crate) async fn apply_status<K: Written>(
        &self,
        table: &Table<K>,
        manager: &'static str,
        of: &K,
        status: &impl Serialize,
    ) -> Result<(), ReconcileError> {
        let mut wanted = header(of);
        merge(&mut wanted, json!({ "status": encode(status)? }));
        match self.patch(table, manager, Key::of(of), wanted, Part::Status).await {
            Ok(_) => Ok(()),
            Err(ReconcileError::Api { source, .. }) if is_not_found(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes an object; one that exists is left as it is.
    pub(crate) async fn create<K: Written>(&self, table: &Table<K>, object: &K) -> Result<bool, ReconcileError> {
        let key = Key::of(object);
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        self.metrics.wrote("create");
        match api.create(&PostParams::default(), object).await {
            Ok(made) => {
                self.keep(table, made);
                Ok(true)
            }
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(failed::<K>("create", &key, error)),
        }
    }

    /// Applies a Secret; the index keeps its metadata.
    pub(crate) async fn apply_secret(&self, manager: &'static str, secret: &Secret) -> Result<(), ReconcileError> {
        let key = Key::of(secret);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        self.metrics.wrote("apply");
        let parameters = PatchParams::apply(manager).force();
        match api.patch(&key.name, &parameters, &Patch::Apply(secret)).await {
            Ok(after) => {
                self.keep_secret(after);
                Ok(())
            }
            Err(error) => Err(failed::<Secret>("apply", &key, error)),
        }
    }

    /// Makes a Secret; one that exists is left as it is.
    pub(crate) async fn create_secret(&self, secret: &Secret) -> Result<bool, ReconcileError> {
        let key = Key::of(secret);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        self.metrics.wrote("create");
        match api.create(&PostParams::default(), secret).await {
            Ok(made) => {
                self.keep_secret(made);
                Ok(true)
            }
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(failed::<Secret>("create", &key, error)),
        }
    }

    fn keep_secret(&self, secret: Secret) {
        let key = Key::of(&secret);
        let known: PartialObjectMeta<Secret> = secret.metadata.into_response_partial();
        if let Some(change) = self.index.secrets.observe(known) {
            let wakes = <PartialObjectMeta<Secret> as Routed>::wakes(&change, &key, &self.index);
            self.queues.wake_all(wakes);
        }
    }

    /// Deletes an object of this identity; one that is gone or another is no error.
    pub(crate) async fn delete<K: Written>(&self, table: &Table<K>, object: &K) -> Result<(), ReconcileError> {
        if objects::is_deleting(object) {
            return Ok(());
        }
        let key = Key::of(object);
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let preconditions = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        self.metrics.wrote("delete");
        match api.delete(&key.name, &parameters).await {
            Ok(answer) => {
                if let Some(going) = answer.left() {
                    self.keep(table, going);
                }
                Ok(())
            }
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
            Err(error) => Err(failed::<K>("delete", &key, error)),
        }
    }

    /// Adds a finalizer, or puts back one that somebody took away.
    pub(crate) async fn add_finalizer<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        finalizer: &str,
    ) -> Result<Arc<K>, ReconcileError> {
        let mut all = object.finalizers().to_vec();
        all.push(finalizer.to_owned());
        self.merge_metadata(table, object, json!({ "finalizers": all })).await
    }

    /// Takes a finalizer away; the object may be gone afterwards.
    pub(crate) async fn remove_finalizer<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        finalizer: &str,
    ) -> Result<(), ReconcileError> {
        if !objects::has_finalizer(object, finalizer) {
            return Ok(());
        }
        let rest: Vec<&String> = object.finalizers().iter().filter(|one| *one != finalizer).collect();
        match self.merge_metadata(table, object, json!({ "finalizers": rest })).await {
            Ok(_) => Ok(()),
            Err(ReconcileError::Api { source, .. }) if is_not_found(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sets `spec.replicas`, only if nobody changed the object since it was read.
    pub(crate) async fn set_replicas<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        replicas: i32,
    ) -> Result<Arc<K>, ReconcileError> {
        self.merge_spec(table, object, json!({ "replicas": replicas })).await
    }

    /// Fills in fields of a spec, only if nobody changed the object since it was read.
    pub(crate) async fn merge_spec<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        spec: Value,
    ) -> Result<Arc<K>, ReconcileError> {
        let patch = json!({ "metadata": { "resourceVersion": object.meta().resource_version }, "spec": spec });
        self.merge_patch(table, object, patch).await
    }

    /// Records annotations, only if nobody changed the object since it was read. What is recorded this way is a
    /// durable fact, so two writers must not both succeed.
    pub(crate) async fn record<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        annotations: &[(&str, &str)],
    ) -> Result<Arc<K>, ReconcileError> {
        let tree: serde_json::Map<String, Value> =
            annotations.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        self.merge_metadata(table, object, json!({ "annotations": tree })).await
    }

    async fn merge_metadata<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        metadata: Value,
    ) -> Result<Arc<K>, ReconcileError> {
        let mut patch = json!({ "metadata": { "resourceVersion": object.meta().resource_version } });
        merge(&mut patch, json!({ "metadata": metadata }));
        self.merge_patch(table, object, patch).await
    }

    async fn merge_patch<K: Written>(
        &self,
        table: &Table<K>,
        object: &K,
        patch: Value,
    ) -> Result<Arc<K>, ReconcileError> {
        let key = Key::of(object);
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        self.metrics.wrote("merge");
        match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(after) => Ok(self.keep(table, after)),
            Err(error) => Err(failed::<K>("patch", &key, error)),
        }
    }

    async fn patch<K: Written>(
        &self,
        table: &Table<K>,
        manager: &'static str,
        key: Key,
        wanted: Value,
        part: Part,
    ) -> Result<Arc<K>, ReconcileError> {
        let known: AppliedKey = (manager, K::kind(&()).into_owned(), key.clone(), part);
        let content = without_version(&wanted);
        let hash = fingerprint(&content);
        let unchanged = self.applied().get(&known) == Some(&hash);
        if unchanged
            && let Some(current) = table.get(&key)
            && contains(&encode(&*current)?, &content)
        {
            return Ok(current);
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let parameters = PatchParams::apply(manager).force();
        let answer = match part {
            Part::Object => api.patch(&key.name, &parameters, &Patch::Apply(&wanted)).await,
            Part::Status => api.patch_status(&key.name, &parameters, &Patch::Apply(&wanted)).await,
        };
        self.metrics.wrote(if part == Part::Object { "apply" } else { "apply-status" });
        let after = answer.map_err(|error| failed::<K>("apply", &key, error))?;
        self.applied().insert(known, hash);
        Ok(self.keep(table, after))
    }

    /// Takes up what the API answered, and wakes whom the change concerns; the watch will bring nothing new.
    fn keep<K: Written>(&self, table: &Table<K>, after: K) -> Arc<K> {
        let key = Key::of(&after);
        let Some(change) = table.observe(after.clone()) else { return Arc::new(after) };
        self.queues.wake_all(K::wakes(&change, &key, &self.index));
        change.after.unwrap_or_else(|| Arc::new(after))
    }

    fn applied(&self) -> std::sync::MutexGuard<'_, HashMap<AppliedKey, u64>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was applied to an object that is gone.
    pub(crate) fn forget(&self, kind: &str, key: &Key) {
        self.applied().retain(|(_, of, name, _), _| of != kind || name != key);
    }
}

fn failed<K: Resource<DynamicType = ()>>(operation: &'static str, key: &Key, error: kube::Error) -> ReconcileError {
    let what = format!("{} {key}", K::kind(&()));
    if is_conflict(&error) {
        ReconcileError::Conflict { what }
    } else {
        ReconcileError::Api { operation, what, source: Box::new(error) }
    }
}

fn encode(object: &impl Serialize) -> Result<Value, ReconcileError> {
    serde_json::to_value(object)
        .map_err(|source| ReconcileError::Encode { what: std::any::type_name_of_val(object).to_owned(), source })
}

fn header<K: Resource<DynamicType = ()>>(of: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": of.meta().name, "namespace": of.meta().namespace },
    })
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// What is wanted, without the version it was read at.
fn without_version(wanted: &Value) -> Value {
    let mut content = wanted.clone();
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    content
}

fn fingerprint(tree: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Is everything wanted there already? Lists must be equal, but for those the API merges by key.
fn contains(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => wanted.iter().all(|(name, value)| {
            let there = current.get(name);
            match value {
                Value::Object(tree) if tree.is_empty() => there.is_none_or(Value::is_object),
                _ => there.is_some_and(|there| contains(there, value)),
            }
        }),
        (Value::Array(current), Value::Array(wanted)) => contains_items(current, wanted),
        (current, wanted) => current == wanted,
    }
}

fn contains_items(current: &[Value], wanted: &[Value]) -> bool {
    let merge_key = ["type", "uid"].into_iter().find(|key| wanted.iter().all(|item| item.get(key).is_some()));
    match merge_key.filter(|_| !wanted.is_empty()) {
        Some(key) => wanted.iter().all(|item| {
            let there = current.iter().find(|there| there.get(key) == item.get(key));
            there.is_some_and(|there| contains(there, item))
        }),
        None => current.len() == wanted.len() && current.iter().zip(wanted).all(|(there, item)| contains(there, item)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_with_keys_may_hold_more_and_others_may_not() {
        let current = json!({"c": [{"type": "A", "status": "True"}, {"type": "B"}], "l": ["x", "y"]});
        assert!(contains(&current, &json!({"c": [{"type": "B"}]})));
        assert!(contains(&current, &json!({"l": ["x", "y"]})));
        assert!(!contains(&current, &json!({"l": ["x"]})));
        assert!(!contains(&current, &json!({"c": [{"type": "A", "status": "False"}]})));
        assert!(!contains(&current, &json!({"d": 1})));
    }

    #[test]
    fn merging_goes_into_trees_and_replaces_the_rest() {
        let mut tree = json!({"metadata": {"name": "a"}});
        merge(&mut tree, json!({"metadata": {"labels": {"x": "y"}}, "spec": 1}));
        assert_eq!(tree, json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": 1}));
    }
}
