//! Join tokens: in the cluster while their machine's Node is not Ready, gone afterwards.
//!
//! Inputs: tokens by machine, the Nodes. Output: Secrets `kube-system/bootstrap-token-ID`, each for one machine, extended
//! until its Node is Ready, then removed; those of machines no longer wanted are removed too.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;

use super::nodes::{View, known};
use crate::kubernetes::FIELD_MANAGER;

/// Group of machines that come with a join token.
pub const GROUP: &str = "system:bootstrappers:windlass";
const NAMESPACE: &str = "kube-system";
const MACHINE_LABEL: &str = "windlass.dev/join-machine";
const LIFE: SignedDuration = SignedDuration::from_hours(2);
/// Tokens are extended this often, long before their end.
const EXTEND: Duration = Duration::from_secs(30 * 60);
const RETRY: Duration = Duration::from_millis(500);

/// What the Secrets must become.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// Machine and token, to be written.
    write: BTreeMap<String, String>,
    /// Names of Secrets to be removed.
    remove: Vec<String>,
}

fn secret_name(token: &str) -> String {
    format!("bootstrap-token-{}", token_id(token))
}

/// The public half of a token.
pub fn token_id(token: &str) -> &str {
    token.split_once('.').map_or(token, |(id, _)| id)
}

/// Compares tokens wanted with Secrets found.
fn wanted(tokens: &BTreeMap<String, String>, nodes: &View, found: &[String]) -> Wanted {
    let is_ready = |machine: &String| nodes.get(machine).is_some_and(|node| node.ready);
    let write: BTreeMap<String, String> = tokens
        .iter()
        .filter(|(machine, _)| !is_ready(machine))
        .map(|(machine, token)| (machine.clone(), token.clone()))
        .collect();
    let kept: Vec<String> = write.values().map(|token| secret_name(token)).collect();
    Wanted { remove: found.iter().filter(|name| !kept.contains(name)).cloned().collect(), write }
}

fn secret(machine: &str, token: &str, now: Timestamp) -> Secret {
    let secret = token.split_once('.').map_or("", |(_, secret)| secret);
    let data = [
        ("token-id", token_id(token).to_owned()),
        ("token-secret", secret.to_owned()),
        ("description", format!("join token of machine {machine}")),
        ("expiration", (now + LIFE).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("auth-extra-groups", GROUP.to_owned()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(token)),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(MACHINE_LABEL.to_owned(), machine.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        string_data: Some(data.map(|(name, value)| (name.to_owned(), value)).into()),
        ..Secret::default()
    }
}

/// Keeps the Secrets right for ever.
pub async fn keep(client: &Client, tokens: &BTreeMap<String, String>, mut view: watch::Receiver<Option<View>>) {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let mut found: Option<Vec<String>> = None;
    let mut written: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let Some(nodes) = known(&mut view).await else { return };
        match bring(&api, tokens, &nodes, &mut found, &mut written).await {
            Ok(()) => match tokio::time::timeout(EXTEND, view.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => written.clear(),
            },
            Err(error) => {
                tracing::info!("join tokens: {error}");
                found = None;
                written.clear();
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn bring(
    api: &Api<Secret>,
    tokens: &BTreeMap<String, String>,
    nodes: &View,
    found: &mut Option<Vec<String>>,
    written: &mut BTreeMap<String, String>,
) -> Result<(), kube::Error> {
    let known = match found.take() {
        Some(known) => known,
        None => {
            let list = api.list_metadata(&ListParams::default().labels(MACHINE_LABEL)).await?;
            list.items.iter().map(|secret| secret.name_any()).collect()
        }
    };
    let wanted = wanted(tokens, nodes, &known);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let missing = wanted.write.iter().filter(|(machine, token)| written.get(*machine) != Some(*token));
    let writes = missing.map(|(machine, token)| {
        let (params, secret) = (&params, secret(machine, token, Timestamp::now()));
        async move { api.patch(&secret_name(token), params, &Patch::Apply(&secret)).await }
    });
    futures::future::try_join_all(writes).await?;
    for name in &wanted.remove {
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => tracing::info!("join token {name} revoked"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    *found = Some(wanted.write.values().map(|token| secret_name(token)).collect());
    *written = wanted.write;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duties::nodes::NodeView;

    fn tokens() -> BTreeMap<String, String> {
        [("lab-md-1", "aaaaaa.1"), ("lab-md-2", "bbbbbb.2")].map(|(name, token)| (name.into(), token.into())).into()
    }

    fn view(name: &str, ready: bool) -> View {
        BTreeMap::from([(name.to_owned(), NodeView { ready, ..NodeView::default() })])
    }

    #[test]
    fn a_token_lives_until_its_node_is_ready() {
        let found = ["bootstrap-token-aaaaaa".to_owned()];
        assert_eq!(wanted(&tokens(), &View::new(), &[]).write, tokens());
        assert_eq!(wanted(&tokens(), &view("lab-md-1", false), &found), Wanted { write: tokens(), remove: vec![] });
        let ready = wanted(&tokens(), &view("lab-md-1", true), &found);
        assert_eq!((ready.write.len(), ready.remove), (1, found.to_vec()));
    }

    #[test]
    fn a_token_nobody_waits_for_is_removed() {
        let found = ["bootstrap-token-cccccc".to_owned()];
        assert_eq!(wanted(&tokens(), &View::new(), &found).remove, found);
    }

    #[test]
    fn the_secret_is_what_the_api_server_expects() {
        let secret = secret("lab-md-1", "aaaaaa.0123456789abcdef", "2026-01-01T00:00:00.5Z".parse().unwrap());
        let data = secret.string_data.unwrap();
        assert_eq!((data["token-id"].as_str(), data["token-secret"].as_str()), ("aaaaaa", "0123456789abcdef"));
        assert_eq!((data["expiration"].as_str(), data["auth-extra-groups"].as_str()), ("2026-01-01T02:00:00Z", GROUP));
    }
}
