//! What must be in the cluster before the first kubelet joins.
//!
//! Inputs: documents of the configuration, the objects the release makes for itself, the break-glass kubeconfig of the own
//! API server. Output: all of them there, as soon as that server answers; namespaces first, the rest at once.
//!
//! The release's own objects (RBAC policy, ServiceAccounts of controllers) are created here because API server and
//! controller manager make them one after the other, each write waiting for the disks of a majority; what they find they
//! leave as it is, so that a later release still updates them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{try_join, try_join_all};
use futures::{TryStreamExt as _, stream};
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use windlass_spec::node_config::ClusterDuties;
use windlass_spec::paths::BOOTSTRAP_OBJECTS;

use super::BOOTSTRAP_PART;
use crate::error::PartError;
use crate::host::files;
use crate::kubernetes;
use crate::parts::Context;

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Failures that are the normal course of a starting API server, at the first pause.
const PATIENCE: u32 = 300;
/// Objects of the release created side by side: enough to share the disks' writes, few enough to leave a server its air.
const SIDE_BY_SIDE: usize = 24;

/// Applies everything; returns when all is there.
pub async fn run(cx: &Context, duties: &ClusterDuties) {
    cx.board.waiting(BOOTSTRAP_PART, "the own API server");
    let mut pause = PAUSE;
    let mut prepared = None;
    for failures in 0.. {
        match try_once(cx, duties, &mut prepared).await {
            Ok(count) => return cx.board.done(BOOTSTRAP_PART, vec![format!("applied {count} objects")]),
            Err(error) if failures < PATIENCE => tracing::debug!("{error}"),
            Err(error) => {
                prepared = None;
                cx.board.failed(BOOTSTRAP_PART, error.to_string(), Vec::new());
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Client and objects, kept from try to try.
type Prepared = Option<(Client, Vec<DynamicObject>, Vec<DynamicObject>)>;

async fn try_once(cx: &Context, duties: &ClusterDuties, prepared: &mut Prepared) -> Result<usize, PartError> {
    let (client, objects, of_release) = match prepared {
        Some(prepared) => prepared,
        None => {
            let objects = kubernetes::objects(&duties.bootstrap)?;
            let of_release = objects_of_release(cx)?;
            let client = kubernetes::client(&cx.host.root.at(&duties.bootstrap_kubeconfig)).await?;
            prepared.insert((client, objects, of_release))
        }
    };
    let (first, then): (Vec<_>, Vec<_>) = objects.iter().partition(|object| kubernetes::is_foundation(object));
    let ours = async {
        for group in [first, then] {
            try_join_all(group.into_iter().map(|object| apply(client, object))).await?;
        }
        Ok(objects.len())
    };
    let (applied, created) = try_join(ours, create_missing(client, of_release)).await?;
    Ok(applied + created)
}

/// None where the bundle brings no such list.
fn objects_of_release(cx: &Context) -> Result<Vec<DynamicObject>, PartError> {
    let path = cx.host.root.at(BOOTSTRAP_OBJECTS);
    let text = files::read_text(&path).map_err(PartError::file(&path))?.unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&text)
        .map_err(|error| PartError::Config { what: BOOTSTRAP_OBJECTS.to_owned(), problem: error.to_string() })
}

/// Creates what is not there and says how many that were; what is there is left alone.
async fn create_missing(client: &Client, objects: &[DynamicObject]) -> Result<usize, PartError> {
    let there = present(client, objects).await?;
    let missing: Vec<_> = objects.iter().filter(|object| !there.contains(&identity(object))).collect();
    let count = missing.len();
    let missing = stream::iter(missing.into_iter().map(Ok));
    missing.try_for_each_concurrent(SIDE_BY_SIDE, |object| create(client, object)).await?;
    Ok(count)
}

type Identity = (String, Option<String>, String);

fn identity(object: &DynamicObject) -> Identity {
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    (kind, object.namespace(), object.name_any())
}

/// Everything of the objects' kinds that is there.
async fn present(client: &Client, objects: &[DynamicObject]) -> Result<BTreeSet<Identity>, PartError> {
    let mut kinds: BTreeMap<String, ApiResource> = BTreeMap::new();
    for object in objects {
        let resource = kubernetes::resource(object)?;
        kinds.insert(resource.kind.clone(), resource);
    }
    let lists = kinds.values().map(|resource| async move {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let found = api.list_metadata(&ListParams::default()).await;
        let found = found.map_err(PartError::api(format!("listing {}", resource.plural)))?;
        let identity = |one: PartialObjectMeta<DynamicObject>| (resource.kind.clone(), one.namespace(), one.name_any());
        Ok::<Vec<Identity>, PartError>(found.into_iter().map(identity).collect())
    });
    Ok(try_join_all(lists).await?.into_iter().flatten().collect())
}

async fn create(client: &Client, object: &DynamicObject) -> Result<(), PartError> {
    let api = kubernetes::api(client, object, &kubernetes::resource(object)?);
    match api.create(&PostParams::default(), object).await {
        Ok(_) => Ok(()),
        // The API server or another control plane was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(PartError::api(format!("creating {}", kubernetes::title(object)))(error)),
    }
}

async fn apply(client: &Client, object: &DynamicObject) -> Result<(), PartError> {
    let applied = kubernetes::apply(client, object).await;
    applied.map(drop).map_err(PartError::api(format!("applying {}", kubernetes::title(object))))
}
