//! What a cluster is right now, gathered from its API, its provider and this computer.
//!
//! Inputs: a [`Pointer`], the provider's inventory where it can be had. Output: [`Status`], a document that is printed as
//! tables or as data. A cluster without an API still has a status: what its machines say.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use windlass_controllers::api::cluster_api::Machine as MachineObject;
use windlass_engine::{Holder, Lock, ProgressState};
use windlass_providers::ports::{Inventory, Machine, MachineState, Provider};

use crate::access;
use crate::folder::{ClusterFolder, Life, Pointer, Registry};
use crate::machines::view::{self, READY};
use crate::management;

/// How long an API may take before it counts as not answering.
const ANSWER: Duration = Duration::from_secs(5);
/// Label of everything an ApplySet made.
const PART_OF: &str = "applyset.kubernetes.io/part-of";

/// A cluster right now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Namespace of its objects.
    pub namespace: String,
    /// Its identity for life.
    pub cluster_id: String,
    /// Is all that was asked for there and at work?
    pub ready: bool,
    /// What is waited for, in one sentence; empty when ready.
    pub reason: String,
    /// Its folder.
    pub folder: String,
    /// Where it is in its life as this computer knows it.
    pub life: Life,
    /// When it was created.
    pub created: Timestamp,
    /// The operation at work on it.
    pub operation: Option<String>,
    /// What its API says.
    pub api: ApiStatus,
    /// Its machines.
    pub machines: Vec<MachineStatus>,
    /// Its volumes.
    pub volumes: Vec<VolumeStatus>,
    /// Its add-ons.
    pub addons: Vec<AddonStatus>,
}

/// What the API says of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiStatus {
    /// Does it answer?
    pub answers: bool,
    /// Why not.
    pub error: Option<String>,
    /// Where it is: `https://ADDRESS:PORT`.
    pub endpoint: Option<String>,
    /// Kubernetes version of the server.
    pub version: Option<String>,
    /// Phase of the Cluster.
    pub phase: Option<String>,
    /// `3/3`.
    pub control_planes: Option<String>,
    /// `2/2`.
    pub workers: Option<String>,
    /// Is it available? None while nobody has judged.
    pub available: Option<bool>,
    /// What is not as it should be.
    pub troubles: Vec<String>,
}

/// A machine right now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Its name.
    pub name: String,
    /// `ControlPlane` or `Worker`.
    pub role: String,
    /// Is it a Ready Node with every part done?
    pub ready: bool,
    /// What is waited for, in one sentence; empty when ready.
    pub reason: String,
    /// Phase of its Machine object; the provider's word where there is none.
    pub phase: String,
    /// Its address.
    pub address: String,
    /// kubelet's version.
    pub version: Option<String>,
    /// Is its Node Ready?
    pub node_ready: Option<bool>,
    /// Its etcd member's id.
    pub etcd_member: Option<String>,
    /// Is its API server ready?
    pub api_server_ready: Option<bool>,
    /// What it does.
    pub doing: String,
    /// What it waits for, or why it failed.
    pub waits_for: String,
    /// Is that a failure?
    pub failed: bool,
    /// How often it was started.
    pub starts: u32,
}

/// A volume right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The machine that has it.
    pub attached_to: Option<String>,
    /// Where its content lies.
    pub location: String,
}

/// An add-on right now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its version: the image's tag.
    pub version: String,
    /// Pods ready.
    pub ready: i32,
    /// Pods wanted.
    pub wanted: i32,
}

impl Status {
    /// Draws the conclusion from what was gathered, for each machine and for the whole.
    fn judged(mut self) -> Self {
        for machine in &mut self.machines {
            machine.reason = machine.waits().unwrap_or_default();
            machine.ready = machine.reason.is_empty();
        }
        self.reason = self.waits().unwrap_or_default();
        self.ready = self.reason.is_empty();
        self
    }

    /// What the cluster waits for; none when it is ready.
    fn waits(&self) -> Option<String> {
        match self.life {
            Life::Creating => return Some(self.unfinished("creation")),
            Life::Deleting => return Some(self.unfinished("deletion")),
            Life::Kept => return Some("it is deleted, only its volumes are kept".to_owned()),
            Life::Created => {}
        }
        if let Some(error) = &self.api.error {
            return Some(format!("its API does not answer: {error}"));
        }
        let waiting = self.machines.iter().find(|machine| !machine.ready);
        if let Some(machine) = waiting {
            return Some(format!("{}: {}", machine.name, machine.reason));
        }
        match self.api.available {
            Some(true) => None,
            Some(false) => Some(format!("it is not available: {}", self.api.troubles.join("; "))),
            None => Some("its controllers have not judged it yet".to_owned()),
        }
    }

    fn unfinished(&self, what: &str) -> String {
        let waiting = self.machines.iter().find(|machine| !machine.ready);
        let machine = waiting.map(|machine| format!("; {}: {}", machine.name, machine.reason)).unwrap_or_default();
        match &self.operation {
            Some(_) => format!("its {what} is at work{machine}"),
            None => format!("its {what} did not end{machine}"),
        }
    }
}

impl MachineStatus {
    /// What the machine waits for; none when it is ready.
    fn waits(&self) -> Option<String> {
        match (self.doing.as_str(), self.waits_for.as_str()) {
            ("" | READY, "") => {}
            (doing, "") => return Some(doing.to_owned()),
            (doing, waits_for) => return Some(format!("{doing}: {waits_for}")),
        }
        match (self.node_ready, self.api_server_ready) {
            (None, _) => Some("its Node is not there yet".to_owned()),
            (Some(false), _) => Some("its Node is not Ready".to_owned()),
            (Some(true), Some(false)) => Some("its API server is not ready".to_owned()),
            (Some(true), _) => None,
        }
    }
}

/// Gathers everything.
pub async fn of(pointer: &Pointer, registry: &Registry, provider: Option<&dyn Provider>) -> Status {
    let inventory = match provider {
        Some(provider) => provider.inventory(&pointer.scope).await.ok(),
        None => None,
    };
    let holder = Lock::holder(&registry.lock(&pointer.scope.cluster));
    let mut status = with_api(pointer, inventory.as_ref()).await;
    status.operation = holder.as_ref().map(Holder::to_string);
    status.judged()
}

/// From the API alone; an error when it does not answer.
pub async fn of_api(pointer: &Pointer) -> Result<Status, String> {
    let status = with_api(pointer, None).await.judged();
    match &status.api.error {
        None => Ok(status),
        Some(_) => Err(status.reason),
    }
}

async fn with_api(pointer: &Pointer, inventory: Option<&Inventory>) -> Status {
    let answer = tokio::time::timeout(ANSWER, seen(pointer)).await;
    let (api, mut objects) = match answer {
        Ok(Ok(seen)) => (seen.api.clone(), Some(seen)),
        Ok(Err(error)) => (ApiStatus { error: Some(error), ..ApiStatus::default() }, None),
        Err(_) => {
            let error = Some(format!("no answer within {} s", ANSWER.as_secs()));
            (ApiStatus { error, ..ApiStatus::default() }, None)
        }
    };
    let mut status = Status {
        name: pointer.scope.cluster.clone(),
        namespace: pointer.namespace.clone(),
        cluster_id: pointer.scope.cluster_id.to_string(),
        ready: false,
        reason: String::new(),
        folder: pointer.folder.to_string(),
        life: pointer.life,
        created: pointer.created,
        operation: None,
        api,
        machines: inventory.iter().flat_map(|inventory| &inventory.machines).map(of_provider).collect(),
        volumes: volumes(inventory),
        addons: objects.as_mut().map(|seen| std::mem::take(&mut seen.addons)).unwrap_or_default(),
    };
    for machine in objects.iter().flat_map(|seen| &seen.machines) {
        merge(&mut status.machines, machine);
    }
    for node in objects.iter().flat_map(|seen| &seen.nodes) {
        if let Some(machine) = status.machines.iter_mut().find(|machine| machine.name == node.name_any()) {
            take_node(machine, node);
        }
    }
    status
}

fn volumes(inventory: Option<&Inventory>) -> Vec<VolumeStatus> {
    let volumes = inventory.iter().flat_map(|inventory| &inventory.volumes);
    volumes
        .map(|volume| VolumeStatus {
            name: volume.name.clone(),
            bytes: volume.bytes,
            attached_to: volume.attached_to.clone(),
            location: volume.location.clone(),
        })
        .collect()
}

fn of_provider(machine: &Machine) -> MachineStatus {
    let line = view::progress(machine);
    let report = machine.report.as_ref().filter(|report| view::is_of_this_start(machine, report));
    let phase = match &machine.state {
        MachineState::Reserved => "Reserved",
        MachineState::Starting => "Starting",
        MachineState::Running => "Running",
        MachineState::Stopped { .. } => "Stopped",
    };
    MachineStatus {
        name: machine.name.clone(),
        role: machine.role.map(|role| format!("{role:?}")).unwrap_or_default(),
        ready: false,
        reason: String::new(),
        phase: phase.to_owned(),
        address: machine.address.to_string(),
        version: None,
        node_ready: report.map(|report| report.node_ready),
        etcd_member: report.and_then(|report| report.etcd_member_id.clone()),
        api_server_ready: report.and_then(|report| report.api_server_ready),
        doing: line.doing,
        waits_for: line.detail,
        failed: line.state == ProgressState::Failed,
        starts: machine.starts,
    }
}

/// Adds what the Machine object says; one the provider does not know gets a row of its own.
fn merge(machines: &mut Vec<MachineStatus>, object: &MachineObject) {
    let name = object.name_any();
    let phase = object.status.as_ref().and_then(|status| status.phase);
    let phase = phase.map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"));
    if let Some(machine) = machines.iter_mut().find(|machine| machine.name == name) {
        machine.phase = phase;
        return;
    }
    let control_plane = object.labels().contains_key(windlass_controllers::api::names::CONTROL_PLANE);
    machines.push(MachineStatus {
        name,
        role: if control_plane { "ControlPlane".into() } else { "Worker".into() },
        ready: false,
        reason: String::new(),
        phase,
        address: String::new(),
        version: object.spec.version.clone(),
        node_ready: None,
        etcd_member: None,
        api_server_ready: None,
        doing: String::new(),
        waits_for: String::new(),
        failed: false,
        starts: 0,
    });
}

fn take_node(machine: &mut MachineStatus, node: &Node) {
    let Some(status) = &node.status else { return };
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    machine.node_ready = Some(ready.is_some_and(|condition| condition.status == "True"));
    machine.version = status.node_info.as_ref().map(|info| info.kubelet_version.clone());
    if machine.address.is_empty() {
        let internal = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP");
        machine.address = internal.map(|address| address.address.clone()).unwrap_or_default();
    }
}

/// What an API was seen to hold.
struct Seen {
    api: ApiStatus,
    machines: Vec<MachineObject>,
    nodes: Vec<Node>,
    addons: Vec<AddonStatus>,
}

/// The API a cluster's objects are in: its own, or the bootstrap plane while one runs.
async fn seen(pointer: &Pointer) -> Result<Seen, String> {
    let folder = ClusterFolder::new(&pointer.scope.cluster, pointer.folder.clone());
    let path = folder.kubeconfig();
    let text = fs_err::read_to_string(&path).map_err(|_| format!("there is no kubeconfig at {path} yet"))?;
    let client = access::client(&text).await.map_err(|error| error.to_string())?;
    let server = client.apiserver_version().await.map_err(|error| error.to_string())?;
    let namespaced = |client: &Client| Api::<MachineObject>::namespaced(client.clone(), &pointer.namespace);
    let all = ListParams::default();
    let (clusters, machines, nodes) =
        (management::clusters(&client, &pointer.namespace), namespaced(&client), Api::<Node>::all(client.clone()));
    let (object, machines, nodes, addons) =
        tokio::join!(clusters.get_opt(&pointer.scope.cluster), machines.list(&all), nodes.list(&all), addons(&client));
    // Before the pivot a cluster's own API has no management objects: that is no error of its own.
    let object = object.ok().flatten();
    Ok(Seen {
        api: api_status(object.as_ref(), server.git_version),
        machines: machines.map(|list| list.items).unwrap_or_default(),
        nodes: nodes.map(|list| list.items).unwrap_or_default(),
        addons: addons.unwrap_or_default(),
    })
}

fn api_status(object: Option<&DynamicObject>, version: String) -> ApiStatus {
    let data = object.map_or(&Value::Null, |object| &object.data["status"]);
    let text = |field: &str| data[field].as_str().map(ToOwned::to_owned);
    let conditions = data["conditions"].as_array();
    let available = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Available"));
    let trouble = available.filter(|condition| condition["status"] != "True").and_then(|c| c["message"].as_str());
    ApiStatus {
        answers: true,
        error: None,
        endpoint: text("endpoint"),
        version: Some(version),
        phase: text("phase"),
        control_planes: text("controlPlanes"),
        workers: text("workers"),
        available: available.map(|condition| condition["status"] == "True"),
        troubles: trouble.map(ToOwned::to_owned).into_iter().collect(),
    }
}

async fn addons(client: &Client) -> Result<Vec<AddonStatus>, kube::Error> {
    let (deployments, daemons) = (Api::<Deployment>::all(client.clone()), Api::<DaemonSet>::all(client.clone()));
    let selected = ListParams::default().labels(PART_OF);
    let (deployments, daemons) = tokio::try_join!(deployments.list(&selected), daemons.list(&selected))?;
    let deployments = deployments.items.into_iter().map(|object| {
        let status = object.status.clone().unwrap_or_default();
        let spec = &object.spec;
        AddonStatus {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            version: tag(spec.template.spec.as_ref()),
            ready: status.ready_replicas.unwrap_or(0),
            wanted: spec.replicas.unwrap_or(1),
        }
    });
    let daemons = daemons.items.into_iter().map(|object| {
        let status = object.status.clone().unwrap_or_default();
        AddonStatus {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            version: tag(object.spec.template.spec.as_ref()),
            ready: status.number_ready,
            wanted: status.desired_number_scheduled,
        }
    });
    let mut all: Vec<AddonStatus> = deployments.chain(daemons).collect();
    all.sort();
    Ok(all)
}

/// The tag of the first container's image.
fn tag(pod: Option<&PodSpec>) -> String {
    let image = pod.and_then(|pod| pod.containers.first()).and_then(|container| container.image.as_deref());
    let tag = image.and_then(|image| image.rsplit_once(':')).map(|(_, tag)| tag);
    tag.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use windlass_spec::report::PartState;

    use super::*;
    use crate::machines::view::tests::machine;

    fn machine_status(state: MachineState, parts: Option<Vec<(&str, PartState)>>, ready: bool) -> MachineStatus {
        let mut machine = machine("lab-cp-a", state, parts);
        if let Some(report) = &mut machine.report {
            report.node_ready = ready;
        }
        of_provider(&machine)
    }

    fn status(life: Life, api: ApiStatus, machines: Vec<MachineStatus>) -> Status {
        let text = include_str!("../tests/fixtures/pointer-1.json");
        let pointer: Pointer = serde_json::from_str(text).expect("understood");
        Status {
            name: pointer.scope.cluster,
            namespace: pointer.namespace,
            cluster_id: pointer.scope.cluster_id.to_string(),
            ready: false,
            reason: String::new(),
            folder: pointer.folder.to_string(),
            life,
            created: pointer.created,
            operation: None,
            api,
            machines,
            volumes: Vec::new(),
            addons: Vec::new(),
        }
        .judged()
    }

    fn available(available: Option<bool>, trouble: &str) -> ApiStatus {
        ApiStatus { answers: true, available, troubles: vec![trouble.to_owned()], ..ApiStatus::default() }
    }

    #[test]
    fn b20_ready_is_said_only_of_what_is_proven() {
        let running = |parts, ready| machine_status(MachineState::Running, parts, ready);
        let done = || Some(vec![("etcd", PartState::Done)]);
        let good = || running(done(), true);
        let waiting = PartState::Waiting { reason: "its certificate".into() };
        let no_api_server = MachineStatus { api_server_ready: Some(false), ..good() };
        let only_known_to_the_api =
            MachineStatus { doing: String::new(), waits_for: String::new(), node_ready: None, ..good() };
        let dead = ApiStatus { error: Some("refused".into()), ..ApiStatus::default() };
        let yes = || available(Some(true), "");
        let table = [
            (Life::Created, yes(), good()),
            (Life::Created, yes(), running(Some(vec![("kubelet", waiting)]), false)),
            (Life::Created, yes(), running(None, false)),
            (Life::Created, yes(), running(done(), false)),
            (Life::Created, yes(), machine_status(MachineState::Stopped { reason: "exited 137".into() }, None, false)),
            (Life::Created, yes(), no_api_server),
            (Life::Created, yes(), only_known_to_the_api),
            (Life::Created, dead, good()),
            (Life::Created, available(Some(false), "etcd has 1 of 3 members"), good()),
            (Life::Created, available(None, ""), good()),
            (Life::Creating, yes(), good()),
            (Life::Creating, yes(), running(None, false)),
            (Life::Deleting, yes(), good()),
            (Life::Kept, yes(), good()),
        ];
        let lines: Vec<String> = table
            .into_iter()
            .map(|(life, api, machine)| status(life, api, vec![machine]))
            .map(|status| format!("{:5} {:5} | {}", status.ready, status.machines[0].ready, status.reason))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        true  true  | 
        false false | lab-cp-a: kubelet: its certificate
        false false | lab-cp-a: boot: waits for its agent's first report
        false false | lab-cp-a: node: waits for its Node to be Ready
        false false | lab-cp-a: stopped: exited 137
        false false | lab-cp-a: its API server is not ready
        false false | lab-cp-a: its Node is not there yet
        false true  | its API does not answer: refused
        false true  | it is not available: etcd has 1 of 3 members
        false true  | its controllers have not judged it yet
        false true  | its creation did not end
        false false | its creation did not end; lab-cp-a: boot: waits for its agent's first report
        false true  | its deletion did not end
        false true  | it is deleted, only its volumes are kept
        ");
    }
}
