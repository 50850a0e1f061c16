//! The page of the `Cluster` document's fields, from its schema.
//!
//! Input: the JSON schema made from the types. Output: one table, a line a field, nested fields by their path.

use std::fmt::Write as _;

use serde_json::Value;

/// The page.
pub(super) fn page(schema: &Value) -> String {
    let mut text = format!("# The Cluster document\n{}\n", super::NOTE);
    text.push_str(
        "`apiVersion: windlass.dev/v1alpha1`, `kind: Cluster`. Only `metadata.name` and `spec.provider` must be there. \
         Unknown, doubled and mistyped fields are errors. `windlass generate cluster NAME` writes a first document, \
         `windlass plan -f FILE` shows every value with its origin. Editors can use [the schema](cluster.schema.json).\n\n\
         | field | type | meaning |\n|---|---|---|\n",
    );
    fields(&mut text, schema, "");
    text
}

fn fields(text: &mut String, schema: &Value, path: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let item = item(field);
        let path = if field["type"] == "array" { format!("{path}[]") } else { path };
        let _ = writeln!(text, "| `{path}` | {} | {} |", kind(field), meaning(field, item));
        fields(text, item, &path);
        let values = &item["additionalProperties"];
        if values["properties"].is_object() {
            fields(text, values, &format!("{path}.*"));
        }
    }
}

/// What a list holds, or the field itself.
fn item(field: &Value) -> &Value {
    if field["items"].is_object() { &field["items"] } else { field }
}

fn kind(field: &Value) -> String {
    let item = item(field);
    let single = match item["type"].as_str() {
        Some("object") if item["additionalProperties"].is_object() => "map",
        Some(kind) => kind,
        None => "any",
    };
    if field["type"] == "array" { format!("list of {single}") } else { single.to_owned() }
}

fn meaning(field: &Value, item: &Value) -> String {
    let description = field["description"].as_str().or_else(|| item["description"].as_str()).unwrap_or_default();
    let mut text = description.replace('\n', " ").replace('|', "\\|");
    let words: Vec<&str> = item["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !words.is_empty() && !words.iter().all(|word| description.contains(word)) {
        let _ = write!(text, " One of `{}`.", words.join("`, `"));
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_fields_have_paths() {
        let schema = json!({"properties": {"workers": {"type": "array", "description": "Groups.", "items": {
            "type": "object", "properties": {"count": {"type": "integer", "description": "How | many."}}}}}});
        let mut text = String::new();
        fields(&mut text, &schema, "spec");
        assert_eq!(
            text,
            "| `spec.workers[]` | list of object | Groups. |\n| `spec.workers[].count` | integer | How \\| many. |\n"
        );
    }
}
