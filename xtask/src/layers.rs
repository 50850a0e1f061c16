//! The arrows between crates.
//!
//! Input: `cargo metadata`. Output: each dependency that points the wrong way, and each runtime or client library that
//! reached a crate which must stay pure. Development dependencies are free.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Which of our crates each crate may use. A crate that is missing here is a problem: decide where it belongs first.
const ARROWS: &[(&str, &[&str])] = &[
    ("windlass-spec", &[]),
    ("windlass-engine", &[]),
    ("windlass-files", &[]),
    ("windlass-pki", &["windlass-spec"]),
    ("windlass-plan", &["windlass-spec", "windlass-pki"]),
    ("windlass-assets", &["windlass-files", "windlass-spec"]),
    ("windlass-etcd", &["windlass-spec"]),
    ("windlass-providers", &["windlass-files", "windlass-spec", "windlass-pki", "windlass-assets"]),
    ("windlass-node", &["windlass-files", "windlass-spec", "windlass-pki", "windlass-assets", "windlass-etcd"]),
    (
        "windlass-controllers",
        &["windlass-spec", "windlass-pki", "windlass-plan", "windlass-assets", "windlass-etcd", "windlass-providers"],
    ),
    (
        "windlass-workflows",
        &[
            "windlass-files",
            "windlass-spec",
            "windlass-engine",
            "windlass-pki",
            "windlass-plan",
            "windlass-assets",
            "windlass-etcd",
            "windlass-providers",
            "windlass-controllers",
        ],
    ),
    (
        "windlass",
        &[
            "windlass-files",
            "windlass-spec",
            "windlass-engine",
            "windlass-pki",
            "windlass-plan",
            "windlass-assets",
            "windlass-etcd",
            "windlass-providers",
            "windlass-node",
            "windlass-controllers",
            "windlass-workflows",
        ],
    ),
    ("windlass-testkit", &["windlass-spec"]),
    ("windlass-e2e", &["windlass-spec", "windlass-testkit"]),
    ("windlass-bench", &["windlass-spec", "windlass-providers", "windlass-testkit", "windlass-e2e"]),
    ("xtask", &[]),
];

/// Libraries that must not be in a crate's tree, directly or through others.
const PURE: &[(&str, &[&str])] = &[
    ("windlass-spec", &["tokio", "kube", "zbus", "hyper", "reqwest"]),
    ("windlass-plan", &["tokio", "kube", "zbus", "hyper", "reqwest"]),
    ("windlass-engine", &["kube", "k8s-openapi", "zbus", "hyper", "reqwest"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// What is wrong, a line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let text = crate::output(root, "cargo", &["metadata", "--format-version=1", "--locked", "--quiet"])?;
    let metadata: Metadata = serde_json::from_str(&text).context("failed to read cargo's metadata")?;
    let tree = Tree::new(&metadata);
    let members = metadata.workspace_members.iter().filter_map(|id| tree.names.get(id.as_str()).copied());
    let members: BTreeSet<&str> = members.collect();
    Ok(members.iter().flat_map(|member| wrong_arrows(&tree, &members, member)).chain(impure(&tree)).collect())
}

fn wrong_arrows(tree: &Tree<'_>, members: &BTreeSet<&str>, member: &str) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member) else {
        return vec![format!("{member}: not among the arrows of xtask/src/layers.rs")];
    };
    let used = tree.direct.get(member).into_iter().flatten().filter(|used| members.contains(*used));
    used.filter(|used| !allowed.contains(used)).map(|used| format!("{member} must not depend on {used}")).collect()
}

fn impure(tree: &Tree<'_>) -> Vec<String> {
    let found = PURE.iter().flat_map(|(member, banned)| {
        let reached = tree.reached(member);
        banned
            .iter()
            .filter(move |name| reached.contains(**name))
            .map(move |name| format!("{member} must stay free of {name}"))
    });
    found.collect()
}

/// Normal dependencies by name; two versions of a library count as one.
struct Tree<'a> {
    names: BTreeMap<&'a str, &'a str>,
    direct: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Tree<'a> {
    fn new(metadata: &'a Metadata) -> Self {
        let names: BTreeMap<&str, &str> =
            metadata.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
        let mut direct: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for node in &metadata.resolve.nodes {
            let normal = node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            direct.entry(names[node.id.as_str()]).or_default().extend(normal.map(|dep| names[dep.pkg.as_str()]));
        }
        Self { names, direct }
    }

    fn reached(&self, from: &'a str) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(name) = next.pop() {
            let used = self.direct.get(name).into_iter().flatten().copied();
            next.extend(used.filter(|used| seen.insert(*used)));
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_have_no_cycle() {
        let mut order: Vec<&str> = Vec::new();
        while order.len() < ARROWS.len() {
            let free = ARROWS
                .iter()
                .find(|(name, uses)| !order.contains(name) && uses.iter().all(|used| order.contains(used)));
            order.push(free.expect("a cycle among the arrows").0);
        }
    }
}
