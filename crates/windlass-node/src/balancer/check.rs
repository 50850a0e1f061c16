//! Health checks of the API servers behind the balancer.
//!
//! Inputs: the pool, the cluster's authority. Outputs: each server's health, asked over one kept connection: often while it
//! is not ready, each second when it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use tokio::task::JoinHandle;

use super::pool::{Health, Pool};
use crate::http::Kept;

const WHEN_READY: Duration = Duration::from_millis(1000);
const WHEN_NOT: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Checks without an answer until a server that was ready is dead.
const MISSED: u32 = 2;

/// Checks every server of the pool for ever, taking up changes of the list.
pub async fn run(pool: Arc<Pool>, tls: Arc<rustls::ClientConfig>) {
    let mut checkers = Checkers(BTreeMap::new());
    loop {
        let changed = pool.changed();
        let addresses = pool.addresses();
        checkers.0.retain(|address, checker| {
            let stays = addresses.contains(address);
            if !stays {
                checker.abort();
            }
            stays
        });
        for address in addresses {
            checkers
                .0
                .entry(address.clone())
                .or_insert_with(|| tokio::spawn(check(Arc::clone(&pool), address, Arc::clone(&tls))));
        }
        changed.await;
    }
}

/// Stops its tasks when dropped.
struct Checkers(BTreeMap<String, JoinHandle<()>>);

impl Drop for Checkers {
    fn drop(&mut self) {
        self.0.values().for_each(JoinHandle::abort);
    }
}

async fn check(pool: Arc<Pool>, address: String, tls: Arc<rustls::ClientConfig>) {
    let mut server = Kept::new(&address, tls, TIMEOUT);
    let mut missed = 0;
    loop {
        let health = ask(&mut server).await;
        missed = if health == Health::Dead { missed + 1 } else { 0 };
        if health != Health::Dead || missed >= MISSED {
            pool.report(&address, health);
        } else {
            pool.refused(&address);
        }
        tokio::time::sleep(if health == Health::Ready { WHEN_READY } else { WHEN_NOT }).await;
    }
}

async fn ask(server: &mut Kept) -> Health {
    match server.send(Method::GET, "/readyz", None, Vec::new(), TIMEOUT).await {
        Ok(answer) if answer.status.is_success() => Health::Ready,
        Ok(_) => Health::Unready,
        Err(_) => Health::Dead,
    }
}
