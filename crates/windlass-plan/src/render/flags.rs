//! Flags of a component on one machine.
//!
//! Inputs: what follows from the machine, what the full spec sets, what the user took away. Output: arguments by name.

use std::collections::BTreeMap;

use windlass_spec::full::Flags;

/// Name without dashes to value.
pub(crate) type FlagMap = BTreeMap<String, String>;

/// The machine's flags, the spec's over them, minus those taken away.
pub(crate) fn merged(machine: FlagMap, component: &Flags) -> FlagMap {
    let mut flags = machine;
    flags.extend(component.set.clone());
    flags.retain(|name, _| !component.unset.contains(name));
    flags
}

/// `--name=value`, by name.
pub(crate) fn arguments(flags: &FlagMap) -> Vec<String> {
    flags.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// Program and arguments.
pub(crate) fn command(program: &str, flags: &FlagMap) -> Vec<String> {
    std::iter::once(program.to_owned()).chain(arguments(flags)).collect()
}

/// Flags from pairs.
pub(crate) fn flags<V: ToString>(pairs: impl IntoIterator<Item = (&'static str, V)>) -> FlagMap {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_overrides_the_machine_and_the_user_takes_away() {
        let machine = flags([("advertise-address", "10.77.0.11"), ("etcd-servers", "https://127.0.0.1:2379")]);
        let component = Flags {
            set: flags([("v", "2"), ("etcd-servers", "https://etcd.example:2379")]),
            unset: ["advertise-address".to_owned(), "never-set".to_owned()].into(),
        };
        let merged = merged(machine, &component);
        assert_eq!(
            command("kube-apiserver", &merged),
            ["kube-apiserver", "--etcd-servers=https://etcd.example:2379", "--v=2",]
        );
    }
}
