//! Where machines, volumes, networks and names come from.
//!
//! [`ports`] is what Windlass asks of any place; each folder beside it is one place. [`local`]: sandboxes on this
//! computer kept by the host daemon. [`memory`]: a twin for tests and faults. [`holdings`] and [`address`] are the rules
//! both keep.

pub mod address;
pub mod holdings;
pub mod local;
pub mod memory;
pub mod ports;
