//! Small questions and pieces about objects: annotations, owners, deletion, age.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::api::names;

/// Is the annotation there, whatever its value?
pub(crate) fn has_annotation<K: Resource>(object: &K, name: &str) -> bool {
    object.meta().annotations.as_ref().is_some_and(|annotations| annotations.contains_key(name))
}

/// The annotation's value.
pub(crate) fn annotation<'a, K: Resource>(object: &'a K, name: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(name).map(String::as_str)
}

/// The label's value.
pub(crate) fn label<'a, K: Resource>(object: &'a K, name: &str) -> Option<&'a str> {
    object.meta().labels.as_ref()?.get(name).map(String::as_str)
}

/// Is it being deleted?
pub(crate) fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Does it carry the finalizer?
pub(crate) fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|one| one == finalizer)
}

/// Its uid, or nothing where it was not read from an API.
pub(crate) fn uid<K: Resource>(object: &K) -> String {
    object.meta().uid.clone().unwrap_or_default()
}

/// A reference to an owner.
pub(crate) fn owner<K: Resource<DynamicType = ()>>(of: &K, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: of.name_any(),
        uid: uid(of),
        controller: Some(controller),
        block_owner_deletion: Some(true),
    }
}

/// The reference to the object's controller.
pub(crate) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Is `owner` the controller of `object`?
pub(crate) fn is_controlled_by<K: Resource, O: Resource>(object: &K, owner: &O) -> bool {
    controller_of(object).is_some_and(|reference| Some(&reference.uid) == owner.meta().uid.as_ref())
}

/// Does `object` have `owner` among its owners?
pub(crate) fn is_owned_by<K: Resource, O: Resource>(object: &K, owner: &O) -> bool {
    object.meta().owner_references.iter().flatten().any(|reference| Some(&reference.uid) == owner.meta().uid.as_ref())
}

/// Metadata for an object of a cluster.
pub(crate) fn meta(namespace: &str, name: &str, cluster: &str, owners: Vec<OwnerReference>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(BTreeMap::from([(names::CLUSTER_NAME.to_owned(), cluster.to_owned())])),
        owner_references: Some(owners).filter(|owners| !owners.is_empty()),
        ..ObjectMeta::default()
    }
}

/// When it was made.
pub(crate) fn created<K: Resource>(object: &K) -> Option<jiff::Timestamp> {
    object.meta().creation_timestamp.as_ref().map(|time| time.0)
}

/// Its generation.
pub(crate) fn generation<K: Resource>(object: &K) -> Option<i64> {
    object.meta().generation
}

/// The name of the cluster an object belongs to.
pub(crate) fn cluster_name<K: Resource>(object: &K) -> Option<&str> {
    label(object, names::CLUSTER_NAME)
}
