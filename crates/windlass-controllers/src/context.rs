//! What every controller works with.

use std::sync::Arc;

use kube::Client;
use windlass_providers::ports::{Provider, Scope};
use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership};

use crate::api::Time;
use crate::api::names;
use crate::index::{Index, Key};
use crate::objects;
use crate::runtime::events::Events;
use crate::runtime::metrics::Metrics;
use crate::runtime::workers::Queues;
use crate::runtime::workload::Workloads;
use crate::runtime::writer::Writer;

/// What every controller works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) index: Arc<Index>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) writer: Writer,
    pub(crate) workloads: Workloads,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) node_deletions: crate::machine::NodeDeletions,
    pub(crate) authorities: crate::control_plane::AuthorityCache,
    pub(crate) inventories: crate::local_cluster::InventoryWatches,
}

impl Context {
    /// Now, to the second.
    pub(crate) fn now(&self) -> Time {
        Time::new(jiff::Timestamp::now())
    }

    /// By which right the provider is asked about a cluster: the identity on Windlass's Cluster, or on the LocalCluster
    /// where that one is gone.
    pub(crate) fn scope(&self, cluster: &Key) -> Option<Scope> {
        if let Some(object) = self.index.windlass_clusters.get(cluster)
            && let Some(scope) = scope_of(&*object, &cluster.name)
        {
            return Some(scope);
        }
        let object = self.index.local_clusters.get(cluster)?;
        scope_of(&*object, &cluster.name)
    }
}

/// The identity an object carries in its annotations.
pub(crate) fn scope_of<K: kube::Resource>(object: &K, cluster: &str) -> Option<Scope> {
    let cluster_id = objects::annotation(object, names::CLUSTER_ID)?;
    let owner = objects::annotation(object, names::OWNER).unwrap_or(cluster_id);
    let epoch = objects::annotation(object, names::EPOCH).and_then(|text| text.parse().ok()).unwrap_or(1);
    Some(Scope {
        cluster_id: ClusterId(cluster_id.to_owned()),
        cluster: cluster.to_owned(),
        ownership: Ownership { owner: OwnerId(owner.to_owned()), epoch: Epoch(epoch) },
    })
}
