//! Links, addresses and routes, on the host and inside a machine's network namespace. The only file that speaks netlink.
//!
//! Inputs: names and addresses. Outputs: bridges, links and routes as wished; each call can be made twice.
//! A namespace is entered by a thread of its own, which ends with the call; it is made with util-linux's `unshare`,
//! because the system call may not be made from safe Rust.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use futures::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteScope, RouteType};
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth, RouteMessageBuilder};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::command::{self, CommandError};

/// What netlink refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetlinkError {
    /// The socket, or the kernel's files beside it.
    #[error("netlink")]
    Socket(#[source] io::Error),
    /// One request.
    #[error("{operation}: {cause}")]
    Request {
        /// What was asked.
        operation: String,
        /// What the kernel said.
        cause: String,
    },
    /// The namespace.
    #[error("network namespace {path}")]
    Namespace {
        /// Its file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Making a namespace.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// A machine's end of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    /// The host's end.
    pub(crate) veth: String,
    /// The bridge it is plugged into.
    pub(crate) bridge: String,
    /// The machine's namespace, by name.
    pub(crate) netns: String,
    /// The machine's address with its range's length.
    pub(crate) address: IpNet,
    /// Its default route.
    pub(crate) gateway: IpAddr,
}

const IN_MACHINE: &str = "eth0";
const EEXIST: i32 = -17;
/// The kernel's table of the host's own addresses.
const LOCAL_TABLE: u32 = 255;

/// Makes a bridge with the gateway's and the endpoint's address, and switches it on.
pub(crate) async fn ensure_bridge(name: &str, gateway: IpNet, endpoint: IpAddr) -> Result<(), NetlinkError> {
    let handle = connect()?;
    if index(&handle, name).await?.is_none() {
        let message = LinkBridge::new(name).address(hardware_address(name)).build();
        tolerate_existing(&format!("making bridge {name}"), handle.link().add(message).execute().await)?;
    }
    let index = required(&handle, name).await?;
    add_address(&handle, index, gateway).await?;
    add_address(&handle, index, IpNet::from(endpoint)).await?;
    set_up(&handle, index, name).await?;
    let route = local_route(index, endpoint, gateway.addr());
    let result = handle.route().add(route).replace().execute().await;
    request(&format!("routing the host's own connections to {endpoint}"), result)
}

/// Makes a machine's namespace and its wire to the bridge.
pub(crate) async fn ensure_wire(wire: &Wire) -> Result<(), NetlinkError> {
    ensure_namespace(&wire.netns).await?;
    let handle = connect()?;
    if index(&handle, &wire.veth).await?.is_none() {
        plug(&handle, wire).await?;
    }
    let veth = required(&handle, &wire.veth).await?;
    let bridge = required(&handle, &wire.bridge).await?;
    let message = LinkUnspec::new_with_index(veth).controller(bridge).up().build();
    request(&format!("plugging {} into {}", wire.veth, wire.bridge), handle.link().set(message).execute().await)?;
    reflect(&wire.veth)
}

/// Lets the bridge send packets back where they came from: a machine that calls the endpoint may be mapped to itself,
/// and with br_netfilter such a packet is bridged, not routed.
fn reflect(veth: &str) -> Result<(), NetlinkError> {
    let path = format!("/sys/class/net/{veth}/brport/hairpin_mode");
    fs_err::write(path, "1").map_err(NetlinkError::Socket)
}

/// Takes addresses for good at once: nobody else has them, and a reflected probe would look like somebody who has.
fn trust_addresses(link: &str) {
    for setting in ["accept_dad", "dad_transmits"] {
        // Without IPv6 there is nothing to set.
        if let Err(error) = std::fs::write(format!("/proc/sys/net/ipv6/conf/{link}/{setting}"), "0") {
            tracing::debug!(link, setting, %error, "not set");
        }
    }
}

async fn plug(handle: &Handle, wire: &Wire) -> Result<(), NetlinkError> {
    let peer = format!("{}p", wire.veth);
    let message = LinkVeth::new(&wire.veth, &peer).build();
    request(&format!("making link {}", wire.veth), handle.link().add(message).execute().await)?;
    let peer_index = required(handle, &peer).await?;
    let path = Path::new(NETNS).join(&wire.netns);
    let namespace = open(&path)?;
    let message = LinkUnspec::new_with_index(peer_index).setns_by_fd(namespace.as_raw_fd()).build();
    request(&format!("moving {peer} into {}", wire.netns), handle.link().set(message).execute().await)?;
    let inner = wire.clone();
    within(&path, move |handle| async move { configure(&handle, &peer, &inner).await }).await
}

async fn configure(handle: &Handle, peer: &str, wire: &Wire) -> Result<(), NetlinkError> {
    let index = required(handle, peer).await?;
    trust_addresses(peer);
    let message =
        LinkUnspec::new_with_index(index).name(IN_MACHINE).address(hardware_address(&wire.netns)).up().build();
    request(&format!("switching {IN_MACHINE} on"), handle.link().set(message).execute().await)?;
    add_address(handle, index, wire.address).await?;
    if let Some(loopback) = self::index(handle, "lo").await? {
        set_up(handle, loopback, "lo").await?;
    }
    let route = default_route(wire.gateway);
    tolerate_existing("setting the default route", handle.route().add(route).execute().await)
}

/// Removes a link of the host; none there is as good.
pub(crate) async fn remove_link(name: &str) -> Result<(), NetlinkError> {
    let handle = connect()?;
    match index(&handle, name).await? {
        Some(index) => request(&format!("removing link {name}"), handle.link().del(index).execute().await),
        None => Ok(()),
    }
}

/// Removes a namespace; none there is as good.
pub(crate) fn remove_namespace(name: &str) -> Result<(), NetlinkError> {
    let path = Path::new(NETNS).join(name);
    let failed = |source| NetlinkError::Namespace { path: path.display().to_string(), source };
    match rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(failed(error.into())),
    }
    super::super::files::remove_if_there(&path).map_err(failed)
}

/// Ranges the host has routes to, default routes left out.
pub(crate) async fn host_routes() -> Result<Vec<IpNet>, NetlinkError> {
    let handle = connect()?;
    let mut found = Vec::new();
    for query in [
        RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
        RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
    ] {
        let mut routes = handle.route().get(query).execute();
        while let Some(route) = routes.try_next().await.map_err(|error| refused("listing routes", &error))? {
            found.extend(range(&route));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Names of the host's links that begin like this.
pub(crate) async fn links(prefix: &str) -> Result<Vec<String>, NetlinkError> {
    let handle = connect()?;
    let mut links = handle.link().get().execute();
    let mut found = Vec::new();
    while let Some(link) = links.try_next().await.map_err(|error| refused("listing links", &error))? {
        let name = link.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
        found.extend(name.filter(|name| name.starts_with(prefix)));
    }
    Ok(found)
}

/// Can this kernel make bridges and veth pairs? Makes one of each under these names and removes them.
pub(crate) async fn probe(bridge: &str, veth: &str) -> Result<(), NetlinkError> {
    let handle = connect()?;
    let made = handle.link().add(LinkBridge::new(bridge).build()).execute().await;
    request("making a bridge", made)?;
    remove_link(bridge).await?;
    let made = handle.link().add(LinkVeth::new(veth, &format!("{veth}p")).build()).execute().await;
    request("making a veth pair", made)?;
    remove_link(veth).await
}

const NETNS: &str = "/run/netns";

async fn ensure_namespace(name: &str) -> Result<(), NetlinkError> {
    let path = Path::new(NETNS).join(name);
    if is_namespace(&path) {
        return Ok(());
    }
    let failed = |source| NetlinkError::Namespace { path: path.display().to_string(), source };
    fs_err::create_dir_all(NETNS).map_err(failed)?;
    fs_err::write(&path, "").map_err(failed)?;
    command::run("unshare", [&format!("--net={}", path.display()), "--", "true"]).await?;
    Ok(())
}

/// Is something mounted there? A file left by a crash is on the same device as its folder.
fn is_namespace(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    path.exists() && device(path) != device(Path::new(NETNS))
}

fn open(path: &Path) -> Result<std::fs::File, NetlinkError> {
    std::fs::File::open(path).map_err(|source| NetlinkError::Namespace { path: path.display().to_string(), source })
}

/// Runs requests inside a namespace, on a thread that ends afterwards.
async fn within<T, F>(path: &Path, act: impl FnOnce(Handle) -> F + Send + 'static) -> Result<T, NetlinkError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, NetlinkError>>,
{
    let namespace = open(path)?;
    let shown = path.display().to_string();
    let (answer, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| NetlinkError::Namespace { path: shown, source: error.into() });
        let result = entered.and_then(|()| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(NetlinkError::Socket)?.block_on(async { act(connect()?).await })
        });
        // The caller may have been cancelled; then nobody waits for the answer.
        let _ = answer.send(result);
    });
    wait.await.map_err(|_| NetlinkError::Socket(io::Error::other("the thread in the namespace panicked")))?
}

fn connect() -> Result<Handle, NetlinkError> {
    let (connection, handle, _) = rtnetlink::new_connection().map_err(NetlinkError::Socket)?;
    tokio::spawn(connection);
    Ok(handle)
}

async fn index(handle: &Handle, name: &str) -> Result<Option<u32>, NetlinkError> {
    let mut links = handle.link().get().match_name(name.to_owned()).execute();
    match links.try_next().await {
        Ok(link) => Ok(link.map(|link| link.header.index)),
        // The kernel says ENODEV for a name that is not there.
        Err(rtnetlink::Error::NetlinkError(_)) => Ok(None),
        Err(error) => Err(refused(&format!("finding link {name}"), &error)),
    }
}

async fn required(handle: &Handle, name: &str) -> Result<u32, NetlinkError> {
    index(handle, name).await?.ok_or_else(|| NetlinkError::Request {
        operation: format!("finding link {name}"),
        cause: "it is not there".to_owned(),
    })
}

async fn set_up(handle: &Handle, index: u32, name: &str) -> Result<(), NetlinkError> {
    let message = LinkUnspec::new_with_index(index).up().build();
    request(&format!("switching {name} on"), handle.link().set(message).execute().await)
}

async fn add_address(handle: &Handle, index: u32, address: IpNet) -> Result<(), NetlinkError> {
    let result = handle.address().add(index, address.addr(), address.prefix_len()).execute().await;
    tolerate_existing(&format!("adding address {address}"), result)
}

/// Connections of the host's own to the endpoint come from the gateway's address. From the endpoint's they would have
/// the same address at both ends, and what is mapped to a server would never come back.
fn local_route(index: u32, endpoint: IpAddr, gateway: IpAddr) -> RouteMessage {
    match (endpoint, gateway) {
        (IpAddr::V4(endpoint), IpAddr::V4(gateway)) => local(RouteMessageBuilder::<std::net::Ipv4Addr>::new(), index)
            .destination_prefix(endpoint, 32)
            .pref_source(gateway)
            .build(),
        (IpAddr::V6(endpoint), IpAddr::V6(gateway)) => local(RouteMessageBuilder::<std::net::Ipv6Addr>::new(), index)
            .destination_prefix(endpoint, 128)
            .pref_source(gateway)
            .build(),
        // Both are of one range, and so of one family.
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => RouteMessage::default(),
    }
}

fn local<T>(route: RouteMessageBuilder<T>, index: u32) -> RouteMessageBuilder<T> {
    route.table_id(LOCAL_TABLE).kind(RouteType::Local).scope(RouteScope::Host).output_interface(index)
}

fn default_route(gateway: IpAddr) -> RouteMessage {
    match gateway {
        IpAddr::V4(gateway) => RouteMessageBuilder::<std::net::Ipv4Addr>::new().gateway(gateway).build(),
        IpAddr::V6(gateway) => RouteMessageBuilder::<std::net::Ipv6Addr>::new().gateway(gateway).build(),
    }
}

fn range(route: &RouteMessage) -> Option<IpNet> {
    let header = &route.header;
    let main = header.table == RouteHeader::RT_TABLE_MAIN || header.table == RouteHeader::RT_TABLE_UNSPEC;
    if !main || header.destination_prefix_length == 0 {
        return None;
    }
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) if header.address_family == AddressFamily::Inet => {
            Some(IpAddr::V4(*address))
        }
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })?;
    IpNet::new(address, header.destination_prefix_length).ok()
}

/// A stable, locally administered address made from a name, so that neighbours need not learn anew after a restart.
fn hardware_address(name: &str) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let mut address = Sha256::digest(name)[..6].to_vec();
    address[0] = (address[0] & 0xfc) | 0x02;
    address
}

fn request(operation: &str, result: Result<(), rtnetlink::Error>) -> Result<(), NetlinkError> {
    result.map_err(|error| refused(operation, &error))
}

fn tolerate_existing(operation: &str, result: Result<(), rtnetlink::Error>) -> Result<(), NetlinkError> {
    match result {
        Err(rtnetlink::Error::NetlinkError(error)) if error.code.is_some_and(|code| code.get() == EEXIST) => Ok(()),
        result => request(operation, result),
    }
}

fn refused(operation: &str, error: &rtnetlink::Error) -> NetlinkError {
    NetlinkError::Request { operation: operation.to_owned(), cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_stable_local_and_unicast() {
        let one = hardware_address("wl-abc-1");
        assert_eq!(one, hardware_address("wl-abc-1"));
        assert_ne!(one, hardware_address("wl-abc-2"));
        assert_eq!(one[0] & 0b11, 0b10);
    }
}
