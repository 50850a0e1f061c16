//! Pure decisions: from the full spec and what is observed to node configs, manifests, actions and their reasons.
//!
//! Inputs: a [`windlass_spec::full::FullCluster`], the cluster's machines and membership, its authorities. Outputs:
//! [`render`]: one machine's [`windlass_spec::node_config::SealedNodeConfig`]; [`addons`]: objects of the cluster;
//! [`decide`]: names, places, taints; [`preview`]: what a change would do to whom; [`lint`]: what must hold among the
//! configs of one cluster. No I/O, no clock, no randomness: the same inputs give the same bytes.

pub mod addons;
pub mod decide;
pub mod inputs;
pub mod lint;
pub mod preview;
mod render;
pub mod yaml;

pub use inputs::{ControlPlaneMachine, NetworkFacts, NodeInputs, RenderError};
pub use preview::{ChangeClass, Observed, Plan, plan};
pub use render::{EXTERNAL_NAME_ANNOTATION, INTERNAL_NAME_ANNOTATION, bootstrap_objects, render};
