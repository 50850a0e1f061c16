//! Failure domains: places are dealt to them in turn, so that no domain holds a majority where that can be helped.

use std::collections::BTreeMap;

use windlass_spec::identity::Slot;

/// The domain of each place; empty when there is none to choose. A place keeps its domain when places are added.
pub fn spread(slots: &[Slot], domains: &[String]) -> BTreeMap<Slot, String> {
    if domains.is_empty() {
        return BTreeMap::new();
    }
    slots.iter().map(|&slot| (slot, domains[slot as usize % domains.len()].clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn domains_differ_by_at_most_one_and_stay_when_places_are_added(count in 1_usize..=7, domains in 1_usize..=5) {
            let names: Vec<String> = (0..domains).map(|index| format!("rack-{index}")).collect();
            let all = spread(Slot::first(count), &names);
            let held = |name: &String| all.values().filter(|domain| *domain == name).count();
            let most = names.iter().map(held).max().unwrap_or(0);
            let least = names.iter().map(held).min().unwrap_or(0);
            prop_assert!(most - least <= 1);
            let more = spread(Slot::first(7), &names);
            prop_assert!(all.iter().all(|(slot, domain)| more[slot] == *domain));
        }
    }
}
