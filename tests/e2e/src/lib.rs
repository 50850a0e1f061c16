//! How whole clusters are tested: the real binary, in state folders of its own, on real machines.
//!
//! - [`runner`]: scenarios of checks that share a cluster, run one after the other, counted at the end.
//! - [`sandbox`]: one person's environment: state, working directory, commands; swept clean when dropped.
//! - [`cluster`]: kubectl and waiting for what a cluster must become.
//! - [`image`]: the image of [the probe](../probe/index.html) as an archive that containerd imports.

pub mod cluster;
pub mod image;
pub mod runner;
pub mod sandbox;
pub mod wait;
