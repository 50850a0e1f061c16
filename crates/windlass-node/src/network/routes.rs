//! Kernel routes to the pods of other machines.
//!
//! Inputs: wanted routes (PodCIDR through a machine's address). Outputs: the kernel's table holds exactly those of ours,
//! known by their protocol number.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol};
use rtnetlink::{Handle, RouteMessageBuilder, new_connection};

use crate::error::PartError;

/// The mark of our routes; unassigned in the kernel's list of routing protocols.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(87);

/// Routes by destination.
pub type Routes = BTreeMap<IpNet, IpAddr>;

/// What must be done to have the wanted routes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// To be set (an existing one of that destination is replaced).
    pub set: Routes,
    /// To be removed.
    pub remove: Vec<IpNet>,
}

/// Compares.
pub fn difference(found: &Routes, wanted: &Routes) -> Difference {
    Difference {
        set: wanted.iter().filter(|(to, via)| found.get(*to) != Some(*via)).map(|(to, via)| (*to, *via)).collect(),
        remove: found.keys().filter(|to| !wanted.contains_key(*to)).copied().collect(),
    }
}

/// The kernel's routing table.
pub struct Table {
    handle: Handle,
    connection: tokio::task::JoinHandle<()>,
}

impl Drop for Table {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn failed(operation: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> PartError {
    let operation = operation.into();
    move |error| PartError::Network { operation, cause: error.to_string() }
}

impl Table {
    /// Opens the kernel's table.
    ///
    /// # Errors
    /// When there is no netlink socket to be had.
    pub fn open() -> Result<Self, PartError> {
        let (connection, handle, _) = new_connection()
            .map_err(|error| PartError::Network { operation: "netlink".to_owned(), cause: error.to_string() })?;
        Ok(Self { handle, connection: tokio::spawn(connection) })
    }

    /// Our routes now.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub async fn ours(&self) -> Result<Routes, PartError> {
        let mut routes = Routes::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            let mut found = self.handle.route().get(request).execute();
            while let Some(route) = found.try_next().await.map_err(failed("listing routes"))? {
                routes.extend(read(&route));
            }
        }
        Ok(routes)
    }

    /// Makes our routes be the wanted ones; says how many changed.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub async fn apply(&self, wanted: &Routes) -> Result<usize, PartError> {
        let difference = difference(&self.ours().await?, wanted);
        for to in &difference.remove {
            let done = self.handle.route().del(message(*to, None)).execute().await;
            done.map_err(failed(format!("removing the route to {to}")))?;
        }
        for (to, via) in &difference.set {
            let add = self.handle.route().add(message(*to, Some(*via))).replace();
            add.execute().await.map_err(failed(format!("setting the route to {to} via {via}")))?;
        }
        Ok(difference.set.len() + difference.remove.len())
    }
}

fn message(to: IpNet, via: Option<IpAddr>) -> RouteMessage {
    match to {
        IpNet::V4(to) => {
            let builder =
                RouteMessageBuilder::<std::net::Ipv4Addr>::new().destination_prefix(to.network(), to.prefix_len());
            let builder = match via {
                Some(IpAddr::V4(via)) => builder.gateway(via),
                _ => builder,
            };
            builder.protocol(PROTOCOL).build()
        }
        IpNet::V6(to) => {
            let builder =
                RouteMessageBuilder::<std::net::Ipv6Addr>::new().destination_prefix(to.network(), to.prefix_len());
            let builder = match via {
                Some(IpAddr::V6(via)) => builder.gateway(via),
                _ => builder,
            };
            builder.protocol(PROTOCOL).build()
        }
    }
}

fn read(route: &RouteMessage) -> Option<(IpNet, IpAddr)> {
    if route.header.protocol != PROTOCOL {
        return None;
    }
    let address = |address: &RouteAddress| match address {
        RouteAddress::Inet(address) => Some(IpAddr::from(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::from(*address)),
        _ => None,
    };
    let (mut to, mut via) = (None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(found) => to = address(found),
            RouteAttribute::Gateway(found) => via = address(found),
            _ => {}
        }
    }
    Some((IpNet::new(to?, route.header.destination_prefix_length).ok()?, via?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(list: &[(&str, &str)]) -> Routes {
        list.iter().map(|(to, via)| (to.parse().unwrap(), via.parse().unwrap())).collect()
    }

    #[test]
    fn only_differences_are_done() {
        let found = routes(&[("10.244.1.0/24", "10.77.0.12"), ("10.244.9.0/24", "10.77.0.99")]);
        let wanted = routes(&[("10.244.1.0/24", "10.77.0.13"), ("10.244.2.0/24", "10.77.0.21")]);
        let difference = difference(&found, &wanted);
        assert_eq!(difference.set, wanted);
        assert_eq!(difference.remove, ["10.244.9.0/24".parse().unwrap()]);
        assert_eq!(super::difference(&wanted, &wanted), Difference::default());
    }
}
