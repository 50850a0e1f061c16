//! Which ranges and addresses machines get.
//!
//! Inputs: what is taken (routes, other clusters, the cluster's own ranges). Outputs: a free range for a bridge, and
//! addresses in it: `.1` gateway, `.2` API endpoint, `.11` upward for slots, `.21` upward for the rest. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use windlass_spec::identity::Slot;

use crate::ports::ProviderError;

/// Bridges get a /24 of this range.
pub const POOL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 77, 0, 0), 16);

const GATEWAY: u32 = 1;
const ENDPOINT: u32 = 2;
const FIRST_SLOT: u32 = 11;
const FIRST_WORKER: u32 = 21;
const LAST_WORKER: u32 = 254;

/// The first /24 of [`POOL`] that overlaps none of what is taken.
pub fn free_subnet(taken: &[IpNet]) -> Result<IpNet, ProviderError> {
    let overlaps = |subnet: &IpNet| taken.iter().any(|net| net.contains(subnet) || subnet.contains(net));
    let mut candidates = POOL.subnets(24).map(|subnets| subnets.map(IpNet::V4)).into_iter().flatten();
    candidates.find(|subnet| !overlaps(subnet)).ok_or_else(|| ProviderError::Ground {
        missing: format!("no /24 of {POOL} is free of the host's routes and the cluster's ranges"),
        remedy: "delete a cluster, or remove routes that cover the whole range".to_owned(),
    })
}

/// The host's address in a range.
pub fn gateway(subnet: IpNet) -> IpAddr {
    at(subnet, GATEWAY)
}

/// The API endpoint's address in a range.
pub fn endpoint(subnet: IpNet) -> IpAddr {
    at(subnet, ENDPOINT)
}

/// The address a slot has for life.
pub fn of_slot(subnet: IpNet, slot: Slot) -> Result<IpAddr, ProviderError> {
    Ok(at(subnet, FIRST_SLOT + slot as u32))
}

/// The lowest free address for a machine without a slot.
pub fn next_worker(subnet: IpNet, taken: impl Iterator<Item = IpAddr>) -> Result<IpAddr, ProviderError> {
    let taken: BTreeSet<IpAddr> = taken.collect();
    (FIRST_WORKER..=LAST_WORKER).map(|host| at(subnet, host)).find(|address| !taken.contains(address)).ok_or_else(
        || ProviderError::Ground {
            missing: format!("all {} worker addresses of {subnet} are taken", LAST_WORKER - FIRST_WORKER + 1),
            remedy: "remove machines, or spread them over a second cluster".to_owned(),
        },
    )
}

fn at(subnet: IpNet, host: u32) -> IpAddr {
    match subnet.network() {
        IpAddr::V4(network) => IpAddr::V4(Ipv4Addr::from(u32::from(network) + host)),
        IpAddr::V6(network) => IpAddr::V6((u128::from(network) + u128::from(host)).into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("a range")
    }

    #[test]
    fn local_subnet_clash_is_avoided() {
        assert_eq!(free_subnet(&[]).unwrap(), net("10.77.0.0/24"));
        assert_eq!(free_subnet(&[net("10.77.0.0/24"), net("10.77.1.128/25")]).unwrap(), net("10.77.2.0/24"));
        assert_eq!(free_subnet(&[net("10.77.0.0/17")]).unwrap(), net("10.77.128.0/24"));
        assert!(matches!(free_subnet(&[net("10.0.0.0/8")]), Err(ProviderError::Ground { .. })));
    }

    #[test]
    fn slots_keep_their_places() {
        let subnet = net("10.77.3.0/24");
        assert_eq!(gateway(subnet).to_string(), "10.77.3.1");
        assert_eq!(endpoint(subnet).to_string(), "10.77.3.2");
        assert_eq!(of_slot(subnet, Slot::A).unwrap().to_string(), "10.77.3.11");
        assert_eq!(of_slot(subnet, Slot::G).unwrap().to_string(), "10.77.3.17");
    }

    proptest! {
        #[test]
        fn a_picked_range_meets_nothing_taken(octets in proptest::collection::vec((0u8..=255, 17u8..=30), 0..40)) {
            let taken: Vec<IpNet> = octets
                .into_iter()
                .map(|(octet, bits)| IpNet::new(IpAddr::V4(Ipv4Addr::new(10, 77, octet, 0)), bits).unwrap().trunc())
                .collect();
            if let Ok(subnet) = free_subnet(&taken) {
                for net in taken {
                    prop_assert!(!net.contains(&subnet) && !subnet.contains(&net));
                }
            }
        }

        #[test]
        fn worker_addresses_never_repeat(count in 1usize..300) {
            let subnet = net("10.77.0.0/24");
            let mut taken = BTreeSet::new();
            for _ in 0..count {
                match next_worker(subnet, taken.iter().copied()) {
                    Ok(address) => prop_assert!(subnet.contains(&address) && taken.insert(address)),
                    Err(_) => prop_assert_eq!(taken.len(), 234),
                }
            }
        }
    }
}
