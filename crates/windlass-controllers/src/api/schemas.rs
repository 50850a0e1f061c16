//! Tidies schemas made from Rust types: optional fields are absent, not null; free-form objects are kept whole.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Takes `nullable` from every optional field. Values of maps keep it: there a null means "take the default away".
///
/// A free-form object has no schema for its values: with one, even an empty one, the API server prunes what lies deeper
/// (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#controlling-pruning>).
pub(super) fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if schema.x_kubernetes_preserve_unknown_fields == Some(true) {
        schema.additional_properties = None;
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        tidy(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        tidy(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        let nullable = values.nullable;
        tidy(values);
        values.nullable = nullable;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// Free-form objects of a schema, by their path.
    fn free_forms(schema: &Value, at: &str, found: &mut Vec<(String, Value)>) {
        match schema {
            Value::Object(fields) => {
                if fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
                    found.push((at.to_owned(), schema.clone()));
                }
                fields.iter().for_each(|(name, value)| free_forms(value, &format!("{at}/{name}"), found));
            }
            Value::Array(items) => items.iter().for_each(|item| free_forms(item, at, found)),
            _ => {}
        }
    }

    #[test]
    fn free_form_objects_are_kept_whole() {
        let mut found = Vec::new();
        for definition in crate::api::definitions::crds() {
            free_forms(&serde_json::to_value(&definition).unwrap(), &definition.spec.names.kind, &mut found);
        }
        let names: Vec<&str> = found.iter().map(|(at, _)| at.as_str()).collect();
        for part in ["audit/properties/policy", "kubelet/properties/config", "staticPods/items/properties/manifest"] {
            assert!(names.iter().any(|at| at.contains(part)), "{part} is no free-form object: {names:#?}");
        }
        for (at, schema) in found {
            assert_eq!(schema.get("additionalProperties"), None, "{at}: its content would be pruned");
        }
    }
}
