//! Labels, annotations, finalizers and derived names of objects: everything two parties must spell alike.

/// Which cluster an object belongs to.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Marks control-plane Machines; its value is empty.
pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// Name of the ControlPlane a Machine belongs to.
pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
/// Name of the MachineDeployment an object belongs to.
pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// Name of the MachineSet a Machine belongs to.
pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
/// Hash of the template a MachineSet and its Machines were made from.
pub const TEMPLATE_HASH: &str = "machine-template-hash";
/// Holds every controller off an object; presence is enough.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Somebody else provides this infrastructure.
pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
/// Takes this Machine first when scaling down.
pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// Keeps health checks from judging this Machine.
pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
/// Asks for a replacement of this Machine whatever its health.
pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
/// Keeps a MachineSet from making Machines.
pub const DISABLE_MACHINE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";
/// Prefix of annotations that hold a deletion before the Node is cordoned.
pub const PRE_DRAIN_HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
/// Prefix of annotations that hold a deletion before the machine is taken away.
pub const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
/// The template an object was cloned from.
pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
/// Kind and group of that template.
pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
/// Count of the revisions a MachineDeployment has had, on its MachineSets.
pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// On Nodes: cluster of the Machine.
pub const NODE_CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// On Nodes: namespace of the Machine.
pub const NODE_CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
/// On Nodes: name of the Machine.
pub const NODE_MACHINE: &str = "cluster.x-k8s.io/machine";
/// On Nodes: kind of the Machine's owner.
pub const NODE_OWNER_KIND: &str = "cluster.x-k8s.io/owner-kind";
/// On Nodes: name of the Machine's owner.
pub const NODE_OWNER_NAME: &str = "cluster.x-k8s.io/owner-name";

/// Control-plane place of a Machine (`a` to `g`).
pub const SLOT: &str = "windlass.dev/slot";
/// Instance group of a Machine: `cp`, or the name of a `workers[]` entry.
pub const GROUP: &str = "windlass.dev/group";

/// On Windlass's Cluster: JSON of the `full::Release` in use.
pub const RELEASE: &str = "windlass.dev/release";
/// On Windlass's Cluster: version of Windlass that made or last changed it.
pub const VERSION: &str = "windlass.dev/version";
/// On Windlass's Cluster: the cluster's identity for life.
pub const CLUSTER_ID: &str = "windlass.dev/cluster-id";
/// On Windlass's Cluster: who owns it; the cluster's own id when absent.
pub const OWNER: &str = "windlass.dev/owner";
/// On Windlass's Cluster: how many owners it has had; 1 when absent.
pub const EPOCH: &str = "windlass.dev/epoch";
/// On Windlass's Cluster: JSON of the `full::Facts` found when it was first resolved.
pub const FACTS: &str = "windlass.dev/facts";
/// On Windlass's Cluster: `"true"` when its own control plane runs the controllers.
pub const SELF_MANAGED: &str = "windlass.dev/self-managed";
/// On Windlass's Cluster: delete takes the volumes as well.
pub const DELETE_VOLUMES: &str = "windlass.dev/delete-volumes";
/// On Windlass's Cluster: Cluster API's Cluster was made once and is never made again.
pub const RECORDED: &str = "windlass.dev/recorded";
/// On a MachineDeployment or ControlPlane: the count the spec last asked for.
pub const COUNT: &str = "windlass.dev/count";
/// On a ControlPlane: the one attempt that may form etcd.
pub const FORM_ATTEMPT: &str = "windlass.dev/form-attempt";
/// On a ControlPlane: the attempt that did form it.
pub const FORMED_BY: &str = "windlass.dev/formed-by";
/// On a ControlPlane: JSON of each slot's address, for life.
pub const SLOT_ADDRESSES: &str = "windlass.dev/slot-addresses";
/// On a NodeConfig: when the machine's Node was first seen Ready (RFC 3339); its join token is spent.
pub const JOINED: &str = "windlass.dev/joined";
/// On a bootstrap Secret: generation of the node config inside.
pub const CONFIG_GENERATION: &str = "windlass.dev/config-generation";
/// On a bootstrap Secret: hash of the node config inside.
pub const CONFIG_HASH: &str = "windlass.dev/config-hash";
/// On a bootstrap Secret: hash of the spec the node config was rendered from.
pub const SPEC_HASH: &str = "windlass.dev/spec-hash";
/// On a kubeconfig Secret: when its certificate ends, RFC 3339.
pub const EXPIRES: &str = "windlass.dev/expires";

/// Finalizer of Cluster API's Cluster.
pub const CLUSTER_FINALIZER: &str = "cluster.cluster.x-k8s.io";
/// Finalizer of Machines.
pub const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// Finalizer of MachineSets.
pub const MACHINE_SET_FINALIZER: &str = "cluster.x-k8s.io/machineset";
/// Finalizer of MachineDeployments.
pub const MACHINE_DEPLOYMENT_FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";
/// Finalizer of Windlass's Cluster.
pub const WINDLASS_CLUSTER_FINALIZER: &str = "windlass.dev/cluster";
/// Finalizer of ControlPlanes.
pub const CONTROL_PLANE_FINALIZER: &str = "windlass.dev/control-plane";
/// Finalizer of LocalClusters.
pub const LOCAL_CLUSTER_FINALIZER: &str = "windlass.dev/local-cluster";
/// Finalizer of LocalMachines.
pub const LOCAL_MACHINE_FINALIZER: &str = "windlass.dev/local-machine";

/// Type of the Secrets Cluster API knows.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// The namespace of Windlass's controllers.
pub const SYSTEM_NAMESPACE: &str = "windlass-system";

/// Group of Cluster API's kinds.
pub const CLUSTER_API: &str = "cluster.x-k8s.io";
/// Group of Windlass's kinds.
pub const WINDLASS: &str = "windlass.dev";

/// Name of the administrators' kubeconfig Secret.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Name of the Secret that holds one of a cluster's authorities.
pub fn authority_secret(cluster: &str, kind: windlass_pki::SecretKind) -> String {
    format!("{cluster}-{}", kind.suffix())
}
