//! Follows the machines of one cluster: tells what each does, keeps the last look, knows when they will not come up.
//!
//! Inputs: a provider and a scope. Outputs: progress events, the inventory as steps wait on it, a failure.

pub mod trouble;
pub mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use windlass_engine::{Events, Failure, Progress, ProgressState};
use windlass_providers::ports::{Inventory, Provider, ProviderError, Scope};

use trouble::{Observer, Patience};

/// Pause between looks when the provider has nothing (yet) or does not answer.
const PAUSE: Duration = Duration::from_millis(100);
/// How often time itself is looked at while nothing changes.
const TICK: Duration = Duration::from_secs(1);

/// The last look.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// What is there; none before anything is made and after everything is gone.
    pub inventory: Option<Inventory>,
    /// Why waiting is in vain.
    pub failure: Option<Failure>,
}

/// A task that follows the machines until it is dropped.
#[derive(Debug)]
pub struct Follower {
    looks: watch::Receiver<Arc<Look>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Follower {
    /// Begins to follow.
    pub fn start(provider: Arc<dyn Provider>, scope: Scope, events: Events, patience: Option<Patience>) -> Self {
        let (raw, inventories) = watch::channel(None);
        let (sender, looks) = watch::channel(Arc::new(Look::default()));
        let reader = tokio::spawn(async move { read(&*provider, &scope, &raw).await });
        let teller = tokio::spawn(async move { tell(inventories, &sender, &events, patience).await });
        Self { looks, _tasks: [AbortOnDropHandle::new(reader), AbortOnDropHandle::new(teller)] }
    }

    /// The last look.
    pub fn now(&self) -> Arc<Look> {
        Arc::clone(&self.looks.borrow())
    }

    /// Waits until `wanted` finds what it looks for. Fails when the machines are in trouble.
    pub async fn until<T>(&self, mut wanted: impl FnMut(&Inventory) -> Option<T>) -> Result<T, Failure> {
        let mut looks = self.looks.clone();
        loop {
            let look = Arc::clone(&looks.borrow_and_update());
            if let Some(found) = look.inventory.as_ref().and_then(&mut wanted) {
                return Ok(found);
            }
            if let Some(failure) = &look.failure {
                return Err(failure.clone());
            }
            if looks.changed().await.is_err() {
                return Err(Failure::failed("the machines are no longer followed"));
            }
        }
    }

    /// Returns when the machines are in trouble.
    pub async fn trouble(&self) -> Failure {
        match self.until(|_| None::<()>).await {
            Err(failure) => failure,
            Ok(()) => Failure::failed("the machines are no longer followed"),
        }
    }

    /// Does other work, but not longer than the machines are well.
    pub async fn while_well<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => done,
            failure = self.trouble() => Err(failure),
        }
    }
}

async fn read(provider: &dyn Provider, scope: &Scope, sender: &watch::Sender<Option<Inventory>>) {
    let mut seen = None;
    loop {
        let answer = match seen {
            Some(revision) => provider.watch(scope, revision).await,
            None => provider.inventory(scope).await,
        };
        match answer {
            Ok(inventory) => {
                seen = Some(inventory.revision);
                if sender.send(Some(inventory)).is_err() {
                    return;
                }
            }
            Err(error) => {
                if matches!(error, ProviderError::NotFound { .. }) {
                    seen = None;
                    sender.send_if_modified(|last| last.take().is_some());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn tell(
    mut inventories: watch::Receiver<Option<Inventory>>,
    sender: &watch::Sender<Arc<Look>>,
    events: &Events,
    patience: Option<Patience>,
) {
    let mut observer = patience.map(Observer::new);
    let mut told: Vec<Progress> = Vec::new();
    loop {
        let inventory = inventories.borrow_and_update().clone();
        let lines: Vec<Progress> =
            inventory.iter().flat_map(|inventory| &inventory.machines).map(view::progress).collect();
        tell_changes(&told, &lines, events);
        told = lines;
        let failure = match (&mut observer, &inventory) {
            (Some(observer), Some(inventory)) => observer.look(inventory, Instant::now()),
            _ => None,
        };
        sender.send_replace(Arc::new(Look { inventory, failure }));
        if let Ok(Err(_)) = tokio::time::timeout(TICK, inventories.changed()).await {
            return;
        }
    }
}

fn tell_changes(before: &[Progress], now: &[Progress], events: &Events) {
    for line in now.iter().filter(|line| !before.contains(line)) {
        events.progress(line.clone());
    }
    let gone = before.iter().filter(|old| !now.iter().any(|line| line.subject == old.subject));
    for line in gone {
        events.progress(Progress {
            subject: line.subject.clone(),
            state: ProgressState::Gone,
            doing: "gone".into(),
            detail: String::new(),
        });
    }
}
