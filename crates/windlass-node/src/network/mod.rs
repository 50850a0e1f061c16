//! The pod network's part that no CNI plugin does: routes to other machines' pods, and masquerade.
//!
//! Inputs: Nodes with their PodCIDRs, ranges. Outputs: kernel routes ([`routes`]) and one nftables table ([`masquerade`]).

pub mod masquerade;
pub mod routes;
