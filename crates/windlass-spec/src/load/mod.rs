//! From text to a checked [`Cluster`], with every problem at its place.
//!
//! Input: the text of a file. Outputs: the cluster, and warnings; or everything that is wrong, at once. The text is
//! parsed to a tree in which each scalar keeps its source text, the tree is compared with the types' schema, and only
//! then values are made of it: what a scalar means is decided by its field, never by how YAML might read it. Nothing is
//! expanded, nothing is ignored.

mod check;
mod foreign;
mod places;
mod scalar;
mod shape;
mod suggest;
mod tree;

use std::sync::Arc;

use serde_json::Value;

use crate::problems::{Problem, Problems, Source};
use crate::v1alpha1::Cluster;
use crate::validate::validate;

/// A cluster as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The cluster.
    pub cluster: Cluster,
    /// What is probably not meant, with places.
    pub warnings: Problems,
    places: places::Places,
}

impl Document {
    /// Gives problems found later (by [`crate::resolve()`], by a look at the ground) their places in the text.
    #[must_use]
    pub fn locate(&self, problems: Problems) -> Problems {
        let mut located = self.warnings.source().cloned().map(Problems::of).unwrap_or_default();
        located.extend(problems.into_iter().map(|problem| self.places.locate(problem)));
        located.sorted()
    }
}

/// Reads a cluster, warnings aside.
///
/// # Errors
/// Everything that is wrong with the text, at once.
pub fn load(text: &str, file: &str) -> Result<Cluster, Problems> {
    read(text, file).map(|document| document.cluster)
}

/// Reads a cluster.
///
/// # Errors
/// Everything that is wrong with the text at once, warnings included.
pub fn read(text: &str, file: &str) -> Result<Document, Problems> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source { file: file.to_owned(), text: Arc::from(text) };
    let mut problems = Problems::of(source);
    let root = match tree::parse(text) {
        Ok(root) => root,
        Err(problem) => {
            problems.push(*problem);
            return Err(problems);
        }
    };
    let checked = check::check(&root);
    let places = places::Places::of(&root);
    problems.extend(checked.problems);
    let Some(value) = checked.value else { return Err(problems.sorted()) };
    let cluster = match cluster(value) {
        Ok(cluster) => cluster,
        Err(problem) if problems.is_empty() => {
            problems.push(places.locate(problem));
            return Err(problems);
        }
        Err(_) => return Err(problems.sorted()),
    };
    let judged = validate(&cluster).into_iter().filter(|found| !hidden(found, &problems));
    let judged: Vec<Problem> = judged.map(|problem| places.locate(problem)).collect();
    problems.extend(judged);
    let problems = problems.sorted();
    if problems.has_errors() { Err(problems) } else { Ok(Document { cluster, warnings: problems, places }) }
}

fn cluster(value: Value) -> Result<Cluster, Problem> {
    serde_json::from_value(value).map_err(|error| Problem::error("document", "", error.to_string()))
}

/// Rules that leave something in the place of what was wrong.
const REPLACED: [&str; 3] = ["type", "no-value", "missing-field"];

/// Is the field of this finding, or what it is a judgement of, already known to be wrong? What was put in its place is
/// not the user's.
fn hidden(found: &Problem, known: &Problems) -> bool {
    let about = |problem: &Problem| {
        let replaced = REPLACED.contains(&problem.rule.as_str());
        is_within(&found.path, &problem.path) || (replaced && is_within(&problem.path, &found.path))
    };
    known.errors().any(|problem| !problem.path.is_empty() && about(problem))
}

fn is_within(path: &str, around: &str) -> bool {
    path.strip_prefix(around).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests;
