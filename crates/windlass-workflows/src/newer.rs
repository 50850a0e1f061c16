//! An older Windlass keeps off clusters that a newer one has changed: it would not know what it takes apart.
//!
//! Inputs: the version noted on the cluster or on this computer, the own one. Output: a refusal, or nothing. Pure.

use kube::ResourceExt;
use kube::api::DynamicObject;
use windlass_controllers::api::names;

/// The refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster `{cluster}` was changed by Windlass {noted}; this one ({own}) is older and keeps off")]
pub struct NewerWindlass {
    /// The cluster.
    pub cluster: String,
    /// Version that made or last changed it.
    pub noted: String,
    /// Version of this one.
    pub own: String,
}

/// Refuses when the noted version is later than the own one. A cluster without a note is anybody's.
pub fn check(cluster: &str, noted: &str, own: &str) -> Result<(), NewerWindlass> {
    if numbers(noted) <= numbers(own) {
        return Ok(());
    }
    Err(NewerWindlass { cluster: cluster.to_owned(), noted: noted.to_owned(), own: own.to_owned() })
}

/// As [`check`], by what stands on Windlass's Cluster.
pub fn check_object(object: &DynamicObject, own: &str) -> Result<(), NewerWindlass> {
    check(&object.name_any(), object.annotations().get(names::VERSION).map_or("", String::as_str), own)
}

/// The numbers of a version, whatever follows them.
fn numbers(version: &str) -> Vec<u64> {
    let core = version.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    core.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::cluster_kind;

    #[test]
    fn only_a_later_version_keeps_one_off() {
        let table = [
            ("0.1.0", "0.1.0", true),
            ("0.1.0", "0.2.0", true),
            ("0.9.3", "0.10.0", true),
            ("0.10.0", "0.9.3", false),
            ("v1.0.0", "0.9.9", false),
            ("0.1.0-rc.1", "0.1.0", true),
            ("", "0.1.0", true),
        ];
        for (noted, own, allowed) in table {
            assert_eq!(check("lab", noted, own).is_ok(), allowed, "{noted} {own}");
        }
    }

    #[test]
    fn the_note_on_the_object_counts() {
        let mut object = DynamicObject::new("lab", &cluster_kind());
        assert_eq!(check_object(&object, "0.1.0"), Ok(()));
        object.metadata.annotations = Some([(names::VERSION.to_owned(), "0.2.0".to_owned())].into());
        let refusal = check_object(&object, "0.1.0").expect_err("it is newer");
        assert_eq!(
            refusal.to_string(),
            "cluster `lab` was changed by Windlass 0.2.0; this one (0.1.0) is older and keeps off"
        );
    }
}
