//! The agent's life: read who we are, follow the configuration, converge, report.
//!
//! Inputs: [`AgentOptions`], the boot stub, a config source. Output: none; it runs until it is told to stop, and then leaves
//! the machine's workloads as they are.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_spec::boot_stub::BootStub;
use windlass_spec::node_config::{Authority, HookPoint, SealedNodeConfig};
use windlass_spec::report::ConfigSeen;

use crate::balancer::{Balancer, check, own};
use crate::board::Board;
use crate::host::command::SystemCommands;
use crate::host::units::Systemd;
use crate::host::{Host, Root, files};
use crate::ledger::{LedgerError, LedgerStore};
use crate::metrics::{Counters, Metrics};
use crate::parts::{self, Context};
use crate::source::https::HttpsSource;
use crate::source::order::Expected;
use crate::source::{self, ConfigSource};
use crate::{api_servers, boot_id, duties, health, http, node_watch, paths, schedule};

/// How the agent is started.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The machine's root directory.
    pub root: Root,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { root: Root::new("/") }
    }
}

/// Why the agent cannot run at all.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The boot stub.
    #[error("the boot stub {path}: {cause}")]
    BootStub {
        /// Where it should be.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The config source's address or certificates.
    #[error(transparent)]
    Source(#[from] source::SourceError),
    /// The identity of this boot.
    #[error(transparent)]
    Boot(#[from] crate::error::PartError),
}

/// Time between two passes that look for drift.
const DRIFT: Duration = Duration::from_secs(60);
/// Reports are sent at most this often.
const REPORT_PAUSE: Duration = Duration::from_millis(100);
/// A report is sent this often even when nothing changed.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Runs the agent until `shutdown`.
///
/// # Errors
/// When it cannot find out who it is or what it must not forget.
pub async fn run(options: AgentOptions, shutdown: CancellationToken) -> Result<(), AgentError> {
    let stub = read_stub(&options.root)?;
    let source = Arc::new(HttpsSource::new(&stub)?);
    let host = Host { root: options.root, commands: Arc::new(SystemCommands), units: Arc::new(Systemd::default()) };
    let expected = Expected { cluster_id: stub.cluster_id, machine: stub.machine };
    Box::pin(Agent::new(host, expected, source)?.run(shutdown)).await;
    Ok(())
}

fn read_stub(root: &Root) -> Result<BootStub, AgentError> {
    let wrong = |cause: String| AgentError::BootStub { path: BootStub::PATH.to_owned(), cause };
    let text = files::read_text(&root.at(BootStub::PATH)).map_err(|error| wrong(error.to_string()))?;
    let text = text.ok_or_else(|| wrong("it is missing".to_owned()))?;
    let stub: BootStub = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if stub.format != BootStub::FORMAT {
        return Err(wrong(format!("it has format {}, this build knows {}", stub.format, BootStub::FORMAT)));
    }
    Ok(stub)
}

/// A running agent's parts.
pub struct Agent {
    host: Host,
    expected: Expected,
    source: Arc<dyn ConfigSource>,
    ledger: LedgerStore,
    board: Board,
    balancer: Balancer,
    serving: Mutex<Option<Serving>>,
    /// The way to the own API server alone.
    own_serving: Mutex<Option<Serving>>,
    counters: Counters,
}

/// The balancer's listener outlives configurations: connections through it are not cut by a new one.
struct Serving {
    listen: String,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    /// An agent on a host, of this identity, asking this source.
    ///
    /// # Errors
    /// When ledger or boot id cannot be read or written.
    pub fn new(host: Host, expected: Expected, source: Arc<dyn ConfigSource>) -> Result<Self, AgentError> {
        let ledger = LedgerStore::open(&host.root)?;
        let boot_id = boot_id::of_this_start(&host.root, &ledger)?;
        let board = Board::new(&expected.machine, &boot_id);
        let balancer = Balancer::new(&expected.machine);
        Ok(Self {
            host,
            expected,
            source,
            ledger,
            board,
            balancer,
            serving: Mutex::default(),
            own_serving: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Runs until `shutdown`; workloads are left as they are.
    pub async fn run(&self, shutdown: CancellationToken) {
        let kept = self.kept_config();
        let accepted = watch::Sender::new(kept);
        self.board.waiting(source::PART, "the first configuration");
        let work = async {
            tokio::join!(
                source::follow(self.source.as_ref(), &self.expected, &self.ledger, &self.board, &accepted),
                self.send_reports(),
                self.serve_metrics(),
                self.converge_each(accepted.subscribe(), &shutdown),
            );
        };
        tokio::select! {
            () = work => {}
            () = stopped(&shutdown) => {}
        }
        tracing::info!("stopped; workloads go on");
    }

    /// The configuration of before the restart, if it is whole.
    fn kept_config(&self) -> Option<Arc<SealedNodeConfig>> {
        match self.ledger.config() {
            Ok(Some(config)) if config.is_intact() => Some(Arc::new(config)),
            Ok(Some(_)) => {
                tracing::warn!("the kept configuration is damaged; waiting for the source");
                None
            }
            Ok(None) => None,
            Err(error) => {
                tracing::warn!("{error}");
                None
            }
        }
    }

    /// Converges to each configuration, the newest always.
    async fn converge_each(
        &self,
        mut accepted: watch::Receiver<Option<Arc<SealedNodeConfig>>>,
        shutdown: &CancellationToken,
    ) {
        loop {
            let current = accepted.borrow_and_update().clone();
            let changed = match current {
                None => accepted.changed().await,
                Some(sealed) => {
                    self.counters.configs.inc();
                    let cx = self.context(sealed);
                    tokio::select! {
                        changed = accepted.changed() => changed,
                        () = self.converge(&cx, shutdown) => return,
                    }
                }
            };
            if changed.is_err() {
                return;
            }
        }
    }

    fn context(&self, sealed: Arc<SealedNodeConfig>) -> Context {
        Context {
            host: self.host.clone(),
            board: self.board.clone(),
            ledger: self.ledger.clone(),
            api_servers: Arc::clone(self.balancer.pool()),
            sealed,
        }
    }

    /// Everything one configuration asks for, until `shutdown`.
    async fn converge(&self, cx: &Context, shutdown: &CancellationToken) {
        self.begin(cx);
        let passes = async {
            loop {
                schedule::run(parts::tasks(cx), &self.board).await;
                self.counters.passes.inc();
                tokio::time::sleep(DRIFT).await;
            }
        };
        let duties = async {
            if let Some(duties) = &cx.config().cluster_duties {
                self.board.until_done("certificates").await;
                Box::pin(duties::run(cx, duties, shutdown)).await;
            }
        };
        tokio::select! {
            ((), (), (), (), (), (), ()) = async { tokio::join!(
                passes,
                health::run(cx),
                health::after_ready(cx),
                node_watch::run(cx),
                api_servers::run(cx, &self.balancer),
                self.balance(cx),
                duties,
            ) } => {}
            () = stopped(shutdown) => {}
        }
    }

    /// Lays out the parts of a configuration, all pending.
    fn begin(&self, cx: &Context) {
        let config = cx.config();
        let mut names = vec![source::PART.to_owned()];
        names.extend(parts::tasks(cx).iter().map(|task| task.name().to_owned()));
        names.push("balancer".to_owned());
        names.extend(config.etcd.as_ref().map(|_| parts::etcd::PART.to_owned()));
        names.extend(config.static_pods.iter().map(|pod| pod.name.clone()));
        if config.cluster_duties.is_some() {
            names.extend([duties::BOOTSTRAP_PART, duties::PART].map(str::to_owned));
        }
        names.extend([node_watch::NETWORK_PART, node_watch::NODE_PART].map(str::to_owned));
        names.push(parts::hooks_part(HookPoint::AfterReady).to_owned());
        self.board.begin(names);
        self.board.change(|report| {
            report.config =
                Some(ConfigSeen { epoch: config.epoch, generation: config.generation, hash: cx.sealed.hash.clone() });
        });
        self.board.done(source::PART, vec![format!("epoch {}, generation {}", config.epoch, config.generation)]);
    }

    /// The balancer in front of the API servers.
    async fn balance(&self, cx: &Context) {
        api_servers::set(cx, &self.balancer, self.ledger.get().api_servers);
        let authority = cx.secrets().authorities.get(&Authority::Cluster).map_or("", String::as_str);
        let tls = match http::tls(authority, None) {
            Ok(tls) => tls,
            Err(error) => return self.board.failed("balancer", error.to_string(), Vec::new()),
        };
        let wanted = &cx.config().balancer;
        self.serve_balancer(&wanted.listen).await;
        if let (Some(listen), Some(server)) = (&wanted.own_listen, wanted.servers.first()) {
            self.serve_own(listen, server).await;
        }
        self.board.done("balancer", Vec::new());
        check::run(Arc::clone(self.balancer.pool()), tls).await;
    }

    async fn serve_balancer(&self, listen: &str) {
        let mut serving = self.serving.lock().await;
        if serving.as_ref().is_some_and(|serving| serving.listen == listen && !serving.task.is_finished()) {
            return;
        }
        *serving = None;
        let listener = loop {
            match TcpListener::bind(listen).await {
                Ok(listener) => break listener,
                Err(error) => {
                    self.board.failed("balancer", format!("listening on {listen}: {error}"), Vec::new());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        };
        let balancer = self.balancer.clone();
        let task = tokio::spawn(async move { balancer.serve(listener).await });
        *serving = Some(Serving { listen: listen.to_owned(), task });
    }

    async fn serve_own(&self, listen: &str, server: &str) {
        let mut serving = self.own_serving.lock().await;
        if serving.as_ref().is_some_and(|serving| serving.listen == listen && !serving.task.is_finished()) {
            return;
        }
        let is_first_time = self.ledger.get().etcd.is_none_or(|record| !record.formed);
        let (at, to) = (listen.to_owned(), server.to_owned());
        let task = tokio::spawn(async move { own::run(&at, &to, is_first_time).await });
        *serving = Some(Serving { listen: listen.to_owned(), task });
    }

    /// Sends a report after each change, and now and then without one.
    async fn send_reports(&self) {
        let mut reader = self.board.subscribe();
        let mut pause = REPORT_PAUSE;
        loop {
            let report = reader.borrow_and_update().clone();
            self.keep_report(&report);
            match self.source.report(&report).await {
                Ok(()) => {
                    self.counters.reports_sent.inc();
                    pause = REPORT_PAUSE;
                }
                Err(error) => {
                    self.counters.reports_failed.inc();
                    tracing::debug!("report: {error}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(HEARTBEAT);
                    reader.mark_changed();
                    continue;
                }
            }
            tokio::time::sleep(REPORT_PAUSE).await;
            if let Ok(Err(_)) = tokio::time::timeout(HEARTBEAT, reader.changed()).await {
                return;
            }
        }
    }

    /// Writes the report for a person on the machine.
    fn keep_report(&self, report: &windlass_spec::report::NodeReport) {
        let written = serde_json::to_vec_pretty(report)
            .map_err(std::io::Error::other)
            .and_then(|text| files::ensure(&self.host.root.at(paths::REPORT), &text, 0o644, None));
        if let Err(error) = written {
            tracing::warn!("{}: {error}", paths::REPORT);
        }
    }

    async fn serve_metrics(&self) {
        let metrics = Metrics::new(self.board.clone(), self.balancer.clone(), self.counters.clone());
        match TcpListener::bind(paths::METRICS_ADDRESS).await {
            Ok(listener) => metrics.serve(listener).await,
            Err(error) => tracing::warn!("metrics on {}: {error}", paths::METRICS_ADDRESS),
        }
    }
}

/// Ends a moment after `shutdown`, so that the lease can be handed over.
async fn stopped(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;
    use crate::source::memory::MemorySource;
    use windlass_spec::identity::Generation;
    use windlass_spec::node_config::{Content, File, Unit};
    use windlass_spec::report::{NodeReport, PartState};

    fn machine() -> fixture::Machine {
        let mut machine = fixture::machine();
        machine.change(|config| {
            config.units =
                vec![Unit { name: "kubelet.service".into(), content: "[Service]\n".into(), restart_on: Vec::new() }];
        });
        machine
    }

    fn motd(machine: &mut fixture::Machine, generation: u64, text: &str) {
        machine.change(|config| {
            config.generation = Generation(generation);
            config.files = vec![File {
                path: "/etc/motd".into(),
                mode: "0644".into(),
                owner: None,
                content: Content::Text(text.into()),
            }];
        });
    }

    async fn until(source: &MemorySource, what: impl Fn(&NodeReport) -> bool) -> NodeReport {
        let wait = async {
            loop {
                if let Some(report) = source.reports().into_iter().rev().find(|report| what(report)) {
                    return report;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(10), wait).await {
            Ok(report) => report,
            Err(_) => panic!("{:#?}", source.reports().last()),
        }
    }

    fn is_done(report: &NodeReport, part: &str, generation: u64) -> bool {
        report.config.as_ref().is_some_and(|config| config.generation.0 == generation)
            && report.parts.iter().any(|found| found.part == part && found.state == PartState::Done)
    }

    #[tokio::test]
    async fn it_follows_its_source_refuses_what_is_stale_and_goes_on_without_it() {
        let mut machine = machine();
        let source = Arc::new(MemorySource::default());
        let cx = machine.context();
        let expected = Expected { cluster_id: fixture::CLUSTER_ID.into(), machine: "lab-cp-a".into() };
        let shutdown = CancellationToken::new();
        let agent = Agent::new(cx.host.clone(), expected.clone(), source.clone()).unwrap();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move { Box::pin(agent.run(stop)).await });

        until(&source, |report| report.parts.iter().any(|part| matches!(part.state, PartState::Waiting { .. }))).await;
        for (generation, text) in [(2, "two"), (3, "three")] {
            motd(&mut machine, generation, text);
            source.put((*machine.context().sealed).clone());
            until(&source, |report| is_done(report, "kubelet", generation)).await;
            assert_eq!(fs_err::read_to_string(machine.path("/etc/motd")).unwrap(), text);
        }
        motd(&mut machine, 1, "stale");
        source.put((*machine.context().sealed).clone());
        let failed = |report: &NodeReport| {
            report.parts.iter().any(|part| part.part == source::PART && matches!(part.state, PartState::Failed { .. }))
        };
        until(&source, failed).await;
        assert_eq!(fs_err::read_to_string(machine.path("/etc/motd")).unwrap(), "three");
        shutdown.cancel();
        running.await.unwrap();

        fs_err::remove_file(machine.path("/etc/motd")).unwrap();
        let silent = Arc::new(MemorySource::default());
        let agent = Agent::new(cx.host, expected, silent.clone()).unwrap();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move { Box::pin(agent.run(stop)).await });
        until(&silent, |report| is_done(report, "files", 3)).await;
        assert_eq!(fs_err::read_to_string(machine.path("/etc/motd")).unwrap(), "three", "from the kept configuration");
        shutdown.cancel();
        running.await.unwrap();
    }
}
