//! The host daemon: keeps machines on this computer as a cloud would.
//!
//! Inputs: calls over its root-only socket and, on each bridge's gateway, over mutual TLS. Outputs: networks, machines,
//! volumes, names. Its state is on disk; it can be killed and started again, or become another build, without touching
//! a machine. It ends by itself when it holds nothing.

pub mod cgroups;
pub mod clone;
pub(super) mod command;
mod disks;
pub(super) mod exchange;
mod ground;
mod host;
mod image;
mod limits;
mod machines;
mod metrics;
mod netlink;
mod networks;
mod nft;
pub mod process;
mod run;
pub mod sandbox;
mod server;
pub mod store;
mod tls;
pub(super) mod unit;
mod volumes;
mod zone;

pub use run::{HostdError, Options, run};
