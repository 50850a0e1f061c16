//! hostd's state on disk: versioned JSON files, written whole.
//!
//! Inputs: [`Holdings`], configurations, reports, processes. Outputs: the same after a restart. Layout below
//! `hostd/clusters/CLUSTER-ID/`: `cluster.json`, `machines/NAME/{config,report,process}.json`, `volumes/NAME.img`.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use windlass_spec::identity::ClusterId;
use windlass_spec::node_config::SealedNodeConfig;
use windlass_spec::report::NodeReport;

use super::super::files::{self, PRIVATE, PUBLIC};
use super::super::paths::Paths;
use super::sandbox::Running;
use crate::holdings::Holdings;

/// Version of the formats written by this build.
pub(crate) const FORMAT: u32 = 1;

/// What cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file.
    #[error("hostd's state")]
    File(#[from] io::Error),
    /// Written by a newer Windlass.
    #[error("{path} has format {found}; this Windlass knows {FORMAT}: use the newer one")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<T> {
    format: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize, Deserialize)]
struct ClusterDocument {
    holdings: Holdings,
}

#[derive(Serialize, Deserialize)]
struct ProcessDocument {
    process: Running,
}

/// Reads and writes the state of one state folder.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    paths: Paths,
}

impl Store {
    /// For these paths.
    pub(crate) fn new(paths: Paths) -> Self {
        Self { paths }
    }

    /// Every cluster, with its machines' last reports.
    pub(crate) fn load(&self) -> Result<Vec<Holdings>, StoreError> {
        let entries = std::fs::read_dir(self.paths.clusters()).into_iter().flatten().flatten();
        let mut clusters = Vec::new();
        for entry in entries {
            if let Some(document) = read::<ClusterDocument>(&entry.path().join("cluster.json"))? {
                clusters.push(self.with_reports(document.holdings)?);
            }
        }
        clusters.sort_by(|one, two| one.scope.cluster.cmp(&two.scope.cluster));
        Ok(clusters)
    }

    fn with_reports(&self, mut holdings: Holdings) -> Result<Holdings, StoreError> {
        let id = holdings.scope.cluster_id.clone();
        for (name, held) in &mut holdings.machines {
            held.report = match files::read_json::<NodeReport>(&self.paths.machine(&id, name).join("report.json")) {
                Ok(report) => report,
                // Written loosely: after a crash of the host it may be torn, and the next one comes soon.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(holdings)
    }

    /// Writes a cluster.
    pub(crate) fn save(&self, holdings: &Holdings) -> Result<(), StoreError> {
        let folder = self.paths.cluster(&holdings.scope.cluster_id);
        windlass_files::private_folder(&folder)?;
        let document = serde_json::json!({"format": FORMAT, "holdings": holdings});
        Ok(files::write_json(&folder.join("cluster.json"), &document, PUBLIC)?)
    }

    /// Forgets a cluster.
    pub(crate) fn forget(&self, cluster: &ClusterId) -> Result<(), super::clone::CloneError> {
        super::clone::remove_tree(&self.paths.cluster(cluster))
    }

    /// A machine's configuration with its secrets.
    pub(crate) fn config(&self, cluster: &ClusterId, machine: &str) -> Result<Option<SealedNodeConfig>, StoreError> {
        Ok(files::read_json(&self.paths.machine(cluster, machine).join("config.json"))?)
    }

    /// Writes a machine's configuration, readable by root only.
    pub(crate) fn save_config(
        &self,
        cluster: &ClusterId,
        machine: &str,
        config: &SealedNodeConfig,
    ) -> Result<(), StoreError> {
        let folder = self.paths.machine(cluster, machine);
        windlass_files::private_folder(&folder)?;
        Ok(files::write_json(&folder.join("config.json"), config, PRIVATE)?)
    }

    /// Writes a machine's report.
    pub(crate) fn save_report(
        &self,
        cluster: &ClusterId,
        machine: &str,
        report: &NodeReport,
    ) -> Result<(), StoreError> {
        let folder = self.paths.machine(cluster, machine);
        windlass_files::private_folder(&folder)?;
        let bytes = serde_json::to_vec(report).map_err(io::Error::from)?;
        Ok(windlass_files::replace(folder.join("report.json"), &bytes, PUBLIC, None)?)
    }

    /// The process a machine was last seen as.
    pub(crate) fn process(&self, cluster: &ClusterId, machine: &str) -> Result<Option<Running>, StoreError> {
        let path = self.paths.machine(cluster, machine).join("process.json");
        Ok(read::<ProcessDocument>(&path)?.map(|document| document.process))
    }

    /// Writes down a machine's process; none: it does not run.
    pub(crate) fn save_process(
        &self,
        cluster: &ClusterId,
        machine: &str,
        process: Option<&Running>,
    ) -> Result<(), StoreError> {
        let path = self.paths.machine(cluster, machine).join("process.json");
        match process {
            Some(process) => {
                let document = serde_json::json!({"format": FORMAT, "process": process});
                Ok(files::write_json(&path, &document, PUBLIC)?)
            }
            None => Ok(files::remove_if_there(&path)?),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let Some(value) = files::read_json::<serde_json::Value>(path)? else { return Ok(None) };
    let found = value["format"].as_u64().unwrap_or(0);
    if found > u64::from(FORMAT) {
        return Err(StoreError::Newer { path: path.to_owned(), found });
    }
    let document: Document<T> = serde_json::from_value(value).map_err(io::Error::from)?;
    Ok(Some(document.content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &Path) -> Store {
        Store::new(Paths::new(folder, folder).unwrap())
    }

    /// A state folder as format 1 writes it is read by every later build.
    #[test]
    fn format_1_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let cluster = store.paths.cluster(&"00112233445566ff".into());
        std::fs::create_dir_all(&cluster).unwrap();
        std::fs::write(cluster.join("cluster.json"), include_str!("fixtures/cluster-1.json")).unwrap();
        let loaded = store.load().unwrap();
        assert_eq!(loaded.len(), 1);
        let machine = loaded[0].machine("lab-cp-a").unwrap();
        assert_eq!((machine.address.to_string().as_str(), machine.starts), ("10.77.0.11", 2));
        store.save(&loaded[0]).unwrap();
        assert_eq!(store.load().unwrap(), loaded);
    }

    #[test]
    fn a_newer_format_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let cluster = store.paths.cluster(&"00112233445566ff".into());
        std::fs::create_dir_all(&cluster).unwrap();
        std::fs::write(cluster.join("cluster.json"), r#"{"format": 2, "other": true}"#).unwrap();
        assert!(matches!(store.load(), Err(StoreError::Newer { found: 2, .. })));
    }
}
