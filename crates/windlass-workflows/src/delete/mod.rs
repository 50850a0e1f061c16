//! Lowers a cluster, with its API or without: the list, and what its steps share.
//!
//! Inputs: what this computer knows of the cluster ([`Pointer`]), whether volumes go too. Output: nothing is left but
//! what was asked to be kept.
//!
//! With a living API management is moved back to a bootstrap plane, and the controllers here take the machines away in
//! their own order. Without one (or after a create that did not end) the same end is reached from the provider's
//! inventory, by cluster id; so it is when the API answers but management does not move.

mod lower;
mod way;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use windlass_engine::journal::Record;
use windlass_engine::{Context, Failure, Step, Workflow};
use windlass_providers::ports::{Inventory, ProviderError, Scope};

use crate::folder::{ClusterFolder, Life, Pointer};
use crate::machines::Follower;
use crate::newer::NewerWindlass;
use crate::pivot::Pivot;
use crate::seat::Seat;
use crate::site::Site;
pub use way::Way;

/// How long controllers may take to report a pause or its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is there to lower, for the question before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belongings {
    /// Machines by name.
    pub machines: Vec<String>,
    /// Volumes by name, those of earlier clusters of the name included.
    pub volumes: Vec<String>,
}

/// What the steps of a delete share.
#[derive(Debug)]
pub struct Delete {
    site: Site,
    pointer: Pointer,
    folder: ClusterFolder,
    scope: Scope,
    way: Way,
    delete_volumes: bool,
    seat: Seat,
    machines: OnceLock<Follower>,
    patience: Duration,
    moved: AtomicBool,
    /// Why the inventory decides though the delete began through management.
    given_up: OnceLock<String>,
}

type Cx = Context<Delete>;

/// The list.
pub fn workflow() -> Workflow<Delete> {
    Workflow::new("delete")
        .then(Step::new("set-up", "Set up", lower::set_up))
        .then(
            Step::new("bootstrap-plane", "Start a bootstrap plane", lower::plane)
                .skip_if(Delete::without_api)
                .undo(lower::stop_plane),
        )
        .then(
            Step::new("providers", "Definitions and controllers", lower::providers)
                .skip_if(Delete::without_api)
                .undo(lower::stop_controllers),
        )
        .then(
            Step::new("pivot-pause", "Pause management on the cluster", lower::pause)
                .skip_if(Delete::without_api)
                .undo(lower::resume),
        )
        .then(
            Step::new("pivot-copy", "Copy management here and verify", lower::copy).skip_if(Delete::without_management),
        )
        .then(Step::new("pivot-switch", "Management is here", lower::switch).skip_if(Delete::without_management))
        .then(Step::new("workers", "Workers", lower::workers))
        .then(Step::new("control-plane", "Control plane", lower::control_plane))
        .then(Step::new("volumes", "Volumes", lower::volumes))
        .then(Step::new("infrastructure", "Infrastructure", lower::infrastructure))
        .then(Step::new("plane-retire", "Delete the bootstrap plane", lower::retire).skip_if(Delete::without_api))
        .then(Step::new("folder", "Generated files", lower::folder))
}

/// Why a delete does not begin.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Other clusters would lose their manager.
    #[error("the cluster manages others: {}; delete or move them first", clusters.join(", "))]
    Manager {
        /// Their names.
        clusters: Vec<String>,
    },
    /// A newer Windlass has changed it.
    #[error(transparent)]
    Newer(#[from] NewerWindlass),
}

impl Delete {
    /// A delete that has not begun: finds the way.
    pub async fn prepare(site: Site, pointer: Pointer, delete_volumes: bool) -> Result<Self, Refusal> {
        let folder = ClusterFolder::new(&pointer.scope.cluster, pointer.folder.clone());
        let way = way::find(&site, &pointer, &folder).await?;
        Ok(Self {
            scope: pointer.scope.clone(),
            site,
            pointer,
            folder,
            way,
            delete_volumes,
            seat: Seat::default(),
            machines: OnceLock::new(),
            patience: PATIENCE,
            moved: AtomicBool::new(false),
            given_up: OnceLock::new(),
        })
    }

    /// Gives controllers this long to report a pause or its end, instead of a minute.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &ClusterFolder {
        &self.folder
    }

    /// Where the journals of deletes lie: not in the cluster's folder, which may be lost.
    pub fn journal_folder(&self) -> Utf8PathBuf {
        journal_folder(&self.site.state, &self.scope.cluster)
    }

    /// The way that was found.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Facts for the journal.
    pub fn facts(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("clusterId".to_owned(), self.scope.cluster_id.to_string()),
            ("way".to_owned(), format!("{:?}", self.way)),
            ("deleteVolumes".to_owned(), self.delete_volumes.to_string()),
        ])
    }

    /// What is there.
    pub async fn belongings(site: &Site, pointer: &Pointer) -> Result<Belongings, ProviderError> {
        let mut all = Belongings::default();
        for scope in pointer.kept.iter().chain([&pointer.scope]) {
            if let Some(inventory) = held(site, scope).await? {
                all.machines.extend(inventory.machines.iter().map(|machine| machine.name.clone()));
                all.volumes.extend(inventory.volumes.iter().map(|volume| volume.name.clone()));
            }
        }
        Ok(all)
    }

    fn without_api(&self) -> Option<String> {
        match &self.way {
            Way::Management { .. } => None,
            Way::Inventory { reason } => Some(reason.clone()),
        }
    }

    fn without_management(&self) -> Option<String> {
        self.without_api().or_else(|| self.given_up.get().cloned())
    }

    /// Do the controllers here take the machines away?
    fn is_managed_here(&self) -> bool {
        self.moved.load(Ordering::SeqCst) && self.given_up.get().is_none()
    }

    /// From here on the inventory decides. The controllers here end, whatever they were at.
    async fn give_up_management(&self, reason: &str) {
        let _ = self.given_up.set(reason.to_owned());
        self.seat.vacate().await;
    }

    fn remember(&self, life: Life, kept: Vec<Scope>) -> Result<(), Failure> {
        let pointer = Pointer { life, kept, ..self.pointer.clone() };
        self.site.registry().keep(&pointer).map_err(|error| Failure::from_error("failed to note the cluster", &error))
    }

    async fn pivot(&self) -> Result<Pivot, Failure> {
        let Way::Management { client, .. } = &self.way else {
            return Err(Failure::failed("the cluster's API is not used"));
        };
        let (name, namespace) = (&self.scope.cluster, &self.pointer.namespace);
        Ok(Pivot::new(client.clone(), self.seat.client().await?, name, namespace, self.patience))
    }
}

fn journal_folder(state: &Utf8Path, cluster: &str) -> Utf8PathBuf {
    state.join("journal").join(cluster)
}

/// Was a cluster of this name deleted before?
pub fn was_deleted(state: &Utf8Path, cluster: &str) -> bool {
    Record::newest(&journal_folder(state, cluster)).is_ok_and(|newest| newest.is_some())
}

/// What the provider holds; none when nothing.
async fn held(site: &Site, scope: &Scope) -> Result<Option<Inventory>, ProviderError> {
    match site.provider.inventory(scope).await {
        Ok(inventory) => Ok(Some(inventory)),
        Err(ProviderError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a failed delete leaves, and how to go on.
pub async fn epilogue(delete: &Arc<Delete>, mut failure: Failure) -> Failure {
    let name = &delete.scope.cluster;
    if let Ok(left) = Delete::belongings(&delete.site, &delete.pointer).await {
        for machine in left.machines {
            failure = failure.leaves(format!("machine {machine}"));
        }
        for volume in left.volumes {
            failure = failure.leaves(format!("volume {volume}"));
        }
    }
    let volumes = if delete.delete_volumes { " --delete-volumes" } else { "" };
    failure.next(format!("windlass delete cluster {name}{volumes} --yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_reverse_of_a_create() {
        let workflow = workflow();
        workflow.order().expect("each step begins after one before it");
        let list: Vec<String> = workflow.summary().iter().map(|step| step.title.clone()).collect();
        insta::assert_snapshot!(list.join("\n"), @r"
        Set up
        Start a bootstrap plane
        Definitions and controllers
        Pause management on the cluster
        Copy management here and verify
        Management is here
        Workers
        Control plane
        Volumes
        Infrastructure
        Delete the bootstrap plane
        Generated files
        ");
    }
}
