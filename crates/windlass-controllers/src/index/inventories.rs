//! What the machine provider holds for each cluster, as it last said.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use windlass_providers::ports::{Inventory, Machine};

use super::Key;

/// Inventories by cluster.
#[derive(Default)]
pub(crate) struct Inventories {
    rows: RwLock<HashMap<Key, Arc<Inventory>>>,
}

impl Inventories {
    /// A cluster's inventory.
    pub(crate) fn get(&self, cluster: &Key) -> Option<Arc<Inventory>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).get(cluster).cloned()
    }

    /// One machine of it.
    pub(crate) fn machine(&self, cluster: &Key, name: &str) -> Option<Machine> {
        self.get(cluster)?.machines.iter().find(|machine| machine.name == name).cloned()
    }

    /// Takes up what the provider said; returns the names of machines that changed.
    pub(crate) fn observe(&self, cluster: &Key, inventory: Inventory) -> Vec<String> {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let before = rows.get(cluster).cloned();
        let changed = changed_machines(before.as_deref(), &inventory);
        rows.insert(cluster.clone(), Arc::new(inventory));
        changed
    }

    /// Forgets a cluster.
    pub(crate) fn forget(&self, cluster: &Key) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}

fn changed_machines(before: Option<&Inventory>, after: &Inventory) -> Vec<String> {
    let old: HashMap<&str, &Machine> = before
        .into_iter()
        .flat_map(|inventory| &inventory.machines)
        .map(|machine| (machine.name.as_str(), machine))
        .collect();
    let new: HashMap<&str, &Machine> = after.machines.iter().map(|machine| (machine.name.as_str(), machine)).collect();
    let came_or_changed = new.iter().filter(|(name, machine)| old.get(*name) != Some(*machine));
    let gone = old.iter().filter(|(name, _)| !new.contains_key(*name));
    came_or_changed.chain(gone).map(|(name, _)| (*name).to_owned()).collect()
}
