//! A management cluster for tests: a real API, the controllers running, machines in memory, and a stand-in for kubelets
//! that registers a Node for each machine that reports ready.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_controllers::api::names;
use windlass_controllers::{Options, crds};
use windlass_providers::memory::Memory;
use windlass_providers::ports::{Inventory, Provider, Scope};
use windlass_spec::identity::{ClusterId, Epoch, OwnerId, Ownership};
use windlass_testkit::api::TestApi;

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const CLUSTER_ID: &str = "0123456789abcdef";
/// How long a test waits for what should take a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// The world.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) memory: Memory,
    stop: CancellationToken,
    controllers: Option<tokio::task::JoinHandle<()>>,
    kubelets: tokio::task::JoinHandle<()>,
    /// Dropped last.
    _api: TestApi,
}

impl World {
    /// A world; none, loudly, where there are no programs to run it with.
    pub(crate) async fn new() -> Result<Option<Self>> {
        if let Err(missing) = windlass_testkit::binaries::find("kube-apiserver") {
            eprintln!("SKIPPED: {missing}; the controllers were NOT tested against a real API");
            return Ok(None);
        }
        if std::env::var_os("WINDLASS_TEST_LOG").is_some() {
            let _ = tracing_subscriber::fmt().with_env_filter("info,windlass_controllers=debug").try_init();
        }
        let api = TestApi::start().await?;
        let client = api.client().await;
        install(&client).await?;
        let kubeconfig = std::fs::read_to_string(api.kubeconfig())?;
        give_kubeconfig(&client, "lab", kubeconfig).await?;
        let memory = Memory::default();
        let kubelets = tokio::spawn(kubelets(client.clone(), memory.clone()));
        let mut world = Self { client, memory, stop: CancellationToken::new(), controllers: None, kubelets, _api: api };
        world.start();
        Ok(Some(world))
    }

    /// Starts the controllers.
    pub(crate) fn start(&mut self) {
        self.stop = CancellationToken::new();
        let (client, provider, stop) = (self.client.clone(), Arc::new(self.memory.clone()), self.stop.clone());
        self.controllers = Some(tokio::spawn(async move {
            if let Err(error) = windlass_controllers::run(client, provider, Options::default(), stop).await {
                panic!("the controllers ended: {error}");
            }
        }));
    }

    /// Stops the controllers.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.stop.cancel();
        if let Some(controllers) = self.controllers.take() {
            tokio::time::timeout(PATIENCE, controllers).await.context("the controllers do not stop")??;
        }
        Ok(())
    }

    /// The API of a kind.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates Windlass's Cluster as `windlass create` does.
    pub(crate) async fn create_cluster(&self, control_planes: u32, workers: u32) -> Result<()> {
        let release = windlass_spec::releases::choose(None).and_then(windlass_spec::releases::planned);
        let mut release = release.context("no release")?;
        for component in ["volume-helper", "windlass"] {
            release.images.insert(component.to_owned(), format!("windlass.dev/{component}:test"));
        }
        let release = serde_json::to_string(&release)?;
        let object = json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {
                "name": "lab",
                "namespace": NAMESPACE,
                "annotations": {
                    names::CLUSTER_ID: CLUSTER_ID,
                    names::RELEASE: release,
                    names::VERSION: env!("CARGO_PKG_VERSION"),
                },
            },
            "spec": {
                "provider": {"local": {}},
                "controlPlane": {"count": control_planes},
                "workers": [{"name": "md", "count": workers}],
            },
        });
        let api: Api<windlass_controllers::api::windlass::WindlassCluster> = self.api();
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Gives the controllers another kubeconfig of the workload cluster; returns the one before.
    pub(crate) async fn exchange_kubeconfig(&self, cluster: &str, text: &str) -> Result<String> {
        let secrets: Api<Secret> = self.api();
        let name = names::kubeconfig_secret(cluster);
        let before =
            secrets.get(&name).await?.data.and_then(|mut data| data.remove("value")).context("no kubeconfig")?;
        let patch = Patch::Merge(json!({"stringData": {"value": text}}));
        secrets.patch(&name, &PatchParams::default(), &patch).await?;
        Ok(String::from_utf8(before.0)?)
    }

    /// Waits until an object is as wanted; tells what it last was otherwise.
    pub(crate) async fn until<K>(&self, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = self.api();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(object) = api.get_opt(name).await?.filter(|object| holds(object)) {
                return Ok(object);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("{} {name} is not {what}\n{}", K::kind(&()), self.story().await?)
    }

    /// What every object says of itself, for a test that fails.
    async fn story(&self) -> Result<String> {
        let mut text = String::new();
        for (kind, version, group) in [
            ("Cluster", "v1alpha1", "windlass.dev"),
            ("Cluster", "v1beta2", "cluster.x-k8s.io"),
            ("ControlPlane", "v1alpha1", "windlass.dev"),
            ("LocalCluster", "v1alpha1", "windlass.dev"),
            ("MachineDeployment", "v1beta2", "cluster.x-k8s.io"),
            ("MachineSet", "v1beta2", "cluster.x-k8s.io"),
            ("Machine", "v1beta2", "cluster.x-k8s.io"),
            ("NodeConfig", "v1alpha1", "windlass.dev"),
            ("LocalMachine", "v1alpha1", "windlass.dev"),
        ] {
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
            for object in api.list(&ListParams::default()).await? {
                let going = if object.metadata.deletion_timestamp.is_some() { " (deleting)" } else { "" };
                text += &format!("{} {}{going}\n", kind.kind, object.name_any());
                let conditions = object.data.pointer("/status/conditions").and_then(|all| all.as_array().cloned());
                for condition in conditions.into_iter().flatten() {
                    let word = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
                    let [type_, status, reason, message] = ["type", "status", "reason", "message"].map(word);
                    text += &format!("    {type_}={status} {reason}: {message}\n");
                }
            }
        }
        Ok(text)
    }

    /// Waits until nothing of a kind is left.
    pub(crate) async fn until_none<K>(&self) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = self.api();
        let begun = Instant::now();
        loop {
            let left = api.list(&ListParams::default()).await?.items;
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("{} of {} are left: {left:#?}", left.len(), K::kind(&()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Names of all objects of a kind.
    pub(crate) async fn names<K>(&self) -> Result<Vec<String>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = self.api();
        Ok(api.list(&ListParams::default()).await?.iter().map(|object| object.name_any()).collect())
    }

    /// Everything of a kind.
    pub(crate) async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = self.api();
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// What the provider holds.
    pub(crate) async fn inventory(&self) -> Result<Inventory> {
        Ok(self.memory.inventory(&scope()).await?)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        self.kubelets.abort();
    }
}

/// By which right the tests look at the provider.
pub(crate) fn scope() -> Scope {
    Scope {
        cluster_id: ClusterId::from(CLUSTER_ID),
        cluster: "lab".to_owned(),
        ownership: Ownership { owner: OwnerId::from(CLUSTER_ID), epoch: Epoch(1) },
    }
}

async fn install(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        let name = crd.name_any();
        let parameters = PatchParams::apply("test").force();
        api.patch(&name, &parameters, &Patch::Apply(&crd)).await.with_context(|| format!("installing {name}"))?;
    }
    for crd in crds() {
        let established = kube::runtime::conditions::is_crd_established();
        let name = crd.name_any();
        let wait = kube::runtime::wait::await_condition(api.clone(), &name, established);
        tokio::time::timeout(PATIENCE, wait).await.with_context(|| format!("{name} is not served"))??;
    }
    Ok(())
}

/// The test's API stands in for the workload cluster's: its own kubeconfig, owned by nobody, is kept.
async fn give_kubeconfig(client: &Client, cluster: &str, text: String) -> Result<()> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(names::kubeconfig_secret(cluster)),
            labels: Some([(names::CLUSTER_NAME.to_owned(), cluster.to_owned())].into()),
            ..ObjectMeta::default()
        },
        string_data: Some([("value".to_owned(), text)].into()),
        type_: Some(names::SECRET_TYPE.to_owned()),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// Registers a Ready Node for each machine that reports ready.
async fn kubelets(client: Client, memory: Memory) {
    let nodes: Api<Node> = Api::all(client);
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(inventory) = memory.inventory(&scope()).await else { continue };
        for machine in &inventory.machines {
            let ready = machine.report.as_ref().is_some_and(|report| report.node_ready);
            if ready && known.get(&machine.name) != Some(&machine.provider_id) {
                let node = node(&machine.name, &machine.provider_id);
                let _ = nodes.delete(&machine.name, &DeleteParams::default()).await;
                if nodes.create(&PostParams::default(), &node).await.is_ok() {
                    let parameters = PatchParams::default();
                    let status = Patch::Merge(json!({ "status": node.status }));
                    let _ = nodes.patch_status(&machine.name, &parameters, &status).await;
                    known.insert(machine.name.clone(), machine.provider_id.clone());
                }
            }
        }
        known.retain(|name, _| inventory.machines.iter().any(|machine| machine.name == *name));
    }
}

fn node(name: &str, provider_id: &str) -> Node {
    let now = Time(jiff::Timestamp::now());
    let condition = NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(now.clone()),
        last_heartbeat_time: Some(now),
        reason: Some("KubeletReady".to_owned()),
        message: Some("ready".to_owned()),
    };
    Node {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(NodeSpec { provider_id: Some(provider_id.to_owned()), ..NodeSpec::default() }),
        status: Some(NodeStatus { conditions: Some(vec![condition]), ..NodeStatus::default() }),
    }
}
