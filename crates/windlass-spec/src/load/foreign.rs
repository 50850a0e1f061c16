//! Fields people know from documents of other tools.
//!
//! Input: an unknown name. Output: what it is called here.

/// Other tools' name, ours.
const NAMES: [(&str, &str); 23] = [
    ("replicas", "`count`"),
    ("machineCount", "`count`"),
    ("nodeCount", "`count`"),
    ("version", "`spec.kubernetesVersion`"),
    ("k8sVersion", "`spec.kubernetesVersion`"),
    ("controlPlaneConfiguration", "`spec.controlPlane`"),
    ("workerNodeGroupConfigurations", "`spec.workers`"),
    ("workerNodes", "`spec.workers`"),
    ("nodePools", "`spec.workers`"),
    ("instanceGroups", "`spec.workers`"),
    ("clusterNetwork", "`spec.network`"),
    ("networking", "`spec.network`"),
    ("podSubnet", "`spec.network.pods`"),
    ("podCIDR", "`spec.network.pods`"),
    ("clusterCIDR", "`spec.network.pods`"),
    ("serviceSubnet", "`spec.network.services`"),
    ("serviceCIDR", "`spec.network.services`"),
    ("controlPlaneEndpoint", "`spec.endpoint`"),
    ("extraArgs", "`flags`"),
    ("apiServer", "`spec.components.kubeApiserver`"),
    ("kubeletConfiguration", "`spec.components.kubelet.config`"),
    ("proxyConfiguration", "`spec.proxy`"),
    ("registryMirrorConfiguration", "`spec.registryMirrors`"),
];

/// What a foreign field is called here.
pub(super) fn hint(name: &str) -> Option<String> {
    let (foreign, ours) = NAMES.iter().find(|(foreign, _)| foreign.eq_ignore_ascii_case(name))?;
    Some(format!("what other tools call `{foreign}` is {ours} here"))
}
