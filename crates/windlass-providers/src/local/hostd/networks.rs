//! A cluster's network on the host: bridge, table, zone, config source.
//!
//! Inputs: wishes, reports that change who serves the API. Outputs: the network raised (made twice is as good), or
//! taken down without a trace.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use windlass_spec::identity::ClusterId;

use super::super::protocol::{self, PORT};
use super::host::{Host, failed, lock};
use super::zone::{Records, Source, ZoneServer};
use super::{ground, netlink, nft, tls, zone};
use crate::address;
use crate::holdings::NetworkHeld;
use crate::ports::{Network, NetworkWanted, ProviderError, Scope};

/// What serves one network; dropped, it ends.
pub(super) struct Servers {
    _zone: ZoneServer,
    _config_source: tls::TlsServer,
}

struct ClusterSource {
    host: Arc<Host>,
    cluster: ClusterId,
}

impl Source for ClusterSource {
    fn records(&self) -> Records {
        self.host.look(&self.cluster, |cluster| Ok(Records::of(&cluster.holdings))).unwrap_or_default()
    }
}

impl Host {
    /// Makes a cluster's network.
    pub(super) async fn ensure_network(
        self: &Arc<Self>,
        wish: &protocol::EnsureNetwork,
    ) -> Result<Network, ProviderError> {
        let protocol::EnsureNetwork { scope, wanted } = wish;
        super::host::check_name("cluster", &scope.cluster)?;
        let _alone = self.network_lock.lock().await;
        let known = self.clusters().contains_key(&scope.cluster_id);
        if !known {
            ground::check_tools()?;
            self.enter(scope)?;
        }
        let made = self.make_network(scope, wanted).await;
        if made.is_err() {
            self.forget_empty(&scope.cluster_id)?;
        }
        made
    }

    async fn make_network(self: &Arc<Self>, scope: &Scope, wanted: &NetworkWanted) -> Result<Network, ProviderError> {
        let id = &scope.cluster_id;
        if let Some(network) = self.owned(scope, |cluster| cluster.holdings.want_network(wanted))? {
            self.raise_network(id).await?;
            return Ok(network);
        }
        let _picking = ground::lock_host()?;
        let network = self.pick(wanted).await?;
        self.owned(scope, |cluster| {
            cluster.holdings.network = Some(NetworkHeld { wanted: wanted.clone(), network: network.clone() });
            Ok(())
        })?;
        if let Err(error) = self.raise_network(id).await {
            self.lower_network(id).await?;
            return Err(error);
        }
        Ok(network)
    }

    /// Picks a range and a bridge nobody uses.
    async fn pick(&self, wanted: &NetworkWanted) -> Result<Network, ProviderError> {
        let mut taken = netlink::host_routes().await.map_err(|error| failed("listing routes", &error))?;
        let links = netlink::links(&self.paths.link_prefix()).await.map_err(|error| failed("listing links", &error))?;
        taken.extend(&wanted.avoid);
        let clusters = self.clusters();
        let others: Vec<&Network> =
            clusters.values().filter_map(|cluster| Some(&cluster.holdings.network.as_ref()?.network)).collect();
        taken.extend(others.iter().map(|network| network.subnet));
        let subnet = address::free_subnet(&taken)?;
        let free = |name: &String| !links.contains(name) && !others.iter().any(|network| network.bridge == *name);
        let bridge = (0..).map(|number| self.paths.bridge(number)).find(free).unwrap_or_default();
        let gateway = address::gateway(subnet);
        Ok(Network {
            subnet,
            gateway,
            endpoint: address::endpoint(subnet),
            bridge,
            zone: wanted.zone.clone(),
            api_url: format!("https://{gateway}:{PORT}"),
        })
    }

    /// Brings up everything of a recorded network.
    pub(super) async fn raise_network(self: &Arc<Self>, id: &ClusterId) -> Result<(), ProviderError> {
        let network = self.look(id, |cluster| Ok(cluster.holdings.network()?.network.clone()))?;
        self.check_range_is_ours(&network).await?;
        let gateway = IpNet::new(network.gateway, network.subnet.prefix_len())
            .map_err(|error| failed("the gateway's address", &error))?;
        netlink::ensure_bridge(&network.bridge, gateway, network.endpoint)
            .await
            .map_err(|error| failed(format!("making bridge {}", network.bridge), &error))?;
        ground::allow_forwarding(&network.bridge)?;
        self.load_table().await?;
        if !lock(&self.servers).contains_key(id) {
            let servers = self.serve(id, network.gateway).await?;
            lock(&self.servers).insert(id.clone(), servers);
        }
        Ok(())
    }

    /// After a reboot something else may have taken the range: better to say so than to cut it off.
    async fn check_range_is_ours(&self, network: &Network) -> Result<(), ProviderError> {
        let links = netlink::links(&network.bridge).await.map_err(|error| failed("listing links", &error))?;
        if links.contains(&network.bridge) {
            return Ok(());
        }
        let routes = netlink::host_routes().await.map_err(|error| failed("listing routes", &error))?;
        match routes.iter().find(|route| network.subnet.contains(*route)) {
            None => Ok(()),
            Some(route) => Err(ProviderError::Ground {
                missing: format!("the cluster's range {} is taken by the route {route}", network.subnet),
                remedy: "remove that route or the link it belongs to".to_owned(),
            }),
        }
    }

    async fn serve(self: &Arc<Self>, id: &ClusterId, gateway: IpAddr) -> Result<Servers, ProviderError> {
        let taken = |port: u16| {
            move |error: std::io::Error| ProviderError::Ground {
                missing: format!("port {port} on {gateway} cannot be used: {error}"),
                remedy: format!("end the program that listens on port {port} of all addresses, or bind it to its own"),
            }
        };
        let source = Arc::new(ClusterSource { host: Arc::clone(self), cluster: id.clone() });
        let zone = zone::serve(gateway, source).await.map_err(taken(53))?;
        let issued = self.authority.server(&[gateway]).map_err(|error| failed("issuing a certificate", &error))?;
        let config = tls::server_config(self.authority.certificate(), &issued)
            .map_err(|error| failed("the config source's TLS", &error))?;
        let config_source = tls::serve(gateway, config, Arc::clone(self)).await.map_err(taken(PORT))?;
        Ok(Servers { _zone: zone, _config_source: config_source })
    }

    /// Loads the table when it is another than the one loaded.
    pub(super) async fn load_table(&self) -> Result<(), ProviderError> {
        let mut loaded = self.loaded_table.lock().await;
        let networks: Vec<nft::Network> = self
            .clusters()
            .values()
            .filter_map(|cluster| {
                let held = cluster.holdings.network.as_ref()?;
                Some(nft::Network {
                    bridge: held.network.bridge.clone(),
                    subnet: held.network.subnet,
                    endpoint: held.network.endpoint,
                    port: held.wanted.endpoint_port,
                    servers: cluster.holdings.ready_api_servers(),
                })
            })
            .collect();
        let table = self.paths.nft_table();
        if networks.is_empty() {
            *loaded = None;
            nft::remove(&table).await.map_err(|error| failed("removing the table", &error))?;
            return self.exempt(&table, false).await;
        }
        let text = nft::render(&table, &self.paths.link_prefix(), &networks);
        if loaded.as_ref() == Some(&text) {
            return Ok(());
        }
        nft::load(&text).await.map_err(|error| failed("loading the table", &error))?;
        if loaded.is_none() {
            self.exempt(&table, true).await?;
        }
        *loaded = Some(text);
        Ok(())
    }

    /// Lets our bridges through other people's strict chains, or takes that back.
    async fn exempt(&self, table: &str, wanted: bool) -> Result<(), ProviderError> {
        let ruleset = nft::ruleset().await.map_err(|error| failed("reading the host's firewall", &error))?;
        let mut commands = nft::withdrawals(&ruleset, table);
        if wanted {
            let chains = nft::strict_chains(&ruleset, table);
            commands.extend(chains.iter().map(|chain| nft::exemption(chain, &self.paths.link_prefix(), table)));
        }
        if commands.is_empty() {
            return Ok(());
        }
        nft::load(&commands).await.map_err(|error| failed("the host's firewall", &error))
    }

    /// Removes a cluster's network; refused while machines are there.
    pub(super) async fn delete_network(self: &Arc<Self>, scope: &Scope) -> Result<(), ProviderError> {
        let id = &scope.cluster_id;
        if !self.clusters().contains_key(id) {
            return Ok(());
        }
        let _alone = self.network_lock.lock().await;
        self.owned(scope, |cluster| cluster.holdings.removable_network().map(drop))?;
        self.lower_network(id).await?;
        self.forget_empty(id)
    }

    async fn lower_network(&self, id: &ClusterId) -> Result<(), ProviderError> {
        drop(lock(&self.servers).remove(id));
        let bridge =
            self.look(id, |cluster| Ok(cluster.holdings.network.as_ref().map(|held| held.network.bridge.clone())))?;
        if let Some(bridge) = bridge {
            netlink::remove_link(&bridge).await.map_err(|error| failed(format!("removing {bridge}"), &error))?;
        }
        self.change(id, |cluster| {
            cluster.holdings.network = None;
            cluster.holdings.slots.clear();
            Ok(())
        })?;
        self.load_table().await
    }
}
