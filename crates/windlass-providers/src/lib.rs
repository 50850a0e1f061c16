//! Where machines, volumes, networks and names come from.
//!
//! [`ports`] is what Windlass asks of any place; each folder beside it is one place. `local`: sandboxes on this computer
//! kept by the host daemon. `memory`: a twin for tests and faults.

pub mod ports;
