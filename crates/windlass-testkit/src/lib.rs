//! What tests of several crates share. Development only: nothing here is linked into the binary.
//!
//! - [`clusters`]: example documents, from the smallest legal one to one that uses every field.
//! - [`clock`]: a clock that stands still until told to move.
//! - [`host`]: what Windlass could leave behind on a host, for "before equals after".
//! - [`needs`]: what a test needs of the computer, without which it is passed over, but not in CI.
//! - [`binaries`], [`process`], [`etcd`], [`api`]: a real etcd and a real kube-apiserver on loopback.

pub mod api;
pub mod binaries;
pub mod clock;
pub mod clusters;
pub mod etcd;
pub mod host;
pub mod needs;
pub mod process;
