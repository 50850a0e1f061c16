//! The controllers of a management cluster.
//!
//! Inputs: objects of a management cluster, a machine provider's inventory, a workload cluster's Nodes. Outputs: objects
//! written server-side, calls to the provider, conditions, events and metrics. Each kind has a folder: observe (from
//! the index), decide (pure) and apply.

pub mod api;
