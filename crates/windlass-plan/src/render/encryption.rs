//! Encryption of Secrets at rest.

use serde_json::json;

use crate::yaml;

/// `EncryptionConfiguration` with one key; what was written before stays readable.
pub(super) fn configuration(key: &str) -> String {
    yaml::document(&json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets"],
            "providers": [
                { "secretbox": { "keys": [{ "name": "key1", "secret": key }] } },
                { "identity": {} },
            ],
        }],
    }))
}
