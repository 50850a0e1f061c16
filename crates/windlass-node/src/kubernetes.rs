//! Clients of the cluster's API, and objects applied server-side.
//!
//! Inputs: kubeconfig files on the machine, YAML documents. Outputs: [`kube::Client`]s that never use a proxy, objects with
//! the field manager `windlass`.

use std::path::Path;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};

use crate::error::PartError;

/// Who owns the fields Windlass sets.
pub const FIELD_MANAGER: &str = "windlass";

fn failed(operation: String) -> impl FnOnce(&dyn std::fmt::Display) -> PartError {
    move |cause| PartError::Api { operation, cause: cause.to_string() }
}

/// A client for a kubeconfig file.
///
/// # Errors
/// When the file or what it names cannot be used.
pub async fn client(path: &Path) -> Result<Client, PartError> {
    let operation = || format!("using {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(operation())(&error))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| failed(operation())(&error))?;
    // The environment's proxy is for the outside, never for the cluster's own API.
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(9));
    config.default_retry = false;
    Client::try_from(config).map_err(|error| failed(operation())(&error))
}

/// Reads YAML documents as objects.
///
/// # Errors
/// When one is no Kubernetes object.
pub fn objects(documents: &[String]) -> Result<Vec<DynamicObject>, PartError> {
    documents
        .iter()
        .map(|text| {
            let value: serde_json::Value =
                serde_saphyr::from_str(text).map_err(|error| failed("reading an object".to_owned())(&error))?;
            serde_json::from_value(value).map_err(|error| failed("reading an object".to_owned())(&error))
        })
        .collect()
}

/// The kind of an object, as the API addresses it.
///
/// # Errors
/// When the object has no kind.
pub fn resource(object: &DynamicObject) -> Result<ApiResource, PartError> {
    let types = object.types.as_ref().ok_or_else(|| failed("reading an object".to_owned())(&"it has no kind"))?;
    let gvk = GroupVersionKind::try_from(types).map_err(|error| failed("reading an object".to_owned())(&error))?;
    Ok(ApiResource::from_gvk(&gvk))
}

/// The API for an object: in its namespace, or cluster-wide when it has none.
pub fn api(client: &Client, object: &DynamicObject, resource: &ApiResource) -> Api<DynamicObject> {
    match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// `Kind namespace/name` for people.
pub fn title(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
    let name = object.metadata.name.as_deref().unwrap_or("without a name");
    match &object.metadata.namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Applies one object server-side; our fields win.
///
/// # Errors
/// When the API refuses it.
pub async fn apply(client: &Client, object: &DynamicObject) -> Result<DynamicObject, kube::Error> {
    let resource = match resource(object) {
        Ok(resource) => resource,
        Err(error) => return Err(kube::Error::Service(error.into())),
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api(client, object, &resource).patch(&name, &params, &Patch::Apply(object)).await
}

/// Do other objects need this one to be there first?
pub fn is_foundation(object: &DynamicObject) -> bool {
    let kind = object.types.as_ref().map(|types| types.kind.as_str());
    matches!(kind, Some("Namespace" | "CustomResourceDefinition"))
}
