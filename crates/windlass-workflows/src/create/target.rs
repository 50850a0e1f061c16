//! Steps on the cluster that came up: its own definitions and controllers, then the pivot to them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use windlass_engine::failure::OrFail;
use windlass_engine::{Failure, Outcome, StepResult};
use windlass_spec::full::Cni;

use super::raise::{CONTROLLERS_NAMESPACE, poll};
use super::{Cx, provider_failure};
use crate::folder::Life;
use crate::management;

/// How long controllers on either side may take to report a pause or its end.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// How long the cluster may take to call itself available.
const HEALTHY: Duration = Duration::from_secs(90);
/// How long one question to its API may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Pause between two looks.
const TICK: Duration = Duration::from_millis(250);
/// Name of the controllers' DaemonSet.
const CONTROLLERS: &str = "windlass-controller";

/// Definitions, inventory and the controllers' credential on the target.
pub(super) async fn providers(cx: Cx) -> StepResult {
    let client = &cx.target()?.client;
    let credential = cx.site.provider.credential(&cx.scope).await;
    let credential =
        credential.map_err(|error| provider_failure("failed to get the controllers' credential", &error))?;
    let passing = |failure: Failure| failure.passing();
    management::definitions(client).await.or_fail("failed to install the definitions").map_err(passing)?;
    management::credential(client, &credential).await.or_fail("failed to lay the credential").map_err(passing)?;
    management::inventory(client, &cx.site.version).await.or_fail("failed to write the inventory").map_err(passing)?;
    Ok(Outcome::Done)
}

/// Waits for the controllers that the cluster runs for itself.
pub(super) async fn controllers(cx: Cx) -> StepResult {
    let api: Api<DaemonSet> = Api::namespaced(cx.target()?.client.clone(), CONTROLLERS_NAMESPACE);
    let ready = poll(&cx, "the controllers on the cluster", async || {
        let status = api.get_opt(CONTROLLERS).await.ok().flatten()?.status?;
        (status.number_ready > 0).then_some(status.number_ready)
    })
    .await?;
    Ok(Outcome::noted(format!("{ready} ready")))
}

/// Pauses management here; every controller has to say so.
pub(super) async fn pause(cx: Cx) -> StepResult {
    let pivot = cx.pivot().await?;
    let layers = pivot.check().await.or_fail("management cannot be moved; nothing was touched")?;
    let objects: usize = layers.iter().map(Vec::len).sum();
    pivot.pause_source().await.or_fail("failed to pause management on the bootstrap plane")?;
    Ok(Outcome::noted(format!("{objects} objects")))
}

/// The way back, as long as the cluster does not manage itself.
pub(super) async fn resume(cx: Cx) -> StepResult {
    if cx.switched() || !cx.seat.is_raised().await {
        return Ok(Outcome::Skipped("management has moved".into()));
    }
    cx.pivot().await?.resume_source().await.or_fail("failed to unpause management on the bootstrap plane")?;
    Ok(Outcome::Done)
}

/// Copies and verifies.
pub(super) async fn copy(cx: Cx) -> StepResult {
    let copied = cx.pivot().await?.copy().await.or_fail("failed to copy management to the cluster")?;
    Ok(Outcome::noted(format!("{} objects verified", copied.objects)))
}

/// From here on the cluster manages itself. Its first act, before the unpausing, is to note so.
pub(super) async fn switch(cx: Cx) -> StepResult {
    let pivot = cx.pivot().await?;
    cx.switched.store(true, Ordering::SeqCst);
    cx.remember(Life::Created)?;
    pivot.switch().await.or_fail("the cluster's own controllers did not take over")?;
    Ok(Outcome::Done)
}

/// The cluster's own controllers say that it is available: proof that they reach it and its machines.
pub(super) async fn healthy(cx: Cx) -> StepResult {
    if cx.full()?.network.cni == Cni::None {
        return Ok(Outcome::Skipped("its pod network is left to you (cni: None)".into()));
    }
    let api = management::clusters(&cx.target()?.client, cx.namespace());
    let begun = Instant::now();
    loop {
        let asked = tokio::time::timeout(ANSWER, api.get(cx.name())).await;
        let why = match asked {
            Ok(Ok(object)) => match management::trouble(&object) {
                None => return Ok(Outcome::Done),
                Some(why) => why,
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its API does not answer".to_owned(),
        };
        if begun.elapsed() > HEALTHY {
            return Err(Failure::failed("the cluster is up and manages itself, but is not available").cause(why));
        }
        cx.waiting(why);
        cx.pause(TICK).await?;
    }
}

/// Stops the controllers here and deletes the plane with its data.
pub(super) async fn retire(cx: Cx) -> StepResult {
    cx.seat.retire().await?;
    Ok(Outcome::Done)
}
