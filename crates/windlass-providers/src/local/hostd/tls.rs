//! The mutual-TLS server on a bridge's gateway: config source for machines, API for owners elsewhere.
//!
//! Inputs: connections. Outputs: the routes of [`super::server`], called with the identity in the client's certificate.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::super::authority::{Identity, Issued};
use super::super::protocol::PORT;
use super::host::Host;
use super::server;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// What is wrong with certificates or keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// They cannot be read.
    #[error("reading PEM")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The client verifier.
    #[error("verifying clients")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// rustls.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// A running server; dropped, it ends.
pub(super) struct TlsServer(JoinHandle<()>);

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A server that takes only clients of our authority.
pub(super) fn server_config(ca: &str, issued: &Issued) -> Result<Arc<ServerConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
    let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

/// Serves on this address.
pub(super) async fn serve(address: IpAddr, config: Arc<ServerConfig>, host: Arc<Host>) -> io::Result<TlsServer> {
    let listener = TcpListener::bind((address, PORT)).await?;
    let acceptor = TlsAcceptor::from(config);
    Ok(TlsServer(tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(connection(acceptor.clone(), stream, Arc::clone(&host)))),
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })))
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, host: Arc<Host>) {
    let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let Some(identity) = certificate.and_then(|certificate| identity(certificate)) else {
        return tracing::warn!("a client's certificate names nobody");
    };
    server::serve_connection(stream, host, identity).await;
}

fn identity(certificate: &[u8]) -> Option<Identity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Identity::parse(name)
}
