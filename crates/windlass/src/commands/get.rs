//! `windlass get`: clusters and machines as tables or data.

use clap::Subcommand;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use windlass_providers::ports::Provider;
use windlass_spec::v1alpha1;
use windlass_workflows::folder::{ClusterFolder, Life, Pointer};
use windlass_workflows::management::{self, AskError, Held};
use windlass_workflows::status::{self, Status};

use crate::exit::{Code, Failure, Outcome};
use crate::local::block_on;
use crate::operation;
use crate::output::{Format, Table, print_full, print_text, print_value};
use crate::recover;

/// Arguments of `windlass get`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass get clusters\n  windlass get machines lab -o wide\n  windlass get cluster lab -o yaml --full"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the clusters this computer knows.
    #[command(
        after_help = "Exit codes: 0 printed, ready or not (in JSON `ready` and `reason`), 1 failed.\n\nExamples:\n  windlass get clusters -o json"
    )]
    Clusters {
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Print a cluster's document, as its API has it.
    #[command(
        after_help = "With --full every value is there, and who set it: as a comment behind each value, in JSON below `origins`.\nPasswords of proxies are not shown then.\n\nExit codes: 0 printed, 1 failed, 3 no such cluster.\n\nExamples:\n  windlass get cluster lab\n  windlass get cluster lab -o json --full"
    )]
    Cluster {
        /// The cluster's name.
        name: String,
        /// Every value with its origin.
        #[arg(long)]
        full: bool,
        /// Output format.
        #[arg(short, long, value_enum, default_value = "yaml")]
        output: Format,
    },
    /// List a cluster's machines.
    #[command(
        after_help = "Exit codes: 0 printed, ready or not (in JSON `ready` and `reason`), 1 failed, 3 no such cluster.\n\nExamples:\n  windlass get machines lab\n  windlass get machines lab -o json | jq '.[] | select(.ready | not) | .reason'"
    )]
    Machines {
        /// The cluster's name.
        name: String,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

/// Runs the family.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.what {
        What::Clusters { output } => block_on(clusters(*output)),
        What::Cluster { name, full, output } => block_on(cluster(name, *full, *output)),
        What::Machines { name, output } => block_on(machines(name, *output)),
    }
}

/// The state of one cluster; the provider is asked only if it runs already.
pub(crate) async fn gather(pointer: &Pointer) -> Result<Status, Failure> {
    recover::kubeconfig(pointer).await;
    let provider = operation::running().await?;
    let provider = provider.as_ref().map(|client| client as &dyn Provider);
    Ok(status::of(pointer, &operation::registry()?, provider).await)
}

async fn clusters(output: Format) -> Outcome {
    let pointers = operation::registry()?.list()?;
    let all = futures::future::try_join_all(pointers.iter().map(gather)).await?;
    match output {
        Format::Json | Format::Yaml => print_value(output, &all)?,
        Format::Table | Format::Wide if all.is_empty() => eprintln!("no clusters"),
        Format::Table | Format::Wide => print_text(&cluster_table(&all, output == Format::Wide).render())?,
    }
    Ok(Code::Ok)
}

fn cluster_table(all: &[Status], wide: bool) -> Table {
    let mut headings = vec!["NAME", "STATE", "CONTROL PLANES", "WORKERS", "ENDPOINT", "VERSION", "AGE"];
    if wide {
        headings.extend(["NAMESPACE", "CLUSTER ID", "FOLDER"]);
    }
    let mut table = Table::new(&headings);
    for status in all {
        let count = |role: &str| {
            let of_role: Vec<_> = status.machines.iter().filter(|machine| machine.role == role).collect();
            let ready = of_role.iter().filter(|machine| machine.node_ready == Some(true)).count();
            format!("{ready}/{}", of_role.len())
        };
        let mut row = vec![
            status.name.clone(),
            state(status),
            status.api.control_planes.clone().unwrap_or_else(|| count("ControlPlane")),
            status.api.workers.clone().unwrap_or_else(|| count("Worker")),
            or_dash(status.api.endpoint.clone()),
            or_dash(status.api.version.clone()),
            age(status.created, Timestamp::now()),
        ];
        if wide {
            row.extend([status.namespace.clone(), status.cluster_id.clone(), status.folder.clone()]);
        }
        table.row(row);
    }
    table
}

/// A cluster's state in a word.
pub(crate) fn state(status: &Status) -> String {
    match (status.life, &status.operation) {
        (Life::Creating, Some(_)) => "Creating",
        (Life::Creating, None) => "CreateInterrupted",
        (Life::Deleting, Some(_)) => "Deleting",
        (Life::Deleting, None) => "DeleteInterrupted",
        (Life::Kept, _) => "VolumesKept",
        (Life::Created, _) if !status.api.answers => "Unreachable",
        (Life::Created, _) if status.ready => "Ready",
        (Life::Created, _) => "NotReady",
    }
    .to_owned()
}

async fn machines(name: &str, output: Format) -> Outcome {
    let status = gather(&operation::known(name)?).await?;
    match output {
        Format::Json | Format::Yaml => print_value(output, &status.machines)?,
        Format::Table | Format::Wide => print_text(&machine_table(&status, output == Format::Wide).render())?,
    }
    Ok(Code::Ok)
}

/// A cluster's machines, one a row.
pub(crate) fn machine_table(status: &Status, wide: bool) -> Table {
    let mut headings = vec!["NAME", "ROLE", "PHASE", "ADDRESS", "NODE", "VERSION", "ETCD MEMBER", "DOES"];
    if wide {
        headings.extend(["API SERVER", "STARTS"]);
    }
    let mut table = Table::new(&headings);
    for machine in &status.machines {
        let does = match machine.waits_for.as_str() {
            "" => machine.doing.clone(),
            waits_for => format!("{}: {waits_for}", machine.doing),
        };
        let mut row = vec![
            machine.name.clone(),
            machine.role.clone(),
            machine.phase.clone(),
            or_dash(Some(machine.address.clone())),
            ready(machine.node_ready),
            or_dash(machine.version.clone()),
            or_dash(machine.etcd_member.clone()),
            or_dash(Some(does)),
        ];
        if wide {
            row.extend([ready(machine.api_server_ready), machine.starts.to_string()]);
        }
        table.row(row);
    }
    table
}

fn ready(ready: Option<bool>) -> String {
    match ready {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "-".to_owned(),
    }
}

pub(crate) fn or_dash(text: Option<String>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

/// An age as kubectl prints it.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

async fn cluster(name: &str, full: bool, output: Format) -> Outcome {
    let pointer = operation::known(name)?;
    recover::kubeconfig(&pointer).await;
    let held = management::ask(&pointer).await;
    let folder = ClusterFolder::new(name, pointer.folder.clone());
    if full {
        let full = match held.and_then(|held| held.full()) {
            Ok(full) => full,
            Err(error) => {
                warn(error);
                folder.read_full()?.ok_or_else(|| nothing_kept(name))?
            }
        };
        print_full(output, &full)?;
        return Ok(Code::Ok);
    }
    let document = match held {
        Ok(held) => document(&pointer, held)?,
        Err(error) => {
            warn(error);
            kept_document(&folder)?.ok_or_else(|| nothing_kept(name))?
        }
    };
    // A document has no table form.
    print_value(if output == Format::Json { Format::Json } else { Format::Yaml }, &document)?;
    Ok(Code::Ok)
}

fn warn(error: AskError) {
    eprintln!("warning: {:#}; this is what the folder has", anyhow::Error::from(error));
}

fn nothing_kept(name: &str) -> Failure {
    let error = anyhow::anyhow!("neither the API of cluster `{name}` nor its folder has the document");
    Failure::new(Code::Failed, error).hint(format!("windlass status {name}"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: &'static str,
    kind: &'static str,
    metadata: Value,
    spec: Value,
}

fn document(pointer: &Pointer, mut held: Held) -> anyhow::Result<Value> {
    let document = Document {
        api_version: v1alpha1::API_VERSION,
        kind: v1alpha1::KIND,
        metadata: serde_json::json!({"name": pointer.scope.cluster, "namespace": pointer.namespace}),
        spec: held.object.data["spec"].take(),
    };
    Ok(serde_json::to_value(document)?)
}

/// The document as the folder has it; none where that is lost.
fn kept_document(folder: &ClusterFolder) -> anyhow::Result<Option<Value>> {
    let Some(path) = [folder.spec(), folder.early_spec()].into_iter().find(|path| path.exists()) else {
        return Ok(None);
    };
    Ok(Some(serde_saphyr::from_str(&fs_err::read_to_string(path)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_as_kubectl_prints_them() {
        let ages: Vec<String> = [0, 119, 120, 7199, 7200, 172_799, 172_800]
            .into_iter()
            .map(|seconds| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).expect("in range")))
            .collect();
        assert_eq!(ages, ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
