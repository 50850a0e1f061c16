//! `windlass kubeconfig`: access to a cluster.

use std::collections::BTreeMap;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use windlass_pki::{Authorities, SecretKind, admin_kubeconfig};
use windlass_workflows::folder::{ClusterFolder, Pointer};
use windlass_workflows::{access, kubeconfig};

use crate::exit::{Code, Failure, Outcome};
use crate::local::block_on;
use crate::operation;
use crate::recover;

/// Arguments of `windlass kubeconfig`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the kubeconfig, or merges it into your own: entries that were not made for this cluster are never touched, the file is replaced in one go and its old state is kept beside it.\nWith --ttl a new identity in the group windlass:admins is issued that ends by itself.\n\nExit codes: 0 printed or merged, 1 failed, 2 bad time, 3 no such cluster or no kubeconfig of it, 5 an entry of that name is somebody else's.\n\nExamples:\n  windlass kubeconfig lab > lab.kubeconfig\n  windlass kubeconfig lab --merge\n  windlass kubeconfig lab --ttl 8h"
)]
pub(crate) struct Args {
    /// The cluster's name.
    name: String,
    /// Merge it into $KUBECONFIG (its first file) or ~/.kube/config and make it the current context.
    #[arg(long)]
    merge: bool,
    /// Issue a new identity that is valid this long: `30m`, `8h`, `7d`.
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let pointer = operation::known(&args.name)?;
        recover::kubeconfig(&pointer).await;
        let folder = ClusterFolder::new(&args.name, pointer.folder.clone());
        let path = folder.kubeconfig();
        let kept = fs_err::read_to_string(&path).map_err(|error| {
            Failure::new(Code::NotFound, anyhow::Error::from(error).context("the cluster has no kubeconfig"))
                .hint(format!("windlass status {}", args.name))
        })?;
        let text = match &args.ttl {
            None => kept,
            Some(ttl) => issue(&pointer, &kept, ttl).await?,
        };
        if !args.merge {
            print!("{text}");
            return Ok(Code::Ok);
        }
        merge(&pointer, &text)
    })
}

fn merge(pointer: &Pointer, text: &str) -> Outcome {
    let path = own_kubeconfig()?;
    let (name, id) = (&pointer.scope.cluster, pointer.scope.cluster_id.as_str());
    let backup = kubeconfig::merge_into(&path, text, name, id).map_err(|error| match error {
        kubeconfig::MergeError::Foreign { .. } => {
            Failure::new(Code::Refused, error).hint(format!("windlass kubeconfig {name} > {name}.kubeconfig"))
        }
        other => other.into(),
    })?;
    eprintln!("merged into {path}");
    if let Some(backup) = backup {
        eprintln!("its old state is kept in {backup}");
    }
    Ok(Code::Ok)
}

fn own_kubeconfig() -> Result<Utf8PathBuf, Failure> {
    let listed = std::env::var("KUBECONFIG").unwrap_or_default();
    if let Some(first) = listed.split(':').find(|path| !path.is_empty()) {
        return Ok(first.into());
    }
    let home = std::env::var("HOME").context("neither KUBECONFIG nor HOME is set")?;
    Ok(Utf8PathBuf::from(home).join(".kube/config"))
}

/// A new identity from the cluster's own authority.
async fn issue(pointer: &Pointer, kept: &str, ttl: &str) -> Result<String, Failure> {
    let seconds = windlass_spec::values::parse_duration(ttl).map_err(|error| Failure::new(Code::Usage, error))?;
    let seconds = i64::try_from(seconds).map_err(|error| Failure::new(Code::Usage, error))?;
    let client = access::client(kept).await?;
    let api: Api<Secret> = Api::namespaced(client, &pointer.namespace);
    let mut secrets = BTreeMap::new();
    for kind in SecretKind::ALL {
        let name = format!("{}-{}", pointer.scope.cluster, kind.suffix());
        let secret = api.get(&name).await.with_context(|| format!("failed to read the Secret {name}"))?;
        let text = |(key, value): (String, ByteString)| String::from_utf8(value.0).map(|text| (key, text));
        let data = secret.data.unwrap_or_default().into_iter().map(text).collect::<Result<_, _>>();
        secrets.insert(kind, data.with_context(|| format!("the Secret {name} is not text"))?);
    }
    let authorities = Authorities::from_secrets(&secrets)?;
    let server = server(kept)?;
    let ttl = SignedDuration::from_secs(seconds);
    Ok(admin_kubeconfig(&authorities, &pointer.scope.cluster, &server, "admin", ttl, jiff::Timestamp::now())?)
}

fn server(kubeconfig: &str) -> Result<String, Failure> {
    let document: serde_json::Value = serde_saphyr::from_str(kubeconfig)?;
    let server = document["clusters"][0]["cluster"]["server"].as_str();
    Ok(server.context("the cluster's kubeconfig names no server")?.to_owned())
}
