//! Machines of clusters: made, started, watched, stopped, removed.
//!
//! Inputs: wishes, people's acts, machines that die. Outputs: running sandboxes with their wires, volumes and boot
//! files; nothing left of those that stopped. One act on a machine at a time.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use windlass_spec::boot_stub::BootStub;
use windlass_spec::identity::Role;

use super::super::authority::Identity;
use super::super::protocol;
use super::cgroups;
use super::clone::{self, MachineFolder};
use super::host::{Host, Key, failed};
use super::image;
use super::limits;
use super::netlink::{self, Wire};
use super::process::Ending;
use super::sandbox::{Running, Sandbox};
use super::volumes;
use crate::holdings::{MachineChange, Power};
use crate::ports::{Machine, MachineState, ProviderError, Scope};

/// systemd-nspawn's code for a machine that reboots itself.
const REBOOT: Ending = Ending::Exited(133);

impl Host {
    /// Makes and starts a machine, or attaches to it what was added to the wish.
    pub(super) async fn ensure_machine(
        self: &Arc<Self>,
        wish: &protocol::EnsureMachine,
    ) -> Result<Machine, ProviderError> {
        let protocol::EnsureMachine { scope, wanted } = wish;
        let key = (scope.cluster_id.clone(), wanted.name.clone());
        let _alone = self.lock_machine(&key).await;
        let known = self.look(&key.0, |cluster| Ok(cluster.holdings.machine(&key.1)?.image.clone()))?;
        let image = match known {
            Some(image) => image,
            None => image::find(self.paths.cache(), &wanted.image)?.id().to_owned(),
        };
        match self.owned(scope, |cluster| cluster.holdings.want_machine(wanted, &image))? {
            MachineChange::Make => self.power_on(&key).await?,
            MachineChange::Attach(volumes) => self.show_volumes(&key, &volumes).await?,
        }
        self.show(&key)
    }

    /// Starts a machine that does not run. The machine's lock is held.
    pub(super) async fn power_on(self: &Arc<Self>, key: &Key) -> Result<(), ProviderError> {
        let (id, machine) = key;
        if self.look(id, |cluster| Ok(cluster.processes.contains_key(machine)))? {
            return Ok(());
        }
        self.set_state(key, MachineState::Starting)?;
        let begun = Instant::now();
        match self.launch(key).await {
            Ok(running) => {
                self.metrics.started(begun.elapsed());
                tracing::info!(%machine, cluster = %id, seconds = begun.elapsed().as_secs_f64(), "machine started");
                self.adopt(key, running, true)
            }
            Err(error) => {
                tracing::warn!(%machine, cluster = %id, %error, "machine did not start");
                let sandbox = self.sandbox(key)?;
                if let Err(error) = self.wind_down(key, &sandbox).await {
                    tracing::warn!(%machine, %error, "cleaning up after a failed start");
                }
                self.set_state(key, MachineState::Stopped { reason: format!("failed to start: {error}") })?;
                Err(error)
            }
        }
    }

    async fn launch(&self, key: &Key) -> Result<Running, ProviderError> {
        let (id, machine) = key;
        limits::raise()?;
        let mut sandbox = self.sandbox(key)?;
        let (known, weight) = self.look(id, |cluster| {
            let held = cluster.holdings.machine(machine)?;
            let role = held.wanted.as_ref().map_or(Role::Worker, |wanted| wanted.role);
            Ok((held.image.clone(), cgroups::weight(role, held.slot)))
        })?;
        if let Some(process) = sandbox.find() {
            if let Some(running) = sandbox.take_up(process) {
                return Ok(running);
            }
            let stray = |error| failed("ending a stray sandbox", &error);
            process.signal(rustix::process::Signal::KILL).map_err(stray)?;
            process.ended().await.map_err(stray)?;
        }
        sandbox.clean().await.map_err(|error| failed("cleaning up", &error))?;
        let image = image::find(self.paths.cache(), &known.unwrap_or_default())?;
        sandbox.layers = image.lowerdirs().len();
        let network = self.wire(key)?;
        let folder = sandbox.folder.clone();
        let cloning = tokio::task::spawn_blocking(move || clone::make(&folder, &image));
        let (cloned, wired) = tokio::join!(cloning, netlink::ensure_wire(&network));
        let cloned = cloned.map_err(|error| failed("cloning the machine", &error))?;
        cloned.map_err(|error| failed("cloning the machine", &error))?;
        wired.map_err(|error| failed("wiring the machine", &error))?;
        let files = self.volume_files(key)?;
        for (_, file) in &files {
            volumes::attach(file).await.map_err(|error| failed("attaching a volume", &error))?;
        }
        self.write_boot_files(key, &sandbox.folder)?;
        let names = self.paths.machine_names(id, machine);
        sandbox.cgroups =
            self.cgroups.make(&self.paths.cgroup(), &names.cgroup).map_err(|error| failed("making cgroups", &error))?;
        cgroups::weigh(&sandbox.cgroups, weight).map_err(|error| failed("weighing the machine", &error))?;
        let running = sandbox.start().await.map_err(|error| failed("starting the machine", &error))?;
        give_volumes(running, &files).await?;
        Ok(running)
    }

    /// Enters a running machine and watches it; `fresh` when it was started just now.
    pub(super) fn adopt(self: &Arc<Self>, key: &Key, running: Running, fresh: bool) -> Result<(), ProviderError> {
        let (id, machine) = key;
        let boot_id = std::fs::read_to_string(running.init.inside("/proc/sys/kernel/random/boot_id"))
            .map_err(|error| failed("reading the machine's boot id", &error))?;
        self.store.save_process(id, machine, Some(&running))?;
        self.change(id, |cluster| {
            cluster.processes.insert(machine.clone(), running);
            let held = cluster.holdings.machine_mut(machine)?;
            held.state = MachineState::Running;
            held.power = Power::On;
            held.boot_id = Some(boot_id.trim().to_owned());
            held.starts += u32::from(fresh);
            Ok(())
        })?;
        let (host, key) = (Arc::clone(self), key.clone());
        tokio::spawn(async move {
            let ending = running.supervisor.ended().await.unwrap_or(None);
            host.ended(key, running, ending).await;
        });
        Ok(())
    }

    /// A machine died by itself, or rebooted. Boxed, since a reboot starts it and watches it again.
    fn ended(
        self: Arc<Self>,
        key: Key,
        running: Running,
        ending: Option<Ending>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let _alone = self.lock_machine(&key).await;
            let current = self.look(&key.0, |cluster| Ok(cluster.processes.get(&key.1) == Some(&running)));
            // Stopped, killed or deleted by an act that held the lock before.
            if !current.unwrap_or(false) {
                return;
            }
            let reason = ending.map_or_else(|| "it ended".to_owned(), |ending| ending.to_string());
            tracing::info!(machine = %key.1, cluster = %key.0, %reason, "machine ended");
            if let Err(error) = self.bury(&key, running, &reason).await {
                tracing::warn!(machine = %key.1, %error, "cleaning up after a machine");
            }
            if ending == Some(REBOOT)
                && let Err(error) = self.power_on(&key).await
            {
                tracing::warn!(machine = %key.1, %error, "starting a machine again that rebooted");
            }
        })
    }

    /// Ends what is left of a machine, cleans up and says why it stopped.
    async fn bury(&self, key: &Key, running: Running, reason: &str) -> Result<(), ProviderError> {
        let (id, machine) = key;
        let sandbox = self.sandbox(key)?;
        sandbox.kill(running).await.map_err(|error| failed("ending the machine", &error))?;
        let cleaned = self.wind_down(key, &sandbox).await;
        self.change(id, |cluster| {
            cluster.processes.remove(machine);
            Ok(())
        })?;
        self.set_state(key, MachineState::Stopped { reason: reason.to_owned() })?;
        self.load_table().await?;
        cleaned
    }

    /// Removes everything a machine had on the host while it ran.
    pub(super) async fn wind_down(&self, key: &Key, sandbox: &Sandbox) -> Result<(), ProviderError> {
        let (id, machine) = key;
        sandbox.clean().await.map_err(|error| failed("cleaning up", &error))?;
        netlink::remove_link(&sandbox.names.veth).await.map_err(|error| failed("removing the wire", &error))?;
        netlink::remove_namespace(&sandbox.names.netns).map_err(|error| failed("removing the namespace", &error))?;
        for (_, file) in self.volume_files(key)? {
            volumes::detach(&file).await.map_err(|error| failed("detaching a volume", &error))?;
        }
        self.store.save_process(id, machine, None)?;
        Ok(())
    }

    /// Stops a machine, in order or not. The machine's lock is held.
    async fn power_off(&self, key: &Key, gently: bool) -> Result<(), ProviderError> {
        let (id, machine) = key;
        self.change(id, |cluster| {
            cluster.holdings.machine_mut(machine)?.power = Power::Off;
            Ok(())
        })?;
        let Some(running) = self.look(id, |cluster| Ok(cluster.processes.get(machine).copied()))? else {
            return Ok(());
        };
        let sandbox = self.sandbox(key)?;
        if gently {
            sandbox.stop(running).await.map_err(|error| failed("stopping the machine", &error))?;
        }
        self.bury(key, running, "stopped by request").await
    }

    /// What a person does to a machine.
    pub(super) async fn set_power(self: &Arc<Self>, wish: &protocol::SetPower) -> Result<Machine, ProviderError> {
        let key = self.find(&wish.machine)?;
        let _alone = self.lock_machine(&key).await;
        self.look(&key.0, |cluster| match &cluster.holdings.machine(&key.1)?.wanted {
            Some(_) => Ok(()),
            None => Err(ProviderError::NotFound { what: format!("machine {} (it is only reserved)", key.1) }),
        })?;
        match wish.power {
            protocol::Power::Start => self.power_on(&key).await?,
            protocol::Power::Stop => self.power_off(&key, true).await?,
            protocol::Power::Kill => self.power_off(&key, false).await?,
            protocol::Power::Restart => {
                self.power_off(&key, true).await?;
                self.power_on(&key).await?;
            }
        }
        self.show(&key)
    }

    /// Stops and removes a machine and its reservation.
    pub(super) async fn delete_machine(&self, scope: &Scope, name: &str) -> Result<(), ProviderError> {
        let key = (scope.cluster_id.clone(), name.to_owned());
        if !self.clusters().contains_key(&key.0) {
            return Ok(());
        }
        let _alone = self.lock_machine(&key).await;
        let there = self.owned(scope, |cluster| Ok(cluster.holdings.machines.contains_key(name)))?;
        if !there {
            return Ok(());
        }
        self.power_off(&key, false).await?;
        let sandbox = self.sandbox(&key)?;
        self.wind_down(&key, &sandbox).await?;
        let folder = sandbox.folder.0;
        let removal = tokio::task::spawn_blocking(move || clone::remove_tree(&folder));
        let removed = removal.await.map_err(|error| failed("removing the machine's folder", &error))?;
        removed.map_err(|error| failed("removing the machine's folder", &error))?;
        self.owned(scope, |cluster| {
            cluster.holdings.remove_machine(name);
            Ok(())
        })?;
        self.load_table().await?;
        self.lower_limits()
    }

    pub(super) fn set_state(&self, key: &Key, state: MachineState) -> Result<(), ProviderError> {
        self.change(&key.0, |cluster| {
            let held = cluster.holdings.machine_mut(&key.1)?;
            if !matches!(state, MachineState::Running) {
                held.boot_id = None;
            }
            held.state = state;
            Ok(())
        })
    }

    pub(super) fn sandbox(&self, key: &Key) -> Result<Sandbox, ProviderError> {
        let (id, machine) = key;
        let names = self.paths.machine_names(id, machine);
        let folder = MachineFolder(self.paths.machine(id, machine));
        Ok(Sandbox {
            machine: machine.clone(),
            cgroups: self.cgroups.folders(&format!("{}/{}", self.paths.cgroup(), names.cgroup)),
            layers: 0,
            folder,
            names,
        })
    }

    fn wire(&self, key: &Key) -> Result<Wire, ProviderError> {
        let (id, machine) = key;
        let names = self.paths.machine_names(id, machine);
        self.look(id, |cluster| {
            let network = &cluster.holdings.network()?.network;
            let address = cluster.holdings.machine(machine)?.address;
            Ok(Wire {
                veth: names.veth,
                netns: names.netns,
                bridge: network.bridge.clone(),
                address: IpNet::new(address, network.subnet.prefix_len())
                    .map_err(|error| failed("the machine's address", &error))?,
                gateway: network.gateway,
            })
        })
    }

    /// Tags and files of a machine's volumes.
    pub(super) fn volume_files(&self, key: &Key) -> Result<Vec<(String, PathBuf)>, ProviderError> {
        let (id, machine) = key;
        self.look(id, |cluster| {
            let held = cluster.holdings.volumes.iter();
            let own = held.filter(|(_, volume)| volume.attached_to.as_ref() == Some(machine));
            Ok(own.map(|(name, _)| (name.clone(), self.paths.volume(id, name))).collect())
        })
    }

    /// Attaches volumes to a running machine.
    async fn show_volumes(&self, key: &Key, volumes: &[String]) -> Result<(), ProviderError> {
        let running = self.look(&key.0, |cluster| Ok(cluster.processes.get(&key.1).copied()))?;
        let Some(running) = running else { return Ok(()) };
        let mut files = self.volume_files(key)?;
        files.retain(|(name, _)| volumes.contains(name));
        give_volumes(running, &files).await
    }

    fn write_boot_files(&self, key: &Key, folder: &MachineFolder) -> Result<(), ProviderError> {
        let (id, machine) = key;
        let identity = Identity::Machine { cluster: id.clone(), machine: machine.clone() };
        let issued = self.authority.client(&identity).map_err(|error| failed("issuing the boot stub", &error))?;
        let (network, held) = self.look(id, |cluster| {
            Ok((cluster.holdings.network()?.network.clone(), cluster.holdings.machine(machine)?.clone()))
        })?;
        let stub = BootStub {
            format: BootStub::FORMAT,
            cluster_id: id.clone(),
            machine: machine.clone(),
            config_source: network.api_url,
            ca: self.authority.certificate().to_owned(),
            certificate: issued.certificate,
            key: issued.key,
        };
        let identity = clone::Identity {
            name: machine,
            address: held.address,
            machine_id: &held.machine_id,
            nameserver: network.gateway,
            stub: &stub,
        };
        clone::write_boot_files(folder, &identity).map_err(|error| failed("writing boot files", &error))
    }

    /// Stops every machine, in order backwards.
    pub(super) async fn stop_all(&self) {
        let keys: Vec<Key> = self
            .clusters()
            .iter()
            .flat_map(|(id, cluster)| cluster.processes.keys().map(|machine| (id.clone(), machine.clone())))
            .collect();
        let stops = keys.iter().map(|key| async move {
            let _alone = self.lock_machine(key).await;
            let power = self.look(&key.0, |cluster| Ok(cluster.processes.get(&key.1).copied()));
            let Ok(Some(running)) = power else { return };
            let stopped = match self.sandbox(key) {
                Ok(sandbox) => sandbox.stop(running).await.map_err(|error| failed("stopping the machine", &error)),
                Err(error) => Err(error),
            };
            // It shall run again when hostd does: its power stays on.
            let buried = self.bury(key, running, "stopped with the host daemon").await;
            if let Err(error) = stopped.and(buried) {
                tracing::warn!(machine = %key.1, %error, "machine not stopped cleanly");
            }
        });
        futures::future::join_all(stops).await;
    }
}

/// Gives a running machine its volumes' nodes, once its `/dev` is there.
pub(super) async fn give_volumes(running: Running, files: &[(String, PathBuf)]) -> Result<(), ProviderError> {
    for (tag, file) in files {
        let device = volumes::attach(file).await.map_err(|error| failed("attaching a volume", &error))?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Err(error) = volumes::show(running.init, tag, &device) {
            if Instant::now() > deadline {
                return Err(failed("giving the machine its volume", &error));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}
