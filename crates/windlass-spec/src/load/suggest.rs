//! What was probably meant by a field that does not exist.
//!
//! Inputs: the unknown name, where it stands, the document's form. Output: hints, the best first.

use std::collections::BTreeMap;

use super::foreign;
use super::shape::{CLUSTER, Field, Shape};

/// Names at least this alike are offered.
const ALIKE: f64 = 0.8;

/// Hints for an unknown field of an object at `path`.
pub(super) fn hints(name: &str, path: &str, fields: &BTreeMap<String, Field>) -> Vec<String> {
    if let Some(known) = fields.keys().find(|known| known.eq_ignore_ascii_case(name)) {
        return vec![format!("the field is written `{known}`; capitals matter")];
    }
    if let Some(hint) = foreign::hint(name).filter(|_| !exists(name)) {
        return vec![hint];
    }
    let near = nearest(name, fields.keys().map(String::as_str));
    let elsewhere = elsewhere(name, path);
    match (near, elsewhere) {
        (_, Some(hint)) => vec![hint],
        (Some(near), None) => vec![format!("did you mean `{near}`?")],
        (None, None) => {
            let known: Vec<&str> = fields.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            vec![format!("fields here: {known}")]
        }
    }
}

/// The most alike of some names.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    known
        .map(|known| (known, likeness(&wanted, &known.to_lowercase())))
        .filter(|(_, likeness)| *likeness >= ALIKE)
        .max_by(|one, two| one.1.total_cmp(&two.1))
        .map(|(known, _)| known)
}

fn likeness(one: &str, two: &str) -> f64 {
    strsim::jaro_winkler(one, two).max(strsim::normalized_damerau_levenshtein(one, two))
}

fn exists(name: &str) -> bool {
    !places_of(name).is_empty()
}

/// A field of that very name, nearest in the tree: often a matter of indentation.
fn elsewhere(name: &str, path: &str) -> Option<String> {
    let here = general(path);
    let candidates = places_of(name);
    let (parent, below) = candidates
        .iter()
        .map(|parent| (parent, parent.strip_prefix(here.as_str()).is_some_and(|rest| rest.starts_with('.'))))
        .filter(|(parent, below)| *below || is_around(parent, &here))
        .min_by_key(|(parent, _)| distance(parent, &here))?;
    let place = if parent.is_empty() { "the document's top".to_owned() } else { format!("`{parent}`") };
    Some(if below {
        format!("`{name}` is a field of {place}: indent it below that")
    } else {
        format!("`{name}` is a field of {place}: it is indented too deep")
    })
}

fn is_around(parent: &str, here: &str) -> bool {
    parent.is_empty() || here.strip_prefix(parent).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn distance(one: &str, two: &str) -> usize {
    let depth = |path: &str| path.split('.').filter(|part| !part.is_empty()).count();
    depth(one).abs_diff(depth(two))
}

/// A path with every list item alike.
fn general(path: &str) -> String {
    let mut general = String::new();
    let mut inside = false;
    for character in path.chars() {
        inside = match character {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        if !inside && character != ']' {
            general.push(character);
        }
    }
    general
}

/// Paths of objects with a field of that name; list items are not counted.
fn places_of(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    search(&CLUSTER, "", name, &mut found);
    found
}

fn search(shape: &Shape, path: &str, name: &str, found: &mut Vec<String>) {
    match shape {
        Shape::Object(fields) => {
            if fields.contains_key(name) {
                found.push(path.to_owned());
            }
            for (key, field) in fields {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                search(&field.shape, &below, name, found);
            }
        }
        Shape::List(items) => search(items, path, name, found),
        _ => {}
    }
}
