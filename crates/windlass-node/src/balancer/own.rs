//! The way to the own API server alone, for those beside it (kubelet, controller manager, scheduler).
//!
//! Inputs: where to listen, the own server. Outputs: while the cluster is formed for the first time, connections are held
//! until the server answers, so that nobody counts down a pause. Ever after, nothing listens while the server does not
//! answer: a kubelet that restarts asks for its Node before it starts static pods, and would wait for the very server
//! that it has to start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{BUFFER, HOLD, attempt, reset};

const PAUSE: Duration = Duration::from_millis(100);

/// What connections and listener share.
struct Shared {
    server: String,
    /// May a connection wait for the server?
    holds: AtomicBool,
    gone: Notify,
}

/// Leads to the own server for ever.
pub async fn run(listen: &str, server: &str, is_first_time: bool) {
    let shared =
        Arc::new(Shared { server: server.to_owned(), holds: AtomicBool::new(is_first_time), gone: Notify::new() });
    loop {
        if !shared.holds.load(Ordering::Relaxed) {
            while attempt(server).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
        match TcpListener::bind(listen).await {
            Ok(listener) => tokio::select! {
                () = accept(&listener, &shared) => {}
                () = shared.gone.notified() => tracing::info!("the own API server is gone"),
            },
            Err(error) => tracing::warn!("listening on {listen}: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        // On its own: connections outlive the listener.
        tokio::spawn(carry(client, Arc::clone(shared)));
    }
}

async fn carry(mut client: TcpStream, shared: Arc<Shared>) {
    let Some(mut server) = connect(&shared).await else {
        reset(&client);
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await;
}

async fn connect(shared: &Shared) -> Option<TcpStream> {
    let tries = async {
        loop {
            match attempt(&shared.server).await {
                Ok(stream) => {
                    shared.holds.store(false, Ordering::Relaxed);
                    return Some(stream);
                }
                Err(_) if shared.holds.load(Ordering::Relaxed) => tokio::time::sleep(PAUSE).await,
                Err(_) => {
                    shared.gone.notify_one();
                    return None;
                }
            }
        }
    };
    tokio::time::timeout(HOLD, tries).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::io::AsyncWriteExt as _;

    async fn free_port() -> String {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
    }

    async fn greet(address: String) -> tokio::task::JoinHandle<()> {
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(b"a").await;
            }
        })
    }

    async fn greeting(address: &str) -> std::io::Result<u8> {
        TcpStream::connect(address).await?.read_u8().await
    }

    #[tokio::test]
    async fn the_first_time_connections_are_held() {
        let (listen, server) = (free_port().await, free_port().await);
        let (at, to) = (listen.clone(), server.clone());
        let running = tokio::spawn(async move { run(&at, &to, true).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let held = tokio::spawn(async move { greeting(&listen).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!held.is_finished());
        let _server = greet(server).await;
        assert_eq!(held.await.unwrap().unwrap(), b'a');
        running.abort();
    }

    #[tokio::test]
    async fn later_nothing_listens_while_the_server_is_down() {
        let (listen, server) = (free_port().await, free_port().await);
        let (at, to) = (listen.clone(), server.clone());
        let running = tokio::spawn(async move { run(&at, &to, false).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(greeting(&listen).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        let up = greet(server).await;
        let wait = async {
            while greeting(&listen).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), wait).await.unwrap();
        up.abort();
        let _ = up.await;
        let _ = greeting(&listen).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(greeting(&listen).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        running.abort();
    }
}
