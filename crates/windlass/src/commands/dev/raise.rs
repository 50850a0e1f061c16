//! `windlass dev raise`: every machine at once, each with its configuration; then proof that it is a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use windlass_plan::decide::{WantedMachine, wanted_machines};
use windlass_providers::local;
use windlass_providers::local::paths::Paths;
use windlass_providers::ports::{
    Inventory, MachineWanted, Network, NetworkWanted, Provider, ProviderError, Reservation, VolumeWanted,
};
use windlass_spec::full::FullCluster;
use windlass_spec::identity::Role;
use windlass_spec::{names, resolve};

use super::configs::Ground;
use super::progress::Progress;
use super::state::State;
use super::timing::Timing;
use super::{assets, proof};
use crate::document::refused;
use crate::exit::{Code, Failure, Outcome};
use crate::output::{Format, print_value};

/// Arguments of `windlass dev raise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  windlass dev raise -f lab.yaml\n  windlass dev raise -f lab.yaml -o json")]
pub(crate) struct Args {
    /// The spec.
    #[arg(short, long)]
    file: PathBuf,
    /// Seconds until it gives up.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// How timings are printed.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

const ADMIN_TTL: SignedDuration = SignedDuration::from_hours(24 * 7);

/// Raises the cluster.
pub(crate) async fn run(args: Args) -> Outcome {
    let paths = Paths::from_environment()?;
    let text = fs_err::read_to_string(&args.file)?;
    let cluster =
        windlass_spec::load(&text, &args.file.display().to_string()).map_err(|problems| refused(&problems))?;
    let problems = windlass_spec::validate(&cluster);
    if problems.has_errors() {
        return Err(refused(&problems));
    }
    let image = assets::image(&paths, &version(&cluster)?)?;
    let provider: Arc<dyn Provider> = Arc::new(local::ensure_running(&paths).await?);
    let full = resolve(&cluster, &image.release(), &provider.facts().await?).map_err(|problems| refused(&problems))?;
    let raise = Raise::new(full, provider, image.id().to_owned())?;
    let limit = Duration::from_secs(args.timeout);
    tokio::time::timeout(limit, raise.run(args.output)).await.map_err(|_| {
        Failure::new(Code::Failed, anyhow::anyhow!("the cluster is not ready after {} s", limit.as_secs()))
    })?
}

fn version(cluster: &windlass_spec::v1alpha1::Cluster) -> anyhow::Result<String> {
    let wish = cluster.spec.kubernetes_version.as_deref().map(str::parse).transpose()?;
    let version = windlass_spec::releases::choose(wish).context("no supported Kubernetes version fulfils the wish")?;
    Ok(version.to_string())
}

struct Raise {
    full: FullCluster,
    provider: Arc<dyn Provider>,
    image: String,
    machines: Vec<WantedMachine>,
    state: State,
    timing: Timing,
}

impl Raise {
    fn new(full: FullCluster, provider: Arc<dyn Provider>, image: String) -> anyhow::Result<Self> {
        let machines = wanted_machines(&full);
        let state = match State::load(&full.name)? {
            Some(state) => state,
            None => State::new(&full.name, &machines)?,
        };
        state.store(&full.name)?;
        Ok(Self { full, provider, image, machines, state, timing: Timing::begin() })
    }

    async fn run(mut self, output: Format) -> Outcome {
        self.timing = Timing::begin();
        let network = self.provider.ensure_network(&self.state.scope, &self.network_wanted()).await?;
        let reservations = self.reserve().await?;
        self.timing.over("reserved");
        self.hand_out(&network, &reservations).await?;
        self.timing.over("configured");
        tokio::try_join!(self.make_machines(), self.make_kubeconfig(&network))?;
        self.timing.over("machines made");
        self.prove().await?;
        let inventory = self.provider.inventory(&self.state.scope).await?;
        self.state.formed = true;
        self.hand_out(&network, &reservations).await?;
        self.print(output, &inventory)
    }

    fn network_wanted(&self) -> NetworkWanted {
        let (endpoint, network) = (&self.full.endpoint, &self.full.network);
        NetworkWanted {
            endpoint_port: endpoint.port,
            endpoint_names: vec![endpoint.name.clone(), endpoint.internal_name.clone()],
            zone: names::zone(&self.full.name),
            avoid: network.pods.iter().chain(&network.services).copied().collect(),
        }
    }

    async fn reserve(&self) -> Result<BTreeMap<String, Reservation>, ProviderError> {
        let mut reservations = BTreeMap::new();
        for machine in &self.machines {
            let reservation = self.provider.reserve(&self.state.scope, &machine.name, machine.slot).await?;
            reservations.insert(machine.name.clone(), reservation);
        }
        Ok(reservations)
    }

    /// Renders every configuration anew, one generation on, and lays it where its machine asks.
    async fn hand_out(
        &mut self,
        network: &Network,
        reservations: &BTreeMap<String, Reservation>,
    ) -> anyhow::Result<()> {
        self.state.generation += 1;
        let ground = Ground { full: &self.full, machines: &self.machines, reservations, network };
        let configs = ground.render(&self.state)?;
        self.state.store(&self.full.name)?;
        let scope = &self.state.scope;
        try_join_all(configs.iter().map(|sealed| self.provider.put_config(scope, &sealed.config.machine.name, sealed)))
            .await?;
        Ok(())
    }

    async fn make_machines(&self) -> anyhow::Result<()> {
        try_join_all(self.machines.iter().map(|machine| self.make_machine(machine))).await?;
        Ok(())
    }

    async fn make_machine(&self, machine: &WantedMachine) -> anyhow::Result<()> {
        let scope = &self.state.scope;
        let mut volumes = Vec::new();
        for etcd in &self.full.etcd {
            let Some(slot) = machine.slot.filter(|slot| etcd.members.contains(slot)) else { continue };
            let name = names::etcd_volume(&etcd.name, slot);
            let wanted = VolumeWanted { name: name.clone(), bytes: etcd.volume_bytes, slot: Some(slot) };
            self.provider.ensure_volume(scope, &wanted).await?;
            volumes.push(name);
        }
        let wanted = MachineWanted {
            name: machine.name.clone(),
            role: machine.role,
            slot: machine.slot,
            image: self.image.clone(),
            volumes,
            dns_names: machine.slot.map(|slot| names::etcd_host(&self.full.name, slot)).into_iter().collect(),
        };
        self.provider.ensure_machine(scope, &wanted).await?;
        Ok(())
    }

    fn kubeconfig_path(&self) -> PathBuf {
        Path::new(&self.full.name).join(format!("{}.kubeconfig", self.full.name))
    }

    async fn make_kubeconfig(&self, network: &Network) -> anyhow::Result<()> {
        let server = format!("https://{}", std::net::SocketAddr::new(network.endpoint, self.full.endpoint.port));
        let (name, now) = (&self.full.name, Timestamp::now());
        let text = windlass_pki::admin_kubeconfig(&self.state.authorities, name, &server, "admin", ADMIN_TTL, now)?;
        Ok(windlass_files::replace_durably(self.kubeconfig_path(), text.as_bytes(), 0o600)?)
    }

    /// Waits for the proof from outside, and shows meanwhile what machines say.
    async fn prove(&mut self) -> anyhow::Result<()> {
        let client = proof::client(&fs_err::read_to_string(self.kubeconfig_path())?).await?;
        let wanted: BTreeSet<String> = self.machines.iter().map(|machine| machine.name.clone()).collect();
        let image = self.full.release.images.get("windlass").context("the release has no windlass image")?.clone();
        let domain = self.full.network.dns_domain.clone();
        let provider = Arc::clone(&self.provider);
        let scope = self.state.scope.clone();
        let timing = std::sync::Mutex::new(&mut self.timing);
        let over = |phase| {
            if let Ok(mut timing) = timing.lock() {
                timing.over(phase);
            }
        };
        let seconds = || timing.lock().map(|timing| timing.seconds()).unwrap_or_default();
        let proofs = async {
            proof::api_answers(&client).await;
            over("API answers");
            let nodes = async {
                proof::nodes_ready(&client, &wanted).await;
                over("nodes ready");
                Ok(())
            };
            let names = async {
                proof::pod_resolves(&client, &image, &domain).await?;
                over("a pod resolves a Service's name");
                anyhow::Ok(())
            };
            tokio::try_join!(nodes, names).map(|_| ())
        };
        let show = async {
            let mut progress = Progress::default();
            let mut seen = 0;
            loop {
                let inventory = match provider.watch(&scope, seen).await {
                    Ok(inventory) => inventory,
                    Err(error) => return anyhow::Error::from(error),
                };
                seen = inventory.revision;
                progress.show(&inventory, seconds());
                reached(&inventory, &over);
            }
        };
        tokio::select! {
            done = proofs => done,
            failed = show => Err(failed),
        }
    }

    fn print(&self, output: Format, inventory: &Inventory) -> Outcome {
        let parts = self.timing.parts(inventory);
        match output {
            Format::Table | Format::Wide => {
                print!("{}", self.timing.table(&parts));
                for phase in self.timing.phases() {
                    println!("{:7.2} s  {}", phase.seconds, phase.phase);
                }
                println!("kubectl --kubeconfig {} get nodes", self.kubeconfig_path().display());
            }
            _ => print_value(
                output,
                &json!({
                    "cluster": self.full.name,
                    "kubeconfig": self.kubeconfig_path(),
                    "phases": self.timing.phases(),
                    "parts": parts,
                }),
            )?,
        }
        Ok(Code::Ok)
    }
}

/// Phases that machines report.
fn reached(inventory: &Inventory, over: &impl Fn(&'static str)) {
    let reports = || inventory.machines.iter().filter_map(|machine| machine.report.as_ref());
    if reports().count() == inventory.machines.len() {
        over("every agent reports");
    }
    let control_planes = inventory.machines.iter().filter(|machine| machine.role == Some(Role::ControlPlane)).count();
    let ready = reports().filter(|report| report.api_server_ready == Some(true)).count();
    if ready > 0 {
        over("first API server ready");
    }
    if ready == control_planes {
        over("every API server ready");
    }
    if reports().filter(|report| report.is_ready()).count() == inventory.machines.len() {
        over("every machine ready");
    }
}
