//! The in-memory twin does what every place must do, and fails as told.

mod conformance;

use std::time::Duration;

use windlass_providers::memory::Memory;
use windlass_providers::memory::faults::{Fault, Operation};
use windlass_providers::memory::life::Life;
use windlass_providers::ports::{MachineState, Provider, ProviderError};

use conformance::{machine, network, scope};

#[tokio::test]
async fn it_does_what_every_place_must_do() {
    let memory = Memory::default();
    conformance::names_and_addresses(&memory).await;
    conformance::owners(&memory).await;
    conformance::volumes(&memory, "image").await;
}

#[tokio::test]
async fn an_answer_lost_after_the_act_is_given_again() {
    let memory = Memory::default();
    let scope = scope("00000000000000d1", "lab", "one", 1);
    let lost = ProviderError::Unreachable { place: "memory".to_owned(), cause: "lost".to_owned() };
    memory.inject(Operation::EnsureNetwork, Fault::After(lost.clone()), 1);
    assert_eq!(memory.ensure_network(&scope, &network("lab")).await, Err(lost));
    assert!(memory.inventory(&scope).await.unwrap().network.is_some());
    assert!(memory.ensure_network(&scope, &network("lab")).await.is_ok());
    assert_eq!(memory.calls(), [Operation::EnsureNetwork, Operation::Inventory, Operation::EnsureNetwork]);
}

#[tokio::test]
async fn a_dead_machine_stays_dead_until_it_is_started() {
    let memory = Memory::new(Life { boot: Some(Duration::from_millis(20)), ready: None });
    let scope = scope("00000000000000d2", "lab", "one", 1);
    memory.ensure_network(&scope, &network("lab")).await.unwrap();
    memory.reserve(&scope, "lab-md-1", None).await.unwrap();
    let wish = machine("lab-md-1", None, "image", &[]);
    memory.ensure_machine(&scope, &wish).await.unwrap();
    let is = |state: MachineState| move |machine: &windlass_providers::ports::Machine| machine.state == state;
    let first = conformance::await_machine(&memory, &scope, "lab-md-1", is(MachineState::Running)).await;
    memory.kill(&scope.cluster_id, "lab-md-1").unwrap();
    let dead = memory.ensure_machine(&scope, &wish).await.unwrap();
    assert!(matches!(dead.state, MachineState::Stopped { .. }), "{dead:?}");
    memory.start(&scope.cluster_id, "lab-md-1").unwrap();
    let second = conformance::await_machine(&memory, &scope, "lab-md-1", is(MachineState::Running)).await;
    assert_ne!(first.boot_id, second.boot_id);
    assert_eq!(second.starts, 2);
}
