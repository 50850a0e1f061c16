//! Windlass's own kinds, group `windlass.dev`, version `v1alpha1`.

pub mod cluster;
pub mod control_plane;
pub mod local_cluster;
pub mod local_machine;
pub mod node_config;

pub use cluster::{WindlassCluster, WindlassClusterSpec, WindlassClusterStatus};
pub use control_plane::{ControlPlane, ControlPlaneSpec, ControlPlaneStatus};
pub use local_cluster::{LocalCluster, LocalClusterSpec, LocalClusterStatus};
pub use local_machine::{
    LocalMachine, LocalMachineSpec, LocalMachineStatus, LocalMachineTemplate, LocalMachineTemplateSpec,
};
pub use node_config::{NodeConfig, NodeConfigSpec, NodeConfigStatus, NodeConfigTemplate, NodeConfigTemplateSpec};
