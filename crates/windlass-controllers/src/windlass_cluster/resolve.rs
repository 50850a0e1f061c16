//! From the object to the complete spec, or to the word that says why not. Pure.

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_spec::full::{Facts, FullCluster, Release};
use windlass_spec::v1alpha1;

use crate::api::names;
use crate::api::windlass::WindlassCluster;
use crate::conditions::Judged;
use crate::objects;
use crate::reasons::{Reason, types};

/// This Windlass's version.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

fn trouble<T>(reason: Reason, message: impl Into<String>) -> Result<T, Judged> {
    Err(Judged::no(types::SPEC_RESOLVED, reason, message))
}

/// Completes the spec.
pub(super) fn resolve(object: &WindlassCluster) -> Result<FullCluster, Judged> {
    if let Some(version) = objects::annotation(object, names::VERSION)
        && is_newer(version, VERSION)
    {
        return trouble(
            Reason::NewerWindlass,
            format!("it was changed by Windlass {version}; this one ({VERSION}) is older and keeps off"),
        );
    }
    let release: Release = from_annotation(object, names::RELEASE, Reason::ReleaseUnknown)?;
    let facts: Facts = from_annotation(object, names::FACTS, Reason::WaitingForSpec)?;
    let document = document(object)?;
    windlass_spec::resolve::resolve(&document, &release, &facts).or_else(|problems| {
        let said: Vec<String> = problems.errors().map(|one| format!("{}: {}", one.path, one.message)).collect();
        trouble(Reason::InvalidSpec, said.join("; "))
    })
}

/// The document as a person would have written it.
fn document(object: &WindlassCluster) -> Result<v1alpha1::Cluster, Judged> {
    let tree = json!({
        "apiVersion": v1alpha1::API_VERSION,
        "kind": v1alpha1::KIND,
        "metadata": { "name": object.name_any(), "namespace": object.namespace() },
        "spec": Value::Object(object.spec.0.clone()),
    });
    serde_json::from_value(tree).or_else(|error| trouble(Reason::InvalidSpec, error.to_string()))
}

fn from_annotation<T: serde::de::DeserializeOwned>(
    object: &WindlassCluster,
    name: &str,
    reason: Reason,
) -> Result<T, Judged> {
    let Some(text) = objects::annotation(object, name) else {
        return trouble(reason, format!("annotation {name} is missing"));
    };
    serde_json::from_str(text).or_else(|error| trouble(reason, format!("annotation {name}: {error}")))
}

/// Is the first version later than the second? By the numbers, whatever follows them.
fn is_newer(one: &str, other: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let core = text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default().to_owned();
        core.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(one) > numbers(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(is_newer("0.10.0", "0.9.3"));
        assert!(!is_newer("0.9.3", "0.10.0"));
        assert!(!is_newer("v0.1.0-rc.1", "0.1.0"));
    }
}
