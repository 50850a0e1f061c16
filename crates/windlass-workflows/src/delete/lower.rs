//! Steps that lower a cluster.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use windlass_controllers::api::names;
use windlass_engine::failure::OrFail;
use windlass_engine::{Failure, Outcome, StepResult};
use windlass_providers::ports::{Inventory, Machine, Scope};
use windlass_spec::identity::Role;

use super::{Cx, Way, held, way};
use crate::create::provider_failure;
use crate::folder::Life;
use crate::machines::Follower;
use crate::management;
use crate::pivot::{Copied, PivotError};
use crate::plane::Places;

/// How long controllers may make no progress before the rest is taken from the inventory.
const STILL: Duration = Duration::from_secs(60);
/// Pause between two looks.
const TICK: Duration = Duration::from_millis(150);
/// Machines removed at once.
const AT_ONCE: usize = 8;

pub(super) async fn set_up(cx: Cx) -> StepResult {
    cx.remember(Life::Deleting, cx.pointer.kept.clone())?;
    let follower = || Follower::start(cx.site.provider.clone(), cx.scope.clone(), cx.events().clone(), None);
    cx.machines.get_or_init(follower);
    Ok(match &cx.way {
        Way::Management { .. } => Outcome::noted("through its management"),
        Way::Inventory { reason } => Outcome::noted(format!("from the inventory: {reason}")),
    })
}

pub(super) async fn plane(cx: Cx) -> StepResult {
    let Way::Management { programs, .. } = &cx.way else { return Ok(Outcome::Done) };
    let places = Places {
        state: cx.folder.plane(),
        sockets: cx.site.plane_sockets(cx.scope.cluster_id.as_str()),
        logs: cx.folder.logs(),
    };
    cx.seat.raise(programs, &places).await.map(Outcome::noted)
}

pub(super) async fn stop_plane(cx: Cx) -> StepResult {
    cx.seat.lower().await;
    Ok(Outcome::Done)
}

pub(super) async fn providers(cx: Cx) -> StepResult {
    cx.seat.occupy(cx.site.provider.clone()).await?;
    Ok(Outcome::Done)
}

pub(super) async fn stop_controllers(cx: Cx) -> StepResult {
    cx.seat.vacate().await;
    Ok(Outcome::Done)
}

pub(super) async fn pause(cx: Cx) -> StepResult {
    let pivot = cx.pivot().await?;
    cx.waiting(format!("waits up to {} s for the cluster's controllers to stand still", cx.patience.as_secs()));
    let paused = async {
        pivot.check().await?;
        pivot.pause_source().await
    };
    moving(&cx, paused.await, "management cannot be moved; nothing was touched", |()| Outcome::Done).await
}

/// The way back, as long as the cluster manages itself.
pub(super) async fn resume(cx: Cx) -> StepResult {
    if cx.moved.load(Ordering::SeqCst) || cx.given_up.get().is_some() || !cx.seat.is_raised().await {
        return Ok(Outcome::Skipped("the cluster no longer manages itself".into()));
    }
    cx.pivot().await?.resume_source().await.or_fail("failed to unpause management on the cluster")?;
    cx.remember(Life::Created, cx.pointer.kept.clone())?;
    Ok(Outcome::Done)
}

pub(super) async fn copy(cx: Cx) -> StepResult {
    let copied = cx.pivot().await?.copy().await;
    let noted = |copied: Copied| Outcome::noted(format!("{} objects verified", copied.objects));
    moving(&cx, copied, "failed to copy management here", noted).await
}

pub(super) async fn switch(cx: Cx) -> StepResult {
    let pivot = cx.pivot().await?;
    cx.moved.store(true, Ordering::SeqCst);
    moving(&cx, pivot.switch().await, "the controllers here did not take over", |()| Outcome::Done).await
}

/// What came of a part of the move. Where it failed and nothing can be lost, the inventory decides from here on.
async fn moving<T>(cx: &Cx, moved: Result<T, PivotError>, failed: &str, done: impl FnOnce(T) -> Outcome) -> StepResult {
    let error = match moved {
        Ok(value) => return Ok(done(value)),
        Err(error) => error,
    };
    let Some(reason) = way::without_management(&error) else {
        return Err(Failure::from_error(failed, &error));
    };
    turn_to_inventory(cx, &reason).await;
    Ok(Outcome::noted(format!("from the inventory: {reason}")))
}

async fn turn_to_inventory(cx: &Cx, reason: &str) {
    cx.events().warning(format!("{reason}; what is left is removed from the provider's inventory"));
    cx.give_up_management(reason).await;
}

/// Asks the controllers for the cluster's end, then sees to the workers.
pub(super) async fn workers(cx: Cx) -> StepResult {
    if cx.is_managed_here() {
        let api = management::clusters(&cx.seat.client().await?, &cx.pointer.namespace);
        let volumes = cx.delete_volumes.to_string();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {names::DELETE_VOLUMES: volumes}}}));
        let name = &cx.scope.cluster;
        api.patch(name, &PatchParams::default(), &patch).await.or_fail("failed to note what to do with volumes")?;
        api.delete(name, &DeleteParams::default()).await.or_fail("failed to delete the cluster's document")?;
    }
    machines_gone(&cx, |machine| machine.role == Some(Role::Worker)).await
}

pub(super) async fn control_plane(cx: Cx) -> StepResult {
    machines_gone(&cx, |_| true).await
}

/// Waits for controllers to remove the machines; removes from the inventory what they do not.
async fn machines_gone(cx: &Cx, of: impl Fn(&Machine) -> bool + Copy) -> StepResult {
    let there = |inventory: &Inventory| inventory.machines.iter().filter(|machine| of(machine)).count();
    let count = inventory(cx, &cx.scope).await?.as_ref().map_or(0, there);
    if cx.is_managed_here() {
        shrinking(cx, there).await?;
    }
    remove_machines(cx, of).await?;
    Ok(match count {
        0 => Outcome::Skipped("none".into()),
        count => Outcome::noted(format!("{count} removed")),
    })
}

/// Waits until nothing is counted any more, as long as the count goes down now and then.
async fn shrinking(cx: &Cx, count: impl Fn(&Inventory) -> usize) -> Result<(), Failure> {
    let (mut least, mut since) = (usize::MAX, Instant::now());
    loop {
        let left = inventory(cx, &cx.scope).await?.as_ref().map_or(0, &count);
        if left == 0 {
            return Ok(());
        }
        if left < least {
            (least, since) = (left, Instant::now());
        }
        if since.elapsed() > STILL || cx.seat.check().await.is_err() {
            turn_to_inventory(cx, "the controllers make no progress").await;
            return Ok(());
        }
        cx.pause(TICK).await?;
    }
}

/// Removes machines until none is there: before the first call somebody may still make some, after it nobody may.
async fn remove_machines(cx: &Cx, of: impl Fn(&Machine) -> bool) -> Result<(), Failure> {
    let provider = &cx.site.provider;
    while let Some(inventory) = inventory(cx, &cx.scope).await? {
        let names: Vec<&str> =
            inventory.machines.iter().filter(|machine| of(machine)).map(|machine| machine.name.as_str()).collect();
        if names.is_empty() {
            break;
        }
        let ownership = way::right(&inventory.scope.ownership, &cx.scope.ownership);
        let scope = Scope { ownership, ..cx.scope.clone() };
        stream::iter(names)
            .map(|name| provider.delete_machine(&scope, name))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|()| std::future::ready(Ok(())))
            .await
            .map_err(|error| provider_failure("failed to remove a machine", &error))?;
    }
    Ok(())
}

/// Removes volumes, or says which are kept.
pub(super) async fn volumes(cx: Cx) -> StepResult {
    let mut names = Vec::new();
    for scope in cx.pointer.kept.iter().chain([&cx.scope]) {
        let Some(inventory) = inventory(&cx, scope).await? else { continue };
        names.extend(inventory.volumes.iter().map(|volume| volume.name.clone()));
        if !cx.delete_volumes {
            for volume in &inventory.volumes {
                cx.events().notice(format!("volume {} is kept: {}", volume.name, volume.location));
            }
            continue;
        }
        for volume in &inventory.volumes {
            let gone = cx.site.provider.delete_volume(&inventory.scope, &volume.name).await;
            gone.map_err(|error| provider_failure("failed to remove a volume", &error))?;
        }
    }
    Ok(match (names.len(), cx.delete_volumes) {
        (0, _) => Outcome::Skipped("none".into()),
        (count, true) => Outcome::noted(format!("{count} removed")),
        (count, false) => Outcome::noted(format!("{count} kept")),
    })
}

/// Network and whatever else the provider made for the cluster.
pub(super) async fn infrastructure(cx: Cx) -> StepResult {
    if cx.is_managed_here() {
        let api = management::clusters(&cx.seat.client().await?, &cx.pointer.namespace);
        let begun = Instant::now();
        while api.get_opt(&cx.scope.cluster).await.or_fail("failed to look for the cluster's document")?.is_some() {
            if begun.elapsed() > STILL {
                turn_to_inventory(&cx, "the cluster's document does not go away").await;
                break;
            }
            cx.pause(TICK).await?;
        }
    }
    for scope in cx.pointer.kept.iter().chain([&cx.scope]) {
        let Some(inventory) = inventory(&cx, scope).await? else { continue };
        let gone = cx.site.provider.delete_network(&inventory.scope).await;
        gone.map_err(|error| provider_failure("failed to remove the network", &error))?;
    }
    Ok(Outcome::Done)
}

pub(super) async fn retire(cx: Cx) -> StepResult {
    cx.seat.retire().await?;
    Ok(Outcome::Done)
}

/// Files go; the pointer stays only while volumes are kept.
pub(super) async fn folder(cx: Cx) -> StepResult {
    let _ = fs_err::remove_dir_all(cx.site.plane_sockets(cx.scope.cluster_id.as_str()));
    cx.folder.clear_cluster().or_fail("failed to remove what was generated")?;
    let mut kept = Vec::new();
    for scope in &cx.pointer.kept {
        kept.extend(inventory(&cx, scope).await?.map(|_| scope.clone()));
    }
    if kept.is_empty() && inventory(&cx, &cx.scope).await?.is_none() {
        cx.site.registry().forget(&cx.scope.cluster).or_fail("failed to forget the cluster")?;
    } else {
        cx.remember(Life::Kept, kept)?;
    }
    Ok(Outcome::Done)
}

async fn inventory(cx: &Cx, scope: &Scope) -> Result<Option<Inventory>, Failure> {
    held(&cx.site, scope).await.map_err(|error| provider_failure("failed to ask the provider", &error))
}
