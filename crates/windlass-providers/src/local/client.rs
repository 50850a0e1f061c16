//! A client of hostd: [`Provider`] over its socket or over mutual TLS.
//!
//! Inputs: calls. Outputs: hostd's answers. Over the socket it starts hostd when none runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use windlass_spec::full::Facts;
use windlass_spec::identity::Slot;
use windlass_spec::node_config::SealedNodeConfig;

use super::launch;
use super::paths::Paths;
use super::protocol::{self, Hello, PROTOCOL, PROTOCOL_HEADER, Refusal};
use crate::ports::{
    Inventory, Machine, MachineWanted, Network, NetworkWanted, OwnerCredential, Provider, ProviderError, Reservation,
    Scope, Volume, VolumeWanted,
};

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than a long poll and than the slowest act.
const ANSWER: Duration = Duration::from_secs(120);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A client of hostd. Clones share nothing but settings; each call is a connection of its own.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
}

#[derive(Clone)]
enum Transport {
    Socket { paths: Paths, revive: bool },
    Tls { authority: String, name: ServerName<'static>, config: Arc<ClientConfig> },
}

impl Client {
    /// Over the socket of this computer's hostd, whether it runs or not; it is never started.
    pub fn socket(paths: Paths) -> Self {
        Self { transport: Transport::Socket { paths, revive: false } }
    }

    /// Over the socket; hostd is started (again) whenever a call finds none.
    pub(super) fn reviving(paths: Paths) -> Self {
        Self { transport: Transport::Socket { paths, revive: true } }
    }

    /// With an owner's credential, from elsewhere.
    pub fn with_credential(credential: &OwnerCredential) -> Result<Self, ProviderError> {
        let unusable = |cause: String| ProviderError::Failed { operation: "using the credential".to_owned(), cause };
        let authority = credential.url.strip_prefix("https://").unwrap_or(&credential.url);
        let authority = authority.trim_end_matches('/').to_owned();
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|error| unusable(error.to_string()))?;
        let config = client_config(credential).map_err(unusable)?;
        Ok(Self { transport: Transport::Tls { authority, name, config } })
    }

    /// How hostd introduces itself.
    pub async fn hello(&self) -> Result<Hello, ProviderError> {
        self.get("/v1/hello").await
    }

    /// Everything held for every cluster of the state folder.
    pub async fn clusters(&self) -> Result<Vec<Inventory>, ProviderError> {
        self.get("/v1/clusters").await
    }

    /// Switches a machine (`MACHINE` or `CLUSTER/MACHINE`) on or off.
    pub async fn set_power(&self, machine: &str, power: protocol::Power) -> Result<Machine, ProviderError> {
        self.post("/v1/machine/power", &protocol::SetPower { machine: machine.to_owned(), power }).await
    }

    /// Starts every machine that shall run and does not.
    pub async fn bring_up(&self) -> Result<(), ProviderError> {
        self.post("/v1/hostd/bring-up", &()).await
    }

    /// Ends hostd; machines go on unless they are to be stopped first.
    pub async fn stop(&self, machines: bool) -> Result<(), ProviderError> {
        self.post("/v1/hostd/stop", &protocol::Stop { machines }).await
    }

    /// Makes hostd go on as the copy of another build.
    pub(super) async fn succeed(&self, build: &str) -> Result<(), ProviderError> {
        self.post("/v1/hostd/succeed", &protocol::Succeed { build: build.to_owned() }).await
    }

    fn place(&self) -> String {
        match &self.transport {
            Transport::Socket { paths, .. } => format!("hostd at {}", paths.socket().display()),
            Transport::Tls { authority, .. } => format!("hostd at {authority}"),
        }
    }

    fn unreachable(&self, cause: impl std::fmt::Display) -> ProviderError {
        ProviderError::Unreachable { place: self.place(), cause: cause.to_string() }
    }

    async fn get<O: DeserializeOwned>(&self, path: &str) -> Result<O, ProviderError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    async fn post<I: Serialize + Sync, O: DeserializeOwned>(&self, path: &str, body: &I) -> Result<O, ProviderError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreachable(error))?;
        self.call(Method::POST, path, body.into()).await
    }

    async fn call<O: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<O, ProviderError> {
        let stream = match (self.connect().await, &self.transport) {
            (Err(_), Transport::Socket { paths, revive: true }) => {
                launch::start(paths).await?;
                self.connect().await?
            }
            (stream, _) => stream?,
        };
        let exchange = self.exchange(stream, method, path, body);
        tokio::time::timeout(ANSWER, exchange).await.map_err(|_| self.unreachable("it did not answer in time"))?
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, ProviderError> {
        let connected = tokio::time::timeout(CONNECT, self.connect_now()).await;
        connected.map_err(|_| self.unreachable("no connection in time"))?.map_err(|error| self.unreachable(error))
    }

    async fn connect_now(&self) -> std::io::Result<Box<dyn Stream>> {
        match &self.transport {
            Transport::Socket { paths, .. } => Ok(Box::new(UnixStream::connect(paths.socket()).await?)),
            Transport::Tls { authority, name, config } => {
                let stream = TcpStream::connect(authority.as_str()).await?;
                Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream).await?))
            }
        }
    }

    async fn exchange<O: DeserializeOwned>(
        &self,
        stream: Box<dyn Stream>,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<O, ProviderError> {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to hostd");
            }
        });
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "hostd")
            .header("content-type", "application/json")
            .header(PROTOCOL_HEADER, PROTOCOL)
            .body(Full::new(body))
            .map_err(|error| self.unreachable(error))?;
        let response = sender.send_request(request).await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| self.unreachable(error))?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.misunderstood(path, &error, &body));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => Err(refusal.error),
            Err(error) => Err(self.misunderstood(&format!("{path} ({status})"), &error, &body)),
        }
    }

    fn misunderstood(&self, path: &str, error: &serde_json::Error, body: &[u8]) -> ProviderError {
        let said: String = String::from_utf8_lossy(body).chars().take(200).collect();
        ProviderError::Failed {
            operation: format!("{} {path}", self.place()),
            cause: format!("its answer is not understood ({error}): {said}"),
        }
    }
}

fn client_config(credential: &OwnerCredential) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(credential.ca.as_bytes()) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(credential.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(credential.key.as_bytes()).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain.map_err(|error| error.to_string())?, key)
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config))
}

#[async_trait]
impl Provider for Client {
    async fn facts(&self) -> Result<Facts, ProviderError> {
        self.post("/v1/facts", &()).await
    }

    async fn preflight(&self, machines: u32) -> Result<Vec<String>, ProviderError> {
        self.post("/v1/preflight", &protocol::Preflight { machines }).await
    }

    async fn ensure_network(&self, scope: &Scope, wanted: &NetworkWanted) -> Result<Network, ProviderError> {
        let wish = protocol::EnsureNetwork { scope: scope.clone(), wanted: wanted.clone() };
        self.post("/v1/network/ensure", &wish).await
    }

    async fn reserve(&self, scope: &Scope, machine: &str, slot: Option<Slot>) -> Result<Reservation, ProviderError> {
        let wish = protocol::Reserve { scope: scope.clone(), machine: machine.to_owned(), slot };
        self.post("/v1/machine/reserve", &wish).await
    }

    async fn ensure_volume(&self, scope: &Scope, wanted: &VolumeWanted) -> Result<Volume, ProviderError> {
        let wish = protocol::EnsureVolume { scope: scope.clone(), wanted: wanted.clone() };
        self.post("/v1/volume/ensure", &wish).await
    }

    async fn ensure_machine(&self, scope: &Scope, wanted: &MachineWanted) -> Result<Machine, ProviderError> {
        let wish = protocol::EnsureMachine { scope: scope.clone(), wanted: wanted.clone() };
        self.post("/v1/machine/ensure", &wish).await
    }

    async fn put_config(&self, scope: &Scope, machine: &str, config: &SealedNodeConfig) -> Result<(), ProviderError> {
        let wish = protocol::PutConfig { scope: scope.clone(), machine: machine.to_owned(), config: config.clone() };
        self.post("/v1/machine/configure", &wish).await
    }

    async fn delete_machine(&self, scope: &Scope, machine: &str) -> Result<(), ProviderError> {
        let wish = protocol::OfThing { scope: scope.clone(), name: machine.to_owned() };
        self.post("/v1/machine/delete", &wish).await
    }

    async fn delete_volume(&self, scope: &Scope, volume: &str) -> Result<(), ProviderError> {
        let wish = protocol::OfThing { scope: scope.clone(), name: volume.to_owned() };
        self.post("/v1/volume/delete", &wish).await
    }

    async fn delete_network(&self, scope: &Scope) -> Result<(), ProviderError> {
        self.post("/v1/network/delete", &protocol::OfCluster { scope: scope.clone() }).await
    }

    async fn inventory(&self, scope: &Scope) -> Result<Inventory, ProviderError> {
        self.post("/v1/inventory", &protocol::OfCluster { scope: scope.clone() }).await
    }

    async fn watch(&self, scope: &Scope, seen: u64) -> Result<Inventory, ProviderError> {
        self.post("/v1/inventory/watch", &protocol::Watch { scope: scope.clone(), seen }).await
    }

    async fn credential(&self, scope: &Scope) -> Result<OwnerCredential, ProviderError> {
        self.post("/v1/credential", &protocol::OfCluster { scope: scope.clone() }).await
    }
}
