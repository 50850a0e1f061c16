//! The whole life of a cluster's objects: create, Ready, scale, a Machine deleted, pause, restart, delete.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;
use windlass_controllers::api::cluster_api::{
    Cluster, Machine, MachineDeployment, MachineHealthCheck, MachinePool, MachineSet,
};
use windlass_controllers::api::windlass::{ControlPlane, LocalCluster, LocalMachine, NodeConfig, WindlassCluster};
use windlass_controllers::api::{Conditions, names};
use windlass_providers::ports::Provider;
use windlass_spec::identity::ClusterId;
use windlass_spec::node_config::EtcdPermit;

use crate::world::{World, scope};

fn is_true(conditions: Option<&Conditions>, type_: &str) -> bool {
    conditions.is_some_and(|conditions| conditions.is_true(type_))
}

async fn until_available(world: &World) -> Result<()> {
    world
        .until::<WindlassCluster>("lab", "Available", |cluster| {
            is_true(cluster.status.as_ref().map(|status| &status.conditions), "Available")
        })
        .await?;
    Ok(())
}

async fn until_workers(world: &World, count: i32) -> Result<()> {
    world
        .until::<MachineDeployment>("lab-md", "complete", |deployment| {
            deployment.status.as_ref().is_some_and(|status| {
                status.available_replicas == Some(count)
                    && status.replicas == Some(count)
                    && status.observed_generation == deployment.metadata.generation
            })
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_lives_and_dies() -> Result<()> {
    let Some(mut world) = World::new().await? else { return Ok(()) };
    let begun = Instant::now();
    world.create_cluster(3, 2).await?;
    until_available(&world).await?;
    until_workers(&world, 2).await?;
    eprintln!("3 + 2 available after {:?}", begun.elapsed());

    let mut machines = world.names::<Machine>().await?;
    machines.sort();
    assert_eq!(machines, ["lab-cp-a", "lab-cp-b", "lab-cp-c", "lab-md-1", "lab-md-2"]);
    every_machine_is_ready(&world).await?;
    etcd_was_formed_once(&world).await?;
    scaling_holds(&world).await?;
    a_deleted_machine_comes_back(&world).await?;
    a_paused_cluster_stands_still(&world).await?;
    a_restart_changes_nothing(&mut world).await?;
    lost_finalizers_and_owners_come_back(&world).await?;
    deletion_leaves_volumes(&world).await
}

async fn every_machine_is_ready(world: &World) -> Result<()> {
    for name in world.names::<Machine>().await? {
        let machine = world
            .until::<Machine>(&name, "Ready", |machine| {
                let conditions = machine.status.as_ref().map(|status| &status.conditions);
                is_true(conditions, "Ready") && is_true(conditions, "Available") && is_true(conditions, "UpToDate")
            })
            .await?;
        let status = machine.status.context("no status")?;
        let ready = status.conditions.get("Ready").context("no Ready")?;
        assert_eq!(ready.message, "", "a True summary is silent");
        assert_eq!(status.node_ref.map(|node| node.name), Some(name.clone()));
        assert_eq!(machine.spec.bootstrap.data_secret_name, Some(name));
        for quiet in ["Updating", "Deleting", "Paused"] {
            assert!(status.conditions.is_false(quiet), "{quiet} must always be there");
        }
    }
    let check = world
        .until::<MachineHealthCheck>("lab-md", "healthy", |check| {
            check.status.as_ref().is_some_and(|status| status.current_healthy == Some(2))
        })
        .await?;
    assert_eq!(check.status.and_then(|status| status.expected_machines), Some(2));
    Ok(())
}

async fn etcd_was_formed_once(world: &World) -> Result<()> {
    let plane = world
        .until::<ControlPlane>("lab", "formed", |plane| plane.annotations().contains_key(names::FORMED_BY))
        .await?;
    assert_eq!(plane.annotations().get(names::FORMED_BY), plane.annotations().get(names::FORM_ATTEMPT));
    let id = scope().cluster_id;
    let begun = Instant::now();
    loop {
        let configs = ["lab-cp-a", "lab-cp-b", "lab-cp-c"].map(|name| world.memory.config(&id, name));
        let joined = configs.iter().flatten().filter(|sealed| {
            let etcd = sealed.config.etcd.as_ref();
            etcd.is_some_and(|etcd| matches!(etcd.permit, EtcdPermit::Join { .. }) && etcd.members.len() == 3)
        });
        if joined.count() == 3 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "not every configuration says join");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sealed = world.memory.config(&id, "lab-cp-a").context("no configuration")?;
    let known = sealed.config.cluster_duties.map(|duties| duties.nodes.len());
    assert_eq!(known, Some(5), "control planes know every machine");
    assert_eq!(sealed.secrets.join_tokens.len(), 2, "tokens outlive the last join a while");
    tokens_are_spent(world, &id).await
}

async fn tokens_are_spent(world: &World, id: &ClusterId) -> Result<()> {
    let api: Api<NodeConfig> = world.api();
    let long_ago = Patch::Merge(json!({"metadata": {"annotations": {names::JOINED: "2026-01-01T00:00:00Z"}}}));
    for config in api.list(&ListParams::default()).await?.items {
        api.patch(&config.name_any(), &PatchParams::default(), &long_ago).await?;
    }
    let begun = Instant::now();
    while !world.memory.config(id, "lab-cp-a").is_some_and(|sealed| sealed.secrets.join_tokens.is_empty()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the tokens are kept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn scaling_holds(world: &World) -> Result<()> {
    let api: Api<MachineDeployment> = world.api();
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let begun = Instant::now();
    api.patch_scale("lab-md", &PatchParams::default(), &scale).await?;
    until_workers(world, 4).await?;
    eprintln!("2 → 4 workers after {:?}", begun.elapsed());
    // Another change of the spec must not bring the old count back.
    let wcl: Api<WindlassCluster> = world.api();
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"example.test/touched": "yes"}}}));
    wcl.patch("lab", &PatchParams::default(), &touch).await?;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(api.get("lab-md").await?.spec.replicas, Some(4));
    // Our own count, changed, counts.
    let ours = Patch::Merge(json!({"spec": {"workers": [{"name": "md", "count": 3}]}}));
    wcl.patch("lab", &PatchParams::default(), &ours).await?;
    until_workers(world, 3).await?;
    let mut machines = world.names::<Machine>().await?;
    machines.sort();
    assert_eq!(machines[3..], ["lab-md-1", "lab-md-2", "lab-md-3"], "the highest number goes first");
    Ok(())
}

async fn a_deleted_machine_comes_back(world: &World) -> Result<()> {
    let api: Api<Machine> = world.api();
    let before = api.get("lab-md-1").await?.uid();
    let begun = Instant::now();
    api.delete("lab-md-1", &DeleteParams::default()).await?;
    // Nothing collects garbage here: the Secret of the lab-md-4 of before still holds that name.
    world.until::<Machine>("lab-md-5", "there", |_| true).await?;
    while api.get_opt("lab-md-1").await?.is_some_and(|machine| machine.uid() == before) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the deleted Machine stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_workers(world, 3).await?;
    eprintln!("a deleted worker was replaced after {:?}", begun.elapsed());
    Ok(())
}

async fn a_paused_cluster_stands_still(world: &World) -> Result<()> {
    let clusters: Api<Cluster> = world.api();
    clusters.patch("lab", &PatchParams::default(), &Patch::Merge(json!({"spec": {"paused": true}}))).await?;
    world
        .until::<Cluster>("lab", "paused", |cluster| {
            let paused = cluster.status.as_ref().and_then(|status| status.conditions.get("Paused"));
            paused.is_some_and(|paused| {
                paused.status == windlass_controllers::api::condition::Truth::True
                    && paused.observed_generation == cluster.metadata.generation
            })
        })
        .await?;
    for name in world.names::<LocalMachine>().await? {
        world
            .until::<LocalMachine>(&name, "paused", |local| {
                is_true(local.status.as_ref().map(|status| &status.conditions), "Paused")
            })
            .await?;
        world
            .until::<Machine>(&name, "paused and still Ready", |machine| {
                let conditions = machine.status.as_ref().map(|status| &status.conditions);
                is_true(conditions, "Paused") && is_true(conditions, "Ready")
            })
            .await?;
        world
            .until::<NodeConfig>(&name, "paused", |config| {
                is_true(config.status.as_ref().map(|status| &status.conditions), "Paused")
            })
            .await?;
    }
    let deployments: Api<MachineDeployment> = world.api();
    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    deployments.patch("lab-md", &PatchParams::default(), &scale).await?;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(world.names::<Machine>().await?.len(), 6, "nothing happens while paused");
    let back = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch("lab-md", &PatchParams::default(), &back).await?;
    clusters.patch("lab", &PatchParams::default(), &Patch::Merge(json!({"spec": {"paused": null}}))).await?;
    until_available(world).await?;
    world
        .until::<MachineSet>(&world.names::<MachineSet>().await?[0], "at work again", |set| {
            set.status.as_ref().is_some_and(|status| status.conditions.is_false("Paused"))
        })
        .await?;
    Ok(())
}

/// Other processes take over by what stands in the objects; nothing is made anew, nothing is written in a loop.
async fn a_restart_changes_nothing(world: &mut World) -> Result<()> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let uids = |machines: Vec<Machine>| {
        let mut all: Vec<_> = machines.into_iter().map(|machine| (machine.name_any(), machine.uid())).collect();
        all.sort();
        all
    };
    let before = uids(world.list().await?);
    let starts = |world: &World| world.memory.calls().len();
    world.stop().await?;
    world.start();
    until_available(world).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(uids(world.list().await?), before);
    let versions = resource_versions(world).await?;
    let calls = starts(world);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(resource_versions(world).await?, versions, "a quiet cluster is not written");
    let further = world.memory.calls().split_off(calls);
    let further: Vec<_> = further
        .into_iter()
        .filter(|call| !format!("{call:?}").contains("Watch") && !format!("{call:?}").contains("Inventory"))
        .collect();
    assert!(further.is_empty(), "a quiet cluster asks nothing of its provider: {further:?}");
    Ok(())
}

async fn resource_versions(world: &World) -> Result<Vec<(String, Option<String>)>> {
    let mut all = Vec::new();
    all.extend(world.list::<Machine>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.extend(world.list::<LocalMachine>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.extend(world.list::<NodeConfig>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.extend(world.list::<Cluster>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.extend(world.list::<ControlPlane>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.extend(world.list::<MachineSet>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.extend(world.list::<WindlassCluster>().await?.iter().map(|one| (one.name_any(), one.resource_version())));
    all.sort();
    Ok(all)
}

async fn lost_finalizers_and_owners_come_back(world: &World) -> Result<()> {
    let machines: Api<Machine> = world.api();
    let strip = Patch::Merge(json!({"metadata": {"finalizers": null, "ownerReferences": null}}));
    machines.patch("lab-md-2", &PatchParams::default(), &strip).await?;
    world
        .until::<Machine>("lab-md-2", "owned again", |machine| {
            !machine.finalizers().is_empty()
                && machine.owner_references().iter().any(|owner| owner.kind == "MachineSet")
        })
        .await?;
    let locals: Api<LocalMachine> = world.api();
    locals.patch("lab-md-2", &PatchParams::default(), &strip).await?;
    world
        .until::<LocalMachine>("lab-md-2", "owned again", |local| {
            !local.finalizers().is_empty() && local.owner_references().iter().any(|owner| owner.kind == "Machine")
        })
        .await?;
    assert_eq!(world.names::<Machine>().await?.len(), 6);
    Ok(())
}

async fn deletion_leaves_volumes(world: &World) -> Result<()> {
    let begun = Instant::now();
    let wcl: Api<WindlassCluster> = world.api();
    wcl.delete("lab", &DeleteParams::default()).await?;
    world.until_none::<WindlassCluster>().await?;
    world.until_none::<Cluster>().await?;
    world.until_none::<Machine>().await?;
    world.until_none::<MachineSet>().await?;
    world.until_none::<LocalMachine>().await?;
    world.until_none::<LocalCluster>().await?;
    eprintln!("deleted after {:?}", begun.elapsed());
    let inventory = world.inventory().await?;
    assert!(inventory.machines.is_empty());
    assert!(inventory.network.is_none());
    let volumes: Vec<&str> = inventory.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(volumes, ["etcd-main-a", "etcd-main-b", "etcd-main-c"], "volumes stay unless asked for");
    Ok(())
}

/// The endpoint of a cluster that manages itself is lost, its API is not: no Node stays behind, not even one that the
/// acting process has never seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_takes_its_node_along_while_the_endpoint_is_lost() -> Result<()> {
    let Some(mut world) = World::new().await? else { return Ok(()) };
    world.create_cluster(1, 2).await?;
    until_workers(&world, 2).await?;
    world.stop().await?;
    let reached = world.exchange_kubeconfig("lab", "apiVersion: v1\nkind: Config\n").await?;
    world.start();
    let machines: Api<Machine> = world.api();
    machines.delete("lab-md-1", &DeleteParams::default()).await?;
    let begun = Instant::now();
    while machines.get_opt("lab-md-1").await?.is_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the deleted Machine stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eprintln!("a Machine was deleted without the endpoint after {:?}", begun.elapsed());
    let nodes: Api<Node> = Api::all(world.client.clone());
    assert!(nodes.get_opt("lab-md-1").await?.is_none(), "its Node stays behind");
    world.stop().await?;
    world.exchange_kubeconfig("lab", &reached).await?;
    world.start();
    until_workers(&world, 2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_go_when_asked_for_and_rules_refuse_what_is_not_served() -> Result<()> {
    let Some(world) = World::new().await? else { return Ok(()) };
    refusals(&world).await?;
    world.create_cluster(1, 1).await?;
    until_available(&world).await?;
    until_workers(&world, 1).await?;
    let wcl: Api<WindlassCluster> = world.api();
    let mark = Patch::Merge(json!({"metadata": {"annotations": {names::DELETE_VOLUMES: "true"}}}));
    wcl.patch("lab", &PatchParams::default(), &mark).await?;
    // Deleting Cluster API's Cluster, as clusterctl and people do, takes ours along.
    let clusters: Api<Cluster> = world.api();
    clusters.delete("lab", &DeleteParams::default()).await?;
    world.until_none::<Cluster>().await?;
    world.until_none::<Machine>().await?;
    assert!(world.memory.inventory(&scope()).await.is_err(), "nothing is left at the provider");
    Ok(())
}

async fn refusals(world: &World) -> Result<()> {
    let pools: Api<MachinePool> = world.api();
    let pool = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "metadata": {"name": "pool"},
        "spec": {"clusterName": "lab", "template": {"spec": {
            "clusterName": "lab",
            "bootstrap": {"dataSecretName": "x"},
            "infrastructureRef": {"apiGroup": "windlass.dev", "kind": "LocalMachine", "name": "x"},
        }}},
    });
    let refused = pools.create(&PostParams::default(), &serde_json::from_value(pool)?).await;
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("Windlass serves no MachinePools"), "{message}");
    let clusters: Api<Cluster> = world.api();
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "classy"},
        "spec": {"topology": {"classRef": {"name": "x"}, "version": "v1.37.2"}},
    });
    let refused = clusters.create(&PostParams::default(), &serde_json::from_value(cluster)?).await;
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("no ClusterClass topologies"), "{message}");
    Ok(())
}
