//! Rules a spec must keep, judged on the admin machine before anything is made.
//!
//! Input: a spec whose form is right. Output: every rule it breaks, with field path, reason and what to do. Each rule has
//! a name and the Windlass version that brought it ([`rules::RULES`]).

mod components;
mod endpoint;
mod ground;
mod labels;
mod machine;
mod metadata;
mod mirrors;
mod network;
mod pem;
mod policies;
pub mod rules;
mod site;
mod syntax;
mod topology;
mod versions;

use crate::problems::{Problem, Problems};
use crate::v1alpha1::Cluster;

pub use ground::validate_ground;
pub use labels::kubelet_may_set;

/// Judges the spec of a cluster.
pub fn validate(cluster: &Cluster) -> Problems {
    let spec = &cluster.spec;
    let mut found: Vec<Problem> = Vec::new();
    metadata::check(cluster, &mut found);
    versions::check(spec, &mut found);
    topology::check(cluster, &mut found);
    labels::check(spec, &mut found);
    network::check(spec, &mut found);
    endpoint::check(&spec.endpoint, &mut found);
    components::check(&spec.components, &mut found);
    policies::check(spec, &mut found);
    machine::check(spec, &mut found);
    mirrors::check(&spec.registry_mirrors, &mut found);
    site::check(spec, &mut found);
    found.into_iter().collect()
}

/// Reports items whose key was there before, with the place of the first.
fn duplicates<'a>(found: &mut Vec<Problem>, what: &str, keys: impl IntoIterator<Item = (String, &'a str)>) {
    let mut seen: Vec<(String, &str)> = Vec::new();
    for (path, key) in keys {
        let first = seen.iter().find(|(_, earlier)| earlier.eq_ignore_ascii_case(key));
        if let Some((first, _)) = first {
            let problem = Problem::error("duplicate-name", path, format!("{what} `{key}` is there twice"));
            found.push(problem.label("again here").with(first.clone(), "first here"));
        } else {
            seen.push((path, key));
        }
    }
}

#[cfg(test)]
mod tests;
