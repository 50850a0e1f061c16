//! The TCP balancer on 127.0.0.1 in front of the API servers.
//!
//! Inputs: servers from the configuration, the ledger and the cluster's own list; health checks. Outputs: each new
//! connection goes to a healthy server (the own one first), waits a while when there is none, and connections to a server
//! that died are closed, so that watches resume elsewhere within seconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub mod check;
pub mod own;
pub mod pool;

use pool::{Candidate, Pool};

/// How long a new connection waits for a server. Clients give TLS ten seconds.
const HOLD: Duration = Duration::from_secs(8);
const CONNECT: Duration = Duration::from_secs(1);
/// Per direction and connection; the default of 8 KiB is enough for a proxy on loopback.
const BUFFER: usize = 8 << 10;

/// A running balancer.
#[derive(Clone)]
pub struct Balancer {
    pool: Arc<Pool>,
}

impl Balancer {
    /// A balancer without servers yet, for the machine of that name.
    pub fn new(machine: &str) -> Self {
        Self { pool: Arc::new(Pool::new(machine)) }
    }

    /// Its servers.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Takes connections for ever.
    pub async fn serve(&self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        let pool = Arc::clone(&self.pool);
                        connections.spawn(async move { carry(&pool, client).await });
                    }
                    Err(error) => {
                        tracing::warn!("balancer: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }
}

/// Carries one connection to its end.
async fn carry(pool: &Pool, mut client: TcpStream) {
    let Some((mut server, candidate)) = connect(pool).await else { return };
    let _counted = pool.count(&candidate.address);
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        () = candidate.died.cancelled() => reset(&client),
        _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER) => {}
    }
}

/// The client sees a reset instead of an orderly end, and so knows at once that the answer will not come.
fn reset(client: &TcpStream) {
    if let Err(error) = client.set_zero_linger() {
        tracing::trace!("linger: {error}");
    }
}

/// Connects to the best server, then to the next; waits for one to come while none is there.
async fn connect(pool: &Pool) -> Option<(TcpStream, Candidate)> {
    let tries = async {
        loop {
            let changed = pool.changed();
            for candidate in pool.candidates() {
                match attempt(&candidate.address).await {
                    Ok(stream) => return (stream, candidate),
                    Err(error) => {
                        tracing::debug!("balancer: {}: {error}", candidate.address);
                        pool.refused(&candidate.address);
                    }
                }
            }
            let _ = tokio::time::timeout(Duration::from_millis(200), changed).await;
        }
    };
    tokio::time::timeout(HOLD, tries).await.ok()
}

async fn attempt(address: &str) -> io::Result<TcpStream> {
    tokio::time::timeout(CONNECT, TcpStream::connect(address))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pool::Health;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A server that greets each connection with its letter and then keeps it open.
    async fn server(letter: u8) -> (String, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(&[letter]).await.unwrap();
                kept.push(stream);
            }
        });
        (address, task)
    }

    async fn balancer(servers: &[String]) -> (Balancer, String) {
        let balancer = Balancer::new("m");
        balancer.pool().set(servers.to_vec(), servers.first().cloned(), None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = balancer.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        (balancer, address)
    }

    async fn greeting(address: &str) -> (u8, TcpStream) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        (stream.read_u8().await.unwrap(), stream)
    }

    #[tokio::test]
    async fn the_own_server_first_and_another_at_once_when_it_is_gone() {
        let ((a, own), (b, _other)) = (server(b'a').await, server(b'b').await);
        let (balancer, address) = balancer(&[a.clone(), b.clone()]).await;
        balancer.pool().report(&a, Health::Ready);
        balancer.pool().report(&b, Health::Ready);
        assert_eq!(greeting(&address).await.0, b'a');
        own.abort();
        let _ = own.await;
        let start = std::time::Instant::now();
        assert_eq!(greeting(&address).await.0, b'b');
        assert!(start.elapsed() < Duration::from_millis(500));
    }

    #[tokio::test]
    async fn connections_to_a_dead_server_are_closed() {
        let ((a, _own), (b, _other)) = (server(b'a').await, server(b'b').await);
        let (balancer, address) = balancer(&[a.clone(), b.clone()]).await;
        balancer.pool().report(&a, Health::Ready);
        balancer.pool().report(&b, Health::Ready);
        let (_, mut watch) = greeting(&address).await;
        balancer.pool().report(&a, Health::Dead);
        let ended = tokio::time::timeout(Duration::from_secs(1), watch.read_u8()).await.unwrap();
        assert!(ended.is_err());
        assert_eq!(greeting(&address).await.0, b'b');
    }

    #[tokio::test]
    async fn a_connection_waits_for_the_first_server() {
        let (balancer, address) = balancer(&[]).await;
        let waiting = tokio::spawn(async move { greeting(&address).await.0 });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (a, _task) = server(b'a').await;
        balancer.pool().set(vec![a], None, None);
        let letter = tokio::time::timeout(Duration::from_secs(1), waiting).await.unwrap().unwrap();
        assert_eq!(letter, b'a');
    }
}
