//! Is a configuration for this machine, whole, and newer than what it has?
//!
//! Inputs: who the machine is, what its ledger knows, the configuration offered. Output: a [`Verdict`] with its reason.

use windlass_spec::identity::ClusterId;
use windlass_spec::node_config::{NodeConfig, SealedNodeConfig};

use crate::ledger::Ledger;

/// Who the machine is by its boot stub and ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// Its name.
    pub machine: String,
}

/// What to do with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Take it up.
    New,
    /// It is the one the machine has.
    Same,
    /// Never; why.
    Refused(String),
}

/// Judges a configuration.
pub fn judge(expected: &Expected, ledger: &Ledger, offered: &SealedNodeConfig) -> Verdict {
    match reason_against(expected, ledger, offered) {
        Some(reason) => Verdict::Refused(reason),
        None if ledger.config.as_ref().is_some_and(|seen| seen.hash == offered.hash) => Verdict::Same,
        None => Verdict::New,
    }
}

fn reason_against(expected: &Expected, ledger: &Ledger, offered: &SealedNodeConfig) -> Option<String> {
    let config = &offered.config;
    if config.format != NodeConfig::FORMAT {
        return Some(format!("it has format {}, this build knows {}", config.format, NodeConfig::FORMAT));
    }
    if config.cluster_id != expected.cluster_id {
        return Some(format!("it is of cluster {}, this machine of {}", config.cluster_id, expected.cluster_id));
    }
    if config.machine.name != expected.machine {
        return Some(format!("it is for {}, this is {}", config.machine.name, expected.machine));
    }
    if !offered.is_intact() {
        return Some("its hash does not fit its content".to_owned());
    }
    older_members(ledger, config).or_else(|| stale(ledger, offered))
}

/// A list of etcd's members that is older than one this machine has seen, whoever hands it out: acting on it could undo
/// a change of membership.
fn older_members(ledger: &Ledger, config: &NodeConfig) -> Option<String> {
    let (seen, offered) = (ledger.members_generation?, config.etcd.as_ref()?.members_generation);
    (offered < seen).then(|| format!("its list of etcd members is of generation {offered}, {seen} was seen"))
}

fn stale(ledger: &Ledger, offered: &SealedNodeConfig) -> Option<String> {
    let (seen, config) = (ledger.config.as_ref()?, &offered.config);
    let (had, has) = ((seen.epoch, seen.generation), (config.epoch, config.generation));
    if has < had {
        let ((epoch, generation), (had_epoch, had_generation)) = (has, had);
        return Some(format!(
            "it is stale (epoch {epoch}, generation {generation}; seen were {had_epoch}, {had_generation})"
        ));
    }
    (has == had && offered.hash != seen.hash)
        .then(|| format!("two configurations claim epoch {}, generation {}", has.0, has.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;
    use windlass_spec::identity::{Epoch, Generation};
    use windlass_spec::node_config::EtcdPermit;
    use windlass_spec::report::ConfigSeen;

    fn expected() -> Expected {
        Expected { cluster_id: fixture::CLUSTER_ID.into(), machine: "lab-cp-a".into() }
    }

    fn seen(epoch: u64, generation: u64, hash: &str) -> Ledger {
        let config = ConfigSeen { epoch: Epoch(epoch), generation: Generation(generation), hash: hash.into() };
        Ledger { config: Some(config), ..Ledger::default() }
    }

    #[test]
    fn newer_is_taken_up_and_the_same_is_known() {
        let config = fixture::sealed();
        assert_eq!(judge(&expected(), &Ledger::default(), &config), Verdict::New);
        assert_eq!(judge(&expected(), &seen(1, 0, "x"), &config), Verdict::New);
        assert_eq!(judge(&expected(), &seen(0, 9, "x"), &config), Verdict::New);
        assert_eq!(judge(&expected(), &seen(1, 1, &config.hash), &config), Verdict::Same);
    }

    #[test]
    fn stale_damaged_and_foreign_are_refused() {
        let config = fixture::sealed();
        let mut damaged = config.clone();
        damaged.config.modules.push("x".into());
        let other = Expected { machine: "lab-cp-b".into(), ..expected() };
        for (verdict, word) in [
            (judge(&expected(), &seen(1, 2, "x"), &config), "stale"),
            (judge(&expected(), &seen(2, 1, "x"), &config), "stale"),
            (judge(&expected(), &seen(1, 1, "x"), &config), "two configurations"),
            (judge(&expected(), &Ledger::default(), &damaged), "hash"),
            (judge(&other, &Ledger::default(), &config), "is for lab-cp-a"),
        ] {
            assert!(matches!(&verdict, Verdict::Refused(reason) if reason.contains(word)), "{verdict:?}");
        }
    }

    #[test]
    fn an_older_list_of_etcd_members_is_refused_even_of_a_newer_configuration() {
        let mut machine = fixture::machine();
        machine.etcd(EtcdPermit::Join { formed_by: "1".into() });
        machine.change(|config| config.generation = Generation(9));
        let offered = machine.context().sealed;
        let knows = |generation| Ledger { members_generation: Some(Generation(generation)), ..seen(1, 1, "x") };
        assert_eq!(judge(&expected(), &knows(1), &offered), Verdict::New);
        let verdict = judge(&expected(), &knows(2), &offered);
        assert!(
            matches!(&verdict, Verdict::Refused(reason) if reason.contains("generation 1, 2 was seen")),
            "{verdict:?}"
        );
    }
}
