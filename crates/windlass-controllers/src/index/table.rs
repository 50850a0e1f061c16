//! Objects of one kind, by name and by cluster.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kube::{Resource, ResourceExt};

use crate::api::names;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object.
    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
    }

    /// Another name in the same namespace.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        Self::new(&self.namespace, name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a table asks of a kind.
pub(crate) trait Indexed: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    /// The cluster it belongs to.
    fn cluster(&self) -> Option<String> {
        self.meta().labels.as_ref()?.get(names::CLUSTER_NAME).cloned()
    }
}

/// An object before and after.
#[derive(Debug)]
pub(crate) struct Change<K> {
    pub(crate) before: Option<Arc<K>>,
    pub(crate) after: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object, as it is or was last.
    pub(crate) fn object(&self) -> Option<&Arc<K>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Did this part of it change? Coming and going are changes.
    pub(crate) fn differs<T: PartialEq>(&self, part: impl Fn(&K) -> T) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => part(before) != part(after),
            _ => true,
        }
    }
}

/// Objects of one kind.
pub(crate) struct Table<K> {
    rows: RwLock<Rows<K>>,
}

struct Rows<K> {
    by_key: HashMap<Key, Arc<K>>,
    by_cluster: HashMap<Key, BTreeSet<String>>,
    /// Version at which an object went: a late answer to an earlier write must not bring it back.
    gone: HashMap<Key, String>,
}

/// How many gone objects are remembered.
const REMEMBERED: usize = 4096;

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { rows: RwLock::new(Rows { by_key: HashMap::new(), by_cluster: HashMap::new(), gone: HashMap::new() }) }
    }
}

impl<K: Indexed> Table<K> {
    /// One object.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().by_key.get(key).cloned()
    }

    /// All objects of a cluster, by name.
    pub(crate) fn of_cluster(&self, cluster: &Key) -> Vec<Arc<K>> {
        let rows = self.read();
        let names = rows.by_cluster.get(cluster).into_iter().flatten();
        names.filter_map(|name| rows.by_key.get(&cluster.sibling(name)).cloned()).collect()
    }

    /// Every key.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.read().by_key.keys().cloned().collect()
    }

    /// Takes up a newer state; an older one is ignored and changes nothing.
    pub(crate) fn observe(&self, object: K) -> Option<Change<K>> {
        let key = Key::of(&object);
        let mut rows = self.write();
        let before = rows.by_key.get(&key).cloned();
        if let Some(before) = &before
            && !is_newer(object.meta().resource_version.as_deref(), before.meta().resource_version.as_deref())
        {
            return None;
        }
        if let Some(version) = rows.gone.get(&key)
            && !is_newer(object.meta().resource_version.as_deref(), Some(version))
        {
            return None;
        }
        rows.unlink(&key);
        if let Some(cluster) = object.cluster() {
            rows.by_cluster.entry(key.sibling(&cluster)).or_default().insert(key.name.clone());
        }
        let after = Arc::new(object);
        rows.by_key.insert(key, after.clone());
        Some(Change { before, after: Some(after) })
    }

    /// Forgets an object that went at this version.
    pub(crate) fn forget(&self, key: &Key, version: Option<&str>) -> Option<Change<K>> {
        let mut rows = self.write();
        if rows.gone.len() >= REMEMBERED {
            rows.gone.clear();
        }
        if let Some(version) = version {
            rows.gone.insert(key.clone(), version.to_owned());
        }
        rows.unlink(key);
        let before = rows.by_key.remove(key)?;
        Some(Change { before: Some(before), after: None })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Rows<K>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Rows<K>> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Indexed> Rows<K> {
    fn unlink(&mut self, key: &Key) {
        let Some(cluster) = self.by_key.get(key).and_then(|object| object.cluster()) else { return };
        let cluster = key.sibling(&cluster);
        if let Some(names) = self.by_cluster.get_mut(&cluster) {
            names.remove(&key.name);
            if names.is_empty() {
                self.by_cluster.remove(&cluster);
            }
        }
    }
}

/// Is the first resource version later than the second? Versions are numbers that only grow; what is no number counts
/// as new.
pub(crate) fn is_newer(new: Option<&str>, old: Option<&str>) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
    match (number(new), number(old)) {
        (Some(new), Some(old)) => new > old,
        _ => true,
    }
}

impl Indexed for crate::api::windlass::WindlassCluster {
    fn cluster(&self) -> Option<String> {
        self.metadata.name.clone()
    }
}
impl Indexed for crate::api::cluster_api::Cluster {
    fn cluster(&self) -> Option<String> {
        self.metadata.name.clone()
    }
}
impl Indexed for crate::api::cluster_api::Machine {
    fn cluster(&self) -> Option<String> {
        Some(self.spec.cluster_name.clone())
    }
}
impl Indexed for crate::api::cluster_api::MachineSet {
    fn cluster(&self) -> Option<String> {
        Some(self.spec.cluster_name.clone())
    }
}
impl Indexed for crate::api::cluster_api::MachineDeployment {
    fn cluster(&self) -> Option<String> {
        Some(self.spec.cluster_name.clone())
    }
}
impl Indexed for crate::api::cluster_api::MachineHealthCheck {
    fn cluster(&self) -> Option<String> {
        Some(self.spec.cluster_name.clone())
    }
}
impl Indexed for crate::api::windlass::ControlPlane {}
impl Indexed for crate::api::windlass::NodeConfig {}
impl Indexed for crate::api::windlass::NodeConfigTemplate {}
impl Indexed for crate::api::windlass::LocalCluster {}
impl Indexed for crate::api::windlass::LocalMachine {}
impl Indexed for crate::api::windlass::LocalMachineTemplate {}
impl Indexed for kube::core::PartialObjectMeta<k8s_openapi::api::core::v1::Secret> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::windlass::{LocalCluster, LocalClusterSpec};

    fn object(name: &str, cluster: &str, version: &str) -> LocalCluster {
        let mut object = LocalCluster::new(name, LocalClusterSpec::default());
        object.metadata.namespace = Some("default".to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object.metadata.labels = Some([(names::CLUSTER_NAME.to_owned(), cluster.to_owned())].into());
        object
    }

    #[test]
    fn an_older_state_changes_nothing() {
        let table = Table::default();
        assert!(table.observe(object("a", "lab", "9")).is_some());
        assert!(table.observe(object("a", "other", "8")).is_none());
        assert_eq!(table.of_cluster(&Key::new("default", "lab")).len(), 1);
    }

    #[test]
    fn objects_move_between_clusters_and_go() {
        let table = Table::default();
        table.observe(object("a", "lab", "1"));
        table.observe(object("a", "other", "2"));
        assert!(table.of_cluster(&Key::new("default", "lab")).is_empty());
        assert_eq!(table.of_cluster(&Key::new("default", "other")).len(), 1);
        let gone = table.forget(&Key::new("default", "a"), Some("4"));
        assert!(gone.is_some_and(|change| change.after.is_none()));
        assert!(table.of_cluster(&Key::new("default", "other")).is_empty());
        assert!(table.observe(object("a", "lab", "3")).is_none(), "a late answer must not bring it back");
        assert!(table.observe(object("a", "lab", "5")).is_some());
    }
}
