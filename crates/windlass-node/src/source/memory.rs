//! An in-memory twin of a config source, for tests.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

use super::{ConfigSource, SourceError};

/// Hands out what was laid into it; remembers every report.
#[derive(Debug)]
pub struct MemorySource {
    config: watch::Sender<Option<SealedNodeConfig>>,
    reports: Mutex<Vec<NodeReport>>,
}

impl Default for MemorySource {
    fn default() -> Self {
        Self { config: watch::Sender::new(None), reports: Mutex::default() }
    }
}

impl MemorySource {
    /// Lays a configuration.
    pub fn put(&self, config: SealedNodeConfig) {
        self.config.send_replace(Some(config));
    }

    /// Every report so far.
    pub fn reports(&self) -> Vec<NodeReport> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ConfigSource for MemorySource {
    async fn next(&self, after: Option<&str>) -> Result<Option<SealedNodeConfig>, SourceError> {
        let mut reader = self.config.subscribe();
        let other = |config: &Option<SealedNodeConfig>| {
            config.as_ref().is_some_and(|config| Some(config.hash.as_str()) != after)
        };
        Ok(reader.wait_for(other).await.ok().and_then(|config| config.clone()))
    }

    async fn report(&self, report: &NodeReport) -> Result<(), SourceError> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report.clone());
        Ok(())
    }
}
