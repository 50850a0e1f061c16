//! Certificates the machine issues itself, and kubeconfigs made from them.
//!
//! Only control planes hold authorities' keys; a worker's kubelet gets its certificates from the cluster.

use std::net::{IpAddr, Ipv4Addr};

use windlass_pki::AGENTS_GROUP;
use windlass_spec::identity::{Role, Slot};
use windlass_spec::node_config::{Authority, Certificate, Kubeconfig, KubeconfigIdentity};
use windlass_spec::{names, paths};

use super::balancer;
use crate::inputs::{NodeInputs, RenderError};

/// Kubeconfig of the agent.
pub(super) const AGENT_KUBECONFIG: &str = "/etc/kubernetes/agent.conf";
/// Kubeconfig for breaking glass.
pub(super) const SUPER_ADMIN_KUBECONFIG: &str = "/etc/kubernetes/super-admin.conf";
/// The agent's certificate for etcd.
pub(super) const ETCD_AGENT: &str = "etcd-agent-client";
/// User the API servers are to kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";
const DAYS: u32 = 365;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Who a certificate is for.
struct Usage {
    server: bool,
    client: bool,
}

const CLIENT: Usage = Usage { server: false, client: true };
const SERVER: Usage = Usage { server: true, client: false };
const BOTH: Usage = Usage { server: true, client: true };

/// Every certificate of the machine.
pub(super) fn certificates(inputs: &NodeInputs<'_>) -> Result<Vec<Certificate>, RenderError> {
    if inputs.machine.role == Role::Worker {
        return Ok(Vec::new());
    }
    let slot = inputs.machine.slot.ok_or_else(|| RenderError::NoSlot(inputs.machine.name.clone()))?;
    let mut all = vec![api_server(inputs)];
    all.extend(etcd_servers(inputs, slot));
    all.extend(etcd_clients());
    all.extend(api_clients(inputs));
    all.extend(["controller-manager", "scheduler"].map(|name| component_server(inputs, name)));
    Ok(all)
}

fn certificate(name: &str, authority: Authority, usage: &Usage, common_name: &str, organization: &str) -> Certificate {
    let folder = if authority == Authority::Etcd && name != "apiserver-etcd-client" {
        format!("{}/etcd", paths::PKI)
    } else {
        paths::PKI.to_owned()
    };
    let file = name.strip_prefix("etcd-").unwrap_or(name);
    Certificate {
        name: name.to_owned(),
        authority,
        common_name: common_name.to_owned(),
        organizations: Some(organization).filter(|group| !group.is_empty()).map(str::to_owned).into_iter().collect(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
        server_auth: usage.server,
        client_auth: usage.client,
        days: DAYS,
        certificate_path: format!("{folder}/{file}.crt"),
        key_path: format!("{folder}/{file}.key"),
    }
}

fn api_server(inputs: &NodeInputs<'_>) -> Certificate {
    let (network, endpoint) = (&inputs.full.network, &inputs.full.endpoint);
    let service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned);
    let mut dns_names = service.to_vec();
    dns_names.push(format!("kubernetes.default.svc.{}", network.dns_domain));
    dns_names.push("localhost".to_owned());
    dns_names.extend(machine_names(inputs));
    dns_names.extend([endpoint.name.clone(), endpoint.internal_name.clone()]);
    let mut ip_addresses = vec![LOOPBACK, inputs.machine.address, inputs.network.endpoint, network.kubernetes_service];
    for name in &endpoint.cert_sans {
        match name.parse() {
            Ok(address) => ip_addresses.push(address),
            Err(_) => dns_names.push(name.clone()),
        }
    }
    Certificate {
        dns_names: unique(dns_names),
        ip_addresses: unique(ip_addresses),
        ..certificate("apiserver", Authority::Cluster, &SERVER, "kube-apiserver", "")
    }
}

fn machine_names(inputs: &NodeInputs<'_>) -> [String; 2] {
    let name = &inputs.machine.name;
    [name.clone(), format!("{name}.{}", inputs.network.zone)]
}

/// The member's fixed address stands beside its name: a peer's name alone costs a reverse look-up for each connection.
fn etcd_servers(inputs: &NodeInputs<'_>, slot: Slot) -> [Certificate; 2] {
    let host = names::etcd_host(&inputs.full.name, slot);
    let member = names::etcd_member(slot);
    let server = Certificate {
        dns_names: vec![host.clone(), "localhost".to_owned()],
        ip_addresses: vec![LOOPBACK, inputs.machine.address],
        ..certificate("etcd-server", Authority::Etcd, &BOTH, &member, "")
    };
    let peer = Certificate {
        dns_names: vec![host],
        ip_addresses: vec![inputs.machine.address],
        ..certificate("etcd-peer", Authority::Etcd, &BOTH, &member, "")
    };
    [server, peer]
}

fn etcd_clients() -> [Certificate; 2] {
    [
        certificate("apiserver-etcd-client", Authority::Etcd, &CLIENT, "kube-apiserver-etcd-client", ""),
        certificate(ETCD_AGENT, Authority::Etcd, &CLIENT, "windlass-agent", ""),
    ]
}

fn api_clients(inputs: &NodeInputs<'_>) -> Vec<Certificate> {
    let machine = &inputs.machine.name;
    let cluster = |name, user: &str, group| certificate(name, Authority::Cluster, &CLIENT, user, group);
    vec![
        cluster("apiserver-kubelet-client", KUBELET_CLIENT, ""),
        certificate("front-proxy-client", Authority::FrontProxy, &CLIENT, "front-proxy-client", ""),
        cluster("kubelet-client", &format!("system:node:{machine}"), "system:nodes"),
        cluster("controller-manager", "system:kube-controller-manager", ""),
        cluster("scheduler", "system:kube-scheduler", ""),
        cluster("agent", &format!("windlass:agent:{machine}"), AGENTS_GROUP),
        cluster("super-admin", "windlass:super-admin", "system:masters"),
    ]
}

/// Health and metrics of a component, on loopback.
fn component_server(inputs: &NodeInputs<'_>, component: &str) -> Certificate {
    let names = machine_names(inputs);
    Certificate {
        dns_names: ["localhost".to_owned()].into_iter().chain(names).collect(),
        ip_addresses: vec![LOOPBACK, inputs.machine.address],
        ..certificate(&format!("{component}-server"), Authority::Cluster, &SERVER, &format!("kube-{component}"), "")
    }
}

/// Every kubeconfig of the machine.
pub(super) fn kubeconfigs(inputs: &NodeInputs<'_>) -> Vec<Kubeconfig> {
    let balancer = format!("https://{}", balancer::LISTEN);
    if inputs.machine.role == Role::Worker {
        let token = inputs.bootstrap_token.map(|_| KubeconfigIdentity::BootstrapToken);
        let bootstrap =
            |identity| Kubeconfig { path: paths::BOOTSTRAP_KUBECONFIG.to_owned(), server: balancer, identity };
        return token.map(bootstrap).into_iter().collect();
    }
    // A component never talks to an API server older than itself: it talks to the one beside it.
    let own = format!("https://{}", balancer::OWN_LISTEN);
    let kubeconfig = |path: &str, server: &str, certificate: &str| Kubeconfig {
        path: path.to_owned(),
        server: server.to_owned(),
        identity: KubeconfigIdentity::Certificate(certificate.to_owned()),
    };
    vec![
        kubeconfig(paths::KUBELET_KUBECONFIG, &own, "kubelet-client"),
        kubeconfig(paths::CONTROLLER_MANAGER_KUBECONFIG, &own, "controller-manager"),
        kubeconfig(paths::SCHEDULER_KUBECONFIG, &own, "scheduler"),
        kubeconfig(AGENT_KUBECONFIG, &balancer, "agent"),
        kubeconfig(SUPER_ADMIN_KUBECONFIG, &own, "super-admin"),
    ]
}

fn unique<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    values.into_iter().fold(Vec::new(), |mut kept, value| {
        if !kept.contains(&value) {
            kept.push(value);
        }
        kept
    })
}
