//! The documents of Windlass as types: what a person writes, what it grows into, what a machine gets and what
//! it reports back.
//!
//! Inputs: YAML text, a bundle, facts about the ground. Outputs: a validated [`v1alpha1::Cluster`], a
//! [`full::FullCluster`] in which nothing is left out, and the wire documents [`boot_stub::BootStub`],
//! [`node_config::NodeConfig`] and [`report::NodeReport`]. No I/O and no async runtime here.

pub mod annotate;
pub mod boot_stub;
pub mod full;
pub mod generate;
pub mod identity;
pub mod load;
pub mod names;
pub mod node_config;
pub mod paths;
pub mod problems;
pub mod reference;
pub mod releases;
pub mod report;
pub mod resolve;
pub mod schema;
pub mod v1alpha1;
pub mod validate;
pub mod values;

pub use load::load;
pub use problems::Problems;
pub use reference::reference_markdown;
pub use resolve::resolve;
pub use validate::validate;
