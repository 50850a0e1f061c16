//! How far the deletion of each Machine's Node is.
//!
//! Kept in this process only: what counts is how long it has tried itself, not how long others may have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;

use super::decide::NodeDeletion;
use crate::api::Time;
use crate::api::cluster_api::Machine;

/// By Machine's uid.
#[derive(Default)]
pub(crate) struct NodeDeletions {
    known: Mutex<HashMap<String, NodeDeletion>>,
}

impl NodeDeletions {
    /// How far it is.
    pub(super) fn of(&self, machine: &Machine) -> NodeDeletion {
        self.lock().get(&uid(machine)).copied().unwrap_or_default()
    }

    /// It is tried now; the first time counts.
    pub(super) fn begin(&self, machine: &Machine, now: Time) {
        self.lock().entry(uid(machine)).or_insert(NodeDeletion::TriedSince(now));
    }

    /// An API has taken the Node.
    pub(super) fn done(&self, machine: &Machine) {
        self.lock().insert(uid(machine), NodeDeletion::Done);
    }

    /// The Machine goes.
    pub(super) fn forget(&self, machine: &Machine) {
        self.lock().remove(&uid(machine));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, NodeDeletion>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn uid(machine: &Machine) -> String {
    machine.uid().unwrap_or_default()
}
