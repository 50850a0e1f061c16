//! Our schemas of Cluster API's kinds against upstream's, read from the Go module proxy at test time: the same field
//! paths with the same types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use kube::ResourceExt;
use serde_json::Value;
use windlass_controllers::crds;

const MODULE: &str = "sigs.k8s.io/cluster-api@v1.14.2";
/// What is not served here, and why.
const EXEMPT: [(&str, &str); 2] = [
    ("spec.topology.", "topologies by ClusterClass are refused by a rule"),
    ("status.deprecated", "counters of v1beta1, which is not served"),
];

/// Where the module lies; none where there is no Go or no proxy.
fn module() -> Option<PathBuf> {
    let folder = tempfile::tempdir().ok()?;
    let output =
        Command::new("go").args(["mod", "download", "-json", MODULE]).current_dir(folder.path()).output().ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    answer.get("Dir").and_then(Value::as_str).map(PathBuf::from)
}

fn upstream(module: &Path, folder: &str, file: &str, version: &str) -> Result<Value> {
    let path = module.join(folder).join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let crd: Value = serde_saphyr::from_str(&text)?;
    schema(&crd, version).with_context(|| format!("{file} has no {version}"))
}

fn schema(crd: &Value, version: &str) -> Option<Value> {
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    let found = versions.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(version))?;
    found.pointer("/schema/openAPIV3Schema").cloned()
}

/// Field path to type, format, and whether it is required.
fn fields(schema: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            walk(name, property, is_required(schema, name), &mut found);
        }
    }
    found
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|one| one.as_str() == Some(name)))
}

fn walk(path: &str, schema: &Value, required: bool, found: &mut BTreeMap<String, String>) {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind =
        if schema.get("x-kubernetes-int-or-string").is_some() { "int-or-string".to_owned() } else { text("type") };
    let list = text("x-kubernetes-list-type");
    let needed = if required { "!" } else { "" };
    found.insert(path.to_owned(), format!("{kind} {} {list}{needed}", text("format")).trim().to_owned());
    if path == "spec.topology" {
        return;
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, is_required(schema, name), found);
    }
    if let Some(items) = schema.get("items") {
        walk(&format!("{path}[]"), items, false, found);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        walk(&format!("{path}{{}}"), values, false, found);
    }
}

fn is_exempt(path: &str) -> bool {
    EXEMPT.iter().any(|(prefix, _)| path.starts_with(prefix))
}

/// Lines that differ: `-` upstream only, `+` ours only.
fn differences(upstream: &Value, ours: &Value) -> Vec<String> {
    let (theirs, ours) = (fields(upstream), fields(ours));
    let missing = theirs.iter().filter(|(path, kind)| !is_exempt(path) && ours.get(*path) != Some(*kind));
    let further = ours.iter().filter(|(path, kind)| !is_exempt(path) && theirs.get(*path) != Some(*kind));
    let missing = missing.map(|(path, kind)| format!("- {path}: {kind}"));
    missing.chain(further.map(|(path, kind)| format!("+ {path}: {kind}"))).collect()
}

#[test]
fn schemas_have_upstreams_fields_and_types() -> Result<()> {
    let Some(module) = module() else {
        eprintln!("SKIPPED: no Go or no module proxy, {MODULE} cannot be read; schemas were NOT compared");
        return Ok(());
    };
    let bases = "core/config/crd/bases";
    let kinds = [
        ("clusters.cluster.x-k8s.io", bases, "cluster.x-k8s.io_clusters.yaml", "v1beta2"),
        ("machines.cluster.x-k8s.io", bases, "cluster.x-k8s.io_machines.yaml", "v1beta2"),
        ("machinesets.cluster.x-k8s.io", bases, "cluster.x-k8s.io_machinesets.yaml", "v1beta2"),
        ("machinedeployments.cluster.x-k8s.io", bases, "cluster.x-k8s.io_machinedeployments.yaml", "v1beta2"),
        ("machinehealthchecks.cluster.x-k8s.io", bases, "cluster.x-k8s.io_machinehealthchecks.yaml", "v1beta2"),
        ("machinepools.cluster.x-k8s.io", bases, "cluster.x-k8s.io_machinepools.yaml", "v1beta2"),
        (
            "providers.clusterctl.cluster.x-k8s.io",
            "cmd/clusterctl/config/crd/bases",
            "clusterctl.cluster.x-k8s.io_providers.yaml",
            "v1alpha3",
        ),
    ];
    let all = crds();
    let mut differing = Vec::new();
    for (name, folder, file, version) in kinds {
        let ours = all.iter().find(|crd| crd.name_any() == name).with_context(|| name.to_owned())?;
        let ours = schema(&serde_json::to_value(ours)?, version).with_context(|| name.to_owned())?;
        let theirs = upstream(&module, folder, file, version)?;
        let found = differences(&theirs, &ours);
        differing.extend(found.into_iter().map(|line| format!("{name} {line}")));
    }
    assert!(differing.is_empty(), "fields differ from upstream's:\n{}", differing.join("\n"));
    Ok(())
}
