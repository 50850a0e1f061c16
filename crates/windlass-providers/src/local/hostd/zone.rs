//! The DNS zone of one cluster, served on its bridge.
//!
//! Inputs: the cluster's holdings. Outputs: answers for machines, slots and the endpoint's names, forward and reverse,
//! with short lifetimes; nothing else, and nothing is ever forwarded.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Metadata, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, PTR, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::{TcpListener, UdpSocket};

use crate::holdings::Holdings;

/// Lifetime of every answer, seconds.
pub(crate) const TTL: u32 = 5;

/// Names and addresses of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    zone: String,
    forward: BTreeMap<String, Vec<IpAddr>>,
    reverse: BTreeMap<IpAddr, String>,
    subnet: Option<ipnet::IpNet>,
}

/// An answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// These addresses.
    Addresses(Vec<IpAddr>),
    /// This name.
    Name(String),
    /// The start of authority.
    Authority,
    /// The name is there, but not this kind of record.
    NoData,
    /// The name is not there.
    NoName,
    /// Not ours.
    Refused,
}

impl Records {
    /// From what is held for a cluster.
    pub(crate) fn of(holdings: &Holdings) -> Self {
        let Some(held) = &holdings.network else { return Self::default() };
        let zone = canonical(&held.wanted.zone);
        let mut records = Self { zone: zone.clone(), subnet: Some(held.network.subnet), ..Self::default() };
        for (name, machine) in &holdings.machines {
            let full = format!("{}.{zone}", canonical(name));
            records.reverse.insert(machine.address, full.clone());
            records.add(&full, machine.address);
            for name in machine.wanted.iter().flat_map(|wanted| &wanted.dns_names) {
                records.add(name, machine.address);
            }
        }
        for (slot, address) in &holdings.slots {
            records.add(&format!("etcd-{slot}.{zone}"), *address);
        }
        let reported = holdings.machines.values().filter_map(|machine| machine.report.as_ref());
        let reported = reported.flat_map(|report| &report.api_server_names);
        for name in held.wanted.endpoint_names.iter().chain(reported) {
            records.add(name, held.network.endpoint);
        }
        if let Some(name) = held.wanted.endpoint_names.first() {
            records.reverse.insert(held.network.endpoint, canonical(name));
        }
        records.reverse.insert(held.network.gateway, format!("gateway.{zone}"));
        records.add(&format!("gateway.{zone}"), held.network.gateway);
        records
    }

    fn add(&mut self, name: &str, address: IpAddr) {
        let addresses = self.forward.entry(canonical(name)).or_default();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    /// Answers a question for this name (without the final dot).
    pub(crate) fn answer(&self, name: &str, kind: RecordType) -> Answer {
        let name = canonical(name);
        if let Some(address) = reverse_address(&name) {
            return match self.reverse.get(&address) {
                Some(name) if kind == RecordType::PTR => Answer::Name(name.clone()),
                Some(_) => Answer::NoData,
                None if self.subnet.is_some_and(|subnet| subnet.contains(&address)) => Answer::NoName,
                None => Answer::Refused,
            };
        }
        if let Some(addresses) = self.forward.get(&name) {
            let right = |address: &&IpAddr| match kind {
                RecordType::A => address.is_ipv4(),
                RecordType::AAAA => address.is_ipv6(),
                _ => false,
            };
            let found: Vec<IpAddr> = addresses.iter().filter(right).copied().collect();
            return if found.is_empty() { Answer::NoData } else { Answer::Addresses(found) };
        }
        if name == self.zone {
            return if kind == RecordType::SOA { Answer::Authority } else { Answer::NoData };
        }
        let inside = name.strip_suffix(&self.zone).is_some_and(|rest| rest.ends_with('.'));
        // A name with names below it is there, though it has no records.
        let branch = format!(".{name}");
        match inside {
            true if self.forward.keys().any(|key| key.ends_with(&branch)) => Answer::NoData,
            true => Answer::NoName,
            false => Answer::Refused,
        }
    }
}

fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// The address whose reverse name this is.
fn reverse_address(name: &str) -> Option<IpAddr> {
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<&str> = labels.rsplit('.').collect();
        return octets.join(".").parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4);
    }
    let labels = name.strip_suffix(".ip6.arpa")?;
    let nibbles: String = labels.rsplit('.').collect();
    let value = (nibbles.len() == 32).then(|| u128::from_str_radix(&nibbles, 16).ok())??;
    Some(IpAddr::V6(value.into()))
}

/// Where a server gets the current records.
pub(crate) trait Source: Send + Sync + 'static {
    /// The records now.
    fn records(&self) -> Records;
}

struct Handler {
    source: Arc<dyn Source>,
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut out: R) -> ResponseInfo {
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.authoritative = true;
        metadata.recursion_available = false;
        let (mut answers, mut authority) = (Vec::new(), Vec::new());
        match request.request_info() {
            Ok(info) if request.metadata.op_code == OpCode::Query => {
                let name = Name::from(info.query.name().clone());
                let records = self.source.records();
                let answer = records.answer(&name.to_ascii(), info.query.query_type());
                metadata.response_code = code(&answer);
                metadata.authoritative = answer != Answer::Refused;
                fill(&answer, &name, &records.zone, &mut answers, &mut authority);
            }
            Ok(_) => metadata.response_code = ResponseCode::NotImp,
            Err(_) => metadata.response_code = ResponseCode::FormErr,
        }
        let response = MessageResponseBuilder::from_message_request(request).build(
            metadata,
            answers.iter(),
            std::iter::empty(),
            authority.iter(),
            std::iter::empty(),
        );
        match out.send_response(response).await {
            Ok(info) => info,
            Err(error) => {
                tracing::debug!(%error, "a DNS answer was not sent");
                ResponseInfo::from(hickory_proto::op::Header {
                    metadata,
                    counts: hickory_proto::op::HeaderCounts::default(),
                })
            }
        }
    }
}

fn code(answer: &Answer) -> ResponseCode {
    match answer {
        Answer::NoName => ResponseCode::NXDomain,
        Answer::Refused => ResponseCode::Refused,
        _ => ResponseCode::NoError,
    }
}

fn fill(answer: &Answer, name: &Name, zone: &str, answers: &mut Vec<Record>, authority: &mut Vec<Record>) {
    let record = |data| Record::from_rdata(name.clone(), TTL, data);
    match answer {
        Answer::Addresses(addresses) => answers.extend(addresses.iter().map(|&address| match address {
            IpAddr::V4(address) => record(RData::A(A(address))),
            IpAddr::V6(address) => record(RData::AAAA(AAAA(address))),
        })),
        Answer::Name(target) => answers.extend(absolute(target).map(|target| record(RData::PTR(PTR(target))))),
        Answer::Authority => answers.extend(start_of_authority(zone)),
        Answer::NoData | Answer::NoName => authority.extend(start_of_authority(zone)),
        Answer::Refused => {}
    }
}

fn absolute(name: &str) -> Option<Name> {
    Name::from_ascii(format!("{name}.")).ok()
}

fn start_of_authority(zone: &str) -> Option<Record> {
    let (zone, server, person) =
        (absolute(zone)?, absolute(&format!("gateway.{zone}"))?, absolute(&format!("root.{zone}"))?);
    let seconds = i32::try_from(TTL).ok()?;
    Some(Record::from_rdata(zone, TTL, RData::SOA(SOA::new(server, person, 1, seconds, seconds, 60, TTL))))
}

/// A served zone; dropped, it ends.
pub(crate) struct ZoneServer(#[expect(dead_code, reason = "held for its life")] Server<Handler>);

/// Serves a zone on this address, UDP and TCP.
pub(crate) async fn serve(address: IpAddr, source: Arc<dyn Source>) -> std::io::Result<ZoneServer> {
    let udp = UdpSocket::bind((address, 53)).await?;
    let tcp = TcpListener::bind((address, 53)).await?;
    let mut server = Server::new(Handler { source });
    server.register_socket(udp);
    server.register_listener(tcp, Duration::from_secs(5), 32);
    Ok(ZoneServer(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let document: serde_json::Value = serde_json::from_str(include_str!("fixtures/cluster-1.json")).unwrap();
        Records::of(&serde_json::from_value(document["holdings"].clone()).unwrap())
    }

    fn ask(name: &str, kind: RecordType) -> String {
        match records().answer(name, kind) {
            Answer::Addresses(addresses) => format!("{addresses:?}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn machines_slots_and_the_endpoint_are_named() {
        for name in ["lab-cp-a.lab.windlass.internal", "etcd-a.lab.windlass.internal", "ETCD-A.LAB.windlass.internal."]
        {
            assert_eq!(ask(name, RecordType::A), "[10.77.0.11]", "{name}");
        }
        assert_eq!(ask("lab-md-1.lab.windlass.internal", RecordType::A), "[10.77.0.21]");
        assert_eq!(ask("api.lab.windlass.internal", RecordType::A), "[10.77.0.2]");
    }

    #[test]
    fn addresses_have_names() {
        assert_eq!(ask("11.0.77.10.in-addr.arpa", RecordType::PTR), r#"Name("lab-cp-a.lab.windlass.internal")"#);
        assert_eq!(ask("2.0.77.10.in-addr.arpa", RecordType::PTR), r#"Name("api.lab.windlass.internal")"#);
        assert_eq!(ask("99.0.77.10.in-addr.arpa", RecordType::PTR), "NoName");
        assert_eq!(ask("1.2.0.192.in-addr.arpa", RecordType::PTR), "Refused");
    }

    #[test]
    fn nothing_outside_is_answered() {
        assert_eq!(ask("example.test", RecordType::A), "Refused");
        assert_eq!(ask("evillab.windlass.internal", RecordType::A), "Refused");
        assert_eq!(ask("windlass.internal", RecordType::A), "Refused");
        assert_eq!(ask("none.lab.windlass.internal", RecordType::A), "NoName");
        assert_eq!(ask("lab-cp-a.lab.windlass.internal", RecordType::AAAA), "NoData");
        assert_eq!(ask("lab.windlass.internal", RecordType::SOA), "Authority");
        assert_eq!(ask("lab.windlass.internal", RecordType::A), "NoData");
    }
}
