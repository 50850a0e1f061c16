//! The administrators' kubeconfig: made when the endpoint is known, renewed while half a year is left.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use windlass_pki::admin_kubeconfig;

use super::authorities::failed;
use crate::api::cluster_api::shared::ApiEndpoint;
use crate::api::names;
use crate::api::windlass::ControlPlane;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::{Index, Key};
use crate::objects;
use crate::reasons::Reason;
use crate::runtime::workers::Next;

const MANAGER: &str = "windlass-controlplane";
/// Name of the administrator in it.
const ADMIN: &str = "kubernetes-admin";
/// How long its certificate is good.
const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);
/// It is renewed when less is left.
const RENEW: SignedDuration = SignedDuration::from_hours(182 * 24);

/// Makes or renews it.
pub(super) async fn ensure(context: &Context, plane: &ControlPlane, cluster: &Key) -> Result<Next, ReconcileError> {
    let Some(endpoint) = endpoint(&context.index, cluster) else { return Ok(Next::Await) };
    let Some(authorities) = context.authorities.get(context, cluster).await? else { return Ok(Next::Await) };
    let name = names::kubeconfig_secret(&cluster.name);
    let now = Timestamp::now();
    if let Some(secret) = context.index.secrets.get(&cluster.sibling(&name)) {
        let is_ours = objects::is_controlled_by(&*secret, plane) || objects::has_annotation(&*secret, names::EXPIRES);
        if !is_ours {
            // Somebody gave their own.
            return Ok(Next::Await);
        }
        let expires = objects::annotation(&*secret, names::EXPIRES).and_then(|text| text.parse::<Timestamp>().ok());
        let left = expires.map_or(SignedDuration::ZERO, |expires| expires.duration_since(now));
        if left > RENEW {
            let wait = Duration::try_from(left - RENEW).unwrap_or(Duration::from_secs(3600));
            return Ok(Next::After(wait.min(Duration::from_secs(24 * 3600))));
        }
    }
    let server = format!("https://{}:{}", host(&endpoint.host), endpoint.port.unwrap_or(6443));
    let text = admin_kubeconfig(&authorities, &cluster.name, &server, ADMIN, VALID, now)
        .map_err(|error| failed(cluster, &error))?;
    let mut metadata = objects::meta(&cluster.namespace, &name, &cluster.name, vec![objects::owner(plane, true)]);
    metadata.annotations = Some(BTreeMap::from([(names::EXPIRES.to_owned(), (now + VALID).to_string())]));
    let secret = Secret {
        metadata,
        type_: Some(names::SECRET_TYPE.to_owned()),
        data: Some(BTreeMap::from([("value".to_owned(), k8s_openapi::ByteString(text.into_bytes()))])),
        ..Secret::default()
    };
    context.writer.apply_secret(MANAGER, &secret).await?;
    context.events.say(plane, Reason::Created, format!("kubeconfig in Secret {name}"));
    Ok(Next::Await)
}

/// The cluster's endpoint, from Cluster API's Cluster or the infrastructure.
fn endpoint(index: &Index, cluster: &Key) -> Option<ApiEndpoint> {
    let of_cluster = index.clusters.get(cluster).and_then(|cluster| cluster.spec.control_plane_endpoint.clone());
    let of_infrastructure = || {
        let locals = index.local_clusters.of_cluster(cluster);
        locals.iter().find_map(|local| local.spec.control_plane_endpoint.clone())
    };
    of_cluster.filter(ApiEndpoint::is_valid).or_else(of_infrastructure).filter(ApiEndpoint::is_valid)
}

fn host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
