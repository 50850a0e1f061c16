//! The roots of trust: made once, before anything is signed by them, and never again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use windlass_pki::{Authorities, SecretKind};

use crate::api::names;
use crate::api::windlass::ControlPlane;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::index::Key;
use crate::objects;
use crate::reasons::Reason;

/// Are the authorities there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certificates {
    /// All of them.
    Available,
    /// Some are missing, of a cluster that has existed.
    Lost(&'static str),
    /// Not looked at, or not made yet.
    Missing,
}

/// The Secrets' resource versions, and what was read from them.
type Read = (Vec<Option<String>>, Arc<Authorities>);

/// Authorities by cluster, read once as long as their Secrets do not change.
#[derive(Default)]
pub(crate) struct AuthorityCache {
    known: Mutex<HashMap<Key, Read>>,
}

impl AuthorityCache {
    /// The authorities of a cluster; none until all Secrets are there.
    pub(crate) async fn get(
        &self,
        context: &Context,
        cluster: &Key,
    ) -> Result<Option<Arc<Authorities>>, ReconcileError> {
        let mut versions = Vec::new();
        for kind in SecretKind::ALL {
            let key = cluster.sibling(&names::authority_secret(&cluster.name, kind));
            let Some(secret) = context.index.secrets.get(&key) else { return Ok(None) };
            versions.push(secret.metadata.resource_version.clone());
        }
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((seen, authorities)) = known.get(cluster)
                && *seen == versions
            {
                return Ok(Some(authorities.clone()));
            }
        }
        let authorities = Arc::new(read(context, cluster).await?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(cluster.clone(), (versions, authorities.clone()));
        Ok(Some(authorities))
    }
}

async fn read(context: &Context, cluster: &Key) -> Result<Authorities, ReconcileError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &cluster.namespace);
    let mut all = BTreeMap::new();
    for kind in SecretKind::ALL {
        let name = names::authority_secret(&cluster.name, kind);
        let secret = api.get(&name).await.map_err(|source| ReconcileError::Api {
            operation: "get",
            what: format!("Secret {}", cluster.sibling(&name)),
            source: Box::new(source),
        })?;
        let entries = secret.data.unwrap_or_default().into_iter();
        let texts = entries.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned()));
        all.insert(kind, texts.collect());
    }
    Authorities::from_secrets(&all).map_err(|error| failed(cluster, &error))
}

pub(super) fn failed(cluster: &Key, error: &windlass_pki::PkiError) -> ReconcileError {
    ReconcileError::Authorities { cluster: cluster.to_string(), cause: error.to_string() }
}

/// Makes the Secrets that are missing, as long as nothing can have been signed by them.
pub(super) async fn ensure(
    context: &Context,
    plane: &ControlPlane,
    cluster: &Key,
) -> Result<Certificates, ReconcileError> {
    let missing: Vec<SecretKind> = SecretKind::ALL
        .into_iter()
        .filter(|kind| {
            let name = names::authority_secret(&cluster.name, *kind);
            context.index.secrets.get(&cluster.sibling(&name)).is_none()
        })
        .collect();
    let Some(first) = missing.first() else { return Ok(Certificates::Available) };
    if has_existed(context, plane, cluster) {
        context.events.warn(plane, Reason::CertificatesMissing, format!("Secret for {} is missing", first.suffix()));
        return Ok(Certificates::Lost(first.suffix()));
    }
    let made = Authorities::generate(jiff::Timestamp::now()).map_err(|error| failed(cluster, &error))?.to_secrets();
    for kind in missing {
        let name = names::authority_secret(&cluster.name, kind);
        let owners = vec![objects::owner(plane, true)];
        let secret = Secret {
            metadata: objects::meta(&cluster.namespace, &name, &cluster.name, owners),
            type_: Some(names::SECRET_TYPE.to_owned()),
            string_data: made.get(&kind).cloned(),
            ..Secret::default()
        };
        context.writer.create_secret(&secret).await?;
    }
    Ok(Certificates::Available)
}

/// Was anything rendered or formed with the authorities? Then they are never made anew.
fn has_existed(context: &Context, plane: &ControlPlane, cluster: &Key) -> bool {
    let initialized = plane.status.as_ref().and_then(|status| status.initialization.as_ref());
    objects::has_annotation(plane, names::FORMED_BY)
        || initialized.is_some_and(|reached| reached.control_plane_initialized == Some(true))
        || context
            .index
            .secrets
            .of_cluster(cluster)
            .iter()
            .any(|secret| objects::has_annotation(&**secret, names::CONFIG_HASH))
}
