//! The host daemon: keeps machines on this computer as a cloud would.
//!
//! Inputs: calls over its root-only socket and, on each bridge's gateway, over mutual TLS. Outputs: networks, machines,
//! volumes, names. Its state is on disk; it can be killed and started again, or become another build, without touching
//! a machine. It ends by itself when it holds nothing.

pub(super) mod cgroups;
pub(super) mod clone;
pub(super) mod command;
mod disks;
pub(super) mod exchange;
pub(super) mod ground;
mod host;
mod image;
mod limits;
mod machines;
mod metrics;
mod netlink;
mod networks;
mod nft;
pub(super) mod process;
mod recovery;
mod run;
pub(super) mod sandbox;
mod server;
pub(super) mod store;
mod tls;
pub(super) mod unit;
mod volumes;
mod zone;

pub use run::{HostdError, Options, run};
pub use store::StoreError;
