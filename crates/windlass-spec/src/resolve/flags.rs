//! Flags of a component: Windlass's own with the user's over them.
//!
//! Inputs: a table of defaults, the user's flags. Output: [`Flags`] with the origin of each.

use std::collections::{BTreeMap, BTreeSet};

use super::origins::{Origins, join};
use crate::full::{Flags, Origin};
use crate::v1alpha1::FlagValues;

/// A component's flags before the user is asked.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<&'static str, (String, Origin)>);

impl Table {
    /// Flags with fixed values.
    pub(super) fn fixed(entries: &[(&'static str, &str)]) -> Self {
        Self(entries.iter().map(|(name, value)| (*name, ((*value).to_owned(), Origin::Default))).collect())
    }

    /// Adds flags with fixed values.
    #[must_use]
    pub(super) fn and(mut self, entries: &[(&'static str, &str)]) -> Self {
        self.0.extend(Self::fixed(entries).0);
        self
    }

    /// Adds a flag whose value follows from other values.
    #[must_use]
    pub(super) fn derived(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.insert(name, (value.into(), Origin::Derived));
        self
    }

    /// Lays the user's flags over it.
    pub(super) fn with(self, component: &str, user: &FlagValues, origins: &mut Origins) -> Flags {
        let base = format!("components.{component}");
        let unset: BTreeSet<String> =
            user.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.clone()).collect();
        let mut set: BTreeMap<String, String> = BTreeMap::new();
        for (name, (value, origin)) in self.0.into_iter().filter(|(name, _)| !unset.contains(*name)) {
            origins.mark(join(&format!("{base}.set"), name), origin);
            set.insert(name.to_owned(), value);
        }
        for (name, value) in user.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            origins.mark(join(&format!("{base}.set"), name), Origin::User);
            set.insert(name.clone(), value.clone());
        }
        if !unset.is_empty() {
            origins.mark(format!("{base}.unset"), Origin::User);
        }
        Flags { set, unset }
    }
}
