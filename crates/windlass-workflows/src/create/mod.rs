//! Creates a management cluster from nothing: the list, and what its steps share.
//!
//! Inputs: a validated spec, a [`Site`]. Output: a cluster that manages itself, its folder, no bootstrap plane.
//!
//! ```text
//! set-up - bundle - bootstrap-plane - providers - cluster-objects - etcd - control-plane - kubeconfig
//!    kubeconfig -+- networking, storage-class ------------------------------------------+- gitops - packages - files
//!                +- machines-ready - target-providers - target-controllers -+           |
//!    cluster-objects - health-checks --------------+- pivot-pause - -copy - -switch -+- plane-retire, healthy
//! ```

mod finish;
mod raise;
mod target;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use camino::Utf8PathBuf;
use jiff::Timestamp;
use kube::Client;
use windlass_engine::{Context, Failure, FailureKind, Retry, Step, Workflow};
use windlass_providers::ports::{ProviderError, Scope};
use windlass_spec::full::FullCluster;
use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership};
use windlass_spec::{names, v1alpha1};

use crate::content::Content;
use crate::folder::{ClusterFolder, Life, Pointer};
use crate::machines::Follower;
use crate::management;
use crate::pivot::Pivot;
use crate::seat::Seat;
use crate::site::Site;

/// Name of the step that has or builds the bundle.
pub const BUNDLE: &str = "bundle";

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    /// The document as the user wrote it.
    pub text: String,
    /// The same, loaded and validated.
    pub cluster: v1alpha1::Cluster,
    /// Kubernetes version it resolves to: `1.37.2`.
    pub kubernetes: String,
    /// Hash of what is wanted.
    pub spec_hash: String,
    /// The cluster's folder.
    pub folder: Utf8PathBuf,
    /// Clusters of this name that are gone but whose volumes were kept.
    pub kept: Vec<Scope>,
}

/// What the steps of a create share.
#[derive(Debug)]
pub struct Create {
    site: Site,
    request: Request,
    folder: ClusterFolder,
    scope: Scope,
    content: OnceLock<Content>,
    full: OnceLock<FullCluster>,
    machines: OnceLock<Follower>,
    seat: Seat,
    target: OnceLock<Target>,
    switched: AtomicBool,
}

/// The API of the cluster that comes up.
#[derive(Clone)]
struct Target {
    client: Client,
    kubeconfig: String,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

type Cx = Context<Create>;

/// The list.
pub fn workflow() -> Workflow<Create> {
    let retry = Retry { attempts: 3, pause: std::time::Duration::from_secs(1) };
    Workflow::new("create")
        .then(Step::new("set-up", "Set up and validate", raise::set_up))
        .then(Step::new(BUNDLE, "Bundle and machine image", raise::bundle))
        .then(Step::new("bootstrap-plane", "Start the bootstrap plane", raise::plane).undo(raise::stop_plane))
        .then(Step::new("before-providers", "Provider hooks before its controllers", raise::nothing).skip_if(no_hook))
        .then(Step::new("providers", "Definitions and controllers", raise::providers).undo(raise::stop_controllers))
        .then(Step::new("after-providers", "Provider hooks after its controllers", raise::nothing).skip_if(no_hook))
        .then(Step::new("cluster-objects", "Cluster objects", raise::objects).retry(retry))
        .then(Step::new("etcd", "etcd", raise::etcd))
        .then(Step::new("control-plane", "Control plane", raise::control_plane))
        .then(Step::new("kubeconfig", "Kubeconfig", raise::kubeconfig))
        .then(Step::new("networking", "Networking", raise::networking))
        .then(
            Step::new("storage-class", "StorageClass", raise::storage_class).after(&["kubeconfig"]).skip_if(no_storage),
        )
        .then(Step::new("machines-ready", "Machines ready", raise::machines_ready).after(&["kubeconfig"]))
        .then(Step::new("health-checks", "Machine health checks", raise::health_checks).after(&["cluster-objects"]))
        // Not sooner: each definition costs every API server, while its machines still come up.
        .then(
            Step::new("target-providers", "Definitions and inventory on the cluster", target::providers)
                .after(&["machines-ready"])
                .retry(retry),
        )
        .then(Step::new("target-controllers", "Controllers on the cluster", target::controllers))
        .then(
            Step::new("pivot-pause", "Pause management here", target::pause)
                .after(&["target-controllers", "health-checks"])
                .undo(target::resume),
        )
        .then(Step::new("pivot-copy", "Copy management to the cluster and verify", target::copy))
        .then(Step::new("pivot-switch", "The cluster manages itself", target::switch))
        .then(Step::new("plane-retire", "Delete the bootstrap plane", target::retire))
        .then(Step::new("healthy", "The cluster calls itself available", target::healthy).after(&["pivot-switch"]))
        .then(
            Step::new("gitops", "GitOps manager", raise::nothing)
                .after(&["healthy", "networking", "storage-class"])
                .skip_if(|_| Some("not configured".into())),
        )
        .then(Step::new("packages", "Curated packages", raise::nothing).skip_if(|_| Some("not configured".into())))
        .then(Step::new("files", "Specs and kubeconfig", finish::files).after(&["packages", "plane-retire"]))
}

fn no_hook(_: &Create) -> Option<String> {
    Some("the local provider has none".into())
}

fn no_storage(create: &Create) -> Option<String> {
    let off = create.full().is_ok_and(|full| !full.addons.local_path);
    off.then(|| "local-path is off".into())
}

impl Create {
    /// A create that has not begun. Gives the cluster its identity for life.
    pub fn new(site: Site, request: Request) -> Self {
        let id = format!("{:016x}", rand::random::<u64>());
        let ownership = Ownership { owner: OwnerId(id.clone()), epoch: Epoch(1) };
        let scope = Scope { cluster_id: ClusterId(id), cluster: request.cluster.metadata.name.clone(), ownership };
        let folder = ClusterFolder::new(&scope.cluster, request.folder.clone());
        Self {
            site,
            request,
            folder,
            scope,
            content: OnceLock::new(),
            full: OnceLock::new(),
            machines: OnceLock::new(),
            seat: Seat::default(),
            target: OnceLock::new(),
            switched: AtomicBool::new(false),
        }
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &ClusterFolder {
        &self.folder
    }

    /// Facts for the journal.
    pub fn facts(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("clusterId".to_owned(), self.scope.cluster_id.to_string()),
            ("specHash".to_owned(), self.request.spec_hash.clone()),
            ("folder".to_owned(), self.folder.root().to_string()),
        ])
    }

    /// Keeps what this computer knows of the cluster.
    fn remember(&self, life: Life) -> Result<(), Failure> {
        let pointer = Pointer {
            format: Pointer::FORMAT,
            scope: self.scope.clone(),
            namespace: self.request.cluster.namespace().to_owned(),
            folder: self.folder.root().to_owned(),
            life,
            created: Timestamp::now(),
            bundle: self.content.get().map(|content| content.release.bundle.clone()).unwrap_or_default(),
            spec_hash: self.request.spec_hash.clone(),
            kept: self.request.kept.clone(),
            version: self.site.version.clone(),
        };
        self.site.registry().keep(&pointer).map_err(|error| Failure::from_error("failed to note the cluster", &error))
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.scope.cluster
    }

    fn namespace(&self) -> &str {
        self.request.cluster.namespace()
    }

    fn content(&self) -> Result<&Content, Failure> {
        self.content.get().ok_or_else(|| missing("the bundle"))
    }

    fn full(&self) -> Result<&FullCluster, Failure> {
        self.full.get().ok_or_else(|| missing("the full spec"))
    }

    fn machines(&self) -> Result<&Follower, Failure> {
        self.machines.get().ok_or_else(|| missing("the machines' follower"))
    }

    fn target(&self) -> Result<&Target, Failure> {
        self.target.get().ok_or_else(|| missing("the cluster's kubeconfig"))
    }

    /// May the cluster's own controllers be at work?
    fn switched(&self) -> bool {
        self.switched.load(Ordering::SeqCst)
    }

    async fn pivot(&self) -> Result<Pivot, Failure> {
        let target = self.target()?.client.clone();
        Ok(Pivot::new(self.seat.client().await?, target, self.name(), self.namespace(), target::PATIENCE))
    }

    fn control_plane_names(&self) -> Result<Vec<String>, Failure> {
        let slots = &self.full()?.control_plane.slots;
        Ok(slots.iter().map(|&slot| names::control_plane_machine(self.name(), slot)).collect())
    }

    fn machine_count(&self) -> Result<usize, Failure> {
        let full = self.full()?;
        let workers: u32 = full.workers.iter().map(|group| group.count).sum();
        Ok(full.control_plane.slots.len() + usize::try_from(workers).unwrap_or(usize::MAX))
    }
}

/// A step ran before what it needs: a mistake of the list.
fn missing(what: &str) -> Failure {
    Failure::failed(format!("{what} is not there yet"))
}

/// A provider's refusal with its sort.
pub(crate) fn provider_failure(operation: &str, error: &ProviderError) -> Failure {
    let mut failure = Failure::from_error(operation, error);
    if let ProviderError::Ground { missing, remedy } = error {
        failure = Failure::new(FailureKind::Ground, missing.clone()).next(remedy.clone());
    }
    failure
}

/// What a create finds under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: go on. Volumes of earlier clusters of this name may have been kept.
    Nothing {
        /// Their clusters.
        kept: Vec<Scope>,
    },
    /// It was created from the same spec.
    Same,
    /// It was created from another spec.
    Other,
    /// An operation on it has not ended well.
    Unfinished(Life),
}

/// Judges what is known of the name.
pub fn judge(pointer: Option<&Pointer>, spec_hash: &str) -> Found {
    match pointer {
        None => Found::Nothing { kept: Vec::new() },
        Some(pointer) => match pointer.life {
            Life::Kept => {
                Found::Nothing { kept: pointer.kept.iter().cloned().chain([pointer.scope.clone()]).collect() }
            }
            Life::Created if pointer.spec_hash == spec_hash => Found::Same,
            Life::Created => Found::Other,
            life @ (Life::Creating | Life::Deleting) => Found::Unfinished(life),
        },
    }
}

/// A hash over what the user wants.
pub fn spec_hash(cluster: &v1alpha1::Cluster) -> Result<String, Failure> {
    management::spec_hash(cluster).map_err(|error| Failure::from_error("failed to hash the spec", &error))
}

/// What a failed create leaves, and how to go on.
pub async fn epilogue(create: &Arc<Create>, mut failure: Failure) -> Failure {
    let name = create.name();
    if create.site.registry().find(name).is_ok_and(|pointer| pointer.is_none()) {
        return failure;
    }
    let held = create.site.provider.inventory(&create.scope).await.ok();
    for machine in held.iter().flat_map(|inventory| &inventory.machines) {
        failure = failure.leaves(format!("machine {}", machine.name));
    }
    for volume in held.iter().flat_map(|inventory| &inventory.volumes) {
        failure = failure.leaves(format!("volume {}", volume.name));
    }
    failure
        .leaves(format!("logs in {}", create.folder.logs()))
        .next(format!("windlass logs {name}"))
        .next(format!("windlass delete cluster {name} --delete-volumes --yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(life: Life) -> Pointer {
        let text = include_str!("../../tests/fixtures/pointer-1.json");
        Pointer { life, ..serde_json::from_str(text).expect("understood") }
    }

    #[test]
    fn the_list_is_in_order_and_reads_as_people_of_this_field_know_it() {
        let workflow = workflow();
        workflow.order().expect("each step begins after one before it");
        let list: Vec<String> =
            workflow.summary().iter().map(|step| format!("{:18} {}", step.name, step.title)).collect();
        insta::assert_snapshot!(list.join("\n"), @r"
        set-up             Set up and validate
        bundle             Bundle and machine image
        bootstrap-plane    Start the bootstrap plane
        before-providers   Provider hooks before its controllers
        providers          Definitions and controllers
        after-providers    Provider hooks after its controllers
        cluster-objects    Cluster objects
        etcd               etcd
        control-plane      Control plane
        kubeconfig         Kubeconfig
        networking         Networking
        storage-class      StorageClass
        machines-ready     Machines ready
        health-checks      Machine health checks
        target-providers   Definitions and inventory on the cluster
        target-controllers Controllers on the cluster
        pivot-pause        Pause management here
        pivot-copy         Copy management to the cluster and verify
        pivot-switch       The cluster manages itself
        plane-retire       Delete the bootstrap plane
        healthy            The cluster calls itself available
        gitops             GitOps manager
        packages           Curated packages
        files              Specs and kubeconfig
        ");
    }

    #[test]
    fn what_is_found_decides_what_a_create_does() {
        assert_eq!(judge(None, "sha256:11"), Found::Nothing { kept: vec![] });
        assert_eq!(judge(Some(&pointer(Life::Created)), "sha256:11"), Found::Same);
        assert_eq!(judge(Some(&pointer(Life::Created)), "sha256:22"), Found::Other);
        assert_eq!(judge(Some(&pointer(Life::Creating)), "sha256:11"), Found::Unfinished(Life::Creating));
        let Found::Nothing { kept } = judge(Some(&pointer(Life::Kept)), "sha256:11") else { panic!("may be created") };
        assert_eq!(kept.len(), 1);
    }
}
