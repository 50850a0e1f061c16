//! Where each field of a document is.
//!
//! Input: the tree. Output: places by field path.

use std::collections::HashMap;

use super::tree::{Kind, Node};
use crate::problems::{Place, Problem};
use crate::resolve::join;

/// Places by field path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    values: HashMap<String, Place>,
    keys: HashMap<String, Place>,
}

impl Places {
    /// Places of a tree's fields: a scalar's own, the key's for everything else.
    pub(super) fn of(root: &Node) -> Self {
        let mut places = Self::default();
        places.values.insert(String::new(), root.place);
        places.walk(root, "");
        places
    }

    fn walk(&mut self, node: &Node, path: &str) {
        match &node.kind {
            Kind::Scalar { .. } => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.values.insert(path.clone(), item.place);
                    self.walk(item, &path);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    let path = join(path, &entry.key);
                    self.values.entry(path.clone()).or_insert(shown(&entry.value, entry.place));
                    self.keys.entry(path.clone()).or_insert(entry.place);
                    self.walk(&entry.value, &path);
                }
            }
        }
    }

    /// The place of a field, or of the nearest one around it that is written.
    fn nearest(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.values.get(path) {
                return Some(*place);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Gives a problem its place unless it has one.
    pub(super) fn locate(&self, problem: Problem) -> Problem {
        if problem.place.is_some() {
            return problem;
        }
        let key = self.keys.get(&problem.path).copied().filter(|_| problem.on_key);
        let other = problem.other_path.as_ref().and_then(|(path, label)| Some((self.nearest(path)?, label.clone())));
        let place = key.or_else(|| self.nearest(&problem.path)).or_else(|| self.values.get("").copied());
        Problem { place, other: other.or(problem.other.clone()), ..problem }
    }
}

fn shown(value: &Node, key: Place) -> Place {
    let filled = matches!(&value.kind, Kind::Scalar { text, .. } if !text.is_empty());
    if filled { value.place } else { key }
}
