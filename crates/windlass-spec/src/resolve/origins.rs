//! Who set each value.
//!
//! Input: choices as they are made. Output: origins by field path of [`crate::full::FullCluster`].

use std::collections::BTreeMap;

use serde_json::Value;

use crate::full::Origin;

/// Origins so far.
#[derive(Debug, Default)]
pub(super) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Records who set a value.
    pub(super) fn mark(&mut self, path: impl Into<String>, origin: Origin) {
        self.0.insert(path.into(), origin);
    }

    /// The user's value if there is one, else the default.
    pub(super) fn choose<T>(&mut self, path: &str, user: Option<T>, default: T) -> T {
        self.mark(path, if user.is_some() { Origin::User } else { Origin::Default });
        user.unwrap_or(default)
    }

    /// As [`Self::choose`], for a value that follows from others unless the user sets it.
    pub(super) fn derive<T>(&mut self, path: &str, user: Option<T>, derived: T) -> T {
        self.mark(path, if user.is_some() { Origin::User } else { Origin::Derived });
        user.unwrap_or(derived)
    }

    /// A list or map that is the user's unless empty.
    pub(super) fn own<T: Default + PartialEq>(&mut self, path: &str, value: T) -> T {
        self.mark(path, if value == T::default() { Origin::Default } else { Origin::User });
        value
    }

    /// All of them.
    pub(super) fn into_map(self) -> BTreeMap<String, Origin> {
        self.0
    }
}

/// The path of a key below a path: plain keys after a dot, others in brackets and quotes.
pub fn join(path: &str, key: &str) -> String {
    let plain =
        !key.is_empty() && key.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        _ => format!("{path}[{}]", Value::from(key)),
    }
}

/// Who set the value at a path: what is recorded for it or for the nearest value around it.
pub fn origin_at(origins: &BTreeMap<String, Origin>, path: &str) -> Origin {
    let mut path = path;
    loop {
        if let Some(origin) = origins.get(path) {
            return *origin;
        }
        match path.rfind(['.', '[']) {
            Some(end) => path = &path[..end],
            None => return Origin::Default,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{join, origin_at};
    use crate::full::Origin;

    #[test]
    fn a_value_inherits_the_origin_around_it() {
        let origins = BTreeMap::from([
            ("workers[0]".to_owned(), Origin::User),
            ("workers[0].version".to_owned(), Origin::Derived),
        ]);
        assert_eq!(origin_at(&origins, "workers[0].labels.tier"), Origin::User);
        assert_eq!(origin_at(&origins, "workers[0].version"), Origin::Derived);
        assert_eq!(origin_at(&origins, "workers[1].version"), Origin::Default);
    }

    #[test]
    fn odd_keys_are_quoted() {
        assert_eq!(join("spec.sysctls", "vm.max_map_count"), r#"spec.sysctls["vm.max_map_count"]"#);
        assert_eq!(join("spec", "workers"), "spec.workers");
        assert_eq!(join("", "spec"), "spec");
    }
}
