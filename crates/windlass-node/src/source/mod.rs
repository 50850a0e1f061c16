//! Where configurations come from and reports go.
//!
//! Inputs: a boot stub. Outputs: sealed node configs, checked by [`order::judge`] before anything acts on them.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

pub mod https;
pub mod memory;
pub mod order;

use crate::board::Board;
use crate::ledger::LedgerStore;
use order::{Expected, Verdict};

/// A source that did not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No connection or no answer.
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
    /// It said no.
    #[error("{operation}: the source answered {status}: {text}")]
    Refused {
        /// What was asked.
        operation: &'static str,
        /// Its status.
        status: u16,
        /// Its words.
        text: String,
    },
    /// What it sent is no document of this build.
    #[error("what the source sent cannot be read: {0}")]
    Document(#[from] serde_json::Error),
}

/// Hands out a machine's configuration and takes its report.
#[async_trait]
pub trait ConfigSource: Send + Sync {
    /// Waits a while for a configuration other than the one with this hash; none when it waited in vain.
    async fn next(&self, after: Option<&str>) -> Result<Option<SealedNodeConfig>, SourceError>;

    /// Takes a report.
    async fn report(&self, report: &NodeReport) -> Result<(), SourceError>;
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Name of the part that says how it stands with the source.
pub const PART: &str = "config";

/// Follows a source for ever: each accepted configuration is kept in the ledger, then handed on.
pub async fn follow(
    source: &dyn ConfigSource,
    expected: &Expected,
    ledger: &LedgerStore,
    board: &Board,
    accepted: &watch::Sender<Option<std::sync::Arc<SealedNodeConfig>>>,
) {
    let mut pause = FIRST_PAUSE;
    let mut refused: Option<String> = None;
    loop {
        let seen = refused.clone().or_else(|| ledger.get().config.map(|config| config.hash));
        match source.next(seen.as_deref()).await {
            Ok(None) => pause = FIRST_PAUSE,
            Ok(Some(config)) => {
                pause = FIRST_PAUSE;
                refused = take_up(config, expected, ledger, board, accepted);
            }
            Err(error) => {
                tracing::info!("{error}");
                if ledger.get().config.is_none() {
                    board.waiting(PART, format!("the config source: {error}"));
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Judges and keeps a configuration; the hash of one that was refused, so that it is not asked for again at once.
fn take_up(
    config: SealedNodeConfig,
    expected: &Expected,
    ledger: &LedgerStore,
    board: &Board,
    accepted: &watch::Sender<Option<std::sync::Arc<SealedNodeConfig>>>,
) -> Option<String> {
    let hash = config.hash.clone();
    match order::judge(expected, &ledger.get(), &config) {
        Verdict::Same => None,
        Verdict::Refused(reason) => {
            tracing::warn!(hash, "configuration refused: {reason}");
            board.failed(PART, format!("a configuration was refused: {reason}"), Vec::new());
            Some(hash)
        }
        Verdict::New => match ledger.keep_config(&config) {
            Ok(()) => {
                accepted.send_replace(Some(std::sync::Arc::new(config)));
                None
            }
            Err(error) => {
                board.failed(PART, error.to_string(), Vec::new());
                Some(hash)
            }
        },
    }
}
