//! A thin client: look at a member, change the list.
//!
//! Inputs: client URLs and a client certificate. Outputs: [`Status`], member lists, and the membership calls. Each call
//! opens a connection of its own and ends within its timeout.

use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, MemberAddOptions, TlsOptions};

use crate::membership::Member;

/// Proof of identity towards etcd.
#[derive(Clone)]
pub struct Credentials {
    /// etcd's authority, PEM.
    pub authority: String,
    /// Client certificate, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
}

/// A member's own view of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its cluster's id.
    pub cluster: u64,
    /// Its own id.
    pub member: u64,
    /// Does it know a leader?
    pub has_leader: bool,
    /// Without a vote yet.
    pub is_learner: bool,
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No connection.
    #[error("connecting to {url}: {cause}")]
    Connect {
        /// Where.
        url: String,
        /// Why.
        cause: String,
    },
    /// No answer in time.
    #[error("{operation}: no answer within {timeout:?}")]
    Timeout {
        /// What was asked.
        operation: &'static str,
        /// How long.
        timeout: Duration,
    },
    /// etcd said no.
    #[error("{operation}: {cause}")]
    Call {
        /// What was asked.
        operation: &'static str,
        /// Its answer.
        cause: String,
    },
}

/// One etcd endpoint.
#[derive(Clone)]
pub struct Endpoint {
    url: String,
    credentials: Credentials,
    timeout: Duration,
}

impl Endpoint {
    /// An endpoint asked with these credentials, each call within `timeout`.
    pub fn new(url: &str, credentials: &Credentials, timeout: Duration) -> Self {
        Self { url: url.to_owned(), credentials: credentials.clone(), timeout }
    }

    /// A channel would try a refused connection again until the time is over; one look beforehand tells at once.
    async fn look(&self) -> Result<(), EtcdError> {
        let fail = |cause: String| EtcdError::Connect { url: self.url.clone(), cause };
        let address = self.url.trim_start_matches("https://").trim_end_matches('/');
        match tokio::time::timeout(self.timeout, tokio::net::TcpStream::connect(address)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(fail(error.to_string())),
            Err(_) => Err(fail("no answer in time".to_owned())),
        }
    }

    async fn connect(&self) -> Result<Client, EtcdError> {
        self.look().await?;
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(&self.credentials.authority))
            .identity(Identity::from_pem(&self.credentials.certificate, &self.credentials.key));
        let options = ConnectOptions::new().with_tls(tls).with_timeout(self.timeout).with_connect_timeout(self.timeout);
        Client::connect([&self.url], Some(options))
            .await
            .map_err(|error| EtcdError::Connect { url: self.url.clone(), cause: error.to_string() })
    }

    async fn within<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(EtcdError::Call { operation, cause: error.to_string() }),
            Err(_) => Err(EtcdError::Timeout { operation, timeout: self.timeout }),
        }
    }

    /// What the member says of itself; answered without quorum.
    ///
    /// # Errors
    /// When it cannot be reached or does not answer.
    pub async fn status(&self) -> Result<Status, EtcdError> {
        let mut client = self.connect().await?;
        let answer = self.within("status", client.status()).await?;
        let header = answer.header();
        Ok(Status {
            cluster: header.map_or(0, etcd_client::ResponseHeader::cluster_id),
            member: header.map_or(0, etcd_client::ResponseHeader::member_id),
            has_leader: answer.leader() != 0,
            is_learner: answer.is_learner(),
        })
    }

    /// The member list as the quorum has it; `answers` is false for each.
    ///
    /// # Errors
    /// When there is no quorum or no answer.
    pub async fn members(&self) -> Result<Vec<Member>, EtcdError> {
        let mut client = self.connect().await?;
        let answer = self.within("member list", client.member_list()).await?;
        Ok(answer.members().iter().map(member).collect())
    }

    /// Adds a learner.
    ///
    /// # Errors
    /// When etcd refuses or does not answer.
    pub async fn add_learner(&self, peer_url: &str) -> Result<(), EtcdError> {
        let mut client = self.connect().await?;
        let options = MemberAddOptions::new().with_is_learner();
        self.within("member add", client.member_add([peer_url], Some(options))).await.map(drop)
    }

    /// Removes a member.
    ///
    /// # Errors
    /// When etcd refuses or does not answer.
    pub async fn remove(&self, id: u64) -> Result<(), EtcdError> {
        let mut client = self.connect().await?;
        self.within("member remove", client.member_remove(id)).await.map(drop)
    }

    /// Gives a learner its vote.
    ///
    /// # Errors
    /// When it has not caught up, or etcd refuses or does not answer.
    pub async fn promote(&self, id: u64) -> Result<(), EtcdError> {
        let mut client = self.connect().await?;
        self.within("member promote", client.member_promote(id)).await.map(drop)
    }
}

fn member(member: &etcd_client::Member) -> Member {
    Member {
        id: member.id(),
        name: member.name().to_owned(),
        peer_urls: member.peer_urls().to_vec(),
        is_learner: member.is_learner(),
        has_started: !member.client_urls().is_empty(),
        answers: false,
    }
}
