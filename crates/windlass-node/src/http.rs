//! A small HTTPS client for the config source, health endpoints and token probes.
//!
//! Inputs: address, TLS configuration, request. Outputs: status and body. It never uses a proxy: its peers are the
//! cluster's own.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection.
    #[error("connecting to {address}: {cause}")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        cause: String,
    },
    /// The connection ended before the answer did.
    #[error("{address}: {cause}")]
    Exchange {
        /// Where.
        address: String,
        /// Why.
        cause: String,
    },
    /// No answer in time.
    #[error("{address} does not answer within {timeout:?}")]
    Timeout {
        /// Where.
        address: String,
        /// How long.
        timeout: Duration,
    },
    /// Certificates or keys that cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// Not `https://HOST:PORT/PATH`.
    #[error("{0:?} is no https address")]
    Address(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Body.
    pub body: Bytes,
}

impl Answer {
    /// The body's first line, for people.
    pub fn first_line(&self) -> String {
        String::from_utf8_lossy(&self.body).lines().next().unwrap_or_default().chars().take(200).collect()
    }
}

/// Trust in one authority, and who we are.
///
/// # Errors
/// When a PEM text holds nothing usable.
pub fn tls(authority: &str, identity: Option<(&str, &str)>) -> Result<Arc<rustls::ClientConfig>, HttpError> {
    let bad = |error: &dyn std::fmt::Display| HttpError::Tls(error.to_string());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
    }
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| bad(&error))?;
            builder.with_client_auth_cert(chain.map_err(|error| bad(&error))?, key).map_err(|error| bad(&error))?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// `https://HOST:PORT/PATH` in its parts: `HOST:PORT`, `/PATH`.
///
/// # Errors
/// When it is not such.
pub fn split(url: &str) -> Result<(String, String), HttpError> {
    let rest = url.strip_prefix("https://").ok_or_else(|| HttpError::Address(url.to_owned()))?;
    let (address, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, path.to_owned()));
    let address = if has_port(address) { address.to_owned() } else { format!("{address}:443") };
    Ok((address, format!("/{path}")))
}

fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| port.parse::<u16>().is_ok() && !host.ends_with(':'))
}

/// An open connection to one server.
struct Connection {
    address: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    async fn open(address: &str, tls: &Arc<rustls::ClientConfig>, timeout: Duration) -> Result<Self, HttpError> {
        let timed_out = |_| HttpError::Timeout { address: address.to_owned(), timeout };
        tokio::time::timeout(timeout, Self::connect(address, tls)).await.map_err(timed_out)?
    }

    async fn connect(address: &str, tls: &Arc<rustls::ClientConfig>) -> Result<Self, HttpError> {
        let fail = |cause: String| HttpError::Connect { address: address.to_owned(), cause };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| fail(error.to_string()))?;
        let stream = TcpStream::connect(address).await.map_err(|error| fail(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| fail(error.to_string()))?;
        let secured = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        let stream = secured.map_err(|error| fail(error.to_string()))?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| fail(error.to_string()))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!("connection ended: {error}");
            }
        });
        Ok(Self { address: address.to_owned(), sender })
    }

    fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        bearer: Option<&str>,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Answer, HttpError> {
        let address = self.address.clone();
        let fail = |cause: String| HttpError::Exchange { address: address.clone(), cause };
        let mut request = Request::builder().method(method).uri(path).header("host", &self.address);
        if let Some(token) = bearer {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| fail(error.to_string()))?;
        let exchange = async {
            self.sender.ready().await.map_err(|error| fail(error.to_string()))?;
            let response = self.sender.send_request(request).await.map_err(|error| fail(error.to_string()))?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|error| fail(error.to_string()))?.to_bytes();
            Ok(Answer { status, body })
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(HttpError::Timeout { address: address.clone(), timeout }))
    }
}

/// A server asked over one connection, which is kept and opened anew when it has ended.
pub struct Kept {
    address: String,
    tls: Arc<rustls::ClientConfig>,
    connect: Duration,
    open: Option<Connection>,
}

impl Kept {
    /// For this `HOST:PORT`; nothing is opened yet. `connect` is how long opening may take.
    pub fn new(address: &str, tls: Arc<rustls::ClientConfig>, connect: Duration) -> Self {
        Self { address: address.to_owned(), tls, connect, open: None }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When there is no connection to be had, it ends, or the time is over.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        bearer: Option<&str>,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Answer, HttpError> {
        let mut connection = match self.open.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => Connection::open(&self.address, &self.tls, self.connect).await?,
        };
        let answer = connection.send(method, path, bearer, body, timeout).await?;
        self.open = Some(connection);
        Ok(answer)
    }
}

/// One GET on a connection of its own.
///
/// # Errors
/// When there is no answer in time.
pub async fn get(
    url: &str,
    tls: &Arc<rustls::ClientConfig>,
    bearer: Option<&str>,
    timeout: Duration,
) -> Result<Answer, HttpError> {
    let (address, path) = split(url)?;
    let mut connection = Connection::open(&address, tls, timeout).await?;
    connection.send(Method::GET, &path, bearer, Vec::new(), timeout).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split() {
        let (address, path) = split("https://10.0.0.1:6443/readyz?x=1").unwrap();
        assert_eq!((address.as_str(), path.as_str()), ("10.0.0.1:6443", "/readyz?x=1"));
        assert_eq!(split("https://host").unwrap(), ("host:443".into(), "/".into()));
        assert_eq!(split("https://[::1]:1/a").unwrap().0, "[::1]:1");
        assert!(split("http://host").is_err());
    }
}
