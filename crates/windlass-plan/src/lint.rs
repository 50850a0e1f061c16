//! What must hold among the configurations of one cluster.
//!
//! Input: node configs. Output: faults, for people. Controllers refuse to hand out configurations that have any.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_spec::node_config::{EtcdPermit, KubeconfigIdentity, NodeConfig, SealedNodeConfig};

/// Faults of each configuration alone and of all together.
pub fn lint(configs: &[SealedNodeConfig]) -> Vec<String> {
    let mut faults: Vec<String> = configs.iter().flat_map(lint_one).collect();
    faults.extend(shared_addresses(configs));
    faults.extend(disagreements(configs));
    faults
}

/// Faults within one configuration.
fn lint_one(sealed: &SealedNodeConfig) -> Vec<String> {
    let config = &sealed.config;
    let mut faults = Vec::new();
    if !sealed.is_intact() {
        faults.push("the hash does not fit the content".to_owned());
    }
    faults.extend(signers(sealed));
    faults.extend(references(config));
    faults.extend(repeated_paths(config));
    faults.extend(own_membership(config));
    faults.into_iter().map(|fault| format!("{}: {fault}", config.machine.name)).collect()
}

fn signers(sealed: &SealedNodeConfig) -> Vec<String> {
    let has_pair = |authority| {
        sealed.secrets.authorities.contains_key(authority) && sealed.secrets.authority_keys.contains_key(authority)
    };
    let unsigned = sealed.config.certificates.iter().filter(|wanted| !has_pair(&wanted.authority));
    unsigned.map(|wanted| format!("certificate {} has no authority to sign it", wanted.name)).collect()
}

fn references(config: &NodeConfig) -> Vec<String> {
    let certificates: BTreeSet<&str> = config.certificates.iter().map(|each| each.name.as_str()).collect();
    let units: BTreeSet<&str> = config.units.iter().map(|each| each.name.as_str()).collect();
    let mut faults = Vec::new();
    for kubeconfig in &config.kubeconfigs {
        if let KubeconfigIdentity::Certificate(name) = &kubeconfig.identity
            && !certificates.contains(name.as_str())
        {
            faults.push(format!("{} names the unknown certificate {name}", kubeconfig.path));
        }
    }
    if !units.contains(config.kubelet.unit.as_str()) {
        faults.push(format!("there is no unit {}", config.kubelet.unit));
    }
    if let Some(member) = &config.etcd {
        if !config.volumes.iter().any(|volume| volume.name == member.volume) {
            faults.push(format!("etcd names the unknown volume {}", member.volume));
        }
        if !certificates.contains(member.client_certificate.as_str()) {
            faults.push(format!("etcd names the unknown certificate {}", member.client_certificate));
        }
    }
    faults
}

fn repeated_paths(config: &NodeConfig) -> Vec<String> {
    let files = config.files.iter().map(|file| &file.path);
    let pairs = config.certificates.iter().flat_map(|each| [&each.certificate_path, &each.key_path]);
    let kubeconfigs = config.kubeconfigs.iter().map(|each| &each.path);
    let mut seen = BTreeSet::new();
    files
        .chain(pairs)
        .chain(kubeconfigs)
        .filter(|path| !seen.insert(*path))
        .map(|path| format!("{path} is written twice"))
        .collect()
}

fn own_membership(config: &NodeConfig) -> Option<String> {
    let member = config.etcd.as_ref()?;
    let is_listed =
        member.members.iter().any(|peer| peer.name == member.name && Some(peer.slot) == config.machine.slot);
    (!is_listed).then(|| format!("{} is not among its own cluster's members", member.name))
}

fn shared_addresses(configs: &[SealedNodeConfig]) -> Vec<String> {
    let mut owners: BTreeMap<IpAddr, BTreeSet<&str>> = BTreeMap::new();
    for sealed in configs {
        owners.entry(sealed.config.machine.address).or_default().insert(&sealed.config.machine.name);
    }
    let shared = owners.into_iter().filter(|(_, names)| names.len() > 1);
    shared.map(|(address, names)| format!("{address} is the address of {}", join(names))).collect()
}

/// Machines of one generation of membership must agree on it, and on the attempt that formed it.
fn disagreements(configs: &[SealedNodeConfig]) -> Vec<String> {
    let mut faults = Vec::new();
    let members: Vec<_> = configs.iter().filter_map(|sealed| sealed.config.etcd.as_ref()).collect();
    for pair in members.windows(2) {
        let (one, other) = (pair[0], pair[1]);
        if one.members_generation == other.members_generation && one.members != other.members {
            faults.push(format!("{} and {} disagree on the members of etcd", one.name, other.name));
        }
        if attempt(&one.permit) != attempt(&other.permit) {
            faults.push(format!("{} and {} know different attempts to form etcd", one.name, other.name));
        }
    }
    let clusters: BTreeSet<&str> = configs.iter().map(|sealed| sealed.config.cluster_id.as_str()).collect();
    if clusters.len() > 1 {
        faults.push(format!("configurations of several clusters: {}", join(clusters)));
    }
    faults
}

fn attempt(permit: &EtcdPermit) -> &str {
    match permit {
        EtcdPermit::Form { attempt } => attempt.as_str(),
        EtcdPermit::Join { formed_by } => formed_by.as_str(),
    }
}

fn join(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
