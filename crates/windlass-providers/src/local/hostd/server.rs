//! hostd's routes: who may call what, and which act it is.
//!
//! Inputs: requests with an [`Identity`]. Outputs: JSON answers, or a [`Refusal`] with its status.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};

use windlass_spec::report::NodeReport;

use super::super::authority::Identity;
use super::super::protocol::{self, PROTOCOL, PROTOCOL_HEADER, Refusal};
use super::host::{Host, Key, failed};
use super::{exchange, ground};
use crate::ports::{Inventory, Machine, Network, OwnerCredential, ProviderError, Reservation, Volume};

type Answer<T> = Result<Json<T>, Refused>;
type Hosted = State<Arc<Host>>;
type Caller = Extension<Identity>;

/// A refusal as a response.
struct Refused(ProviderError);

impl From<ProviderError> for Refused {
    fn from(error: ProviderError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(protocol::status(&self.0)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(Refusal { error: self.0 })).into_response()
    }
}

fn routes(host: Arc<Host>) -> Router {
    Router::new()
        .route("/v1/hello", get(hello))
        .route("/v1/facts", post(facts))
        .route("/v1/preflight", post(preflight))
        .route("/v1/network/ensure", post(ensure_network))
        .route("/v1/network/delete", post(delete_network))
        .route("/v1/machine/reserve", post(reserve))
        .route("/v1/machine/ensure", post(ensure_machine))
        .route("/v1/machine/configure", post(put_config))
        .route("/v1/machine/delete", post(delete_machine))
        .route("/v1/machine/power", post(set_power))
        .route("/v1/volume/ensure", post(ensure_volume))
        .route("/v1/volume/delete", post(delete_volume))
        .route("/v1/inventory", post(inventory))
        .route("/v1/inventory/watch", post(watch))
        .route("/v1/credential", post(credential))
        .route("/v1/clusters", get(clusters))
        .route("/v1/self/config", get(own_config))
        .route("/v1/self/report", put(own_report))
        .route("/v1/hostd/bring-up", post(bring_up))
        .route("/v1/hostd/succeed", post(succeed))
        .route("/v1/hostd/stop", post(stop))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(Arc::clone(&host), observe))
        .with_state(host)
}

/// Serves one connection whose caller is known.
pub(super) async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: Arc<Host>,
    identity: Identity,
) {
    let service = TowerToHyperService::new(routes(host).layer(Extension(identity)));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(90))
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Checks the protocol, counts, and keeps hostd from becoming another binary in the middle of an act.
async fn observe(State(host): Hosted, request: Request, next: Next) -> Response {
    host.touch();
    let path = request.uri().path().to_owned();
    let spoken = request.headers().get(PROTOCOL_HEADER).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if let Some(other) = spoken.filter(|&spoken| spoken != PROTOCOL) {
        let error = ProviderError::Failed {
            operation: format!("protocol {other}"),
            cause: format!("this hostd speaks protocol {PROTOCOL}: use the windlass of its build"),
        };
        return Refused(error).into_response();
    }
    if !path.starts_with("/v1/hello") && !path.starts_with("/v1/self") && !path.starts_with("/v1/hostd") {
        host.until_ready().await;
    }
    let waits = path.ends_with("/watch") || path.ends_with("/config") || path.starts_with("/v1/hostd");
    let response = if waits {
        next.run(request).await
    } else {
        let open = Arc::clone(&host.gate).read_owned().await;
        // Finished also when the caller hangs up: an act is never left half done.
        let act = tokio::spawn(async move {
            let response = next.run(request).await;
            drop(open);
            response
        });
        match act.await {
            Ok(response) => response,
            Err(error) => Refused(failed("the call", &error)).into_response(),
        }
    };
    host.metrics.answered(&path, response.status().as_u16());
    host.touch();
    response
}

async fn hello(State(host): Hosted) -> Json<protocol::Hello> {
    Json(host.hello())
}

async fn facts(State(host): Hosted, Extension(caller): Caller) -> Answer<windlass_spec::full::Facts> {
    caller.may_look_around()?;
    Ok(Json(ground::facts(&host.cgroups).await?))
}

async fn preflight(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::Preflight>,
) -> Answer<Vec<String>> {
    caller.may_look_around()?;
    Ok(Json(ground::preflight(&host.paths, wish.machines).await?))
}

async fn ensure_network(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::EnsureNetwork>,
) -> Answer<Network> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.ensure_network(&wish).await?))
}

async fn delete_network(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::OfCluster>,
) -> Answer<()> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.delete_network(&wish.scope).await?))
}

async fn reserve(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::Reserve>,
) -> Answer<Reservation> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.reserve(&wish)?))
}

async fn ensure_machine(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::EnsureMachine>,
) -> Answer<Machine> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.ensure_machine(&wish).await?))
}

async fn put_config(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::PutConfig>,
) -> Answer<()> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.put_config(&wish)?))
}

async fn delete_machine(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::OfThing>,
) -> Answer<()> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.delete_machine(&wish.scope, &wish.name).await?))
}

async fn set_power(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::SetPower>,
) -> Answer<Machine> {
    caller.must_be_root("switch machines on and off")?;
    Ok(Json(host.set_power(&wish).await?))
}

async fn ensure_volume(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::EnsureVolume>,
) -> Answer<Volume> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.ensure_volume(&wish)?))
}

async fn delete_volume(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::OfThing>,
) -> Answer<()> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.delete_volume(&wish.scope, &wish.name).await?))
}

async fn inventory(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::OfCluster>,
) -> Answer<Inventory> {
    caller.may_read(&wish.scope)?;
    Ok(Json(host.inventory(&wish.scope)?))
}

async fn watch(State(host): Hosted, Extension(caller): Caller, Json(wish): Json<protocol::Watch>) -> Answer<Inventory> {
    caller.may_read(&wish.scope)?;
    Ok(Json(host.watch(&wish.scope, wish.seen).await?))
}

async fn credential(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(wish): Json<protocol::OfCluster>,
) -> Answer<OwnerCredential> {
    caller.may_act(&wish.scope)?;
    Ok(Json(host.credential(&wish.scope)?))
}

async fn clusters(State(host): Hosted, Extension(caller): Caller) -> Answer<Vec<Inventory>> {
    caller.must_be_root("list every cluster")?;
    Ok(Json(host.inventories()))
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: String,
}

fn machine_of(caller: Identity) -> Result<Key, ProviderError> {
    match caller {
        Identity::Machine { cluster, machine } => Ok((cluster, machine)),
        other => Err(ProviderError::Denied { who: other.to_string(), what: "speak for a machine".to_owned() }),
    }
}

async fn own_config(
    State(host): Hosted,
    Extension(caller): Caller,
    Query(After { after }): Query<After>,
) -> Result<Response, Refused> {
    match host.next_config(&machine_of(caller)?, &after).await? {
        Some(config) => Ok(Json(config).into_response()),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

async fn own_report(
    State(host): Hosted,
    Extension(caller): Caller,
    Json(report): Json<NodeReport>,
) -> Result<StatusCode, Refused> {
    if host.hear(&machine_of(caller)?, report)? {
        host.load_table().await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn bring_up(State(host): Hosted, Extension(caller): Caller) -> Answer<()> {
    caller.must_be_root("start machines")?;
    host.until_ready().await;
    host.bring_up(false).await;
    Ok(Json(()))
}

async fn succeed(State(host): Hosted, Extension(caller): Caller, Json(wish): Json<protocol::Succeed>) -> Answer<()> {
    caller.must_be_root("replace hostd")?;
    exchange::succeed(&host, &wish.build)?;
    Ok(Json(()))
}

async fn stop(State(host): Hosted, Extension(caller): Caller, Json(wish): Json<protocol::Stop>) -> Answer<()> {
    caller.must_be_root("stop hostd")?;
    if wish.machines {
        host.stop_all().await;
    }
    host.stopping.notify_one();
    Ok(Json(()))
}

async fn metrics(State(host): Hosted, Extension(caller): Caller) -> Result<Response, Refused> {
    caller.must_be_root("read metrics")?;
    let text = host.metrics_text().map_err(|error| failed("writing metrics", &error))?;
    let kind = [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    Ok((kind, text).into_response())
}
