//! What a place holds for one cluster, and the rules by which it changes.
//!
//! Inputs: the wishes of [`crate::ports::Provider`] calls and what a place observes of its machines. Outputs: the new
//! holdings or the reason for refusing. Pure: no clock, no I/O; the host daemon and the in-memory twin share it, so that
//! they refuse and keep the same things.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use windlass_spec::identity::Slot;
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::{ConfigSeen, NodeReport};

use crate::address;
use crate::ports::{
    Inventory, Machine, MachineState, MachineWanted, Network, NetworkWanted, ProviderError, Reservation, Scope, Volume,
    VolumeWanted,
};

/// Everything held for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Holdings {
    /// Cluster and highest owner seen.
    pub scope: Scope,
    /// Its network.
    pub network: Option<NetworkHeld>,
    /// Addresses slots have for life.
    pub slots: BTreeMap<Slot, IpAddr>,
    /// Machines and reservations, by name.
    pub machines: BTreeMap<String, MachineHeld>,
    /// Volumes, by name.
    pub volumes: BTreeMap<String, VolumeHeld>,
}

/// A network and the wish it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkHeld {
    /// The wish.
    pub wanted: NetworkWanted,
    /// The network.
    pub network: Network,
}

/// Shall a machine run?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// It shall; started again when the host comes back.
    On,
    /// Stopped by request.
    Off,
}

/// A machine or the reservation for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineHeld {
    /// Its address.
    pub address: IpAddr,
    /// Its provider id.
    pub provider_id: String,
    /// `/etc/machine-id`: 32 hex digits.
    pub machine_id: String,
    /// The place it claims.
    pub slot: Option<Slot>,
    /// The wish; none while it is only reserved.
    pub wanted: Option<MachineWanted>,
    /// The image it was cloned from.
    pub image: Option<String>,
    /// Shall it run?
    pub power: Power,
    /// Where it is.
    pub state: MachineState,
    /// Changes at each start.
    pub boot_id: Option<String>,
    /// How often it was started.
    pub starts: u32,
    /// The configuration laid for its agent.
    pub laid: Option<ConfigSeen>,
    /// Its last report, kept apart on disk.
    #[serde(skip)]
    pub report: Option<NodeReport>,
}

impl MachineHeld {
    /// Is its API server ready, as far as its last report goes and while it runs?
    pub fn serves_api(&self) -> bool {
        self.state == MachineState::Running
            && self.report.as_ref().is_some_and(|report| {
                report.api_server_ready == Some(true) && self.boot_id.as_deref() == Some(report.boot_id.as_str())
            })
    }

    fn volumes(&self) -> &[String] {
        self.wanted.as_ref().map_or(&[], |wanted| &wanted.volumes)
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeHeld {
    /// The wish.
    pub wanted: VolumeWanted,
    /// Where its content lies.
    pub location: String,
    /// The machine it is attached to.
    pub attached_to: Option<String>,
}

/// Random material for a reservation, given by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshIdentity {
    /// What follows `windlass-local://`: `HOST/ID`.
    pub place: String,
    /// `/etc/machine-id`.
    pub machine_id: String,
}

/// What [`Holdings::want_machine`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineChange {
    /// It has yet to be made and started.
    Make,
    /// It is there; these volumes are newly attached.
    Attach(Vec<String>),
}

impl Holdings {
    /// Nothing yet, for this owner.
    pub fn new(scope: Scope) -> Self {
        Self { scope, network: None, slots: BTreeMap::new(), machines: BTreeMap::new(), volumes: BTreeMap::new() }
    }

    /// Lets an owner change things, or says why not. A higher epoch becomes the one seen; true when it did.
    pub fn admit(&mut self, scope: &Scope) -> Result<bool, ProviderError> {
        self.recognise(scope)?;
        let (seen, asked) = (&self.scope.ownership, &scope.ownership);
        if asked.epoch < seen.epoch {
            return Err(ProviderError::Fenced { seen: seen.epoch.0, asked: asked.epoch.0 });
        }
        if asked.epoch == seen.epoch && asked.owner != seen.owner {
            return Err(conflict(
                format!("owner of cluster {}", scope.cluster),
                format!("epoch {} belongs to {}, not to {}", seen.epoch, seen.owner, asked.owner),
            ));
        }
        let changed = asked != seen;
        self.scope.ownership = asked.clone();
        Ok(changed)
    }

    /// Lets anyone read who names the cluster rightly.
    pub fn recognise(&self, scope: &Scope) -> Result<(), ProviderError> {
        if scope.cluster != self.scope.cluster {
            let difference = format!("its name is {}, not {}", self.scope.cluster, scope.cluster);
            return Err(conflict(format!("cluster {}", self.scope.cluster_id), difference));
        }
        Ok(())
    }

    /// The network if it is there and fits the wish; endpoint names of the new wish are taken over.
    pub fn want_network(&mut self, wanted: &NetworkWanted) -> Result<Option<Network>, ProviderError> {
        let Some(held) = &mut self.network else { return Ok(None) };
        let what = || format!("network of cluster {}", self.scope.cluster);
        if held.wanted.endpoint_port != wanted.endpoint_port {
            let difference = format!("endpoint port {}, asked {}", held.wanted.endpoint_port, wanted.endpoint_port);
            return Err(conflict(what(), difference));
        }
        if held.wanted.zone != wanted.zone {
            return Err(conflict(what(), format!("zone {}, asked {}", held.wanted.zone, wanted.zone)));
        }
        held.wanted.endpoint_names.clone_from(&wanted.endpoint_names);
        Ok(Some(held.network.clone()))
    }

    /// Keeps a name and address for a machine.
    pub fn reserve(
        &mut self,
        machine: &str,
        slot: Option<Slot>,
        fresh: FreshIdentity,
    ) -> Result<Reservation, ProviderError> {
        if let Some(held) = self.machines.get(machine) {
            if held.slot != slot {
                let difference = format!("slot {}, asked {}", show(held.slot), show(slot));
                return Err(conflict(format!("machine {machine}"), difference));
            }
            return Ok(reservation(machine, held));
        }
        let subnet = self.network()?.network.subnet;
        let holder = self.machines.iter().find(|(_, held)| slot.is_some() && held.slot == slot);
        if let Some((name, _)) = holder {
            return Err(conflict(format!("slot {}", show(slot)), format!("claimed by machine {name}")));
        }
        let address = match slot {
            Some(slot) => *self.slots.entry(slot).or_insert(address::of_slot(subnet, slot)?),
            None => address::next_worker(subnet, self.machines.values().map(|held| held.address))?,
        };
        let held = MachineHeld {
            address,
            provider_id: format!("windlass-local://{}", fresh.place),
            machine_id: fresh.machine_id,
            slot,
            wanted: None,
            image: None,
            power: Power::On,
            state: MachineState::Reserved,
            boot_id: None,
            starts: 0,
            laid: None,
            report: None,
        };
        let answer = reservation(machine, &held);
        self.machines.insert(machine.to_owned(), held);
        Ok(answer)
    }

    /// The volume if it is there and fits the wish.
    pub fn want_volume(&self, wanted: &VolumeWanted) -> Result<Option<Volume>, ProviderError> {
        let Some(held) = self.volumes.get(&wanted.name) else { return Ok(None) };
        let what = || format!("volume {}", wanted.name);
        if held.wanted.bytes != wanted.bytes {
            return Err(conflict(what(), format!("{} bytes, asked {}", held.wanted.bytes, wanted.bytes)));
        }
        if held.wanted.slot != wanted.slot {
            let difference = format!("slot {}, asked {}", show(held.wanted.slot), show(wanted.slot));
            return Err(conflict(what(), difference));
        }
        Ok(Some(volume(held)))
    }

    /// Enters a volume that was made.
    pub fn add_volume(&mut self, wanted: VolumeWanted, location: String) -> Volume {
        let held = VolumeHeld { wanted, location, attached_to: None };
        let answer = volume(&held);
        self.volumes.insert(answer.name.clone(), held);
        answer
    }

    /// Enters the wish for a machine; says what is left to do.
    pub fn want_machine(&mut self, wanted: &MachineWanted, image: &str) -> Result<MachineChange, ProviderError> {
        self.check_volumes(wanted)?;
        let name = &wanted.name;
        let held = self.machines.get_mut(name).ok_or_else(|| absent(format!("reservation of machine {name}")))?;
        let change = match &held.wanted {
            None => MachineChange::Make,
            Some(before) => {
                check_same(name, before, wanted)?;
                let new = wanted.volumes.iter().filter(|volume| !before.volumes.contains(volume));
                // One that never ran is made again: its first start failed.
                if held.starts == 0 { MachineChange::Make } else { MachineChange::Attach(new.cloned().collect()) }
            }
        };
        if held.slot != wanted.slot {
            let difference = format!("reserved for slot {}, asked {}", show(held.slot), show(wanted.slot));
            return Err(conflict(format!("machine {name}"), difference));
        }
        if held.wanted.is_none() {
            held.image = Some(image.to_owned());
        }
        held.wanted = Some(wanted.clone());
        for volume in &wanted.volumes {
            if let Some(volume) = self.volumes.get_mut(volume) {
                volume.attached_to = Some(name.clone());
            }
        }
        Ok(change)
    }

    fn check_volumes(&self, wanted: &MachineWanted) -> Result<(), ProviderError> {
        for volume in &wanted.volumes {
            let held = self.volumes.get(volume).ok_or_else(|| absent(format!("volume {volume}")))?;
            if let Some(other) = held.attached_to.as_ref().filter(|&other| *other != wanted.name) {
                return Err(conflict(format!("volume {volume}"), format!("attached to machine {other}")));
            }
        }
        Ok(())
    }

    /// Checks the order of a configuration and enters it as laid; false when it is the one already there.
    pub fn lay(&mut self, machine: &str, config: &SealedNodeConfig) -> Result<bool, ProviderError> {
        let held = self.machine_mut(machine)?;
        let new =
            ConfigSeen { epoch: config.config.epoch, generation: config.config.generation, hash: config.hash.clone() };
        if let Some(old) = &held.laid {
            if new == *old {
                return Ok(false);
            }
            if new.epoch < old.epoch {
                return Err(ProviderError::Fenced { seen: old.epoch.0, asked: new.epoch.0 });
            }
            if (new.epoch, new.generation) <= (old.epoch, old.generation) {
                let difference = format!(
                    "epoch {} generation {} is laid, epoch {} generation {} was given",
                    old.epoch, old.generation, new.epoch, new.generation
                );
                return Err(conflict(format!("configuration of machine {machine}"), difference));
            }
        }
        held.laid = Some(new);
        Ok(true)
    }

    /// Takes a machine's report; true when it says anything new.
    pub fn hear(&mut self, machine: &str, report: NodeReport) -> Result<bool, ProviderError> {
        let held = self.machine_mut(machine)?;
        let news = held.report.as_ref().is_none_or(|old| NodeReport { at: report.at, ..old.clone() } != report);
        held.report = Some(report);
        Ok(news)
    }

    /// Forgets a machine and its reservation; its volumes are free again.
    pub fn remove_machine(&mut self, machine: &str) -> Option<MachineHeld> {
        for volume in self.volumes.values_mut() {
            volume.attached_to.take_if(|holder| holder == machine);
        }
        self.machines.remove(machine)
    }

    /// May the volume be removed? None: it is not there.
    pub fn removable_volume(&self, name: &str) -> Result<Option<&VolumeHeld>, ProviderError> {
        match self.volumes.get(name) {
            Some(VolumeHeld { attached_to: Some(machine), .. }) => {
                Err(conflict(format!("volume {name}"), format!("attached to machine {machine}")))
            }
            held => Ok(held),
        }
    }

    /// May the network be removed? None: it is not there.
    pub fn removable_network(&self) -> Result<Option<&NetworkHeld>, ProviderError> {
        if let Some(machine) = self.machines.keys().next() {
            let difference = format!("{} machines use it, {machine} the first", self.machines.len());
            return Err(conflict(format!("network of cluster {}", self.scope.cluster), difference));
        }
        Ok(self.network.as_ref())
    }

    /// Is nothing left that would be worth remembering?
    pub fn is_empty(&self) -> bool {
        self.network.is_none() && self.machines.is_empty() && self.volumes.is_empty()
    }

    /// Does it live under its name? Volumes that were kept when it was deleted do not.
    pub fn holds_name(&self) -> bool {
        self.network.is_some() || !self.machines.is_empty()
    }

    /// The network.
    pub fn network(&self) -> Result<&NetworkHeld, ProviderError> {
        self.network.as_ref().ok_or_else(|| absent(format!("network of cluster {}", self.scope.cluster)))
    }

    /// A machine or reservation.
    pub fn machine(&self, name: &str) -> Result<&MachineHeld, ProviderError> {
        self.machines.get(name).ok_or_else(|| absent(format!("machine {name}")))
    }

    /// A machine or reservation, to change.
    pub fn machine_mut(&mut self, name: &str) -> Result<&mut MachineHeld, ProviderError> {
        self.machines.get_mut(name).ok_or_else(|| absent(format!("machine {name}")))
    }

    /// Addresses whose API servers are ready, in order.
    pub fn ready_api_servers(&self) -> Vec<IpAddr> {
        let mut ready: Vec<IpAddr> =
            self.machines.values().filter(|held| held.serves_api()).map(|held| held.address).collect();
        ready.sort_unstable();
        ready
    }

    /// Names of machines that shall run, control planes by slot first.
    pub fn start_order(&self) -> Vec<String> {
        let mut order: Vec<(bool, Option<Slot>, &String)> = self
            .machines
            .iter()
            .filter(|(_, held)| held.wanted.is_some() && held.power == Power::On)
            .map(|(name, held)| (held.slot.is_none(), held.slot, name))
            .collect();
        order.sort();
        order.into_iter().map(|(_, _, name)| name.clone()).collect()
    }

    /// The machine as [`crate::ports`] shows it.
    pub fn show_machine(&self, name: &str) -> Result<Machine, ProviderError> {
        Ok(show_machine(name, self.machine(name)?))
    }

    /// Everything as [`crate::ports`] shows it.
    pub fn inventory(&self, revision: u64) -> Inventory {
        Inventory {
            revision,
            scope: self.scope.clone(),
            network: self.network.as_ref().map(|held| held.network.clone()),
            machines: self.machines.iter().map(|(name, held)| show_machine(name, held)).collect(),
            volumes: self.volumes.values().map(volume).collect(),
        }
    }
}

fn check_same(name: &str, before: &MachineWanted, wanted: &MachineWanted) -> Result<(), ProviderError> {
    let what = || format!("machine {name}");
    if before.role != wanted.role {
        return Err(conflict(what(), format!("role {:?}, asked {:?}", before.role, wanted.role)));
    }
    if !before.image.is_empty() && !wanted.image.is_empty() && before.image != wanted.image {
        return Err(conflict(what(), format!("image {}, asked {}", before.image, wanted.image)));
    }
    if let Some(volume) = before.volumes.iter().find(|volume| !wanted.volumes.contains(volume)) {
        return Err(conflict(what(), format!("volume {volume} is attached and was not asked for")));
    }
    Ok(())
}

fn show_machine(name: &str, held: &MachineHeld) -> Machine {
    Machine {
        name: name.to_owned(),
        role: held.wanted.as_ref().map(|wanted| wanted.role),
        slot: held.slot,
        address: held.address,
        provider_id: held.provider_id.clone(),
        state: held.state.clone(),
        boot_id: held.boot_id.clone(),
        image: held.image.clone(),
        volumes: held.volumes().to_vec(),
        starts: held.starts,
        report: held.report.clone(),
    }
}

fn reservation(machine: &str, held: &MachineHeld) -> Reservation {
    Reservation {
        machine: machine.to_owned(),
        address: held.address,
        provider_id: held.provider_id.clone(),
        failure_domain: None,
    }
}

fn volume(held: &VolumeHeld) -> Volume {
    Volume {
        name: held.wanted.name.clone(),
        bytes: held.wanted.bytes,
        slot: held.wanted.slot,
        attached_to: held.attached_to.clone(),
        location: held.location.clone(),
    }
}

fn show(slot: Option<Slot>) -> String {
    slot.map_or_else(|| "none".to_owned(), |slot| slot.to_string())
}

fn conflict(what: String, difference: String) -> ProviderError {
    ProviderError::Conflict { what, difference }
}

fn absent(what: String) -> ProviderError {
    ProviderError::NotFound { what }
}
