//! Clients of Kubernetes APIs made from kubeconfig text.
//!
//! Input: a kubeconfig. Output: a client that never goes through a proxy of the environment, since cluster endpoints are
//! reached directly.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// A client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The text is no kubeconfig.
    #[error("the kubeconfig is not understood")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// It does not make a client.
    #[error("no client can be made from the kubeconfig")]
    Client(#[source] Box<kube::Error>),
}

/// A client from the current context of a kubeconfig.
pub async fn client(kubeconfig: &str) -> Result<kube::Client, AccessError> {
    let understood = |error| AccessError::Kubeconfig(Box::new(error));
    let parsed = Kubeconfig::from_yaml(kubeconfig).map_err(understood)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.map_err(understood)?;
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    kube::Client::try_from(config).map_err(|error| AccessError::Client(Box::new(error)))
}
