//! Nodes of workload clusters, by provider id, and whether each cluster's API answers.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::Node;

use super::Key;

/// Does a workload cluster's API answer?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Nobody asked yet.
    Untried,
    /// Nodes are being watched.
    Up,
    /// It does not.
    Down {
        /// Since when.
        since: jiff::Timestamp,
        /// Why.
        cause: String,
    },
}

/// Nodes by cluster.
#[derive(Default)]
pub(crate) struct Nodes {
    rows: RwLock<HashMap<Key, Workload>>,
}

#[derive(Default)]
struct Workload {
    nodes: HashMap<String, Arc<Node>>,
    connection: Option<Connection>,
}

impl Nodes {
    /// The Node with this provider id; or, where none has, the Node of this name without any.
    pub(crate) fn find(&self, cluster: &Key, provider_id: Option<&str>, name: &str) -> Option<Arc<Node>> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let nodes = &rows.get(cluster)?.nodes;
        let id = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        let by_id = provider_id.and_then(|wanted| nodes.values().find(|node| id(node).as_deref() == Some(wanted)));
        by_id.or_else(|| nodes.get(name).filter(|node| id(node).is_none())).cloned()
    }

    /// Does the API answer?
    pub(crate) fn connection(&self, cluster: &Key) -> Connection {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.get(cluster).and_then(|workload| workload.connection.clone()).unwrap_or(Connection::Untried)
    }

    /// Takes up a Node; tells whether it is news.
    pub(crate) fn observe(&self, cluster: &Key, node: Node) -> bool {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let name = node.metadata.name.clone().unwrap_or_default();
        let nodes = &mut rows.entry(cluster.clone()).or_default().nodes;
        let news = nodes.get(&name).is_none_or(|before| telling(before) != telling(&node));
        nodes.insert(name, Arc::new(node));
        news
    }

    /// Forgets a Node.
    pub(crate) fn remove(&self, cluster: &Key, name: &str) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(workload) = rows.get_mut(cluster) {
            workload.nodes.remove(name);
        }
    }

    /// Names of all Nodes known of a cluster.
    pub(crate) fn names(&self, cluster: &Key) -> Vec<String> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.get(cluster).map(|workload| workload.nodes.keys().cloned().collect()).unwrap_or_default()
    }

    /// Notes whether the API answers; tells whether that is news.
    pub(crate) fn set_connection(&self, cluster: &Key, connection: Connection) -> bool {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let workload = rows.entry(cluster.clone()).or_default();
        let news = match (&workload.connection, &connection) {
            (Some(Connection::Down { .. }), Connection::Down { .. }) => false,
            (before, after) => before.as_ref() != Some(after),
        };
        if news {
            workload.connection = Some(connection);
        }
        news
    }

    /// Forgets a cluster.
    pub(crate) fn forget(&self, cluster: &Key) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}

/// What of a Node matters here: heartbeats do not.
fn telling(node: &Node) -> impl PartialEq + use<> {
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    let conditions: Vec<(String, String, String)> = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten()
        .map(|one| (one.type_.clone(), one.status.clone(), one.message.clone().unwrap_or_default()))
        .collect();
    (
        spec.and_then(|spec| spec.provider_id.clone()),
        spec.and_then(|spec| spec.unschedulable),
        status.and_then(|status| status.node_info.clone()),
        node.metadata.annotations.clone(),
        node.metadata.deletion_timestamp.clone(),
        conditions,
    )
}
