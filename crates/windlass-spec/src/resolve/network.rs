//! Ranges, parts of the network and the endpoint.
//!
//! Input: the spec. Outputs: ranges as values, and the addresses that follow from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Draft;
use crate::full::{Cni, Endpoint, EndpointMode, KubeProxy, Network, Origin};
use crate::names;
use crate::v1alpha1;

/// Pod range unless set.
pub(crate) const DEFAULT_PODS: &str = "10.244.0.0/16";
/// Service range unless set.
pub(crate) const DEFAULT_SERVICES: &str = "10.96.0.0/16";
/// Prefix length of a Node's pod range unless set.
pub(crate) const DEFAULT_NODE_MASK_SIZE: u8 = 24;
/// API port unless set.
pub(crate) const DEFAULT_PORT: u16 = 6443;
/// Which address of the first service range CoreDNS has.
pub(crate) const DNS_INDEX: u32 = 10;
const DNS_DOMAIN: &str = "cluster.local";

/// The network.
pub(super) fn network(draft: &mut Draft, wish: &v1alpha1::Network) -> Network {
    let pods = ranges(draft, "network.pods", &wish.pods, DEFAULT_PODS);
    let services = ranges(draft, "network.services", &wish.services, DEFAULT_SERVICES);
    let dns_upstreams = upstreams(draft, &wish.dns_upstreams);
    let origins = &mut draft.origins;
    origins.mark("network.dnsDomain", Origin::Default);
    origins.mark("network.clusterDns", Origin::Derived);
    origins.mark("network.kubernetesService", Origin::Derived);
    Network {
        node_mask_size: origins.choose("network.nodeMaskSize", wish.node_mask_size, DEFAULT_NODE_MASK_SIZE),
        cni: origins.choose("network.cni", wish.cni, Cni::Bridge),
        kube_proxy: origins.choose("network.kubeProxy", wish.kube_proxy, KubeProxy::NFTables),
        dns_upstreams,
        dns_domain: DNS_DOMAIN.to_owned(),
        cluster_dns: nth(services.first(), DNS_INDEX),
        kubernetes_service: nth(services.first(), 1),
        pods,
        services,
    }
}

fn ranges(draft: &mut Draft, path: &str, wish: &[String], default: &str) -> Vec<IpNet> {
    let user = Some(wish.to_vec()).filter(|wish| !wish.is_empty());
    let texts = draft.origins.choose(path, user, vec![default.to_owned()]);
    let read = |(index, text): (usize, &String)| {
        let range = text.parse::<IpNet>().map_err(|_| format!("{text:?} is no address range such as {default}"));
        draft.take(&format!("spec.{path}[{index}]"), range).map(|range| range.trunc())
    };
    texts.iter().enumerate().filter_map(read).collect()
}

fn upstreams(draft: &mut Draft, wish: &[String]) -> Vec<IpAddr> {
    let texts = draft.origins.own("network.dnsUpstreams", wish.to_vec());
    let read = |(index, text): (usize, &String)| {
        let address = text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no IP address"));
        draft.take(&format!("spec.network.dnsUpstreams[{index}]"), address)
    };
    texts.iter().enumerate().filter_map(read).collect()
}

/// An address of a range, counted from the network's own.
pub(crate) fn nth(range: Option<&IpNet>, index: u32) -> IpAddr {
    match range.map(IpNet::network) {
        Some(IpAddr::V4(network)) => IpAddr::V4(Ipv4Addr::from(u32::from(network).wrapping_add(index))),
        Some(IpAddr::V6(network)) => IpAddr::V6(Ipv6Addr::from(u128::from(network).wrapping_add(index.into()))),
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

/// The endpoint.
pub(super) fn endpoint(draft: &mut Draft, cluster: &str, wish: &v1alpha1::Endpoint) -> Endpoint {
    let origins = &mut draft.origins;
    origins.mark("endpoint.internalName", Origin::Derived);
    Endpoint {
        name: origins.derive("endpoint.name", wish.name.clone(), names::endpoint(cluster)),
        internal_name: names::internal_endpoint(cluster),
        port: origins.choose("endpoint.port", wish.port, DEFAULT_PORT),
        mode: origins.choose("endpoint.mode", wish.mode, EndpointMode::Provider),
        cert_sans: origins.own("endpoint.certSans", wish.cert_sans.clone()),
    }
}
