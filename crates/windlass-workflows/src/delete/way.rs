//! By which way a cluster is lowered: through its management, or from the provider's inventory.
//!
//! Inputs: what this computer knows of the cluster, whether its API answers; later, why its management does not move.
//! Outputs: the [`Way`] at the beginning, the reason to leave it, and the right by which machines are removed.

use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use windlass_spec::identity::Ownership;

use super::Refusal;
use crate::access;
use crate::content;
use crate::folder::{ClusterFolder, Life, Pointer};
use crate::management;
use crate::newer;
use crate::pivot::PivotError;
use crate::plane::Programs;
use crate::site::Site;

/// How long an API may take to answer before the cluster is lowered without it.
const ANSWER: Duration = Duration::from_secs(5);

/// By which way a cluster is lowered.
#[derive(Clone)]
pub enum Way {
    /// Management is moved back to a bootstrap plane.
    Management {
        /// Client of the cluster.
        client: Client,
        /// The bootstrap plane's programs.
        programs: Programs,
    },
    /// From the provider's inventory.
    Inventory {
        /// Why.
        reason: String,
    },
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Management { .. } => f.write_str("Management"),
            Self::Inventory { reason } => write!(f, "Inventory ({reason})"),
        }
    }
}

/// Finds the way for a cluster as this computer knows it.
pub(super) async fn find(site: &Site, pointer: &Pointer, folder: &ClusterFolder) -> Result<Way, Refusal> {
    let inventory = |reason: &str| Ok(Way::Inventory { reason: reason.to_owned() });
    match pointer.life {
        Life::Created => {}
        Life::Creating => return inventory("its creation had not ended"),
        Life::Deleting => return inventory("an earlier deletion had begun"),
        Life::Kept => return inventory("only volumes are left"),
    }
    let Ok(text) = fs_err::read_to_string(folder.kubeconfig()) else {
        return inventory("its kubeconfig is gone");
    };
    let Ok(client) = access::client(&text).await else { return inventory("its kubeconfig is of no use") };
    let Ok(Ok(managed)) = tokio::time::timeout(ANSWER, managed(&client)).await else {
        return inventory("its API does not answer");
    };
    judge(&managed, &pointer.scope.cluster, &site.version)?;
    match content::programs_of(&pointer.bundle, &site.cache) {
        Ok(programs) => Ok(Way::Management { client, programs }),
        Err(error) => inventory(&error.to_string()),
    }
}

/// Clusters this one manages, itself among them.
async fn managed(client: &Client) -> Result<Vec<DynamicObject>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &management::cluster_kind());
    Ok(api.list(&ListParams::default()).await?.items)
}

/// Refuses when somebody else would be harmed: other clusters, or a newer Windlass's.
fn judge(managed: &[DynamicObject], cluster: &str, version: &str) -> Result<(), Refusal> {
    let (own, others): (Vec<&DynamicObject>, Vec<_>) = managed.iter().partition(|object| object.name_any() == cluster);
    for object in own {
        newer::check_object(object, version)?;
    }
    if others.is_empty() {
        return Ok(());
    }
    Err(Refusal::Manager { clusters: others.iter().map(|object| object.name_any()).collect() })
}

/// Why the inventory decides when management does not move; none when going on could lose what is somebody's.
pub(super) fn without_management(error: &PivotError) -> Option<String> {
    match error {
        PivotError::NotReported { waited, .. } => {
            Some(format!("its controllers did not answer within {} s", waited.as_secs()))
        }
        PivotError::Api { operation, .. } => Some(format!("its management failed to {operation}")),
        PivotError::NoCluster { .. } => Some("its API holds no such cluster".to_owned()),
        PivotError::Owner(_) | PivotError::Differs { .. } => None,
    }
}

/// By which right machines are removed from the inventory: one above every right seen, so that whoever still holds the
/// cluster's management makes no new ones.
pub(super) fn right(seen: &Ownership, own: &Ownership) -> Ownership {
    Ownership { owner: own.owner.clone(), epoch: seen.epoch.max(own.epoch).next() }
}

#[cfg(test)]
mod tests {
    use windlass_spec::identity::{Epoch, OwnerId};

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use windlass_controllers::api::names::VERSION;

    use super::*;
    use crate::pivot::graph::{Item, Key, layers};

    fn key() -> Key {
        Key { group: "cluster.x-k8s.io".into(), kind: "Machine".into(), name: "lab-md-1".into() }
    }

    /// What a move says of an object that hangs from something that does not move.
    fn foreign() -> PivotError {
        let kind = management::cluster_kind();
        let mut object = DynamicObject::new("lab", &kind);
        object.metadata.owner_references = Some(vec![OwnerReference::default()]);
        PivotError::Owner(layers(vec![Item { kind, object }]).expect_err("its owner is not there"))
    }

    #[test]
    fn silence_leads_to_the_inventory_and_a_danger_of_loss_stops() {
        let silent =
            PivotError::NotReported { wanted: "Paused=True", waited: Duration::from_secs(60), objects: vec![key()] };
        let cases = [
            (silent, Some("its controllers did not answer within 60 s")),
            (
                PivotError::Api {
                    operation: "list Machines".into(),
                    source: Box::new(kube::Error::Service("closed".into())),
                },
                Some("its management failed to list Machines"),
            ),
            (PivotError::NoCluster { cluster: "lab".into() }, Some("its API holds no such cluster")),
            (PivotError::Differs { object: key(), part: "content" }, None),
            (foreign(), None),
        ];
        for (error, reason) in cases {
            assert_eq!(without_management(&error).as_deref(), reason, "{error}");
        }
    }

    #[test]
    fn what_is_not_ours_alone_to_delete_is_refused() {
        let cluster = |name: &str, version: &str| {
            let mut object = DynamicObject::new(name, &management::cluster_kind());
            object.metadata.annotations = Some([(VERSION.to_owned(), version.to_owned())].into());
            object
        };
        let said = |managed: &[DynamicObject]| judge(managed, "lab", "0.1.0").err().map(|refusal| refusal.to_string());
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[cluster("lab", "0.1.0")]), None);
        let other = said(&[cluster("lab", "0.1.0"), cluster("two", "0.1.0")]);
        assert_eq!(other.as_deref(), Some("the cluster manages others: two; delete or move them first"));
        let newer = said(&[cluster("lab", "0.2.0")]).expect("refused");
        assert!(newer.contains("changed by Windlass 0.2.0"), "{newer}");
    }

    #[test]
    fn the_right_of_the_inventory_is_above_every_other() {
        let right_of = |owner: &str, epoch| Ownership { owner: OwnerId::from(owner), epoch: Epoch(epoch) };
        let cases = [
            (right_of("one", 1), right_of("one", 1), right_of("one", 2)),
            (right_of("two", 7), right_of("one", 1), right_of("one", 8)),
            (right_of("one", 1), right_of("one", 3), right_of("one", 4)),
        ];
        for (seen, own, wanted) in cases {
            assert_eq!(right(&seen, &own), wanted);
        }
    }
}
