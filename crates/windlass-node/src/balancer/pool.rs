//! The servers behind the balancer and what is known of each.
//!
//! Inputs: lists of addresses, health. Outputs: candidates in order of preference, and for each a token that is cancelled
//! when the server dies.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How a server is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Answers that it is ready.
    Ready,
    /// Answers, but is not ready (starting, or without etcd).
    Unready,
    /// Not asked yet.
    Unknown,
    /// Does not answer.
    Dead,
}

/// A server to try.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// `ADDRESS:PORT`.
    pub address: String,
    /// Cancelled when it dies.
    pub died: CancellationToken,
}

#[derive(Debug)]
struct Server {
    health: Health,
    died: CancellationToken,
    connections: usize,
}

impl Server {
    fn new() -> Self {
        Self { health: Health::Unknown, died: CancellationToken::new(), connections: 0 }
    }
}

#[derive(Debug, Default)]
struct State {
    own: Option<String>,
    fallback: Option<String>,
    servers: BTreeMap<String, Server>,
}

/// The servers.
#[derive(Debug)]
pub struct Pool {
    machine: String,
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

/// Counts a connection while it lives.
pub struct Counted<'a> {
    pool: &'a Pool,
    address: String,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.pool.state().servers.get_mut(&self.address) {
            server.connections = server.connections.saturating_sub(1);
        }
    }
}

impl Pool {
    /// An empty pool; the machine's name decides which of equal servers it prefers.
    pub fn new(machine: &str) -> Self {
        Self { machine: machine.to_owned(), state: Mutex::default(), version: watch::Sender::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bump(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Sets the list, which of it is the machine's own, and a name to try when nothing of the list answers. What is known
    /// of those that stay is kept; connections to those that go are closed.
    pub fn set(&self, addresses: Vec<String>, own: Option<String>, fallback: Option<String>) {
        let mut state = self.state();
        let mut before = std::mem::take(&mut state.servers);
        state.fallback.clone_from(&fallback);
        for address in addresses.into_iter().chain(fallback) {
            let server = before.remove(&address).unwrap_or_else(Server::new);
            state.servers.insert(address, server);
        }
        state.own = own;
        drop(state);
        before.into_values().for_each(|server| server.died.cancel());
        self.bump();
    }

    /// Like [`Pool::set`], unless all is so already.
    pub fn set_when_different(&self, addresses: Vec<String>, own: Option<String>, fallback: Option<String>) {
        let state = self.state();
        let wanted = addresses.iter().chain(&fallback);
        let is_so = state.own == own
            && state.fallback == fallback
            && wanted.clone().count() == state.servers.len()
            && wanted.clone().all(|address| state.servers.contains_key(address));
        drop(state);
        if !is_so {
            self.set(addresses, own, fallback);
        }
    }

    /// Every address.
    pub fn addresses(&self) -> Vec<String> {
        self.state().servers.keys().cloned().collect()
    }

    /// Health and connections by address.
    pub fn overview(&self) -> Vec<(String, Health, usize)> {
        let state = self.state();
        state.servers.iter().map(|(address, server)| (address.clone(), server.health, server.connections)).collect()
    }

    /// Notes a server's health. A dead one's connections are closed, when there is another to go to or it is certain.
    pub fn report(&self, address: &str, health: Health) {
        let mut state = self.state();
        let Some(server) = state.servers.get_mut(address) else { return };
        if server.health == health {
            return;
        }
        server.health = health;
        let died = (health == Health::Dead).then(|| std::mem::take(&mut server.died));
        drop(state);
        if let Some(died) = died {
            died.cancel();
        }
        self.bump();
    }

    /// A connection was refused: it is not ready, whatever the last check said. The next check decides whether it is dead.
    pub fn refused(&self, address: &str) {
        let mut state = self.state();
        if let Some(server) = state.servers.get_mut(address).filter(|server| server.health == Health::Ready) {
            server.health = Health::Unready;
            drop(state);
            self.bump();
        }
    }

    /// Counts a connection.
    pub fn count(&self, address: &str) -> Counted<'_> {
        if let Some(server) = self.state().servers.get_mut(address) {
            server.connections += 1;
        }
        Counted { pool: self, address: address.to_owned() }
    }

    /// Servers to try: by health, the own one first among equals, then by an order of this machine's own, which spreads
    /// machines over servers.
    pub fn candidates(&self) -> Vec<Candidate> {
        let state = self.state();
        let mut ordered: Vec<_> = state.servers.iter().collect();
        ordered.sort_by_key(|(address, server)| {
            let (own, fallback) = (state.own.as_ref() == Some(*address), state.fallback.as_ref() == Some(*address));
            (server.health, fallback, !own, self.preference(address))
        });
        let to_candidate =
            |(address, server): (&String, &Server)| Candidate { address: address.clone(), died: server.died.clone() };
        ordered.into_iter().map(to_candidate).collect()
    }

    fn preference(&self, address: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.machine, address).hash(&mut hasher);
        hasher.finish()
    }

    /// Waits until a server is of this health or better.
    pub async fn until(&self, health: Health) {
        loop {
            let changed = self.changed();
            if self.state().servers.values().any(|server| server.health <= health) {
                return;
            }
            changed.await;
        }
    }

    /// Resolves at the next change after this call.
    pub fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut reader = self.version.subscribe();
        async move {
            let _ = reader.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(pool: &Pool) -> Vec<String> {
        pool.candidates().into_iter().map(|candidate| candidate.address).collect()
    }

    #[test]
    fn health_first_then_the_own_server() {
        let pool = Pool::new("m");
        pool.set(["a", "b", "c"].map(str::to_owned).to_vec(), Some("c".into()), None);
        pool.report("a", Health::Ready);
        pool.report("c", Health::Unready);
        pool.report("b", Health::Dead);
        assert_eq!(order(&pool), ["a", "c", "b"]);
        pool.report("c", Health::Ready);
        assert_eq!(order(&pool)[0], "c");
        pool.refused("c");
        assert_eq!(order(&pool)[0], "a");
    }

    #[test]
    fn what_is_known_outlives_a_new_list() {
        let pool = Pool::new("m");
        pool.set(vec!["a".into(), "b".into()], None, None);
        pool.report("b", Health::Ready);
        let (gone, kept) = (pool.candidates()[1].died.clone(), pool.candidates()[0].died.clone());
        pool.set(vec!["b".into(), "d".into()], None, None);
        assert_eq!(order(&pool), ["b", "d"]);
        assert!(gone.is_cancelled() && !kept.is_cancelled());
    }

    #[tokio::test]
    async fn waiting_ends_when_a_server_is_well_enough() {
        let pool = Pool::new("m");
        let is_over = async |health| {
            let waited = tokio::time::timeout(std::time::Duration::from_millis(20), pool.until(health)).await;
            waited.is_ok()
        };
        assert!(!is_over(Health::Unready).await, "no server");
        pool.set(vec!["a".into()], None, None);
        assert!(!is_over(Health::Unready).await, "not asked yet");
        tokio::join!(pool.until(Health::Unready), async { pool.report("a", Health::Unready) });
        assert!(!is_over(Health::Ready).await);
        tokio::join!(pool.until(Health::Ready), async { pool.report("a", Health::Ready) });
    }
}
