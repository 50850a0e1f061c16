//! Deleting from the inventory over the in-memory provider: broken at every step and run again, it ends with nothing.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use windlass_engine::journal::Header;
use windlass_engine::{Cancel, Engine, Events, Faults, Journal, Recorder, Stopped};
use windlass_providers::memory::Memory;
use windlass_providers::ports::{MachineWanted, NetworkWanted, Provider, Scope, VolumeWanted};
use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership, Role, Slot};
use windlass_workflows::delete::{self, Delete};
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};
use windlass_workflows::site::Site;

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
        let pointer = Pointer {
            format: Pointer::FORMAT,
            scope: scope(id),
            namespace: "default".into(),
            folder: self.folder().root().to_owned(),
            life,
            created: Timestamp::now(),
            bundle: String::new(),
            spec_hash: String::new(),
            kept,
        };
        self.site.registry().keep(&pointer).expect("kept");
    }

    async fn delete(&self, volumes: bool, faults: Faults) -> Result<(), Stopped> {
        let pointer = self.site.registry().find("lab").expect("read").expect("known");
        let delete = Arc::new(Delete::prepare(self.site.clone(), pointer, volumes).await.expect("allowed"));
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
