//! The lease by which one agent acts for the cluster.
//!
//! Inputs: the Lease object, a monotonic clock. Outputs: the duties run while the lease is held and renewed, and stop
//! before anyone else may take it. A holder that leaves hands it over at once; one that dies is followed within its
//! validity.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Where the lease is.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "windlass-cluster";
/// How long a lease holds without renewal.
const VALIDITY: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(2);
/// A holder that could not renew for this long stops: well before others may take over.
const GIVE_UP: Duration = Duration::from_secs(7);
/// One renewal's time.
const ATTEMPT: Duration = Duration::from_millis(2500);
const RETRY: Duration = Duration::from_millis(300);

/// The lease as one agent sees it.
pub struct Lease {
    api: Api<LeaseObject>,
    identity: String,
}

/// What to do with a lease as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// Nobody's, ours, or expired: take it.
    Free,
    /// Another's for at most this long.
    Held(Duration),
}

/// Judges a lease. Expiry counts from when this agent saw the last change, so clocks need not agree.
fn judge(holder: &str, identity: &str, unchanged_for: Duration) -> Finding {
    if holder.is_empty() || holder == identity {
        return Finding::Free;
    }
    match VALIDITY.checked_sub(unchanged_for) {
        Some(left) if !left.is_zero() => Finding::Held(left),
        _ => Finding::Free,
    }
}

fn holder(lease: &LeaseObject) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

impl Lease {
    /// The lease, for an agent of this identity.
    pub fn new(client: Client, identity: String) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE), identity }
    }

    /// Waits for the lease, runs the duties while it is held; returns when it is lost or on `shutdown`.
    pub async fn hold<F: Future<Output = ()>>(
        &self,
        say: impl Fn(&str),
        duties: impl Fn() -> F,
        shutdown: &CancellationToken,
    ) {
        let taken = tokio::select! {
            taken = self.take(&say) => taken,
            () = shutdown.cancelled() => return,
        };
        let Some(taken) = taken else { return };
        say(&self.identity);
        tracing::info!("the cluster's lease is held");
        tokio::select! {
            () = duties() => {}
            () = self.renew(taken) => tracing::warn!("the cluster's lease is lost"),
            () = shutdown.cancelled() => self.let_go().await,
        }
    }

    /// Waits until it is ours; none when the API failed.
    async fn take(&self, say: &impl Fn(&str)) -> Option<LeaseObject> {
        let events = watch_object(self.api.clone(), NAME);
        pin_mut!(events);
        let mut seen: Option<(LeaseObject, Instant)> = None;
        loop {
            let left = match &seen {
                None => VALIDITY,
                Some((lease, since)) => match judge(holder(lease), &self.identity, since.elapsed()) {
                    Finding::Free => return self.claim(Some(lease)).await,
                    Finding::Held(left) => {
                        say(holder(lease));
                        left
                    }
                },
            };
            match tokio::time::timeout(left, events.next()).await {
                Ok(Some(Ok(Some(lease)))) => seen = Some((lease, Instant::now())),
                Ok(Some(Ok(None))) => return self.claim(None).await,
                Ok(Some(Err(error))) => {
                    tracing::info!("lease: {error}");
                    return None;
                }
                Ok(None) => return None,
                Err(_) => {}
            }
        }
    }

    /// Writes our name, if nobody was faster.
    async fn claim(&self, found: Option<&LeaseObject>) -> Option<LeaseObject> {
        let now = Timestamp::now();
        let previous = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let is_ours = previous.holder_identity.as_ref() == Some(&self.identity);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(VALIDITY.as_secs()).ok(),
            acquire_time: if is_ours { previous.acquire_time } else { Some(MicroTime(now)) },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(previous.lease_transitions.unwrap_or_default() + i32::from(!is_ours)),
            ..LeaseSpec::default()
        };
        let metadata = match found {
            Some(lease) => lease.metadata.clone(),
            None => ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
        };
        let lease = LeaseObject { metadata, spec: Some(spec) };
        let written = match found {
            Some(_) => self.api.replace(NAME, &PostParams::default(), &lease).await,
            None => self.api.create(&PostParams::default(), &lease).await,
        };
        written.inspect_err(|error| tracing::debug!("claiming the lease: {error}")).ok()
    }

    /// Renews until that fails for too long or another took it.
    async fn renew(&self, mut lease: LeaseObject) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RENEW).await;
            while let Err(error) = self.renew_once(&mut lease).await {
                tracing::info!("renewing the lease: {error}");
                let taken = matches!(&error, kube::Error::Api(status) if status.code == 409 || status.code == 404);
                if taken || renewed.elapsed() > GIVE_UP {
                    return;
                }
                tokio::time::sleep(RETRY).await;
            }
            renewed = Instant::now();
        }
    }

    async fn renew_once(&self, lease: &mut LeaseObject) -> Result<(), kube::Error> {
        let mut wanted = lease.clone();
        if let Some(spec) = &mut wanted.spec {
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        let params = PostParams::default();
        let replace = self.api.replace(NAME, &params, &wanted);
        match tokio::time::timeout(ATTEMPT, replace).await {
            Ok(written) => *lease = written?,
            Err(_) => return Err(kube::Error::Service("no answer in time".into())),
        }
        Ok(())
    }

    /// Frees it, so that another takes over at once.
    async fn let_go(&self) {
        let free = async {
            let mut lease = self.api.get(NAME).await?;
            if holder(&lease) == self.identity
                && let Some(spec) = &mut lease.spec
            {
                spec.holder_identity = Some(String::new());
                self.api.replace(NAME, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        match tokio::time::timeout(RENEW, free).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!("freeing the lease: {error}"),
            Err(_) => tracing::info!("freeing the lease: no answer in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_free_or_expired_lease_is_taken() {
        let second = Duration::from_secs(1);
        assert_eq!(judge("", "me", Duration::ZERO), Finding::Free);
        assert_eq!(judge("me", "me", Duration::ZERO), Finding::Free);
        assert_eq!(judge("other", "me", second), Finding::Held(Duration::from_secs(9)));
        assert_eq!(judge("other", "me", VALIDITY), Finding::Free);
    }

    #[test]
    fn a_holder_stops_before_another_may_begin() {
        assert!(GIVE_UP + RETRY + ATTEMPT < VALIDITY);
        assert!(VALIDITY <= Duration::from_secs(10));
    }
}
