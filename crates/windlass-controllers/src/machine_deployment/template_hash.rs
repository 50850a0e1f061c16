//! The hash that tells one template from another: over the Machine template and the content of the templates it names,
//! and over nothing that changes in a move. So a template can be edited in place.

use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::api::cluster_api::MachineDeployment;
use crate::api::cluster_api::shared::MachineTemplate;
use crate::api::windlass::{LocalMachineTemplateSpec, NodeConfigTemplateSpec};
use crate::index::{Index, Key};

/// Characters of a hash, as many as names leave room for.
const LENGTH: usize = windlass_spec::names::GROUP_SUFFIX - 1;

/// The hash for a deployment; none while a template is missing.
pub(crate) fn of(index: &Index, deployment: &MachineDeployment) -> Option<String> {
    let namespace = deployment.namespace().unwrap_or_default();
    let spec = &deployment.spec.template.spec;
    let config = spec.bootstrap.config_ref.as_ref()?;
    let config = index.node_config_templates.get(&Key::new(&namespace, &config.name))?;
    let local = index.local_machine_templates.get(&Key::new(&namespace, &spec.infrastructure_ref.name))?;
    Some(hash(&deployment.spec.template, &config.spec, &local.spec))
}

/// The hash of these three. How patient a deletion is changes no machine.
fn hash(template: &MachineTemplate, config: &NodeConfigTemplateSpec, local: &LocalMachineTemplateSpec) -> String {
    let mut template = template.clone();
    template.spec.deletion = None;
    template.spec.min_ready_seconds = None;
    template.spec.readiness_gates = Vec::new();
    template.metadata = None;
    let text = serde_json::to_string(&(template, config, local)).unwrap_or_default();
    hex::encode(Sha256::digest(text))[..LENGTH].to_owned()
}
