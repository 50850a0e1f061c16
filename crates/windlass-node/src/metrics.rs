//! Prometheus metrics of the agent.
//!
//! Inputs: the board, the balancer, counters. Output: `/metrics` on 127.0.0.1:7442.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use windlass_spec::report::PartState;

use crate::balancer::Balancer;
use crate::balancer::pool::Health;
use crate::board::Board;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Part {
    part: String,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum State {
    Pending,
    Waiting,
    Done,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Server {
    server: String,
}

/// Counters that others raise.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Reports taken by the config source.
    pub reports_sent: Counter,
    /// Reports it did not take.
    pub reports_failed: Counter,
    /// Configurations taken up.
    pub configs: Counter,
    /// Passes over all parts.
    pub passes: Counter,
}

/// What the metrics are made of.
#[derive(Clone)]
pub struct Metrics {
    board: Board,
    balancer: Balancer,
    counters: Counters,
}

impl Metrics {
    /// Metrics over these.
    pub fn new(board: Board, balancer: Balancer, counters: Counters) -> Self {
        Self { board, balancer, counters }
    }

    /// Everything as text.
    fn render(&self) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("windlass_agent");
        let parts = Family::<Part, Gauge>::default();
        let ready: Gauge = Gauge::default();
        let servers = Family::<Server, Gauge>::default();
        let connections = Family::<Server, Gauge>::default();
        let generation: Gauge<u64, AtomicU64> = Gauge::default();
        self.fill(&parts, &ready, &servers, &connections, &generation);
        registry.register("part", "State of each part of the machine", parts);
        registry.register("node_ready", "Is the Node Ready with this boot?", ready);
        registry.register("config_generation", "Generation of the configuration in use", generation);
        registry.register("balancer_server_ready", "Is the API server behind the balancer ready?", servers);
        registry.register("balancer_connections", "Connections through the balancer", connections);
        let counters = self.counters.clone();
        registry.register("reports_sent", "Reports taken by the config source", counters.reports_sent);
        registry.register("reports_failed", "Reports not taken by the config source", counters.reports_failed);
        registry.register("configs", "Configurations taken up", counters.configs);
        registry.register("passes", "Passes over all parts", counters.passes);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn fill(
        &self,
        parts: &Family<Part, Gauge>,
        ready: &Gauge,
        servers: &Family<Server, Gauge>,
        connections: &Family<Server, Gauge>,
        generation: &Gauge<u64, AtomicU64>,
    ) {
        let report = self.board.report();
        for part in &report.parts {
            let state = match part.state {
                PartState::Pending => State::Pending,
                PartState::Waiting { .. } => State::Waiting,
                PartState::Done => State::Done,
                PartState::Failed { .. } => State::Failed,
            };
            parts.get_or_create(&Part { part: part.part.clone(), state }).set(1);
        }
        ready.set(i64::from(report.node_ready));
        generation.set(report.config.map_or(0, |config| config.generation.0));
        for (server, health, count) in self.balancer.pool().overview() {
            let label = Server { server };
            servers.get_or_create(&label).set(i64::from(health == Health::Ready));
            connections.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Serves them for ever.
    pub async fn serve(self, listener: TcpListener) {
        let metrics = Arc::new(self);
        let answer = move || {
            let metrics = Arc::clone(&metrics);
            async move {
                match metrics.render() {
                    Ok(text) => {
                        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                        ([(CONTENT_TYPE, kind)], text).into_response()
                    }
                    Err(error) => (axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
                }
            }
        };
        let router = Router::new().route("/metrics", get(answer));
        if let Err(error) = axum::serve(listener, router).await {
            tracing::warn!("metrics: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_servers_are_told() {
        let board = Board::new("m", "b");
        board.done("files", Vec::new());
        let balancer = Balancer::new("m");
        balancer.pool().set(vec!["10.77.0.11:6443".into()], None, None);
        let text = Metrics::new(board, balancer, Counters::default()).render().unwrap();
        assert!(text.contains(r#"windlass_agent_part{part="files",state="Done"} 1"#), "{text}");
        assert!(text.contains(r#"windlass_agent_balancer_server_ready{server="10.77.0.11:6443"} 0"#), "{text}");
    }
}
