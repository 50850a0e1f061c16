//! Configurations of a whole cluster at once.

use std::collections::BTreeMap;

use windlass_plan::decide::{WantedMachine, managed_node};
use windlass_plan::lint::lint;
use windlass_plan::{ControlPlaneMachine, NetworkFacts, NodeInputs, render};
use windlass_providers::ports::{Network, Reservation};
use windlass_spec::full::FullCluster;
use windlass_spec::identity::{Epoch, Generation, Role};
use windlass_spec::node_config::{EtcdPermit, MachineIdentity, ManagedNode, SealedNodeConfig};

use super::state::State;

/// What is known of a cluster once addresses are reserved.
pub(super) struct Ground<'a> {
    pub(super) full: &'a FullCluster,
    pub(super) machines: &'a [WantedMachine],
    pub(super) reservations: &'a BTreeMap<String, Reservation>,
    pub(super) network: &'a Network,
}

impl Ground<'_> {
    fn identities(&self) -> Vec<MachineIdentity> {
        let identity = |wanted: &WantedMachine| {
            let reservation = self.reservations.get(&wanted.name)?;
            Some(MachineIdentity {
                name: wanted.name.clone(),
                role: wanted.role,
                group: wanted.group.clone(),
                slot: wanted.slot,
                address: reservation.address,
                provider_id: reservation.provider_id.clone(),
                failure_domain: reservation.failure_domain.clone().or_else(|| wanted.failure_domain.clone()),
            })
        };
        self.machines.iter().filter_map(identity).collect()
    }

    fn nodes(&self, machines: &[MachineIdentity]) -> Vec<ManagedNode> {
        let workers = machines.iter().filter(|machine| machine.role == Role::Worker).count();
        let node = |machine: &MachineIdentity| {
            managed_node(self.full, &machine.name, machine.role, &machine.group, machine.address, workers)
        };
        machines.iter().map(node).collect()
    }

    /// A configuration for each machine, checked against each other.
    pub(super) fn render(&self, state: &State) -> anyhow::Result<Vec<SealedNodeConfig>> {
        let machines = self.identities();
        let nodes = self.nodes(&machines);
        let claim = |machine: &MachineIdentity| {
            let claimed = |slot| ControlPlaneMachine { slot, name: machine.name.clone(), address: machine.address };
            machine.slot.map(claimed)
        };
        let control_planes: Vec<ControlPlaneMachine> = machines.iter().filter_map(claim).collect();
        let permit = permit(state);
        let network = NetworkFacts {
            subnet: self.network.subnet,
            gateway: self.network.gateway,
            endpoint: self.network.endpoint,
            zone: self.network.zone.clone(),
        };
        let render = |machine: &MachineIdentity| {
            render(&NodeInputs {
                full: self.full,
                cluster_id: &state.scope.cluster_id,
                epoch: Epoch(1),
                generation: Generation(state.generation),
                machine,
                control_planes: &control_planes,
                machines: &nodes,
                permit: &permit,
                members_generation: Generation(1),
                network: &network,
                authorities: &state.authorities,
                bootstrap_token: state.tokens.get(&machine.name).map(String::as_str),
                join_tokens: &state.tokens,
                self_managed: false,
            })
        };
        let configs = machines.iter().map(render).collect::<Result<Vec<_>, _>>()?;
        let faults = lint(&configs);
        anyhow::ensure!(faults.is_empty(), "the configurations contradict each other:\n  {}", faults.join("\n  "));
        Ok(configs)
    }
}

/// Forming is permitted until it was recorded.
fn permit(state: &State) -> EtcdPermit {
    let attempt = state.attempt.clone();
    if state.formed { EtcdPermit::Join { formed_by: attempt } } else { EtcdPermit::Form { attempt } }
}
