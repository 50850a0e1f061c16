//! hostd's Prometheus metrics, at `/metrics` of its socket.
//!
//! Inputs: requests, machine starts, what is held. Output: the text Prometheus reads.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::host::Host;
use crate::ports::MachineState;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    operation: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    cluster: String,
    state: &'static str,
}

/// Everything counted.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    starts: Counter,
    start_seconds: Histogram,
    machines: Family<State, Gauge<i64, std::sync::atomic::AtomicI64>>,
    volumes: Family<State, Gauge<u64, AtomicU64>>,
}

impl Metrics {
    pub(super) fn new(build: &str) -> Self {
        let mut registry = Registry::with_prefix("windlass_hostd");
        let requests = Family::default();
        let starts = Counter::default();
        let start_seconds = Histogram::new([0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]);
        let (machines, volumes) = (Family::default(), Family::default());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let info = Info::new(vec![("version".to_owned(), version), ("build".to_owned(), build.to_owned())]);
        registry.register("build", "The build that runs", info);
        registry.register("requests", "Requests answered", Family::clone(&requests));
        registry.register("machine_starts", "Machines started", Counter::clone(&starts));
        registry.register("machine_start_seconds", "From the wish to a running init", Histogram::clone(&start_seconds));
        registry.register("machines", "Machines held", Family::clone(&machines));
        registry.register("volumes", "Volumes held", Family::clone(&volumes));
        Self { registry, requests, starts, start_seconds, machines, volumes }
    }

    pub(super) fn answered(&self, operation: &str, status: u16) {
        self.requests.get_or_create(&Request { operation: operation.to_owned(), status }).inc();
    }

    pub(super) fn started(&self, took: Duration) {
        self.starts.inc();
        self.start_seconds.observe(took.as_secs_f64());
    }
}

impl Host {
    /// The metrics' text.
    pub(super) fn metrics_text(&self) -> Result<String, std::fmt::Error> {
        self.metrics.machines.clear();
        self.metrics.volumes.clear();
        for cluster in self.clusters().values() {
            let name = &cluster.holdings.scope.cluster;
            for machine in cluster.holdings.machines.values() {
                let state = State { cluster: name.clone(), state: state(&machine.state) };
                self.metrics.machines.get_or_create(&state).inc();
            }
            for volume in cluster.holdings.volumes.values() {
                let attached = if volume.attached_to.is_some() { "attached" } else { "free" };
                self.metrics.volumes.get_or_create(&State { cluster: name.clone(), state: attached }).inc();
            }
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics.registry)?;
        Ok(text)
    }
}

fn state(state: &MachineState) -> &'static str {
    match state {
        MachineState::Reserved => "reserved",
        MachineState::Starting => "starting",
        MachineState::Running => "running",
        MachineState::Stopped { .. } => "stopped",
    }
}
