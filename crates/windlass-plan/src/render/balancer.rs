//! The balancer every machine has in front of the API servers.

use windlass_spec::node_config::Balancer;

use crate::inputs::NodeInputs;

/// Where it listens.
pub(crate) const LISTEN: &str = "127.0.0.1:7443";

/// Where a control plane's own API server is reached by those beside it, from before it starts.
pub(crate) const OWN_LISTEN: &str = "127.0.0.1:7444";

/// The own server first, then the others; workers begin at different ones.
pub(super) fn balancer(inputs: &NodeInputs<'_>) -> Balancer {
    let port = inputs.full.endpoint.port;
    let mut machines: Vec<_> = inputs.control_planes.iter().collect();
    let own = machines.iter().position(|machine| machine.name == inputs.machine.name);
    let first = own.unwrap_or_else(|| spread(&inputs.machine.name, machines.len()));
    machines.rotate_left(first);
    Balancer {
        listen: LISTEN.to_owned(),
        servers: machines.iter().map(|machine| authority(machine.address, port)).collect(),
        fallback: format!("{}:{port}", inputs.full.endpoint.internal_name),
        own_listen: own.map(|_| OWN_LISTEN.to_owned()),
    }
}

fn authority(address: std::net::IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

fn spread(name: &str, count: usize) -> usize {
    name.bytes().map(usize::from).sum::<usize>() % count.max(1)
}
