//! `windlass apply`: changes of a cluster that is there.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_spec::v1alpha1::Cluster;
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};
use windlass_workflows::management::{self, Held};
use windlass_workflows::{create, newer};

use crate::document;
use crate::exit::{Code, Failure, Outcome};
use crate::local::block_on;
use crate::operation;
use crate::recover;

/// Arguments of `windlass apply`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Changes the number of machines in worker groups of a cluster that manages itself. Other changes are refused with the paths that differ.\n\nExit codes: 0 applied (or nothing to do), 1 failed, 2 bad spec, 3 no such cluster, 4 locked, 5 refused.\n\nExamples:\n  windlass apply -f lab.yaml"
)]
pub(crate) struct Args {
    /// The cluster's document; `-` reads standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let (text, cluster) = document::read(&args.file)?;
        let name = cluster.metadata.name.clone();
        let pointer = operation::known(&name)?;
        operation::check_version(&pointer)?;
        if pointer.life != Life::Created {
            return Err(Failure::new(Code::Refused, anyhow::anyhow!("cluster `{name}` is not up"))
                .hint(format!("windlass status {name}")));
        }
        let _lock = operation::lock(&operation::registry()?.lock(&name), &format!("apply cluster {name}"))?;
        recover::kubeconfig(&pointer).await;
        let folder = ClusterFolder::new(&name, pointer.folder.clone());
        let mut held = management::ask(&pointer).await?;
        newer::check_object(&held.object, operation::VERSION).map_err(operation::keeps_off)?;
        let before = held.object.data["spec"].take();
        let wanted = serde_json::to_value(&cluster.spec)?;
        let different = differences(&before, &wanted);
        if different.is_empty() {
            eprintln!("cluster `{name}` has this spec: nothing to do");
            return Ok(Code::Ok);
        }
        let refused: Vec<&String> = different.iter().filter(|path| !is_worker_count(path)).collect();
        if !refused.is_empty() {
            let paths: Vec<&str> = refused.iter().map(|path| path.as_str()).collect();
            let error =
                anyhow::anyhow!("this build changes worker counts only; these differ too: {}", paths.join(", "));
            return Err(Failure::new(Code::Refused, error).hint(format!("windlass plan -f {}", args.file)));
        }
        let patch = Patch::Merge(json!({"spec": {"workers": wanted["workers"]}}));
        let api = management::clusters(&held.client, &pointer.namespace);
        api.patch(&name, &PatchParams::default(), &patch).await?;
        let spec_hash = create::spec_hash(&cluster).map_err(|broken| operation::explain(&broken))?;
        operation::registry()?.keep(&Pointer { spec_hash, ..pointer })?;
        folder.write_private(&folder.spec(), &text)?;
        keep_full(&folder, &cluster, &held)?;
        eprintln!("applied: {}", different.join(", "));
        eprintln!("hint: windlass status {name} --watch");
        Ok(Code::Ok)
    })
}

/// The folder's full spec follows, as the cluster's controllers will resolve it. While they have resolved none, there is
/// nothing to follow.
fn keep_full(folder: &ClusterFolder, cluster: &Cluster, held: &Held) -> Result<(), Failure> {
    let Ok(before) = held.full() else { return Ok(()) };
    let full =
        windlass_spec::resolve(cluster, &before.release, &before.facts).map_err(|found| document::refused(&found))?;
    Ok(folder.write_full(&folder.full(), &full)?)
}

/// Paths at which two documents differ; list items that have a name are told by it.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (leaves(before), leaves(after));
    let mut paths: Vec<String> =
        before.iter().filter(|(path, value)| after.get(*path) != Some(value)).map(|(path, _)| path.clone()).collect();
    paths.extend(after.keys().filter(|path| !before.contains_key(*path)).cloned());
    paths.sort();
    paths
}

fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    gather(value, "spec", &mut all);
    all
}

fn gather(value: &Value, path: &str, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| gather(value, &format!("{path}.{key}"), all));
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let name = item["name"].as_str().map_or_else(|| index.to_string(), ToOwned::to_owned);
                gather(item, &format!("{path}[{name}]"), all);
            }
        }
        Value::Null => {}
        leaf => {
            all.insert(path.to_owned(), leaf.clone());
        }
    }
}

fn is_worker_count(path: &str) -> bool {
    path.starts_with("spec.workers[") && path.ends_with("].count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_counts_is_told_from_every_other() {
        let before =
            json!({"provider": {"local": {}}, "workers": [{"name": "md", "count": 2}, {"name": "x", "count": 1}]});
        let after =
            json!({"provider": {"local": {}}, "workers": [{"name": "x", "count": 1}, {"name": "md", "count": 3}]});
        assert_eq!(differences(&before, &after), ["spec.workers[md].count"]);
        let after = json!({"provider": {"local": {}}, "workers": [{"name": "md", "count": 2, "labels": {"a": "b"}}]});
        assert_eq!(
            differences(&before, &after),
            ["spec.workers[md].labels.a", "spec.workers[x].count", "spec.workers[x].name"]
        );
        assert!(is_worker_count("spec.workers[md].count") && !is_worker_count("spec.controlPlane.count"));
    }
}
