//! Prometheus metrics of the controllers, and the small server that shows them.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::workers::Thing;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerb {
    verb: &'static str,
}

/// The numbers.
pub(crate) struct Metrics {
    registry: Registry,
    reconciles: Family<OfController, Counter>,
    seconds: Family<ByController, Histogram>,
    depth: Family<ByController, Gauge>,
    writes: Family<ByVerb, Counter>,
    provider_calls: Family<ByVerb, Counter>,
    leader: Gauge,
    watch_restarts: Counter<u64, AtomicU64>,
}

fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 8))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("windlass_controller");
        let reconciles = Family::<OfController, Counter>::default();
        registry.register("reconciles", "Runs of a controller, by result", reconciles.clone());
        let seconds = Family::<ByController, Histogram>::new_with_constructor(durations);
        registry.register("reconcile_seconds", "Time a run took", seconds.clone());
        let depth = Family::<ByController, Gauge>::default();
        registry.register("queue_depth", "Keys in line", depth.clone());
        let writes = Family::<ByVerb, Counter>::default();
        registry.register("api_writes", "Writes to the management API", writes.clone());
        let provider_calls = Family::<ByVerb, Counter>::default();
        registry.register("provider_calls", "Calls to the machine provider", provider_calls.clone());
        let leader = Gauge::default();
        registry.register("leader", "1 while this process acts", leader.clone());
        let watch_restarts = Counter::default();
        registry.register("watch_restarts", "Watches that broke and began anew", watch_restarts.clone());
        Self { registry, reconciles, seconds, depth, writes, provider_calls, leader, watch_restarts }
    }

    pub(crate) fn reconciled(&self, thing: Thing, well: bool, took: Duration, depth: usize) {
        let controller = thing.name();
        let result = if well { "ok" } else { "error" };
        self.reconciles.get_or_create(&OfController { controller, result }).inc();
        self.seconds.get_or_create(&ByController { controller }).observe(took.as_secs_f64());
        self.depth.get_or_create(&ByController { controller }).set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    pub(crate) fn wrote(&self, verb: &'static str) {
        self.writes.get_or_create(&ByVerb { verb }).inc();
    }

    pub(crate) fn called_provider(&self, verb: &'static str) {
        self.provider_calls.get_or_create(&ByVerb { verb }).inc();
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(crate) fn watch_broke(&self) {
        self.watch_restarts.inc();
    }

    /// The text Prometheus reads.
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Serves `/metrics` and `/healthz` until the future is dropped.
pub(crate) async fn serve(metrics: std::sync::Arc<Metrics>, at: SocketAddr) -> std::io::Result<()> {
    let router =
        Router::new().route("/healthz", get(|| async { "ok" })).route("/metrics", get(show)).with_state(metrics);
    let listener = tokio::net::TcpListener::bind(at).await?;
    axum::serve(listener, router).await
}

type Page = (StatusCode, [(axum::http::HeaderName, &'static str); 1], String);

async fn show(State(metrics): State<std::sync::Arc<Metrics>>) -> Page {
    let kind = [(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match metrics.text() {
        Ok(text) => (StatusCode::OK, kind, text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, kind, error.to_string()),
    }
}
