//! Deleting over the in-memory provider: from the inventory, broken at every step and run again; and through a real API
//! whose controllers never answer. It ends with nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use windlass_assets::{Cache, Digest, FileEntry, Lock};
use windlass_controllers::api::cluster_api::Cluster;
use windlass_controllers::api::windlass::WindlassCluster;
use windlass_engine::journal::Header;
use windlass_engine::{Cancel, Engine, EventKind, Events, Faults, Journal, Recorder, Stopped};
use windlass_providers::memory::Memory;
use windlass_providers::ports::{MachineWanted, NetworkWanted, Provider, ProviderError, Scope, VolumeWanted};
use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership, Role, Slot};
use windlass_testkit::api::TestApi;
use windlass_testkit::binaries;
use windlass_workflows::delete::{self, Delete, Way};
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};
use windlass_workflows::management;
use windlass_workflows::site::Site;

/// How long the tests let controllers be silent.
const PATIENCE: Duration = Duration::from_secs(1);

struct World {
    dir: tempfile::TempDir,
    memory: Memory,
    site: Site,
    recorder: Recorder,
}

fn scope(id: &str) -> Scope {
    let ownership = Ownership { owner: OwnerId::from(id), epoch: Epoch(1) };
    Scope { cluster_id: ClusterId::from(id), cluster: "lab".into(), ownership }
}

impl World {
    /// A create that was killed half-way: machines and volumes are there, files are there, the pointer says "creating".
    async fn interrupted_create() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("utf-8");
        let memory = Memory::default();
        let site = Site {
            state: root.join("state"),
            cache: root.join("cache"),
            run: root.join("run"),
            provider: Arc::new(memory.clone()),
            version: "0".into(),
        };
        let world = Self { dir, memory, site, recorder: Recorder::default() };
        world.raise("1").await;
        world.keep(Life::Creating, "1", Vec::new());
        let folder = world.folder();
        folder.write(&folder.generated().join("cluster.yaml"), "spec").expect("written");
        folder.write_private(&folder.kubeconfig(), "kubeconfig").expect("written");
        folder.write(&folder.spec(), "spec").expect("written");
        world
    }

    /// A cluster that was created and holds its own management, which nobody there acts on.
    async fn without_controllers(api: &TestApi) -> Self {
        let world = Self::interrupted_create().await;
        let kubeconfig = fs_err::read_to_string(api.kubeconfig()).expect("read");
        world.folder().write_private(&world.folder().kubeconfig(), &kubeconfig).expect("written");
        let pointer = Pointer { life: Life::Created, bundle: world.lay_bundle(), ..world.pointer("1") };
        world.site.registry().keep(&pointer).expect("kept");
        world
    }

    /// Lays a bundle of the programs for tests into the cache; returns its digest.
    fn lay_bundle(&self) -> String {
        let programs = ["etcd", "kube-apiserver", "kube-controller-manager"];
        let content = |program: &str| fs_err::read(binaries::find(program).expect("built")).expect("read");
        let entry = |program: &str| {
            let bytes = content(program);
            let size = u64::try_from(bytes.len()).expect("a size");
            FileEntry { sha256: Digest::of(&bytes), size, executable: true, install: None }
        };
        let lock = Lock {
            format: Lock::FORMAT,
            kubernetes: "1.37.2".into(),
            recipe: Digest::of(b""),
            toolchain: "go".into(),
            versions: BTreeMap::new(),
            debian_packages: BTreeMap::new(),
            images: BTreeMap::new(),
            files: programs.iter().map(|program| (format!("bin/{program}"), entry(program))).collect(),
        };
        let digest = lock.digest().expect("serialises");
        let folder = Cache::new(self.site.cache.as_std_path()).bundles().join(format!("1.37.2-{}", digest.short()));
        fs_err::create_dir_all(folder.join("bin")).expect("folder");
        fs_err::write(folder.join(Lock::FILE), lock.to_bytes().expect("serialises")).expect("written");
        for program in programs {
            let copy = folder.join("bin").join(program);
            fs_err::copy(binaries::find(program).expect("built"), copy).expect("copied");
        }
        digest.to_string()
    }

    async fn raise(&self, id: &str) {
        let scope = scope(id);
        let wanted = NetworkWanted {
            endpoint_port: 6443,
            endpoint_names: vec![],
            zone: "lab.windlass.internal".into(),
            avoid: vec![],
        };
        self.memory.ensure_network(&scope, &wanted).await.expect("network");
        for (name, role, slot) in [("lab-cp-a", Role::ControlPlane, Some(Slot::A)), ("lab-md-1", Role::Worker, None)] {
            self.memory.reserve(&scope, name, slot).await.expect("reserved");
            let volume = VolumeWanted { name: "etcd-main-a".into(), bytes: 1 << 20, slot };
            if slot.is_some() {
                self.memory.ensure_volume(&scope, &volume).await.expect("volume");
            }
            let wanted = MachineWanted {
                name: name.into(),
                role,
                slot,
                image: "image".into(),
                volumes: slot.map(|_| volume.name).into_iter().collect(),
                dns_names: vec![],
            };
            self.memory.ensure_machine(&scope, &wanted).await.expect("machine");
        }
    }

    fn folder(&self) -> ClusterFolder {
        ClusterFolder::new("lab", Utf8Path::from_path(self.dir.path()).expect("utf-8").join("lab"))
    }

    fn keep(&self, life: Life, id: &str, kept: Vec<Scope>) {
        self.site.registry().keep(&Pointer { life, kept, ..self.pointer(id) }).expect("kept");
    }

    fn pointer(&self, id: &str) -> Pointer {
        Pointer {
            format: Pointer::FORMAT,
            scope: scope(id),
            namespace: "default".into(),
            folder: self.folder().root().to_owned(),
            life: Life::Creating,
            created: Timestamp::now(),
            bundle: String::new(),
            spec_hash: String::new(),
            kept: Vec::new(),
            version: String::new(),
        }
    }

    async fn delete(&self, volumes: bool, faults: Faults) -> Result<(), Stopped> {
        let pointer = self.site.registry().find("lab").expect("read").expect("known");
        let delete = Delete::prepare(self.site.clone(), pointer, volumes).await.expect("allowed");
        let delete = Arc::new(delete.with_patience(PATIENCE));
        let header = Header {
            format: Header::FORMAT,
            operation: "delete".into(),
            subject: "lab".into(),
            version: "0".into(),
            at: Timestamp::now(),
            facts: delete.facts(),
            steps: vec![],
        };
        let journal = Journal::begin(&delete.journal_folder(), &header).expect("journal");
        let events = Events::new();
        events.add(self.recorder.clone());
        Engine { events, journal, cancel: Cancel::new(), faults }.run(&delete::workflow(), delete).await
    }

    async fn holds(&self, id: &str) -> Option<(usize, usize)> {
        let inventory = self.memory.inventory(&scope(id)).await.ok()?;
        Some((inventory.machines.len(), inventory.volumes.len()))
    }
}

#[tokio::test]
async fn whatever_step_breaks_the_same_command_ends_with_nothing() {
    let steps: Vec<String> = delete::workflow().summary().into_iter().map(|step| step.name).collect();
    for step in &steps {
        for faults in [
            Faults::none().fail_before(step),
            Faults::none().fail_after(step),
            Faults::none().crash_before(step),
            Faults::none().crash_after(step),
        ] {
            let world = World::interrupted_create().await;
            // Steps that are skipped cannot break.
            let _ = world.delete(true, faults.clone()).await;
            if world.site.registry().find("lab").expect("read").is_some() {
                world.delete(true, Faults::none().repeat_all()).await.expect("ends");
            }
            assert_eq!(world.holds("1").await, None, "{faults:?}");
            assert_eq!(world.site.registry().find("lab").expect("read"), None, "{faults:?}");
            let folder = world.folder();
            assert!(!folder.generated().exists() && !folder.kubeconfig().exists(), "{faults:?}");
            assert!(folder.spec().exists(), "what a person wrote stays");
            assert!(delete::was_deleted(&world.site.state, "lab"), "{faults:?}");
        }
    }
}

#[tokio::test]
async fn volumes_are_kept_until_they_are_asked_for_even_past_another_cluster_of_the_name() {
    let world = World::interrupted_create().await;
    world.delete(false, Faults::none()).await.expect("deleted");
    assert_eq!(world.holds("1").await, Some((0, 1)));
    let pointer = world.site.registry().find("lab").expect("read").expect("still known");
    assert_eq!(pointer.life, Life::Kept);

    // The name is free again; the new cluster remembers whose volumes were kept.
    world.raise("2").await;
    world.keep(Life::Creating, "2", vec![scope("1")]);
    world.delete(false, Faults::none()).await.expect("deleted");
    assert_eq!((world.holds("1").await, world.holds("2").await), (Some((0, 1)), Some((0, 1))));

    world.delete(true, Faults::none()).await.expect("deleted");
    assert_eq!((world.holds("1").await, world.holds("2").await), (None, None));
    assert_eq!(world.site.registry().find("lab").expect("read"), None);
    assert!(!delete::was_deleted(&world.site.state, "other"));
}

/// What a cluster that manages itself holds of itself; nobody has ever reported on it.
async fn populate(client: &Client) {
    management::definitions(client).await.expect("installed");
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "lab"},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}},
    });
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), "default");
    let cluster = serde_json::from_value(cluster).expect("a Cluster");
    clusters.create(&PostParams::default(), &cluster).await.expect("made");
    let ours = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "lab", "labels": {"cluster.x-k8s.io/cluster-name": "lab"}},
        "spec": {"provider": {"local": {}}},
    });
    let clusters: Api<WindlassCluster> = Api::namespaced(client.clone(), "default");
    let ours = serde_json::from_value(ours).expect("a Cluster");
    clusters.create(&PostParams::default(), &ours).await.expect("made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_never_answer_do_not_hold_up_a_delete() {
    let api = TestApi::start().await.expect("an API");
    populate(&api.client().await).await;
    let world = World::without_controllers(&api).await;
    let pointer = world.site.registry().find("lab").expect("read").expect("known");
    let delete = Delete::prepare(world.site.clone(), pointer, true).await.expect("allowed");
    assert!(matches!(delete.way(), Way::Management { .. }), "{:?}", delete.way());

    // Broken off when the machines are gone: whoever held management before may make no new ones.
    world.delete(true, Faults::none().fail_after("control-plane")).await.expect_err("broken on purpose");
    assert_eq!(world.holds("1").await, Some((0, 1)));
    let late = world.memory.reserve(&scope("1"), "lab-md-2", None).await;
    assert!(matches!(late, Err(ProviderError::Fenced { .. })), "{late:?}");
    let said = world.recorder.events().into_iter().any(|event| {
        matches!(event.event, EventKind::Notice { text, .. } if text.contains("controllers did not answer within 1 s"))
    });
    assert!(said, "a person is told");
    let pointer = world.site.registry().find("lab").expect("read").expect("known");
    assert_eq!(pointer.life, Life::Deleting, "there is no way back");

    world.delete(true, Faults::none()).await.expect("ends");
    assert_eq!(world.holds("1").await, None);
    assert_eq!(world.site.registry().find("lab").expect("read"), None);
    assert!(!world.folder().generated().exists() && !world.folder().kubeconfig().exists());

    // Not broken off, it ends in one go and leaves no bootstrap plane.
    let world = World::without_controllers(&api).await;
    world.delete(true, Faults::none()).await.expect("ends");
    assert_eq!(world.holds("1").await, None);
    assert_eq!(world.site.registry().find("lab").expect("read"), None);
    assert!(!world.folder().generated().exists());
}
