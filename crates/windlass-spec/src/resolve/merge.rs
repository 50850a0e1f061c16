//! A configuration object with the user's fields over it.
//!
//! Inputs: Windlass's object, the user's. Output: the merged object; `null` takes a field away, lists are replaced.

use serde_json::Value;

use super::origins::{Origins, join};
use crate::full::Origin;
use crate::v1alpha1::Object;

/// Lays `user` over `base` and records whose each field is.
pub(super) fn merge(path: &str, base: &mut Object, user: &Object, origins: &mut Origins) {
    for (key, value) in user {
        let path = join(path, key);
        match (base.get_mut(key), value) {
            (_, Value::Null) => {
                base.remove(key);
            }
            (Some(Value::Object(below)), Value::Object(wanted)) => merge(&path, below, wanted, origins),
            _ => {
                base.insert(key.clone(), without_nulls(value));
                origins.mark(path, Origin::User);
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}
