//! The form of a document, read from the types' JSON schema.
//!
//! Input: the schema schemars makes. Output: for each place what may stand there, in the few forms the types use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::schema;

/// What may stand in a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// A mapping with these fields.
    Object(BTreeMap<String, Field>),
    /// A mapping of names to equal things.
    Map(Box<Shape>),
    /// An object of another API.
    Free,
    /// A sequence.
    List(Box<Shape>),
    /// Text; `null` too where that has a meaning.
    Text { nullable: bool },
    /// One of these words.
    Word(Vec<String>),
    /// A whole number.
    Integer { low: i128, high: i128 },
    /// `true` or `false`.
    Boolean,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) shape: Shape,
    pub(super) required: bool,
}

impl Shape {
    /// What is wanted, for people.
    pub(super) fn wanted(&self) -> &'static str {
        match self {
            Self::Object(_) | Self::Map(_) | Self::Free => "a mapping (`name: value` lines, or `{}`)",
            Self::List(_) => "a list (`- item` lines, or `[]`)",
            Self::Text { .. } => "text",
            Self::Word(_) => "a word",
            Self::Integer { .. } => "a whole number",
            Self::Boolean => "`true` or `false`",
        }
    }

    /// Something of this shape, put where the document has something else, so that the rest can be judged.
    pub(super) fn filler(&self) -> Value {
        match self {
            Self::Object(fields) => fields
                .iter()
                .filter(|(_, field)| field.required)
                .map(|(name, field)| (name.clone(), field.shape.filler()))
                .collect(),
            Self::Map(_) | Self::Free => Value::Object(serde_json::Map::new()),
            Self::List(_) => Value::Array(Vec::new()),
            Self::Text { .. } => Value::from(""),
            Self::Word(words) => words.first().cloned().into(),
            Self::Integer { low, .. } => Value::from(i64::try_from((*low).max(1)).unwrap_or(1)),
            Self::Boolean => Value::Bool(false),
        }
    }
}

/// The form of a whole [`crate::v1alpha1::Cluster`] document.
pub(super) static CLUSTER: LazyLock<Shape> = LazyLock::new(|| shape(&schema::document()));

fn shape(schema: &Value) -> Shape {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Shape::Word(words.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => Shape::List(Box::new(shape(&schema["items"]))),
        Some("boolean") => Shape::Boolean,
        Some("integer") => {
            let bound = |name: &str| schema.get(name).and_then(Value::as_i64).map(i128::from);
            Shape::Integer {
                low: bound("minimum").unwrap_or(i64::MIN.into()),
                high: bound("maximum").unwrap_or(i64::MAX.into()),
            }
        }
        Some("object") => object(schema),
        _ => Shape::Text { nullable: schema.get("nullable") == Some(&Value::Bool(true)) },
    }
}

fn object(schema: &Value) -> Shape {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        return Shape::Free;
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        return Shape::Map(Box::new(shape(values)));
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    Shape::Object(
        fields
            .map(|(name, schema)| {
                (name.clone(), Field { shape: shape(schema), required: required.contains(&name.as_str()) })
            })
            .collect(),
    )
}
