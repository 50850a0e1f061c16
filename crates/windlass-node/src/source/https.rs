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
use crate::http::{self, Answer, Kept};

const CONNECT: Duration = Duration::from_secs(3);
/// The source answers a poll within 30 s.
const POLL: Duration = Duration::from_secs(45);
const SEND: Duration = Duration::from_secs(10);

/// The source named by a boot stub.
pub struct HttpsSource {
    polling: Mutex<Kept>,
    reporting: Mutex<Kept>,
}

impl HttpsSource {
    /// A source as the boot stub names it; no connection is made yet.
    ///
    /// # Errors
    /// When its address or certificates cannot be used.
    pub fn new(stub: &BootStub) -> Result<Self, SourceError> {
        let (address, _) = http::split(&stub.config_source)?;
        let tls = http::tls(&stub.ca, Some((&stub.certificate, &stub.key)))?;
        let kept = || Mutex::new(Kept::new(&address, Arc::clone(&tls), CONNECT));
        Ok(Self { polling: kept(), reporting: kept() })
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
        let answer = self.polling.lock().await.send(Method::GET, &path, None, Vec::new(), POLL).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(serde_json::from_slice(&answer.body)?)),
            StatusCode::NO_CONTENT => Ok(None),
            _ => Err(refused("fetching the configuration", &answer)),
        }
    }

    async fn report(&self, report: &NodeReport) -> Result<(), SourceError> {
        let body = serde_json::to_vec(report)?;
        let answer = self.reporting.lock().await.send(Method::PUT, "/v1/self/report", None, body, SEND).await?;
        if answer.status.is_success() { Ok(()) } else { Err(refused("sending the report", &answer)) }
    }
}
