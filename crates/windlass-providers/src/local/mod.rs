//! Sandboxes on this computer.
//!
//! [`hostd`] is the daemon that keeps them; the rest is for its clients.

pub mod authority;
mod files;
pub mod hostd;
pub mod paths;
pub mod protocol;
