//! The secret part of a configuration: a worker holds its own token and nothing else.

use std::collections::BTreeMap;

use windlass_spec::identity::Role;
use windlass_spec::node_config::{Authority, NodeSecrets};

use super::encryption;
use crate::inputs::NodeInputs;

/// Name of the cluster authority's key among the values.
pub(super) const CLUSTER_KEY: &str = "cluster-ca-key";
/// Name of the key that signs service-account tokens.
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account-key";
/// Name of the encryption configuration.
pub(super) const ENCRYPTION: &str = "encryption-configuration";

/// What this machine may know.
pub(super) fn secrets(inputs: &NodeInputs<'_>) -> NodeSecrets {
    match inputs.machine.role {
        Role::ControlPlane => control_plane(inputs),
        Role::Worker => worker(inputs),
    }
}

fn worker(inputs: &NodeInputs<'_>) -> NodeSecrets {
    let cluster = inputs.authorities.cluster.certificate_pem.clone();
    NodeSecrets {
        authorities: BTreeMap::from([(Authority::Cluster, cluster)]),
        bootstrap_token: inputs.bootstrap_token.map(str::to_owned),
        ..NodeSecrets::default()
    }
}

fn control_plane(inputs: &NodeInputs<'_>) -> NodeSecrets {
    let authorities = inputs.authorities;
    let all = [Authority::Cluster, Authority::Etcd, Authority::FrontProxy];
    let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    NodeSecrets {
        authorities: all.map(|each| (each, authorities.get(each).certificate_pem.clone())).into(),
        authority_keys: all.map(|each| (each, authorities.get(each).key_pem.clone())).into(),
        bootstrap_token: None,
        join_tokens: inputs.join_tokens.clone(),
        values: BTreeMap::from([
            value(CLUSTER_KEY, &authorities.cluster.key_pem),
            value(SERVICE_ACCOUNT_KEY, &authorities.service_account.private),
            value(ENCRYPTION, &encryption::configuration(&authorities.encryption_key)),
        ]),
    }
}
