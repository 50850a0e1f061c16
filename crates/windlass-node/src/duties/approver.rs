//! Approval of kubelets' certificate requests.
//!
//! Inputs: requests with who made them, the machines of the cluster, join tokens, the Nodes. Outputs: approved, denied with
//! the reason, or left pending while the machine is not known (yet). A token speaks for its own machine only; a Node only
//! for itself, with its own name and address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use windlass_pki::{RequestFacts, inspect_request};
use windlass_spec::node_config::ManagedNode;

use super::nodes::{View, known};
use super::tokens::{GROUP, token_id};

const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
const NODE_PREFIX: &str = "system:node:";
const BOOTSTRAP_PREFIX: &str = "system:bootstrap:";
const NODES_GROUP: &str = "system:nodes";
const RETRY: Duration = Duration::from_secs(1);

/// What is asked, by whom.
#[derive(Clone, Debug)]
struct Request {
    signer: String,
    user: String,
    groups: Vec<String>,
    usages: Vec<String>,
    facts: Result<RequestFacts, String>,
}

/// What the approver knows.
#[derive(Clone, Copy)]
struct Knowledge<'a> {
    machines: &'a [ManagedNode],
    tokens: &'a BTreeMap<String, String>,
    nodes: &'a View,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Approve,
    Deny(String),
    /// Not now; why.
    Leave(String),
    /// Another signer's.
    Ignore,
}

fn deny(reason: impl Into<String>) -> Verdict {
    Verdict::Deny(reason.into())
}

fn judge(request: &Request, known: &Knowledge<'_>) -> Verdict {
    let judge = match request.signer.as_str() {
        CLIENT_SIGNER => judge_client,
        SERVING_SIGNER => judge_serving,
        _ => return Verdict::Ignore,
    };
    let facts = match &request.facts {
        Ok(facts) => facts,
        Err(error) => return deny(error.clone()),
    };
    let Some(machine) = facts.common_name.strip_prefix(NODE_PREFIX) else {
        return deny(format!("the common name {:?} is no node's", facts.common_name));
    };
    if facts.organizations != [NODES_GROUP] {
        return deny(format!("the organizations are {:?}, not {NODES_GROUP}", facts.organizations));
    }
    match known.machines.iter().find(|known| known.name == machine) {
        Some(known_machine) => judge(request, facts, known_machine, known),
        None => Verdict::Leave(format!("no machine {machine} is known")),
    }
}

/// Exactly the usages of a kubelet, key encipherment (for RSA keys) allowed.
fn has_usages(request: &Request, purpose: &str) -> bool {
    let must = ["digital signature", purpose];
    must.iter().all(|usage| request.usages.iter().any(|found| found == usage))
        && request.usages.iter().all(|found| must.contains(&found.as_str()) || found == "key encipherment")
}

fn is_node_itself(request: &Request, machine: &ManagedNode) -> bool {
    request.user == format!("{NODE_PREFIX}{}", machine.name) && request.groups.iter().any(|group| group == NODES_GROUP)
}

fn judge_client(request: &Request, facts: &RequestFacts, machine: &ManagedNode, known: &Knowledge<'_>) -> Verdict {
    if !facts.dns_names.is_empty() || !facts.ip_addresses.is_empty() || !facts.other_names.is_empty() {
        return deny("a client certificate carries no alternative names");
    }
    if !has_usages(request, "client auth") {
        return deny(format!("the usages are {:?}", request.usages));
    }
    if is_node_itself(request, machine) {
        return Verdict::Approve;
    }
    let Some(id) = request.user.strip_prefix(BOOTSTRAP_PREFIX) else {
        return deny(format!("{} may not ask for {}", request.user, facts.common_name));
    };
    if !request.groups.iter().any(|group| group == GROUP) {
        return deny(format!("the token {id} is not one of ours"));
    }
    match known.tokens.get(&machine.name) {
        Some(token) if token_id(token) == id => {}
        Some(_) => return deny(format!("the token {id} belongs to another machine than {}", machine.name)),
        None if known.tokens.values().any(|token| token_id(token) == id) => {
            return deny(format!("the token {id} belongs to another machine than {}", machine.name));
        }
        None => return Verdict::Leave(format!("no token of {} is known", machine.name)),
    }
    if known.nodes.get(&machine.name).is_some_and(|node| node.ready) {
        return deny(format!("a Ready Node {} is there: it must be removed first", machine.name));
    }
    Verdict::Approve
}

fn judge_serving(request: &Request, facts: &RequestFacts, machine: &ManagedNode, _: &Knowledge<'_>) -> Verdict {
    if !is_node_itself(request, machine) {
        return deny(format!("{} may not ask for {}", request.user, facts.common_name));
    }
    if !has_usages(request, "server auth") {
        return deny(format!("the usages are {:?}", request.usages));
    }
    if !facts.other_names.is_empty() {
        return deny(format!("alternative names of other kinds: {:?}", facts.other_names));
    }
    if let Some(name) = facts.dns_names.iter().find(|name| **name != machine.name) {
        return deny(format!("the name {name} is not this machine's"));
    }
    if let Some(address) = facts.ip_addresses.iter().find(|address: &&IpAddr| **address != machine.address) {
        return deny(format!("the address {address} is not this machine's ({})", machine.address));
    }
    if facts.dns_names.is_empty() && facts.ip_addresses.is_empty() {
        return deny("a serving certificate needs a name or an address");
    }
    Verdict::Approve
}

fn request(spec: &CertificateSigningRequestSpec) -> Request {
    let pem = String::from_utf8_lossy(&spec.request.0);
    Request {
        signer: spec.signer_name.clone(),
        user: spec.username.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        usages: spec.usages.clone().unwrap_or_default(),
        facts: inspect_request(&pem).map_err(|error| error.to_string()),
    }
}

/// Answers requests for ever.
pub async fn keep(
    client: &Client,
    machines: &[ManagedNode],
    tokens: &BTreeMap<String, String>,
    mut view: watch::Receiver<Option<View>>,
) {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let mut left: BTreeMap<String, Request> = BTreeMap::new();
    loop {
        let events = watcher(api.clone(), watcher::Config::default());
        pin_mut!(events);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                changed = view.changed(), if !left.is_empty() => {
                    if changed.is_err() {
                        return;
                    }
                    let Some(nodes) = known(&mut view).await else { return };
                    reconsider(&api, &mut left, &Knowledge { machines, tokens, nodes: &nodes }).await;
                    continue;
                }
            };
            match event {
                Some(Ok(Event::InitApply(found) | Event::Apply(found))) => {
                    let Some(nodes) = known(&mut view).await else { return };
                    let known = Knowledge { machines, tokens, nodes: &nodes };
                    take_up(&api, &found, &mut left, &known).await;
                }
                Some(Ok(Event::Delete(found))) => {
                    left.remove(&found.name_any());
                }
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(error)) => {
                    tracing::info!("watching certificate requests: {error}");
                    tokio::time::sleep(RETRY).await;
                }
                None => break,
            }
        }
    }
}

async fn take_up(
    api: &Api<CertificateSigningRequest>,
    found: &CertificateSigningRequest,
    left: &mut BTreeMap<String, Request>,
    known: &Knowledge<'_>,
) {
    let name = found.name_any();
    if is_answered(found) {
        left.remove(&name);
        return;
    }
    let request = request(&found.spec);
    if answer(api, &name, &request, known).await {
        left.remove(&name);
    } else {
        left.insert(name, request);
    }
}

fn is_answered(found: &CertificateSigningRequest) -> bool {
    let conditions = found.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| matches!(condition.type_.as_str(), "Approved" | "Denied"))
    })
}

async fn reconsider(api: &Api<CertificateSigningRequest>, left: &mut BTreeMap<String, Request>, known: &Knowledge<'_>) {
    for (name, request) in std::mem::take(left) {
        if !answer(api, &name, &request, known).await {
            left.insert(name, request);
        }
    }
}

/// Says whether the request is done with.
async fn answer(api: &Api<CertificateSigningRequest>, name: &str, request: &Request, known: &Knowledge<'_>) -> bool {
    let (type_, reason, message) = match judge(request, known) {
        Verdict::Ignore => return true,
        Verdict::Leave(why) => {
            tracing::debug!("certificate request {name} is left: {why}");
            return false;
        }
        Verdict::Approve => ("Approved", "WindlassApproved", "it is the machine's own".to_owned()),
        Verdict::Deny(why) => ("Denied", "WindlassDenied", why),
    };
    tracing::info!("certificate request {name} of {}: {type_} ({message})", request.user);
    let now = Time(Timestamp::now());
    let condition = CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now),
    };
    let patch = json!({ "status": { "conditions": [condition] } });
    match api.patch_approval(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 404 => true,
        Err(error) => {
            tracing::warn!("answering certificate request {name}: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duties::nodes::NodeView;
    use windlass_spec::identity::Role;

    struct World {
        machines: Vec<ManagedNode>,
        tokens: BTreeMap<String, String>,
        nodes: View,
    }

    impl World {
        fn judge(&self, request: &Request) -> Verdict {
            judge(request, &Knowledge { machines: &self.machines, tokens: &self.tokens, nodes: &self.nodes })
        }
    }

    fn machine(name: &str, address: &str) -> ManagedNode {
        ManagedNode {
            name: name.into(),
            role: Role::Worker,
            address: address.parse().unwrap(),
            labels: BTreeMap::new(),
            control_plane_taint: None,
        }
    }

    fn world() -> World {
        World {
            machines: vec![machine("n1", "10.77.0.21"), machine("n2", "10.77.0.22")],
            tokens: [("n1", "aaaaaa.s1"), ("n2", "bbbbbb.s2")].map(|(name, token)| (name.into(), token.into())).into(),
            nodes: View::new(),
        }
    }

    fn facts(name: &str) -> RequestFacts {
        RequestFacts {
            common_name: format!("{NODE_PREFIX}{name}"),
            organizations: vec![NODES_GROUP.into()],
            dns_names: vec![],
            ip_addresses: vec![],
            other_names: vec![],
        }
    }

    fn client(user: &str, group: &str, name: &str) -> Request {
        Request {
            signer: CLIENT_SIGNER.into(),
            user: user.into(),
            groups: vec![group.into(), "system:authenticated".into()],
            usages: ["digital signature", "client auth"].map(str::to_owned).to_vec(),
            facts: Ok(facts(name)),
        }
    }

    fn serving(user: &str, names: &[&str], addresses: &[&str]) -> Request {
        let mut request = client(user, NODES_GROUP, "n1");
        request.signer = SERVING_SIGNER.into();
        request.usages[1] = "server auth".into();
        request.facts = Ok(RequestFacts {
            dns_names: names.iter().map(|&name| name.into()).collect(),
            ip_addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ..facts("n1")
        });
        request
    }

    #[test]
    fn a_machine_gets_its_own_certificates() {
        let world = world();
        assert_eq!(world.judge(&client("system:bootstrap:aaaaaa", GROUP, "n1")), Verdict::Approve);
        assert_eq!(world.judge(&client("system:node:n1", NODES_GROUP, "n1")), Verdict::Approve);
        assert_eq!(world.judge(&serving("system:node:n1", &["n1"], &["10.77.0.21"])), Verdict::Approve);
    }

    #[test]
    fn b05_a_token_speaks_for_its_own_machine_only() {
        let mut world = world();
        let foreign = client("system:bootstrap:aaaaaa", GROUP, "n2");
        assert!(matches!(world.judge(&foreign), Verdict::Deny(_)));
        world.tokens.remove("n2");
        assert!(matches!(world.judge(&foreign), Verdict::Deny(_)), "n2 needs no token any more");
        let other_group = client("system:bootstrap:aaaaaa", "system:bootstrappers", "n1");
        assert!(matches!(world.judge(&other_group), Verdict::Deny(_)));
        assert!(matches!(world.judge(&client("system:node:n1", NODES_GROUP, "n2")), Verdict::Deny(_)));
        assert!(matches!(world.judge(&client("someone", NODES_GROUP, "n1")), Verdict::Deny(_)));
    }

    #[test]
    fn b05_a_second_machine_cannot_take_a_ready_nodes_name() {
        let mut world = world();
        let request = client("system:bootstrap:aaaaaa", GROUP, "n1");
        world.nodes.insert("n1".into(), NodeView { ready: true, ..NodeView::default() });
        assert!(matches!(world.judge(&request), Verdict::Deny(reason) if reason.contains("Ready Node")));
        world.nodes.insert("n1".into(), NodeView::default());
        assert_eq!(world.judge(&request), Verdict::Approve, "it is not Ready: a replacement the manager gave a token");
    }

    #[test]
    fn what_is_not_known_yet_is_left() {
        let mut world = world();
        assert!(matches!(world.judge(&client("system:bootstrap:cccccc", GROUP, "n3")), Verdict::Leave(_)));
        world.tokens.clear();
        assert!(matches!(world.judge(&client("system:bootstrap:aaaaaa", GROUP, "n1")), Verdict::Leave(_)));
    }

    #[test]
    fn requests_that_ask_for_more_are_denied() {
        let world = world();
        let base = client("system:bootstrap:aaaaaa", GROUP, "n1");
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = base.clone();
            change(&mut request);
            request
        };
        let set = |change: fn(&mut RequestFacts)| {
            with(&move |request| {
                if let Ok(facts) = &mut request.facts {
                    change(facts);
                }
            })
        };
        for request in [
            set(|facts| facts.organizations = vec!["system:masters".into()]),
            set(|facts| facts.organizations.push("system:masters".into())),
            set(|facts| facts.common_name = "admin".into()),
            set(|facts| facts.dns_names.push("kubernetes".into())),
            set(|facts| facts.other_names.push("mailto:x".into())),
            with(&|request| request.usages.push("server auth".into())),
            with(&|request| request.usages = vec!["client auth".into()]),
            with(&|request| request.facts = Err("its signature does not hold".into())),
            serving("system:node:n2", &["n1"], &[]),
            serving("system:node:n1", &["n1", "kubernetes.default"], &[]),
            serving("system:node:n1", &["n1"], &["10.96.0.1"]),
            serving("system:node:n1", &[], &[]),
        ] {
            assert!(matches!(world.judge(&request), Verdict::Deny(_)), "{request:?}");
        }
        assert_eq!(world.judge(&with(&|request| request.signer = "example.com/x".into())), Verdict::Ignore);
    }
}
