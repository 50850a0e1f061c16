//! The controllers of a management cluster.
//!
//! Inputs: objects of a management cluster, a machine provider's inventory, a workload cluster's Nodes. Outputs: objects
//! written server-side, calls to the provider, conditions, events and metrics. Each kind has a folder: what is observed
//! comes from the [`index`], `decide` is pure, the rest applies.
//!
//! Who writes what:
//!
//! | folder | spec of | besides |
//! |---|---|---|
//! | `windlass_cluster` | Cluster, LocalCluster, ControlPlane, templates, MachineDeployments, MachineHealthChecks | |
//! | `cluster` | | order of deletion, connection to the workload cluster |
//! | `control_plane` | control-plane Machines with NodeConfig and LocalMachine | authorities, kubeconfig, permit to form |
//! | `machine_deployment` | MachineSets | |
//! | `machine_set` | worker Machines with NodeConfig and LocalMachine | |
//! | `machine` | | Nodes |
//! | `node_config` | | bootstrap Secrets |
//! | `local_cluster`, `local_machine` | | the machine provider |
//! | `machine_health_check` | | `HealthCheckSucceeded` on Machines |

pub mod api;
mod cluster;
pub mod conditions;
mod context;
mod control_plane;
mod error;
mod index;
mod local_cluster;
mod local_machine;
mod machine;
mod machine_deployment;
mod machine_health_check;
mod machine_set;
mod node_config;
mod objects;
pub mod reasons;
mod run;
mod runtime;
mod windlass_cluster;

pub use api::{crds, providers};
pub use error::ReconcileError;
pub use run::{Options, RunError, run};
pub use runtime::lease::LeaseOptions;
