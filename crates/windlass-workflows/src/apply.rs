//! Writes to Kubernetes APIs that can be repeated.
//!
//! Inputs: objects. Outputs: they exist as wanted. New ones are created (cheap on a fresh API), existing ones applied
//! server-side.

use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Name under which fields are owned.
pub const FIELD_MANAGER: &str = "windlass";
/// Requests in flight.
const AT_ONCE: usize = 8;

/// Makes an object, or applies it over the one that is there.
pub async fn object<K>(api: &Api<K>, object: &K) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    match api.create(&PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() }, object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let params = PatchParams::apply(FIELD_MANAGER).force();
            api.patch(&object.name_any(), &params, &Patch::Apply(typed(object))).await
        }
        other => other,
    }
}

/// The same for an object whose kind is only known at run time; its types stand in it.
pub async fn dynamic(api: &Api<DynamicObject>, object: &DynamicObject) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&object.name_any(), &params, &Patch::Apply(object)).await
}

/// Server-side apply wants the type in the body, which typed values leave out.
fn typed<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> serde_json::Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = K::api_version(&()).into_owned().into();
    value["kind"] = K::kind(&()).into_owned().into();
    value
}

/// Makes a namespaced object where its metadata says.
pub async fn namespaced<K>(client: &Client, object: &K) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_else(|| "default".into()));
    self::object(&api, object).await
}

/// Makes a namespace; one that is there is left as it is.
pub async fn namespace(client: &Client, name: &str) -> Result<(), kube::Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let wanted = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop),
    }
}

/// Installs definitions and waits until the API serves them.
pub async fn definitions(client: &Client, wanted: &[CustomResourceDefinition]) -> Result<(), kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    stream::iter(wanted)
        .map(|definition| object(&api, definition))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    loop {
        let there = api.list(&ListParams::default()).await?;
        let served = wanted.iter().all(|wanted| {
            there.items.iter().any(|crd| crd.metadata.name == wanted.metadata.name && is_established(crd))
        });
        if served {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Established" && condition.status == "True")
}
