//! The kinds of a management cluster as types: Cluster API's (contract `v1beta2`) and Windlass's own.
//!
//! Inputs: none. Outputs: types with schemas, and [`crds()`] to install them. Durable facts stand in spec and
//! annotations; whatever stands in a status can be made again from those and from the outside.

pub mod cluster_api;
pub mod condition;
mod definitions;
pub mod names;
mod schemas;
pub mod windlass;

pub use condition::{Condition, Conditions, Time};
pub use definitions::{crds, providers};
