//! The closed list of condition types and reasons. Nothing else may stand in a condition or an event.

/// Condition types.
pub mod types {
    /// All that the object is for works.
    pub const AVAILABLE: &str = "Available";
    /// The object is as wanted.
    pub const READY: &str = "Ready";
    /// Controllers keep off.
    pub const PAUSED: &str = "Paused";
    /// It is being taken away.
    pub const DELETING: &str = "Deleting";
    /// The spec was understood and completed.
    pub const SPEC_RESOLVED: &str = "SpecResolved";
    /// The infrastructure object is ready.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// The bootstrap object is ready.
    pub const BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
    /// The workload cluster's API answers.
    pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
    /// The API took requests once.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    /// The control plane is available.
    pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
    /// Every group of workers is available.
    pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
    /// All control-plane Machines are ready.
    pub const CONTROL_PLANE_MACHINES_READY: &str = "ControlPlaneMachinesReady";
    /// All worker Machines are ready.
    pub const WORKER_MACHINES_READY: &str = "WorkerMachinesReady";
    /// All control-plane Machines are as their template says.
    pub const CONTROL_PLANE_MACHINES_UP_TO_DATE: &str = "ControlPlaneMachinesUpToDate";
    /// All worker Machines are as their template says.
    pub const WORKER_MACHINES_UP_TO_DATE: &str = "WorkerMachinesUpToDate";
    /// All Machines are ready.
    pub const MACHINES_READY: &str = "MachinesReady";
    /// All Machines are as their template says.
    pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";
    /// Machines are being replaced.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Machines are missing.
    pub const SCALING_UP: &str = "ScalingUp";
    /// Machines are too many.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Broken Machines are being replaced.
    pub const REMEDIATING: &str = "Remediating";
    /// As the template says.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// The Node is healthy.
    pub const NODE_HEALTHY: &str = "NodeHealthy";
    /// The Node is Ready.
    pub const NODE_READY: &str = "NodeReady";
    /// It is being changed in place.
    pub const UPDATING: &str = "Updating";
    /// A health check found it well.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// A health check's findings may be acted on.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// The control plane was initialized.
    pub const INITIALIZED: &str = "Initialized";
    /// Authorities and kubeconfig are there.
    pub const CERTIFICATES_AVAILABLE: &str = "CertificatesAvailable";
    /// Every etcd member is healthy.
    pub const ETCD_CLUSTER_HEALTHY: &str = "EtcdClusterHealthy";
    /// Every control-plane component is healthy.
    pub const COMPONENTS_HEALTHY: &str = "ControlPlaneComponentsHealthy";
    /// The machine runs.
    pub const MACHINE_RUNNING: &str = "MachineRunning";
    /// The newest configuration lies where the machine fetches it.
    pub const CONFIG_DELIVERED: &str = "ConfigDelivered";
    /// The machine is as its configuration says.
    pub const NODE_CONVERGED: &str = "NodeConverged";
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a condition is as it is, in one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// All is well.
    Available,
    /// Something it depends on is not.
    NotAvailable,
    /// All is well.
    Ready,
    /// Something it depends on is not.
    NotReady,
    /// Controllers keep off.
    Paused,
    /// Controllers act.
    NotPaused,
    /// It is being taken away.
    Deleting,
    /// It stays.
    NotDeleting,
    /// The spec was understood.
    Resolved,
    /// The spec has faults.
    InvalidSpec,
    /// The release is not named on the object.
    ReleaseUnknown,
    /// It was made by a newer Windlass.
    NewerWindlass,
    /// It was there once, is gone, and is not made again.
    RecordedAndGone,
    /// It is there.
    Provisioned,
    /// It is being made.
    Provisioning,
    /// It is not there yet.
    Waiting,
    /// The object it needs is missing.
    NotFound,
    /// The API answers.
    ProbeSucceeded,
    /// The API does not answer.
    ProbeFailed,
    /// It was reached.
    Initialized,
    /// It was not reached yet.
    NotInitialized,
    /// There are no workers.
    NoWorkers,
    /// There is nothing to judge.
    NoReplicas,
    /// As the template says.
    UpToDate,
    /// Not as the template says.
    NotUpToDate,
    /// Machines are being replaced.
    RollingOut,
    /// None is being replaced.
    NotRollingOut,
    /// Machines are missing.
    ScalingUp,
    /// None is missing.
    NotScalingUp,
    /// Machines are too many.
    ScalingDown,
    /// None is too many.
    NotScalingDown,
    /// None is being repaired.
    NotRemediating,
    /// It is not being changed.
    NotUpdating,
    /// The Node is healthy.
    NodeHealthy,
    /// The Node is there and not healthy.
    NodeNotHealthy,
    /// The Node has not been seen.
    NodeDoesNotExist,
    /// The Node was there and is gone.
    NodeDeleted,
    /// The Node cannot be looked at: the API does not answer.
    ConnectionDown,
    /// The health check found it well.
    HealthCheckSucceeded,
    /// The Node did not come in time.
    NodeStartupTimeout,
    /// A Node's condition was bad for too long.
    UnhealthyNode,
    /// A Machine's condition was bad for too long.
    UnhealthyMachine,
    /// Somebody asked for a replacement.
    HasRemediateAnnotation,
    /// Findings may be acted on.
    RemediationAllowed,
    /// Too many are unhealthy at once.
    TooManyUnhealthy,
    /// Certificates are there.
    CertificatesAvailable,
    /// A certificate of a running cluster is missing; it is never made anew.
    CertificatesMissing,
    /// etcd is healthy.
    EtcdHealthy,
    /// A member of etcd is not.
    EtcdNotHealthy,
    /// Components are healthy.
    ComponentsHealthy,
    /// A component is not.
    ComponentsNotHealthy,
    /// The machine runs.
    Running,
    /// It starts.
    Starting,
    /// It is stopped.
    Stopped,
    /// The newest configuration was delivered.
    Delivered,
    /// It is as configured.
    Converged,
    /// It is at work.
    Converging,
    /// A part of it failed.
    Failed,
    /// Waits until the cluster's network is there.
    WaitingForNetwork,
    /// Waits until addresses are kept.
    WaitingForAddresses,
    /// Waits until authorities are there.
    WaitingForCertificates,
    /// Waits until the spec is complete.
    WaitingForSpec,
    /// Waits until the Machine is there.
    WaitingForMachine,
    /// Waits for its turn: one control plane at a time.
    WaitingForTurn,
    /// Waits for the configuration.
    WaitingForConfig,
    /// Waits for the machine's first report.
    WaitingForReport,
    /// Waits for a hook before draining.
    WaitingForPreDrainHook,
    /// Waits for a hook before the machine goes.
    WaitingForPreTerminateHook,
    /// Waits until the machine is gone.
    WaitingForInfrastructureDeletion,
    /// Waits until the configuration is gone.
    WaitingForBootstrapDeletion,
    /// The Node is being removed.
    DeletingNode,
    /// Everything is gone.
    DeletionCompleted,
    /// Waits until the workers are gone.
    WaitingForWorkersDeletion,
    /// Waits until the control plane is gone.
    WaitingForControlPlaneDeletion,
    /// Waits until Machines are gone.
    WaitingForMachinesDeletion,
    /// The provider refused or failed.
    ProviderFailed,
    /// A newer owner exists; this one keeps off.
    Fenced,
    /// Somebody else provides it.
    ManagedExternally,
    /// The configuration could not be rendered.
    RenderFailed,
    /// Event: an object was made.
    Created,
    /// Event: an object was deleted.
    Deleted,
    /// Event: an object without owner was taken over.
    Adopted,
    /// Event: the spec's count was applied.
    Scaled,
    /// Event: etcd was formed.
    Formed,
    /// Event: a configuration was rendered.
    Rendered,
    /// Event: a Node joined.
    Joined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_legal_condition_reasons() {
        for reason in Reason::ALL {
            assert!(reason.as_str().chars().all(|letter| letter.is_ascii_alphanumeric()), "{reason:?}");
        }
    }
}
