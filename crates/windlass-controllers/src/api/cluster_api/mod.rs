//! Cluster API's kinds, group `cluster.x-k8s.io`, version `v1beta2`, in our own words.

pub mod cluster;
pub mod machine;
pub mod machine_deployment;
pub mod machine_health_check;
pub mod machine_pool;
pub mod machine_set;
pub mod provider;
pub mod shared;

pub use cluster::{Cluster, ClusterSpec, ClusterStatus};
pub use machine::{Machine, MachineSpec, MachineStatus};
pub use machine_deployment::{MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus};
pub use machine_health_check::{MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus};
pub use machine_pool::{MachinePool, MachinePoolSpec, MachinePoolStatus};
pub use machine_set::{MachineSet, MachineSetSpec, MachineSetStatus};
pub use provider::{Provider, ProviderSpec};
