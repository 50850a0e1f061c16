//! A config source over HTTPS with mutual TLS: hostd, or whoever speaks its routes.
//!
//! Inputs: the boot stub. Outputs: `GET /v1/self/config?after=HASH` as a long poll, `PUT /v1/self/report`. Each has a
//! connection of its own that is kept open.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use tokio::sync::Mutex;
use windlass_spec::boot_stub::BootStub;
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

use super::{ConfigSource, SourceError};
use crate::http::{self, Answer, Connection, HttpError};

const CONNECT: Duration = Duration::from_secs(3);
/// The source answers a poll within 30 s.
const POLL: Duration = Duration::from_secs(45);
const SEND: Duration = Duration::from_secs(10);

/// The source named by a boot stub.
pub struct HttpsSource {
    address: String,
    tls: Arc<rustls::ClientConfig>,
    polling: Mutex<Option<Connection>>,
    reporting: Mutex<Option<Connection>>,
}

impl HttpsSource {
    /// A source as the boot stub names it; no connection is made yet.
    ///
    /// # Errors
    /// When its address or certificates cannot be used.
    pub fn new(stub: &BootStub) -> Result<Self, SourceError> {
        let (address, _) = http::split(&stub.config_source)?;
        let tls = http::tls(&stub.ca, Some((&stub.certificate, &stub.key)))?;
        Ok(Self { address, tls, polling: Mutex::default(), reporting: Mutex::default() })
    }

    async fn exchange(
        &self,
        kept: &Mutex<Option<Connection>>,
        method: Method,
        path: &str,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Answer, HttpError> {
        let mut kept = kept.lock().await;
        let mut connection = match kept.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => Connection::open(&self.address, &self.tls, CONNECT).await?,
        };
        let answer = connection.send(method, path, None, body, timeout).await?;
        *kept = Some(connection);
        Ok(answer)
    }
}

fn refused(operation: &'static str, answer: &Answer) -> SourceError {
    SourceError::Refused { operation, status: answer.status.as_u16(), text: answer.first_line() }
}

#[async_trait]
impl ConfigSource for HttpsSource {
    async fn next(&self, after: Option<&str>) -> Result<Option<SealedNodeConfig>, SourceError> {
        let path = match after {
            Some(hash) => format!("/v1/self/config?after={}", hash.replace(':', "%3A")),
            None => "/v1/self/config".to_owned(),
        };
        let answer = self.exchange(&self.polling, Method::GET, &path, Vec::new(), POLL).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(serde_json::from_slice(&answer.body)?)),
            StatusCode::NO_CONTENT => Ok(None),
            _ => Err(refused("fetching the configuration", &answer)),
        }
    }

    async fn report(&self, report: &NodeReport) -> Result<(), SourceError> {
        let body = serde_json::to_vec(report)?;
        let answer = self.exchange(&self.reporting, Method::PUT, "/v1/self/report", body, SEND).await?;
        if answer.status.is_success() { Ok(()) } else { Err(refused("sending the report", &answer)) }
    }
}
