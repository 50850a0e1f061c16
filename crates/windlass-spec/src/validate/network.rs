//! Ranges and name servers.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::full::Cni;
use crate::problems::Problem;
use crate::resolve::{DEFAULT_NODE_MASK_SIZE, DEFAULT_PODS, DEFAULT_SERVICES, MACHINE_POOL};
use crate::v1alpha1::{ClusterSpec, Network};

/// Ranges that mean something else to every host.
const SPECIAL: [(&str, &str); 8] = [
    ("0.0.0.0/8", "is no network"),
    ("127.0.0.0/8", "is the loopback network"),
    ("169.254.0.0/16", "is for link-local addresses"),
    ("224.0.0.0/4", "is for multicast"),
    ("240.0.0.0/4", "is reserved"),
    ("::1/128", "is the loopback address"),
    ("fe80::/10", "is for link-local addresses"),
    ("ff00::/8", "is for multicast"),
];
/// kube-apiserver's limit, bits of a service range.
const SERVICE_BITS: u8 = 20;
/// Fewer bits leave no tenth address, which is CoreDNS's.
const FEWEST_SERVICE_BITS: u8 = 4;
/// kube-controller-manager's limit, bits between a pod range and a Node's part of it.
const NODE_BITS: u8 = 16;
/// A Node's smallest part: a handful of pods.
const LARGEST_MASK: u8 = 28;
/// IPv6 prefix of a Node's part.
const NODE_MASK_V6: u8 = 64;
/// Name servers a resolver asks at most.
const RESOLVER_LIMIT: usize = 3;

/// A range and its field.
#[derive(Clone, Debug)]
struct Range {
    path: String,
    /// `spec.network.pods`.
    list: &'static str,
    net: IpNet,
}

/// Checks ranges, their sizes and relations, and name servers.
pub(super) fn check(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    let network = &spec.network;
    let pods = ranges("spec.network.pods", &network.pods, DEFAULT_PODS, found);
    let services = ranges("spec.network.services", &network.services, DEFAULT_SERVICES, found);
    families(spec, &pods, &services, found);
    for service in &services {
        found.extend(service_size(service));
    }
    node_masks(spec, &pods, found);
    let all: Vec<Range> = pods.into_iter().chain(services).collect();
    overlaps(&all, spec.provider.local.is_some(), found);
    upstreams(network, found);
}

fn ranges(list: &'static str, texts: &[String], default: &str, found: &mut Vec<Problem>) -> Vec<Range> {
    if texts.is_empty() {
        return default.parse().map(|net| Range { path: list.to_owned(), list, net }).into_iter().collect();
    }
    let mut ranges = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let path = format!("{list}[{index}]");
        match text.parse::<IpNet>() {
            Err(_) => found.push(no_range(&path, text, default)),
            Ok(net) => {
                found.extend(host_bits(&path, text, net));
                ranges.push(Range { path, list, net: net.trunc() });
            }
        }
    }
    ranges
}

fn no_range(path: &str, text: &str, example: &str) -> Problem {
    let problem = Problem::error("range", path, format!("`{text}` is no address range"));
    problem.hint(format!("an address, `/` and the length of its fixed part are wanted, such as {example}"))
}

fn host_bits(path: &str, text: &str, net: IpNet) -> Option<Problem> {
    if net.addr() == net.network() {
        return None;
    }
    let problem = Problem::error("host-bits", path, format!("`{text}` is an address within a range"));
    Some(problem.hint(format!("the range itself is {}", net.trunc())))
}

/// One range, or one of each family; services as pods; the first family is the primary everywhere.
fn families(spec: &ClusterSpec, pods: &[Range], services: &[Range], found: &mut Vec<Problem>) {
    for ranges in [pods, services] {
        if ranges.len() > 2 {
            let problem = Problem::error("families", ranges[2].list, "there are more than two ranges");
            found.push(problem.label("one range, or one of each address family"));
        } else if ranges.len() == 2 && is_v4(&ranges[0]) == is_v4(&ranges[1]) {
            let problem = Problem::error("families", ranges[1].path.clone(), "both ranges are of one address family");
            found.push(problem.label("one range, or one of each family").with(ranges[0].path.clone(), "the other"));
        }
    }
    let order = |ranges: &[Range]| ranges.iter().map(|range| family(range)).collect::<Vec<_>>();
    if !pods.is_empty() && !services.is_empty() && order(pods) != order(services) {
        let message =
            format!("services are {}, pods are {}", order(services).join(" then "), order(pods).join(" then "));
        let problem = Problem::error("families", "spec.network.services", message);
        found.push(
            problem
                .hint("give both lists the same families in the same order")
                .with("spec.network.pods", "the pod ranges"),
        );
    }
    for range in pods.iter().chain(services).filter(|range| spec.provider.local.is_some() && !is_v4(range)) {
        let problem = Problem::error("families", range.path.clone(), format!("{} is an IPv6 range", range.net));
        found.push(problem.hint("machines on this computer have IPv4 addresses only: leave it out"));
    }
}

fn is_v4(range: &Range) -> bool {
    range.net.addr().is_ipv4()
}

fn family(range: &Range) -> &'static str {
    if is_v4(range) { "IPv4" } else { "IPv6" }
}

fn service_size(range: &Range) -> Option<Problem> {
    let bits = range.net.max_prefix_len() - range.net.prefix_len();
    let problem = |message: String| Problem::error("range-size", range.path.clone(), message);
    if bits > SERVICE_BITS {
        let message = format!("service range {} is too large for the API server", range.net);
        let longest = range.net.max_prefix_len() - SERVICE_BITS;
        return Some(problem(message).label(format!("at most a /{longest} is allowed")));
    }
    if bits < FEWEST_SERVICE_BITS {
        let smallest = range.net.max_prefix_len() - FEWEST_SERVICE_BITS;
        let problem = problem(format!("service range {} is too small", range.net));
        let problem = problem.label(format!("at least a /{smallest} is needed"));
        return Some(problem.hint("the API has the first address, cluster DNS the tenth"));
    }
    None
}

/// Each Node gets a part of the pod range.
fn node_masks(spec: &ClusterSpec, pods: &[Range], found: &mut Vec<Problem>) {
    let mask = spec.network.node_mask_size.unwrap_or(DEFAULT_NODE_MASK_SIZE);
    if !(8..=LARGEST_MASK).contains(&mask) {
        let message = format!("a machine's part of the pod range cannot be a /{mask}");
        let problem = Problem::error("node-mask", "spec.network.nodeMaskSize", message);
        found.push(problem.label(format!("8 to {LARGEST_MASK} are allowed, {DEFAULT_NODE_MASK_SIZE} is usual")));
        return;
    }
    for range in pods {
        let mask = if is_v4(range) { mask } else { NODE_MASK_V6 };
        found.extend(node_part(spec, range, mask));
    }
}

fn node_part(spec: &ClusterSpec, range: &Range, mask: u8) -> Option<Problem> {
    let problem = |message: String| Problem::error("range-size", range.path.clone(), message);
    let Some(bits) = mask.checked_sub(range.net.prefix_len()) else {
        let message = format!("pod range {} is smaller than one machine's part of it, a /{mask}", range.net);
        return Some(problem(message).hint("widen the range, or raise `nodeMaskSize`"));
    };
    if bits > NODE_BITS {
        let message = format!("pod range {} has too many parts of /{mask}", range.net);
        let longest = mask - NODE_BITS;
        return Some(problem(message).label(format!("at most a /{longest} is allowed with this `nodeMaskSize`")));
    }
    let parts = 1_u64 << bits;
    let machines = machines(spec);
    (machines > parts).then(|| {
        let message = format!("pod range {} has parts of /{mask} for {parts} machines", range.net);
        let problem = problem(message).label(format!("{machines} machines may be there at once"));
        problem.hint("widen the range, or raise `nodeMaskSize`")
    })
}

/// Machines that may be there at once, those of a roll-out included.
fn machines(spec: &ClusterSpec) -> u64 {
    let workers = spec.workers.iter().map(|group| {
        let count = u64::from(group.count.unwrap_or(1));
        if count == 0 { 0 } else { count + u64::from(group.rollout.max_surge.unwrap_or(1)) }
    });
    u64::from(spec.control_plane.count.unwrap_or(1)) + workers.sum::<u64>()
}

fn overlaps(all: &[Range], local: bool, found: &mut Vec<Problem>) {
    for (index, range) in all.iter().enumerate() {
        if let Some(other) = all[..index].iter().find(|other| overlap(&other.net, &range.net)) {
            let message = format!("{} overlaps {}", range.net, other.net);
            let problem = Problem::error("range-overlap", range.path.clone(), message);
            found.push(problem.with(other.path.clone(), "the other range"));
        }
        for (special, meaning) in SPECIAL {
            if special.parse().is_ok_and(|special: IpNet| overlap(&special, &range.net)) {
                let message = format!("{} overlaps {special}, which {meaning}", range.net);
                found.push(Problem::error("range-overlap", range.path.clone(), message));
            }
        }
        if local && MACHINE_POOL.parse().is_ok_and(|pool: IpNet| overlap(&pool, &range.net)) {
            let message = format!("{} overlaps {MACHINE_POOL}, which machines have their addresses from", range.net);
            found.push(Problem::error("range-overlap", range.path.clone(), message));
        }
    }
}

/// Do two ranges share an address?
pub(super) fn overlap(one: &IpNet, two: &IpNet) -> bool {
    one.contains(&two.network()) || two.contains(&one.network())
}

fn upstreams(network: &Network, found: &mut Vec<Problem>) {
    for (index, text) in network.dns_upstreams.iter().enumerate() {
        found.extend(upstream(&format!("spec.network.dnsUpstreams[{index}]"), text));
    }
    if network.dns_upstreams.len() > RESOLVER_LIMIT {
        let message = format!("there are more than {RESOLVER_LIMIT} name servers");
        let problem = Problem::error("dns-upstream", "spec.network.dnsUpstreams", message);
        found.push(problem.label("resolvers ask no more than the first three"));
    }
    if network.cni == Some(Cni::None) && network.node_mask_size.is_some() {
        let message = "`nodeMaskSize` only matters to a pod network that uses the Nodes' ranges";
        found.push(Problem::warning("node-mask", "spec.network.nodeMaskSize", message));
    }
}

/// A loopback address would be asked for inside each pod, and CoreDNS would ask itself.
fn upstream(path: &str, text: &str) -> Option<Problem> {
    let problem = |message: String| Some(Problem::error("dns-upstream", path, message));
    match text.parse::<IpAddr>() {
        Err(_) => problem(format!("`{text}` is no IP address")),
        Ok(address) if address.is_loopback() => {
            let hint = "name the server behind the local resolver (`resolvectl dns` or /run/systemd/resolve/resolv.conf show it)";
            problem(format!("{address} means every pod itself")).map(|problem| problem.hint(hint))
        }
        Ok(address) if address.is_unspecified() || address.is_multicast() => {
            problem(format!("{address} is no server's address"))
        }
        Ok(_) => None,
    }
}
