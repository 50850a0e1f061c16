//! What every place must do, run against the twin and against real machines.

use std::time::Duration;

use windlass_providers::ports::{
    Inventory, Machine, MachineState, MachineWanted, NetworkWanted, Provider, ProviderError, Scope, VolumeWanted,
};
use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership, Role, Slot};

/// The scope of a test's cluster.
pub(crate) fn scope(id: &str, name: &str, owner: &str, epoch: u64) -> Scope {
    Scope {
        cluster_id: ClusterId::from(id),
        cluster: name.to_owned(),
        ownership: Ownership { owner: OwnerId::from(owner), epoch: Epoch(epoch) },
    }
}

/// A network wish.
pub(crate) fn network(name: &str) -> NetworkWanted {
    NetworkWanted {
        endpoint_port: 6443,
        endpoint_names: vec![format!("api.{name}.windlass.internal")],
        zone: format!("{name}.windlass.internal"),
        avoid: vec!["10.244.0.0/16".parse().expect("a range")],
    }
}

/// A control plane in slot a, or a worker.
pub(crate) fn machine(name: &str, slot: Option<Slot>, image: &str, volumes: &[&str]) -> MachineWanted {
    MachineWanted {
        name: name.to_owned(),
        role: if slot.is_some() { Role::ControlPlane } else { Role::Worker },
        slot,
        image: image.to_owned(),
        volumes: volumes.iter().map(|&volume| volume.to_owned()).collect(),
        dns_names: Vec::new(),
    }
}

/// Waits until a machine is in such a state.
pub(crate) async fn await_machine(
    provider: &dyn Provider,
    scope: &Scope,
    name: &str,
    right: impl Fn(&Machine) -> bool,
) -> Machine {
    let mut seen = 0;
    let waiting = async {
        loop {
            let inventory = provider.watch(scope, seen).await.expect("an inventory");
            seen = inventory.revision;
            if let Some(machine) = find(&inventory, name).filter(|machine| right(machine)) {
                return machine.clone();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("the machine's state in time")
}

/// A machine of an inventory.
pub(crate) fn find<'a>(inventory: &'a Inventory, name: &str) -> Option<&'a Machine> {
    inventory.machines.iter().find(|machine| machine.name == name)
}

fn conflicts<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
    let result = result.map(drop);
    assert!(matches!(result, Err(ProviderError::Conflict { .. })), "{result:?}");
}

fn absent<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
    let result = result.map(drop);
    assert!(matches!(result, Err(ProviderError::NotFound { .. })), "{result:?}");
}

fn fenced<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
    let result = result.map(drop);
    assert!(matches!(result, Err(ProviderError::Fenced { .. })), "{result:?}");
}

/// Networks and names: made twice is as good as once, what differs is refused, slots keep their addresses.
pub(crate) async fn names_and_addresses(provider: &dyn Provider) {
    let scope = scope("00000000000000c1", "names", "one", 1);
    absent(provider.inventory(&scope).await);
    absent(provider.reserve(&scope, "names-cp-a", Some(Slot::A)).await);
    let made = provider.ensure_network(&scope, &network("names")).await.expect("a network");
    assert_eq!(provider.ensure_network(&scope, &network("names")).await.expect("the same"), made);
    conflicts(provider.ensure_network(&scope, &NetworkWanted { endpoint_port: 443, ..network("names") }).await);
    let other = self::scope("00000000000000c2", "names", "one", 1);
    conflicts(provider.ensure_network(&other, &network("names")).await);

    let first = provider.reserve(&scope, "names-cp-a", Some(Slot::A)).await.expect("a reservation");
    assert_eq!(provider.reserve(&scope, "names-cp-a", Some(Slot::A)).await.expect("the same"), first);
    conflicts(provider.reserve(&scope, "names-cp-a", None).await);
    conflicts(provider.reserve(&scope, "names-cp-x", Some(Slot::A)).await);
    let worker = provider.reserve(&scope, "names-md-1", None).await.expect("a reservation");
    assert!(made.subnet.contains(&first.address) && made.subnet.contains(&worker.address));
    assert_ne!(first.address, worker.address);
    assert!(first.provider_id.starts_with("windlass-local://"));

    conflicts(provider.delete_network(&scope).await);
    provider.delete_machine(&scope, "names-cp-a").await.expect("gone");
    provider.delete_machine(&scope, "names-cp-a").await.expect("gone already");
    let next = provider.reserve(&scope, "names-cp-y", Some(Slot::A)).await.expect("the slot is free");
    assert_eq!(next.address, first.address, "a slot keeps its address for life");
    assert_ne!(next.provider_id, first.provider_id, "another machine");
    for machine in ["names-cp-y", "names-md-1"] {
        provider.delete_machine(&scope, machine).await.expect("gone");
    }
    provider.delete_network(&scope).await.expect("gone");
    absent(provider.inventory(&scope).await);
    provider.delete_network(&scope).await.expect("gone already");
}

/// Owners: lower epochs are refused and told who is newer, the same epoch has one owner, reading is free.
pub(crate) async fn owners(provider: &dyn Provider) {
    let first = scope("00000000000000c3", "owners", "one", 1);
    let second = scope("00000000000000c3", "owners", "two", 2);
    provider.ensure_network(&first, &network("owners")).await.expect("a network");
    conflicts(provider.reserve(&scope("00000000000000c3", "owners", "two", 1), "owners-md-1", None).await);
    provider.credential(&second).await.expect("a credential, which fences nobody");
    provider.reserve(&first, "owners-md-1", None).await.expect("still the owner");
    provider.reserve(&second, "owners-md-2", None).await.expect("the next owner");
    fenced(provider.reserve(&first, "owners-md-3", None).await);
    fenced(provider.delete_machine(&first, "owners-md-1").await);
    fenced(provider.delete_network(&first).await);
    let seen = provider.inventory(&first).await.expect("reading is free");
    assert_eq!(seen.scope.ownership, second.ownership);
    for machine in ["owners-md-1", "owners-md-2"] {
        provider.delete_machine(&second, machine).await.expect("gone");
    }
    provider.delete_network(&second).await.expect("gone");
}

/// Volumes: kept with their content, one machine each, attached also later, removed only when free.
pub(crate) async fn volumes(provider: &dyn Provider, image: &str) {
    let scope = scope("00000000000000c4", "volumes", "one", 1);
    provider.ensure_network(&scope, &network("volumes")).await.expect("a network");
    let wanted = |name: &str| VolumeWanted { name: name.to_owned(), bytes: 64 << 20, slot: Some(Slot::A) };
    let made = provider.ensure_volume(&scope, &wanted("etcd-main-a")).await.expect("a volume");
    assert_eq!(provider.ensure_volume(&scope, &wanted("etcd-main-a")).await.expect("the same"), made);
    conflicts(provider.ensure_volume(&scope, &VolumeWanted { bytes: 1 << 20, ..wanted("etcd-main-a") }).await);

    provider.reserve(&scope, "volumes-cp-a", Some(Slot::A)).await.expect("a reservation");
    provider.reserve(&scope, "volumes-md-1", None).await.expect("a reservation");
    absent(provider.ensure_machine(&scope, &machine("volumes-cp-b", None, image, &[])).await);
    absent(provider.ensure_machine(&scope, &machine("volumes-cp-a", Some(Slot::A), image, &["none"])).await);
    let wish = machine("volumes-cp-a", Some(Slot::A), image, &["etcd-main-a"]);
    provider.ensure_machine(&scope, &wish).await.expect("a machine");
    let running = await_machine(provider, &scope, "volumes-cp-a", |m| m.state == MachineState::Running).await;
    assert_eq!((running.starts, running.volumes.as_slice()), (1, &["etcd-main-a".to_owned()][..]));
    let again = provider.ensure_machine(&scope, &wish).await.expect("the same machine");
    assert_eq!((again.boot_id, again.starts), (running.boot_id, 1));

    conflicts(provider.ensure_machine(&scope, &machine("volumes-md-1", None, image, &["etcd-main-a"])).await);
    conflicts(provider.delete_volume(&scope, "etcd-main-a").await);
    provider.ensure_volume(&scope, &wanted("data-a")).await.expect("a second volume");
    let more = machine("volumes-cp-a", Some(Slot::A), image, &["etcd-main-a", "data-a"]);
    let grown = provider.ensure_machine(&scope, &more).await.expect("attached while it runs");
    assert_eq!((grown.volumes.len(), grown.starts), (2, 1));
    conflicts(provider.ensure_machine(&scope, &wish).await);

    provider.delete_machine(&scope, "volumes-cp-a").await.expect("gone");
    let left = provider.inventory(&scope).await.expect("an inventory");
    assert!(left.volumes.iter().all(|volume| volume.attached_to.is_none()) && left.volumes.len() == 2);
    provider.delete_machine(&scope, "volumes-md-1").await.expect("gone");
    provider.delete_network(&scope).await.expect("gone");
    let left = provider.inventory(&scope).await.expect("the cluster is remembered for its volumes");
    assert_eq!((left.network, left.volumes.len()), (None, 2));
    for volume in ["etcd-main-a", "data-a", "data-a"] {
        provider.delete_volume(&scope, volume).await.expect("gone");
    }
    absent(provider.inventory(&scope).await);
}
