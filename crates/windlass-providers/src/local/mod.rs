//! Sandboxes on this computer.
//!
//! [`hostd`] is the daemon that keeps them; [`Client`] speaks to it, [`ensure_running`] starts it. [`survey`] reads its
//! state without it.

pub mod authority;
mod client;
mod files;
pub mod hostd;
mod launch;
pub mod paths;
pub mod protocol;
pub mod survey;

pub use client::Client;
pub use launch::{ensure_running, own_build};
pub use paths::Paths;
