//! One process acts at a time: a Lease, renewed every two seconds, taken over after eight without renewal, given back
//! at the end.
//!
//! Inputs: the lease as it is, the time this process saw it change. Outputs: whether this process leads.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{is_conflict, is_not_found};

/// How long a lease counts after its last renewal.
const DURATION: Duration = Duration::from_secs(8);
/// How often it is renewed or asked for.
const PERIOD: Duration = Duration::from_secs(2);
/// When a holder that cannot renew stops acting: before anybody may take over.
const GIVE_UP: Duration = Duration::from_secs(4);

/// Which lease, in whose name.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who asks: unique a process.
    pub identity: String,
}

/// What to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Renew,
    Take,
    Wait,
}

/// Decides by the holder and by how long ago this process saw the lease change: clocks of others are not trusted.
fn decide(holder: Option<&str>, me: &str, unchanged_for: Duration) -> Move {
    match holder {
        Some(holder) if holder == me => Move::Renew,
        Some(holder) if !holder.is_empty() && unchanged_for < DURATION => Move::Wait,
        _ => Move::Take,
    }
}

/// A candidate.
pub(crate) struct Candidate {
    api: Api<Lease>,
    options: LeaseOptions,
    seen: Option<(Option<String>, Instant)>,
}

impl Candidate {
    pub(crate) fn new(client: Client, options: LeaseOptions) -> Self {
        Self { api: Api::namespaced(client, &options.namespace), options, seen: None }
    }

    /// Waits until this process leads; false when told to stop before.
    pub(crate) async fn lead(&mut self, stop: &CancellationToken) -> bool {
        loop {
            match self.attempt().await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, lease = %self.options.name, "the lease cannot be read"),
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }

    /// Renews until the lease is lost or this process is told to stop.
    pub(crate) async fn hold(&mut self, stop: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            match tokio::time::timeout(PERIOD, self.attempt()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!(%error, lease = %self.options.name, "the lease could not be renewed"),
                Err(_) => tracing::warn!(lease = %self.options.name, "renewing the lease takes too long"),
            }
            if renewed.elapsed() > GIVE_UP {
                return;
            }
        }
    }

    /// Gives the lease back, so that the next takes it at once.
    pub(crate) async fn release(&self) {
        let Ok(mut lease) = self.api.get(&self.options.name).await else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.options.identity) {
            return;
        }
        spec.holder_identity = None;
        if let Err(error) = self.api.replace(&self.options.name, &PostParams::default(), &lease).await {
            tracing::debug!(%error, "the lease was not given back; it ends by itself");
        }
    }

    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let lease = match self.api.get(&self.options.name).await {
            Ok(lease) => lease,
            Err(error) if is_not_found(&error) => return self.make().await,
            Err(error) => return Err(error),
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let unchanged_for = self.unchanged_for(&lease);
        match decide(holder.as_deref(), &self.options.identity, unchanged_for) {
            Move::Wait => Ok(false),
            Move::Renew => self.write(lease, false).await,
            Move::Take => self.write(lease, true).await,
        }
    }

    fn unchanged_for(&mut self, lease: &Lease) -> Duration {
        let version = lease.metadata.resource_version.clone();
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed(),
            _ => {
                self.seen = Some((version, Instant::now()));
                Duration::ZERO
            }
        }
    }

    async fn make(&self) -> Result<bool, kube::Error> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.options.name.clone()), ..ObjectMeta::default() },
            spec: Some(self.spec(None)),
        };
        match self.api.create(&PostParams::default(), &lease).await {
            Ok(_) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, mut lease: Lease, taken: bool) -> Result<bool, kube::Error> {
        let before = lease.spec.take();
        let mut spec = self.spec(before.as_ref());
        if !taken {
            spec.acquire_time = before.as_ref().and_then(|spec| spec.acquire_time.clone());
            spec.lease_transitions = before.and_then(|spec| spec.lease_transitions);
        }
        lease.spec = Some(spec);
        match self.api.replace(&self.options.name, &PostParams::default(), &lease).await {
            Ok(_) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            acquire_time: Some(now.clone()),
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            lease_transitions: Some(before.and_then(|spec| spec.lease_transitions).map_or(0, |count| count + 1)),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_free_or_old_and_never_before() {
        let short = Duration::from_secs(1);
        assert_eq!(decide(Some("me"), "me", DURATION * 2), Move::Renew);
        assert_eq!(decide(Some("other"), "me", short), Move::Wait);
        assert_eq!(decide(Some("other"), "me", DURATION), Move::Take);
        assert_eq!(decide(Some(""), "me", short), Move::Take);
        assert_eq!(decide(None, "me", short), Move::Take);
    }

    #[test]
    fn a_holder_gives_up_before_another_may_take_over() {
        assert!(GIVE_UP + PERIOD + PERIOD <= DURATION, "a renewal may hang for one period");
    }
}
