//! A tree compared with the form of a document.
//!
//! Input: the tree. Outputs: the document as a value, with something harmless wherever the text is wrong, and every
//! problem with its place.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::scalar::{self, Misfit};
use super::shape::{CLUSTER, Field, Shape};
use super::suggest;
use super::tree::{Entry, Kind, Node};
use crate::problems::{Place, Problem};
use crate::resolve::join;
use crate::v1alpha1::{API_VERSION, KIND};

/// What came of the comparison.
#[derive(Debug)]
pub(super) struct Checked {
    /// None when it is another document altogether.
    pub(super) value: Option<Value>,
    pub(super) problems: Vec<Problem>,
}

/// Compares a document with the form of a [`crate::v1alpha1::Cluster`].
pub(super) fn check(root: &Node) -> Checked {
    let mut checker = Checker::default();
    if let Some(problem) = other_kind(root) {
        return Checked { value: None, problems: vec![problem] };
    }
    let value = checker.node(root, &CLUSTER, "", root.place);
    let is_mapping = matches!(root.kind, Kind::Map(_));
    Checked { value: is_mapping.then_some(value), problems: checker.problems }
}

/// Is it a document of another kind? Then nothing else said of it would help.
fn other_kind(root: &Node) -> Option<Problem> {
    let Kind::Map(entries) = &root.kind else { return None };
    let of = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value);
    let text = |key: &str| match of(key).map(|node| &node.kind) {
        Some(Kind::Scalar { text, .. }) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    };
    let wrong = |key: &str, wanted: &str| {
        let (found, node) = (text(key)?, of(key)?);
        let problem = Problem::error("other-kind", key, format!("`{key}` is `{found}`")).at(node.place);
        (found != wanted).then(|| problem.label(format!("`{wanted}` is wanted")))
    };
    let problem = wrong("apiVersion", API_VERSION).or_else(|| wrong("kind", KIND))?;
    Some(match text("apiVersion") {
        Some(group) if group.starts_with("cluster.x-k8s.io/") => {
            problem.hint("this is Cluster API's document, which Windlass makes itself; `windlass generate cluster NAME` prints its own")
        }
        _ => problem,
    })
}

#[derive(Debug, Default)]
struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    /// The value of a node of some shape. `key` is where its name stands.
    fn node(&mut self, node: &Node, shape: &Shape, path: &str, key: Place) -> Value {
        if node.is_null() && !matches!(shape, Shape::Text { nullable: true } | Shape::Free) {
            return self.nothing(shape, path, key);
        }
        match (shape, &node.kind) {
            (Shape::Object(fields), Kind::Map(entries)) => self.object(entries, fields, path, key),
            (Shape::Map(values), Kind::Map(entries)) => self.map(entries, values, path),
            (Shape::Free, Kind::Map(_)) => self.free(node, path),
            (Shape::Free, _) if node.is_null() => self.nothing(shape, path, key),
            (Shape::List(items), Kind::List(nodes)) => self.list(nodes, items, path),
            (_, Kind::Scalar { text, plain }) => self.scalar(text, *plain, node.place, shape, path),
            _ => self.mistyped(node, shape, path, key),
        }
    }

    fn nothing(&mut self, shape: &Shape, path: &str, key: Place) -> Value {
        let problem = Problem::error("no-value", path, format!("`{path}` has no value")).at(key);
        self.problems.push(problem.label(format!("{} is wanted", shape.wanted())).hint(match shape {
            Shape::Object(_) | Shape::Map(_) | Shape::Free | Shape::List(_) => {
                "indent what belongs to it below it, or leave the field out"
            }
            _ => "give it one, or leave the field out",
        }));
        shape.filler()
    }

    fn mistyped(&mut self, node: &Node, shape: &Shape, path: &str, key: Place) -> Value {
        let found = match &node.kind {
            Kind::Map(_) => "a mapping",
            Kind::List(_) => "a list",
            Kind::Scalar { .. } => "a single value",
        };
        let whole = if path.is_empty() { "the document".to_owned() } else { format!("`{path}`") };
        let place = if matches!(node.kind, Kind::Scalar { .. }) { node.place } else { key };
        let problem = Problem::error("type", path, format!("{whole} is {found}")).at(place);
        self.problems.push(problem.label(format!("{} is wanted", shape.wanted())));
        shape.filler()
    }

    fn object(&mut self, entries: &[Entry], fields: &BTreeMap<String, Field>, path: &str, key: Place) -> Value {
        self.duplicates(entries, path);
        let mut value = Map::new();
        for entry in entries {
            let below = join(path, &entry.key);
            match fields.get(&entry.key) {
                Some(field) => {
                    value.insert(entry.key.clone(), self.node(&entry.value, &field.shape, &below, entry.place));
                }
                None => self.unknown(entry, fields, path),
            }
        }
        for (name, field) in
            fields.iter().filter(|(name, field)| field.required && !value.contains_key(*name)).collect::<Vec<_>>()
        {
            self.missing(name, path, key);
            value.insert(name.clone(), field.shape.filler());
        }
        Value::Object(value)
    }

    fn unknown(&mut self, entry: &Entry, fields: &BTreeMap<String, Field>, path: &str) {
        let place = if path.is_empty() { "a Cluster document".to_owned() } else { format!("`{path}`") };
        let message = format!("`{}` is no field of {place}", entry.key);
        let mut problem = Problem::error("unknown-field", join(path, &entry.key), message).at(entry.place).on_key();
        problem.hints = suggest::hints(&entry.key, path, fields);
        self.problems.push(problem);
    }

    fn missing(&mut self, name: &str, path: &str, key: Place) {
        let (place, below) = if path.is_empty() {
            ("the document".to_owned(), name.to_owned())
        } else {
            (format!("`{path}`"), join(path, name))
        };
        let problem = Problem::error("missing-field", below.clone(), format!("{place} has no `{name}`")).at(key);
        self.problems.push(match below.as_str() {
            "apiVersion" => problem.hint(format!("write `apiVersion: {API_VERSION}`")),
            "kind" => problem.hint(format!("write `kind: {KIND}`")),
            "spec.provider" => problem.hint("write `provider: {local: {}}` for machines on this computer"),
            _ => problem,
        });
    }

    fn map(&mut self, entries: &[Entry], values: &Shape, path: &str) -> Value {
        self.duplicates(entries, path);
        let mut value = Map::new();
        for entry in entries {
            let below = join(path, &entry.key);
            value.insert(entry.key.clone(), self.node(&entry.value, values, &below, entry.place));
        }
        Value::Object(value)
    }

    fn list(&mut self, nodes: &[Node], items: &Shape, path: &str) -> Value {
        let one = |(index, node): (usize, &Node)| self.node(node, items, &format!("{path}[{index}]"), node.place);
        nodes.iter().enumerate().map(one).collect()
    }

    fn scalar(&mut self, text: &str, plain: bool, place: Place, shape: &Shape, path: &str) -> Value {
        let value = match shape {
            Shape::Text { nullable: true } if plain && super::tree::is_null_text(text) => Ok(Value::Null),
            Shape::Text { .. } => Ok(Value::from(text)),
            Shape::Word(words) => word(text, words),
            Shape::Integer { .. } | Shape::Boolean if !plain => Err(Misfit {
                message: format!("{} is wanted, not text", shape.wanted()),
                hint: Some("take away the quotes".to_owned()),
            }),
            Shape::Integer { low, high } => scalar::integer(text, *low, *high),
            Shape::Boolean => scalar::boolean(text),
            _ => {
                let node = place;
                let problem = Problem::error("type", path, format!("`{path}` is a single value")).at(node);
                self.problems.push(problem.label(format!("{} is wanted", shape.wanted())));
                return shape.filler();
            }
        };
        value.unwrap_or_else(|misfit| {
            self.misfit(misfit, path, place);
            shape.filler()
        })
    }

    fn misfit(&mut self, misfit: Misfit, path: &str, place: Place) {
        let problem = Problem::error("type", path, format!("`{path}`: {}", misfit.message)).at(place);
        self.problems.push(Problem { hints: misfit.hint.into_iter().collect(), ..problem });
    }

    /// An object of another API: every form is right, but not every scalar is clear.
    fn free(&mut self, node: &Node, path: &str) -> Value {
        match &node.kind {
            Kind::Scalar { text, plain: false } => Value::from(text.as_str()),
            Kind::Scalar { text, plain: true } => scalar::free(text).unwrap_or_else(|misfit| {
                self.misfit(misfit, path, node.place);
                Value::Null
            }),
            Kind::List(items) => {
                let one = |(index, item)| self.free(item, &format!("{path}[{index}]"));
                items.iter().enumerate().map(one).collect()
            }
            Kind::Map(entries) => {
                self.duplicates(entries, path);
                let one = |entry: &Entry| (entry.key.clone(), self.free(&entry.value, &join(path, &entry.key)));
                entries.iter().map(one).collect()
            }
        }
    }

    fn duplicates(&mut self, entries: &[Entry], path: &str) {
        let mut seen: HashMap<&str, Place> = HashMap::new();
        for entry in entries {
            match seen.get(entry.key.as_str()) {
                None => {
                    seen.insert(&entry.key, entry.place);
                }
                Some(first) => {
                    let message = format!("`{}` is there twice", join(path, &entry.key));
                    let problem = Problem::error("duplicate-field", join(path, &entry.key), message).at(entry.place);
                    let problem = problem.label("again here").other(*first, "first here").on_key();
                    self.problems.push(problem.hint("leave one out; none is silently preferred"));
                }
            }
        }
    }
}

fn word(text: &str, words: &[String]) -> Result<Value, Misfit> {
    if words.iter().any(|word| word == text) {
        return Ok(Value::from(text));
    }
    let message = format!("`{text}` is none of {}", words.join(", "));
    let near = suggest::nearest(text, words.iter().map(String::as_str));
    Err(Misfit { message, hint: near.map(|near| format!("did you mean `{near}`?")) })
}
