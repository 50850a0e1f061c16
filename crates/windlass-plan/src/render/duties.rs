//! What control-plane agents keep in the cluster.

use windlass_spec::node_config::ClusterDuties;

use super::certificates::{AGENT_KUBECONFIG, SUPER_ADMIN_KUBECONFIG};
use super::rbac::bootstrap_objects;
use crate::inputs::{NodeInputs, RenderError};
use crate::{addons, yaml};

/// Rights first, then add-ons, then who the machines are.
pub(super) fn duties(inputs: &NodeInputs<'_>) -> Result<ClusterDuties, RenderError> {
    Ok(ClusterDuties {
        kubeconfig: AGENT_KUBECONFIG.to_owned(),
        bootstrap_kubeconfig: SUPER_ADMIN_KUBECONFIG.to_owned(),
        bootstrap: bootstrap_objects().iter().map(yaml::document).collect(),
        addons: addons::addons(inputs.full, inputs.self_managed)?,
        nodes: inputs.machines.to_vec(),
    })
}
