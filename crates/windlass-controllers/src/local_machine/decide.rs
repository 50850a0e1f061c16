//! The next step of a LocalMachine. Each step can be repeated: what exists is kept.

use windlass_providers::ports::{Inventory, MachineState};

use crate::api::windlass::LocalMachine;

/// What is looked at.
pub(super) struct Observed<'a> {
    pub(super) local: &'a LocalMachine,
    pub(super) network_ready: bool,
    /// Was the reservation asked for in this run?
    pub(super) reserved: bool,
    /// Were the volumes asked for in this run?
    pub(super) volumes_made: bool,
    /// Was the machine asked for in this run?
    pub(super) machine_made: bool,
    pub(super) inventory: Option<&'a Inventory>,
    /// Hash of the configuration in the Secret.
    pub(super) wanted_config: Option<&'a str>,
    /// Hash of the configuration laid last.
    pub(super) delivered: Option<&'a str>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    WaitForNetwork,
    Reserve,
    MakeVolumes,
    MakeMachine,
    Deliver,
    Nothing,
}

/// Decides. A machine that was made is never made again, whatever its state: a stopped one is the health check's
/// business.
pub(super) fn decide(seen: &Observed<'_>) -> Step {
    let name = seen.local.metadata.name.as_deref().unwrap_or_default();
    let held = seen.inventory.and_then(|inventory| inventory.machines.iter().find(|machine| machine.name == name));
    let exists = seen.machine_made || held.is_some_and(|machine| machine.state != MachineState::Reserved);
    let has_address = seen.local.spec.provider_id.is_some() && status_has_address(seen.local);
    if !seen.network_ready {
        return Step::WaitForNetwork;
    }
    if !has_address || !(seen.reserved || held.is_some()) {
        return Step::Reserve;
    }
    if exists {
        return if seen.wanted_config.is_some() && seen.wanted_config != seen.delivered {
            Step::Deliver
        } else {
            Step::Nothing
        };
    }
    if !seen.volumes_made && !seen.local.spec.volumes.is_empty() {
        return Step::MakeVolumes;
    }
    Step::MakeMachine
}

fn status_has_address(local: &LocalMachine) -> bool {
    local.status.as_ref().is_some_and(|status| !status.addresses.is_empty())
}
