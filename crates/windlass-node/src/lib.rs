//! The node agent: one machine as its configuration says, continuously.
//!
//! Inputs: the boot stub, sealed node configs from a [`source::ConfigSource`], the machine itself through the narrow
//! traits of [`host`]. Outputs: files, units, mounts and static pods on the machine, a
//! [`windlass_spec::report::NodeReport`] after each change, and, on control planes, the cluster's own duties.

pub mod agent;
pub mod api_servers;
pub mod balancer;
pub mod board;
pub mod boot_id;
pub mod duties;
pub mod error;
pub mod health;
pub mod host;
pub mod http;
pub mod kubernetes;
pub mod ledger;
pub mod logs;
pub mod metrics;
pub mod network;
pub mod node_watch;
pub mod parts;
pub mod paths;
pub mod schedule;
pub mod source;
