//! The nftables table of one state folder: the endpoints' map to ready API servers, and what may pass the bridges.
//!
//! Input: the networks and their ready servers. Output: the table's text, loaded in one transaction. Pods and machines
//! reach each other and the endpoints, nothing else: no traffic of theirs leaves the computer.

use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::command::{self, CommandError};

/// One cluster's part of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// Its bridge.
    pub(crate) bridge: String,
    /// The machines' range.
    pub(crate) subnet: IpNet,
    /// The API endpoint's address.
    pub(crate) endpoint: IpAddr,
    /// Its port, also the servers'.
    pub(crate) port: u16,
    /// Servers that are ready.
    pub(crate) servers: Vec<IpAddr>,
}

/// The whole table, as `nft -f` takes it: replaces what was there at once.
pub(crate) fn render(table: &str, link_prefix: &str, networks: &[Network]) -> String {
    let maps: String = networks.iter().filter(|network| !network.servers.is_empty()).map(map).collect();
    let hairpins: String = networks.iter().map(hairpin).collect();
    let refusals: String = networks.iter().map(refusal).collect();
    format!(
        "add table inet {table}
delete table inet {table}
table inet {table} {{
\tchain prerouting {{
\t\ttype nat hook prerouting priority dstnat; policy accept;
{maps}\t}}
\tchain output {{
\t\ttype nat hook output priority -100; policy accept;
{maps}\t}}
\tchain postrouting {{
\t\ttype nat hook postrouting priority srcnat; policy accept;
{hairpins}\t}}
\tchain input {{
\t\ttype filter hook input priority filter; policy accept;
{refusals}\t}}
\tchain redirects {{
\t\ttype filter hook output priority filter; policy accept;
\t\toifname \"{link_prefix}-*\" icmp type redirect drop
\t}}
\tchain forward {{
\t\ttype filter hook forward priority filter; policy accept;
\t\tiifname \"{link_prefix}-*\" oifname \"{link_prefix}-*\" ct status dnat accept
\t\tiifname \"{link_prefix}-*\" oifname \"{link_prefix}-*\" ct state established,related accept
{same}\t\tiifname \"{link_prefix}-*\" drop
\t\toifname \"{link_prefix}-*\" drop
\t}}
}}
",
        same = networks.iter().map(within).collect::<String>(),
    )
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip6" }
}

fn map(network: &Network) -> String {
    let Network { endpoint, port, servers, .. } = network;
    let family = family(*endpoint);
    let entries = servers.iter().enumerate().fold(String::new(), |mut text, (number, server)| {
        let separator = if number == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{number} : {server}");
        text
    });
    let modulus = servers.len();
    format!(
        "\t\t{family} daddr {endpoint} tcp dport {port} dnat {family} to numgen random mod {modulus} map {{ {entries} }}\n"
    )
}

fn hairpin(network: &Network) -> String {
    let family = family(network.endpoint);
    format!("\t\t{family} daddr {} ct status dnat ct direction original masquerade\n", network.subnet)
}

/// New connections only: answers to the host's own come back to this address too.
fn refusal(network: &Network) -> String {
    let Network { endpoint, .. } = network;
    format!("\t\t{} daddr {endpoint} ct state new meta l4proto tcp reject with tcp reset\n", family(*endpoint))
}

/// Not by address: with br_netfilter, pods' packets from machine to machine come by here too.
fn within(network: &Network) -> String {
    let bridge = &network.bridge;
    format!("\t\tiifname \"{bridge}\" oifname \"{bridge}\" accept\n")
}

/// Loads the table.
pub(crate) async fn load(text: &str) -> Result<(), CommandError> {
    command::run_with_input("nft", ["-f", "-"], text).await.map(drop)
}

/// Asks the kernel whether it would take the table, without loading it.
pub(crate) async fn check(text: &str) -> Result<(), CommandError> {
    command::run_with_input("nft", ["--check", "-f", "-"], text).await.map(drop)
}

/// Removes the table; none there is as good.
pub(crate) async fn remove(table: &str) -> Result<(), CommandError> {
    load(&format!("add table inet {table}\ndelete table inet {table}\n")).await
}

/// A chain of somebody else that drops what it does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StrictChain {
    family: String,
    table: String,
    name: String,
    forward: bool,
}

/// Finds such chains in the output of `nft -j list ruleset`.
pub(crate) fn strict_chains(ruleset: &Value, own_table: &str) -> Vec<StrictChain> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let items = ruleset["nftables"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item.get("chain"))
        .filter(|chain| chain["policy"] == "drop" && (chain["hook"] == "forward" || chain["hook"] == "input"))
        .filter(|chain| chain["family"] != "bridge" && chain["table"] != own_table)
        .map(|chain| StrictChain {
            family: text(chain, "family"),
            table: text(chain, "table"),
            name: text(chain, "name"),
            forward: chain["hook"] == "forward",
        })
        .collect()
}

/// The rule that lets our bridges through such a chain; `comment` finds it again.
pub(crate) fn exemption(chain: &StrictChain, link_prefix: &str, comment: &str) -> String {
    let StrictChain { family, table, name, forward } = chain;
    let out = if *forward { format!(" oifname \"{link_prefix}-*\"") } else { String::new() };
    format!("insert rule {family} {table} {name} iifname \"{link_prefix}-*\"{out} accept comment \"{comment}\"\n")
}

/// Commands that delete the rules with this comment, from the output of `nft -j list ruleset`.
pub(crate) fn withdrawals(ruleset: &Value, comment: &str) -> String {
    let items = ruleset["nftables"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item.get("rule"))
        .filter(|rule| rule["comment"] == comment)
        .filter_map(|rule| {
            let part = |key: &str| rule[key].as_str();
            let handle = rule["handle"].as_u64()?;
            Some(format!("delete rule {} {} {} handle {handle}\n", part("family")?, part("table")?, part("chain")?))
        })
        .collect()
}

/// Everything loaded on the host, as JSON.
pub(crate) async fn ruleset() -> Result<Value, CommandError> {
    let text = command::run("nft", ["-j", "list", "ruleset"]).await?;
    serde_json::from_str(&text)
        .map_err(|error| CommandError::Failed { command: "nft -j list ruleset".to_owned(), said: error.to_string() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn network(servers: &[&str]) -> Network {
        Network {
            bridge: "wl0a1b-0".to_owned(),
            subnet: "10.77.0.0/24".parse().unwrap(),
            endpoint: "10.77.0.2".parse().unwrap(),
            port: 6443,
            servers: servers.iter().map(|server| server.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn the_endpoint_is_mapped_to_ready_servers() {
        insta::assert_snapshot!(render("windlass_0a1b2c", "wl0a1b", &[network(&["10.77.0.11", "10.77.0.12"])]), @r#"
        add table inet windlass_0a1b2c
        delete table inet windlass_0a1b2c
        table inet windlass_0a1b2c {
        	chain prerouting {
        		type nat hook prerouting priority dstnat; policy accept;
        		ip daddr 10.77.0.2 tcp dport 6443 dnat ip to numgen random mod 2 map { 0 : 10.77.0.11, 1 : 10.77.0.12 }
        	}
        	chain output {
        		type nat hook output priority -100; policy accept;
        		ip daddr 10.77.0.2 tcp dport 6443 dnat ip to numgen random mod 2 map { 0 : 10.77.0.11, 1 : 10.77.0.12 }
        	}
        	chain postrouting {
        		type nat hook postrouting priority srcnat; policy accept;
        		ip daddr 10.77.0.0/24 ct status dnat ct direction original masquerade
        	}
        	chain input {
        		type filter hook input priority filter; policy accept;
        		ip daddr 10.77.0.2 ct state new meta l4proto tcp reject with tcp reset
        	}
        	chain redirects {
        		type filter hook output priority filter; policy accept;
        		oifname "wl0a1b-*" icmp type redirect drop
        	}
        	chain forward {
        		type filter hook forward priority filter; policy accept;
        		iifname "wl0a1b-*" oifname "wl0a1b-*" ct status dnat accept
        		iifname "wl0a1b-*" oifname "wl0a1b-*" ct state established,related accept
        		iifname "wl0a1b-0" oifname "wl0a1b-0" accept
        		iifname "wl0a1b-*" drop
        		oifname "wl0a1b-*" drop
        	}
        }
        "#);
    }

    #[test]
    fn without_a_ready_server_the_endpoint_refuses() {
        let text = render("windlass_0a1b2c", "wl0a1b", &[network(&[])]);
        assert!(!text.contains("dnat ip to"), "{text}");
        assert!(text.contains("daddr 10.77.0.2 ct state new meta l4proto tcp reject"));
    }

    #[test]
    fn foreign_firewalls_get_one_rule_that_can_be_withdrawn() {
        let ruleset = json!({"nftables": [
            {"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "drop"}},
            {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "accept"}},
            {"chain": {"family": "inet", "table": "fw", "name": "in", "hook": "input", "policy": "drop"}},
            {"chain": {"family": "inet", "table": "windlass_x", "name": "forward", "hook": "forward", "policy": "drop"}},
            {"rule": {"family": "ip", "table": "filter", "chain": "FORWARD", "handle": 7, "comment": "windlass_x"}},
            {"rule": {"family": "ip", "table": "filter", "chain": "FORWARD", "handle": 8, "comment": "other"}},
        ]});
        let chains = strict_chains(&ruleset, "windlass_x");
        let rules: String = chains.iter().map(|chain| exemption(chain, "wl0a1b", "windlass_x")).collect();
        insta::assert_snapshot!(rules, @r#"
        insert rule ip filter FORWARD iifname "wl0a1b-*" oifname "wl0a1b-*" accept comment "windlass_x"
        insert rule inet fw in iifname "wl0a1b-*" accept comment "windlass_x"
        "#);
        assert_eq!(withdrawals(&ruleset, "windlass_x"), "delete rule ip filter FORWARD handle 7\n");
    }
}
