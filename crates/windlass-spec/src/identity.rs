//! Names and numbers that identify clusters, machines, owners and configurations.
//!
//! Inputs: strings and integers from documents. Outputs: types which cannot be mixed up.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A control-plane place: `a` is the first. A slot owns the etcd volume, the DNS name, the address and the peer
/// identity for life; a machine claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// First place.
    A,
    /// Second place.
    B,
    /// Third place.
    C,
    /// Fourth place.
    D,
    /// Fifth place.
    E,
    /// Sixth place.
    F,
    /// Seventh place.
    G,
}

impl Slot {
    /// Every slot in order.
    pub const ALL: [Self; 7] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F, Self::G];

    /// The first `count` slots; at most seven.
    pub fn first(count: usize) -> &'static [Self] {
        const { assert!(Self::ALL.len() == 7) };
        &Self::ALL[..count.min(Self::ALL.len())]
    }

    /// The letter used in machine names, DNS names and volume labels.
    pub fn letter(self) -> char {
        char::from(b'a' + self as u8)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// A text that names no slot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no control-plane slot (a to g)")]
pub struct NotASlot(String);

impl FromStr for Slot {
    type Err = NotASlot;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|slot| slot.to_string() == text).ok_or_else(|| NotASlot(text.to_owned()))
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Counts the owners a cluster has had. Agents and providers refuse a lower one than they have seen.
    Epoch
);
number!(
    /// Counts the configurations of one machine within an epoch.
    Generation
);

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

text!(
    /// A cluster for life: sixteen random hex digits made at create. Written into volumes, providers and agents,
    /// so that two clusters of one name are never confused.
    ClusterId
);
text!(
    /// The management cluster that may change a cluster (its own id where it manages itself).
    OwnerId
);
text!(
    /// One permit to form an etcd cluster: the random cluster token of that attempt.
    FormAttempt
);

/// Who owns a cluster, and which owner in the count that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ownership {
    /// The owner.
    pub owner: OwnerId,
    /// How many owners there have been.
    pub epoch: Epoch,
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads only.
    Worker,
}
