//! etcd's rules: who may form a cluster, who joins and how, and a thin client to look and act.
//!
//! Inputs: a permit, what ledger, volume and peers know, live member lists. Outputs: decisions with reasons, as pure
//! functions ([`formation`], [`membership`]), and the calls that carry them out ([`client`]).

pub mod client;
pub mod formation;
pub mod identity;
pub mod membership;
