//! Steps that raise the cluster: from nothing to a Ready cluster managed by the bootstrap plane.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use windlass_controllers::api::cluster_api::{Machine, MachineHealthCheck};
use windlass_controllers::api::names::{SYSTEM_NAMESPACE, kubeconfig_secret};
use windlass_engine::failure::OrFail;
use windlass_engine::{Failure, FailureKind, Outcome, StepResult};
use windlass_providers::ports::{Inventory, Machine as Sandbox};
use windlass_spec::full::Cni;
use windlass_spec::validate::validate_ground;
use windlass_spec::{Problems, resolve};

use super::{Cx, Target, provider_failure};
use crate::content::{self, ContentError};
use crate::folder::Life;
use crate::machines::Follower;
use crate::machines::trouble::Patience;
use crate::plane::Places;
use crate::{access, apply, management};

/// Pause between two looks at an API.
const TICK: Duration = Duration::from_millis(150);
/// How long one question to an API may take.
const QUESTION: Duration = Duration::from_secs(5);
/// How long writing the cluster's document may take.
const WRITE: Duration = Duration::from_secs(30);
/// Namespace and name of the cluster's DNS.
const DNS: (&str, &str) = ("kube-system", "coredns");
/// Marks the default StorageClass.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) async fn nothing(_: Cx) -> StepResult {
    Ok(Outcome::Done)
}

/// Refuses what the ground cannot carry; then notes the cluster and writes the user's spec.
pub(super) async fn set_up(cx: Cx) -> StepResult {
    let spec = &cx.request.cluster.spec;
    let workers: u32 = spec.workers.iter().map(|group| group.count.unwrap_or(1)).sum();
    let machines = spec.control_plane.count.unwrap_or(1) + workers;
    let notices = cx.site.provider.preflight(machines).await;
    for notice in notices.map_err(|error| provider_failure("this computer is not fit for the cluster", &error))? {
        cx.events().notice(notice);
    }
    let facts = cx.site.provider.facts().await;
    let facts = facts.map_err(|error| provider_failure("failed to learn about the machines' ground", &error))?;
    let problems = validate_ground(&cx.request.cluster, &facts);
    if problems.has_errors() {
        return Err(Failure::new(FailureKind::Usage, "the spec does not fit this computer").cause(problems.to_string()));
    }
    cx.remember(Life::Creating)?;
    cx.folder.write_private(&cx.folder.early_spec(), &cx.request.text).or_fail("failed to keep the spec")?;
    Ok(Outcome::noted(format!("{machines} machine{}", if machines == 1 { "" } else { "s" })))
}

/// Has or builds the bundle and the machine image, then resolves the spec to its last value.
pub(super) async fn bundle(cx: Cx) -> StepResult {
    let (kubernetes, cache, events) = (cx.request.kubernetes.clone(), cx.site.cache.clone(), cx.events().clone());
    let task = tokio::task::spawn_blocking(move || content::obtain_for(&kubernetes, &cache, &events));
    let content = task.await.or_fail("the build was dropped")?.map_err(|error| content_failure(&error))?;
    let facts = cx.site.provider.facts().await;
    let facts = facts.map_err(|error| provider_failure("failed to learn about the machines' ground", &error))?;
    let full = resolve(&cx.request.cluster, &content.release, &facts).map_err(|problems| spec_failure(&problems))?;
    cx.folder.write_full(&cx.folder.early_full(), &full).or_fail("failed to keep the full spec")?;
    let note = format!("Kubernetes {}, {}", content.release.kubernetes, content.image);
    // Set once: the step runs once, or again with the same result.
    let _ = cx.full.set(full);
    let _ = cx.content.set(content);
    cx.remember(Life::Creating)?;
    Ok(Outcome::noted(note))
}

fn content_failure(error: &ContentError) -> Failure {
    let failure = Failure::from_error("there is no bundle to make the cluster from", error);
    failure.next("windlass bundle build").next("windlass bundle import FILE")
}

fn spec_failure(problems: &Problems) -> Failure {
    Failure::new(FailureKind::Usage, "the spec does not fit the release").cause(problems.to_string())
}

/// Starts the bootstrap plane.
pub(super) async fn plane(cx: Cx) -> StepResult {
    let places = Places {
        state: cx.folder.plane(),
        sockets: cx.site.plane_sockets(cx.scope.cluster_id.as_str()),
        logs: cx.folder.logs(),
    };
    let kubeconfig = cx.seat.raise(&cx.content()?.programs, &places).await?;
    Ok(Outcome::noted(format!("kubectl --kubeconfig {kubeconfig}")))
}

pub(super) async fn stop_plane(cx: Cx) -> StepResult {
    cx.seat.lower().await;
    Ok(Outcome::Done)
}

/// Installs definitions on the plane and starts the controllers here.
pub(super) async fn providers(cx: Cx) -> StepResult {
    cx.seat.occupy(cx.site.provider.clone()).await?;
    Ok(Outcome::Done)
}

pub(super) async fn stop_controllers(cx: Cx) -> StepResult {
    cx.seat.vacate().await;
    Ok(Outcome::Done)
}

/// Applies the cluster's own document; the controllers make the rest. From here on machines are followed.
pub(super) async fn objects(cx: Cx) -> StepResult {
    let client = cx.seat.client().await?;
    let full = cx.full()?;
    let object =
        management::cluster_object(&cx.request.cluster, &cx.scope, &full.release, &full.facts, &cx.site.version)
            .or_fail("failed to write out the cluster's document")?;
    let api = management::clusters(&client, cx.namespace());
    let writing = async {
        apply::namespace(&client, cx.namespace()).await.or_fail("failed to make the namespace")?;
        apply::dynamic(&api, &object).await.or_fail("failed to apply the cluster's document")
    };
    let silent = || Failure::failed("the bootstrap plane's API does not answer").part("bootstrap plane");
    let written = tokio::time::timeout(WRITE, writing).await.unwrap_or_else(|_| Err(silent()));
    written.map_err(Failure::passing)?;
    cx.machines.get_or_init(|| {
        let provider = cx.site.provider.clone();
        Follower::start(provider, cx.scope.clone(), cx.events().clone(), Some(Patience::default()))
    });
    Ok(Outcome::Done)
}

pub(super) async fn etcd(cx: Cx) -> StepResult {
    let names = cx.control_plane_names()?;
    let started = |machine: &Sandbox| machine.report.as_ref().is_some_and(|report| report.etcd_member_id.is_some());
    let all = |inventory: &Inventory| {
        let good = |name: &String| inventory.machines.iter().any(|machine| machine.name == *name && started(machine));
        names.iter().all(good).then_some(())
    };
    cx.interruptible(cx.machines()?.until(all)).await?;
    let members = names.len();
    Ok(Outcome::noted(format!("{members} member{} started", if members == 1 { "" } else { "s" })))
}

/// An API server is ready. The others start while the cluster is already used; `machines-ready` waits for them.
pub(super) async fn control_plane(cx: Cx) -> StepResult {
    let ready = |machine: &Sandbox| machine.report.as_ref().is_some_and(|report| report.api_server_ready == Some(true));
    let first = |inventory: &Inventory| {
        inventory.machines.iter().find(|machine| ready(machine)).map(|machine| machine.name.clone())
    };
    let first = cx.interruptible(cx.machines()?.until(first)).await?;
    Ok(Outcome::noted(format!("{first} answers")))
}

/// Takes the kubeconfig from the plane and waits until it works.
pub(super) async fn kubeconfig(cx: Cx) -> StepResult {
    let secrets: Api<Secret> = Api::namespaced(cx.seat.client().await?, cx.namespace());
    let name = kubeconfig_secret(cx.name());
    let text = poll(&cx, "the kubeconfig", async || {
        let secret = secrets.get_opt(&name).await.ok().flatten()?;
        let bytes = secret.data?.remove("value")?.0;
        String::from_utf8(bytes).ok()
    })
    .await?;
    cx.folder.write_private(&cx.folder.kubeconfig(), &text).or_fail("failed to write the kubeconfig")?;
    let client = access::client(&text).await.or_fail("the cluster's kubeconfig is of no use")?;
    // Asked for something that needs rights: RBAC may come a moment after the API itself.
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let first = ListParams::default().limit(1);
    poll(&cx, "the cluster's API", async || namespaces.list(&first).await.ok()).await?;
    let _ = cx.target.set(Target { client, kubeconfig: text });
    Ok(Outcome::noted(cx.folder.kubeconfig().to_string()))
}

/// Nodes are Ready and the cluster's DNS answers. Left to the user with a pod network of their own.
pub(super) async fn networking(cx: Cx) -> StepResult {
    let full = cx.full()?;
    if full.network.cni == Cni::None {
        return Ok(Outcome::Skipped("left to you (cni: None)".into()));
    }
    let names = cx.control_plane_names()?;
    let client = &cx.target()?.client;
    poll(&cx, "Ready control-plane Nodes", async || nodes_ready(client, &names).await).await?;
    if full.addons.coredns {
        poll(&cx, "the cluster's DNS", async || deployment_ready(client, DNS).await).await?;
    }
    Ok(Outcome::Done)
}

async fn nodes_ready(client: &Client, names: &[String]) -> Option<()> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.ok()?.items;
    let ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let good = |name: &String| nodes.iter().any(|node| node.name_any() == *name && ready(node));
    names.iter().all(good).then_some(())
}

async fn deployment_ready(client: &Client, (namespace, name): (&str, &str)) -> Option<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let status = api.get_opt(name).await.ok().flatten()?.status?;
    (status.available_replicas? > 0).then_some(())
}

pub(super) async fn storage_class(cx: Cx) -> StepResult {
    let api: Api<StorageClass> = Api::all(cx.target()?.client.clone());
    let name = poll(&cx, "the default StorageClass", async || {
        let classes = api.list(&ListParams::default()).await.ok()?;
        let default = |class: &&StorageClass| class.annotations().get(DEFAULT_CLASS).is_some_and(|is| is == "true");
        classes.items.iter().find(default).map(ResourceExt::name_any)
    })
    .await?;
    Ok(Outcome::noted(name))
}

/// Every machine says it is ready, and every Machine object says so too.
pub(super) async fn machines_ready(cx: Cx) -> StepResult {
    let wanted = cx.machine_count()?;
    let no_network = cx.full()?.network.cni == Cni::None;
    if !no_network {
        let ready =
            |machine: &Sandbox| machine.report.as_ref().is_some_and(windlass_spec::report::NodeReport::is_ready);
        let all = |inventory: &Inventory| {
            (inventory.machines.iter().filter(|machine| ready(machine)).count() >= wanted).then_some(())
        };
        cx.interruptible(cx.machines()?.until(all)).await?;
    }
    let api: Api<Machine> = Api::namespaced(cx.seat.client().await?, cx.namespace());
    poll(&cx, "Machines with their Nodes", async || {
        let machines = api.list(&ListParams::default()).await.ok()?.items;
        let good = |machine: &&Machine| {
            let status = machine.status.as_ref();
            let node = status.is_some_and(|status| status.node_ref.is_some());
            node && (no_network || status.is_some_and(|status| status.conditions.is_true("Ready")))
        };
        (machines.iter().filter(good).count() >= wanted).then_some(())
    })
    .await?;
    Ok(Outcome::noted(format!("{wanted} of {wanted}")))
}

/// The health checks are there and their controller has reported.
pub(super) async fn health_checks(cx: Cx) -> StepResult {
    let api: Api<MachineHealthCheck> = Api::namespaced(cx.seat.client().await?, cx.namespace());
    let count = poll(&cx, "the health checks", async || {
        let checks = api.list(&ListParams::default()).await.ok()?.items;
        let reported = checks.iter().all(|check| check.status.is_some());
        (reported && !checks.is_empty()).then_some(checks.len())
    })
    .await?;
    Ok(Outcome::noted(format!("{count} made")))
}

/// Asks again and again until there is an answer; fails when the machines are in trouble or a stop is asked for. A
/// question that gets no answer in time is asked anew.
pub(super) async fn poll<T>(cx: &Cx, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> Result<T, Failure> {
    let asking = async {
        let mut said = false;
        loop {
            if let Ok(Some(answer)) = tokio::time::timeout(QUESTION, ask()).await {
                return Ok(answer);
            }
            if !std::mem::replace(&mut said, true) {
                cx.waiting(format!("waits for {what}"));
            }
            // A plane that died is told, not waited for.
            cx.seat.check().await?;
            tokio::time::sleep(TICK).await;
        }
    };
    cx.interruptible(cx.machines()?.while_well(asking)).await
}

/// Namespace of the controllers on the target.
pub(super) const CONTROLLERS_NAMESPACE: &str = SYSTEM_NAMESPACE;
