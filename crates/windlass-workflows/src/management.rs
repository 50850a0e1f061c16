//! What a management API holds beside a cluster's own objects: definitions, inventory, the cluster's document, the
//! controllers' credential.
//!
//! Inputs: a client or a [`Pointer`], a spec, a release. Outputs: objects applied; what is held; checks on it.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_controllers::api::cluster_api::MachineDeployment;
use windlass_controllers::api::windlass::ControlPlane;
use windlass_controllers::api::{self, names};
use windlass_providers::ports::{OwnerCredential, Scope};
use windlass_spec::full::{Facts, FullCluster, Release};
use windlass_spec::names::CONTROL_PLANE_GROUP;
use windlass_spec::v1alpha1;

use crate::access::{self, AccessError};
use crate::apply;
use crate::folder::{ClusterFolder, Pointer};

/// How long an API may take to answer one question.
const ANSWER: Duration = Duration::from_secs(5);

/// Name of the Secret with the controllers' credential at the local provider.
const CREDENTIAL: &str = "provider-local";

/// Installs every definition and the controllers' namespace.
pub async fn definitions(client: &Client) -> Result<(), kube::Error> {
    let crds = api::crds();
    tokio::try_join!(apply::definitions(client, &crds), apply::namespace(client, names::SYSTEM_NAMESPACE))?;
    Ok(())
}

/// Writes Windlass's entries into clusterctl's inventory.
pub async fn inventory(client: &Client, version: &str) -> Result<(), kube::Error> {
    for provider in api::providers(version) {
        apply::namespaced(client, &provider).await?;
    }
    Ok(())
}

/// Lays the credential by which controllers in a cluster reach the machines' provider.
pub async fn credential(client: &Client, credential: &OwnerCredential) -> Result<(), kube::Error> {
    let data = [
        ("url", &credential.url),
        ("ca", &credential.ca),
        ("certificate", &credential.certificate),
        ("key", &credential.key),
    ];
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(CREDENTIAL.to_owned()),
            namespace: Some(names::SYSTEM_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        string_data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()),
        ..Secret::default()
    };
    apply::namespaced(client, &secret).await.map(drop)
}

/// Kind of Windlass's own Cluster.
pub fn cluster_kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(names::WINDLASS, "v1alpha1", "Cluster"))
}

/// Windlass's Clusters in a namespace.
pub fn clusters(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &cluster_kind())
}

/// Why a cluster's API does not tell what it holds.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no way in.
    #[error("there is no kubeconfig at {path}")]
    Kubeconfig {
        /// Where it should be.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The way in is of no use.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No answer in time.
    #[error("the cluster's API does not answer within {} s", ANSWER.as_secs())]
    Silent,
    /// It answers with an error, or is not reached.
    #[error("the cluster's API does not tell")]
    Api(#[source] Box<kube::Error>),
    /// Its full spec is of another build.
    #[error("the cluster's full spec is not understood")]
    Full(#[source] serde_json::Error),
    /// Its controllers have not completed the spec yet.
    #[error("the cluster's API does not have the full spec yet")]
    NoFull,
}

/// What a cluster's API holds of the cluster.
pub struct Held {
    /// A client of that API.
    pub client: Client,
    /// Windlass's Cluster.
    pub object: DynamicObject,
}

/// Asks a cluster's own API for its document.
pub async fn ask(pointer: &Pointer) -> Result<Held, AskError> {
    let name = &pointer.scope.cluster;
    let path = ClusterFolder::new(name, pointer.folder.clone()).kubeconfig();
    let text = fs_err::read_to_string(&path).map_err(|source| AskError::Kubeconfig { path, source })?;
    let client = access::client(&text).await?;
    let asked = tokio::time::timeout(ANSWER, clusters(&client, &pointer.namespace).get(name)).await;
    let object = asked.map_err(|_| AskError::Silent)?.map_err(|error| AskError::Api(Box::new(error)))?;
    Ok(Held { client, object })
}

impl Held {
    /// The full spec as the controllers have resolved it, passwords included.
    pub fn full(&self) -> Result<FullCluster, AskError> {
        match &self.object.data["status"]["full"] {
            Value::Null => Err(AskError::NoFull),
            full => serde_json::from_value(full.clone()).map_err(AskError::Full),
        }
    }

    /// Machines that the control plane and each instance group of the spec are asked for, by whomever.
    pub async fn replicas(&self) -> Result<BTreeMap<String, u32>, AskError> {
        let (cluster, namespace) = (self.object.name_any(), self.object.namespace().unwrap_or_default());
        let planes: Api<ControlPlane> = Api::namespaced(self.client.clone(), &namespace);
        let deployments: Api<MachineDeployment> = Api::namespaced(self.client.clone(), &namespace);
        let of_cluster = ListParams::default().labels(&format!("{}={cluster}", names::CLUSTER_NAME));
        let asking = async { tokio::try_join!(planes.get_opt(&cluster), deployments.list(&of_cluster)) };
        let asked = tokio::time::timeout(ANSWER, asking).await.map_err(|_| AskError::Silent)?;
        let (plane, deployments) = asked.map_err(|error| AskError::Api(Box::new(error)))?;
        let plane = plane.map(|plane| (CONTROL_PLANE_GROUP.to_owned(), plane.spec.replicas));
        let groups = deployments.items.iter().filter_map(|deployment| {
            let group = deployment.labels().get(names::GROUP)?;
            Some((group.clone(), deployment.spec.replicas.unwrap_or(1)))
        });
        let all = plane.into_iter().chain(groups);
        Ok(all.map(|(group, count)| (group, u32::try_from(count).unwrap_or(0))).collect())
    }
}

/// Windlass's Cluster as it is applied: the user's document and what identifies it.
pub fn cluster_object(
    cluster: &v1alpha1::Cluster,
    scope: &Scope,
    release: &Release,
    facts: &Facts,
    version: &str,
) -> Result<DynamicObject, serde_json::Error> {
    let mut annotations: BTreeMap<String, String> = cluster.metadata.annotations.clone();
    annotations.extend([
        (names::RELEASE.to_owned(), serde_json::to_string(release)?),
        (names::FACTS.to_owned(), serde_json::to_string(facts)?),
        (names::VERSION.to_owned(), version.to_owned()),
        (names::CLUSTER_ID.to_owned(), scope.cluster_id.to_string()),
        (names::OWNER.to_owned(), scope.ownership.owner.to_string()),
        (names::EPOCH.to_owned(), scope.ownership.epoch.to_string()),
        (names::SELF_MANAGED.to_owned(), "true".to_owned()),
    ]);
    let mut object = DynamicObject::new(&cluster.metadata.name, &cluster_kind()).within(cluster.namespace());
    object.metadata.annotations = Some(annotations);
    object.metadata.labels = Some(cluster.metadata.labels.clone());
    object.data = json!({"spec": serde_json::to_value(&cluster.spec)?});
    Ok(object)
}

/// Why a Cluster is not available, as it says itself; none when it is.
pub fn trouble(cluster: &DynamicObject) -> Option<String> {
    let conditions = cluster.data["status"]["conditions"].as_array();
    let available = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Available"));
    match available {
        Some(condition) if condition["status"] == "True" => None,
        Some(condition) => Some(condition["message"].as_str().unwrap_or("it does not say why").to_owned()),
        None => Some("nobody has judged it yet".to_owned()),
    }
}

/// A hash over what the user wants, whatever the spelling of the file.
pub fn spec_hash(cluster: &v1alpha1::Cluster) -> Result<String, serde_json::Error> {
    let value = serde_json::to_value(&cluster.spec)?;
    Ok(format!("sha256:{}", hex::encode(Sha256::digest(canonical(&value).to_string().as_bytes()))))
}

/// Keys in order, and nothing that says nothing: an API may answer either way.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, canonical(value))).collect();
            Value::Object(kept.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_says_itself_what_troubles_it() {
        let cluster = |conditions: Value| {
            DynamicObject::new("lab", &cluster_kind()).data(json!({"status": {"conditions": conditions}}))
        };
        let available = |status: &str| cluster(json!([{"type": "Available", "status": status, "message": "etcd"}]));
        assert_eq!(trouble(&available("True")), None);
        assert_eq!(trouble(&available("False")).as_deref(), Some("etcd"));
        assert!(trouble(&cluster(json!([]))).is_some());
    }

    #[test]
    fn the_order_of_keys_does_not_change_a_hash() {
        let one: Value = serde_json::from_str(r#"{"b": {"d": 1, "c": [2, {"f": 3, "e": 4}]}, "a": 0}"#).expect("json");
        assert_eq!(canonical(&one).to_string(), r#"{"a":0,"b":{"c":[2,{"e":4,"f":3}],"d":1}}"#);
    }
}
