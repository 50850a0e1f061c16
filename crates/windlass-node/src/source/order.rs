//! Is a configuration for this machine, whole, and newer than what it has?
//!
//! Inputs: who the machine is, the newest configuration seen, the one offered. Output: a [`Verdict`] with its reason.

use windlass_spec::identity::ClusterId;
use windlass_spec::node_config::{NodeConfig, SealedNodeConfig};
use windlass_spec::report::ConfigSeen;

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
pub fn judge(expected: &Expected, seen: Option<&ConfigSeen>, offered: &SealedNodeConfig) -> Verdict {
    match reason_against(expected, seen, offered) {
        Some(reason) => Verdict::Refused(reason),
        None if seen.is_some_and(|seen| seen.hash == offered.hash) => Verdict::Same,
        None => Verdict::New,
    }
}

fn reason_against(expected: &Expected, seen: Option<&ConfigSeen>, offered: &SealedNodeConfig) -> Option<String> {
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
    let seen = seen?;
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

    fn expected() -> Expected {
        Expected { cluster_id: fixture::CLUSTER_ID.into(), machine: "lab-cp-a".into() }
    }

    fn seen(epoch: u64, generation: u64, hash: &str) -> ConfigSeen {
        ConfigSeen { epoch: Epoch(epoch), generation: Generation(generation), hash: hash.into() }
    }

    #[test]
    fn newer_is_taken_up_and_the_same_is_known() {
        let config = fixture::sealed();
        assert_eq!(judge(&expected(), None, &config), Verdict::New);
        assert_eq!(judge(&expected(), Some(&seen(1, 0, "x")), &config), Verdict::New);
        assert_eq!(judge(&expected(), Some(&seen(0, 9, "x")), &config), Verdict::New);
        assert_eq!(judge(&expected(), Some(&seen(1, 1, &config.hash)), &config), Verdict::Same);
    }

    #[test]
    fn stale_damaged_and_foreign_are_refused() {
        let config = fixture::sealed();
        let mut damaged = config.clone();
        damaged.config.modules.push("x".into());
        let other = Expected { machine: "lab-cp-b".into(), ..expected() };
        for (verdict, word) in [
            (judge(&expected(), Some(&seen(1, 2, "x")), &config), "stale"),
            (judge(&expected(), Some(&seen(2, 1, "x")), &config), "stale"),
            (judge(&expected(), Some(&seen(1, 1, "x")), &config), "two configurations"),
            (judge(&expected(), None, &damaged), "hash"),
            (judge(&other, None, &config), "is for lab-cp-a"),
        ] {
            assert!(matches!(&verdict, Verdict::Refused(reason) if reason.contains(word)), "{verdict:?}");
        }
    }
}
