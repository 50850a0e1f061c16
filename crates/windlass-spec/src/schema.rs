//! JSON schemas made from the types.
//!
//! Outputs: the schema of a document as editors want it, and that of its `spec` as a CustomResourceDefinition wants it
//! (structural: everything inline, no `null` alternatives, no defaults of ours).

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::v1alpha1::{API_VERSION, Cluster, ClusterSpec, KIND};

/// Schema of a whole document.
pub fn document() -> Value {
    let mut schema = structural::<Cluster>();
    if let Some(object) = schema.as_object_mut() {
        object.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        object.insert("title".to_owned(), "Windlass Cluster".into());
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        narrow(properties, "apiVersion", API_VERSION);
        narrow(properties, "kind", KIND);
    }
    schema
}

fn narrow(properties: &mut Map<String, Value>, field: &str, word: &str) {
    if let Some(schema) = properties.get_mut(field).and_then(Value::as_object_mut) {
        schema.insert("enum".to_owned(), json!([word]));
    }
}

/// Schema of `spec` in a CustomResourceDefinition.
pub fn cluster_spec() -> Value {
    structural::<ClusterSpec>()
}

fn structural<T: schemars::JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

/// Takes away what a structural schema may not have, or what only repeats Rust.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            tidy_object(object);
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn tidy_object(object: &mut Map<String, Value>) {
    for name in ["default", "title"] {
        if object.get(name).is_some_and(|value| !is_schema(value)) {
            object.remove(name);
        }
    }
    if object.get("additionalProperties").is_some_and(Value::is_boolean) {
        object.remove("additionalProperties");
    }
    if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        let high = match object.get("format").and_then(Value::as_str) {
            Some("uint8") => u32::from(u8::MAX),
            Some("uint16") => u32::from(u16::MAX),
            _ => u32::MAX >> 1,
        };
        object.remove("format");
        object.entry("maximum").or_insert(high.into());
    }
    words_of(object);
    only_alternative(object);
    fields_are_not_null(object);
}

/// A field that may be left out need not be `null`; a value of a map may, where that has a meaning.
fn fields_are_not_null(object: &mut Map<String, Value>) {
    let fields = object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, field) in fields {
        if let Some(field) = field.as_object_mut() {
            field.remove("nullable");
        }
    }
}

/// A field may be called `default` or `title`; what is said of a schema is no schema itself.
fn is_schema(value: &Value) -> bool {
    value.get("type").is_some() || value.get("properties").is_some()
}

/// Documented variants come one by one: makes a plain list of words of them.
fn words_of(object: &mut Map<String, Value>) {
    let Some(variants) = object.get("oneOf").and_then(Value::as_array) else { return };
    let mut words = Vec::new();
    let mut docs = Vec::new();
    for variant in variants {
        let Some(word) = variant_words(variant) else { return };
        let description = variant.get("description").and_then(Value::as_str);
        docs.extend(
            description.map(|text| {
                format!("{}: {text}", word.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
            }),
        );
        words.extend(word);
    }
    object.remove("oneOf");
    object.insert("type".to_owned(), "string".into());
    object.insert("enum".to_owned(), Value::Array(words));
    let text = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{text} {}", docs.join(" ")).trim().to_owned();
    object.insert("description".to_owned(), text.into());
}

fn variant_words(variant: &Value) -> Option<Vec<Value>> {
    match (variant.get("const"), variant.get("enum").and_then(Value::as_array)) {
        (Some(word), _) => Some(vec![word.clone()]),
        (None, Some(words)) => Some(words.clone()),
        _ => None,
    }
}

/// An optional thing is that thing.
fn only_alternative(object: &mut Map<String, Value>) {
    for keyword in ["anyOf", "allOf"] {
        let Some(alternatives) = object.get(keyword).and_then(Value::as_array) else { continue };
        let mut real = alternatives.iter().filter(|alternative| !is_null(alternative));
        let (Some(only), None) = (real.next().and_then(Value::as_object).cloned(), real.next()) else { continue };
        object.remove(keyword);
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
        tidy_object(object);
    }
    if let Some(words) = object.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type") == Some(&"null".into())
        || schema.get("const") == Some(&Value::Null)
        || schema.get("enum") == Some(&json!([null]))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{cluster_spec, document};

    /// What an API server refuses in a structural schema, or what would change meaning there.
    fn faults(schema: &Value, path: &str, found: &mut Vec<String>) {
        let Some(object) = schema.as_object() else { return };
        for word in ["$ref", "anyOf", "oneOf", "allOf", "default", "definitions", "$defs", "const"] {
            if object.contains_key(word) {
                found.push(format!("{path}: {word}"));
            }
        }
        if !object.get("type").is_some_and(Value::is_string) {
            found.push(format!("{path}: type {:?}", object.get("type")));
        }
        if object.get("additionalProperties").is_some_and(Value::is_boolean) {
            found.push(format!("{path}: additionalProperties"));
        }
        for (name, field) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
            faults(field, &format!("{path}.{name}"), found);
        }
        for below in ["items", "additionalProperties"] {
            object.get(below).into_iter().for_each(|schema| faults(schema, &format!("{path}[]"), found));
        }
    }

    #[test]
    fn schemas_are_structural() {
        for schema in [cluster_spec(), document()] {
            let mut found = Vec::new();
            faults(&schema, "", &mut found);
            assert!(found.is_empty(), "{found:#?}");
        }
    }

    #[test]
    fn words_nulls_and_free_objects() {
        let spec = cluster_spec();
        let at = |path: &str| spec.pointer(path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!(at("/properties/network/properties/cni/enum").to_string(), r#"["Bridge","None"]"#);
        assert_eq!(at("/properties/endpoint/properties/port/maximum"), 65535);
        assert_eq!(at("/properties/components/properties/etcd/properties/flags/additionalProperties/nullable"), true);
        assert_eq!(
            at("/properties/components/properties/kubelet/properties/config/x-kubernetes-preserve-unknown-fields"),
            true
        );
        assert_eq!(at("/required").to_string(), r#"["provider"]"#);
    }
}
