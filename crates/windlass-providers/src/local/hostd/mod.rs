//! The host daemon.

mod cgroups;
mod clone;
mod command;
mod image;
mod netlink;
mod nft;
mod process;
mod sandbox;
mod store;
mod volumes;
mod zone;
