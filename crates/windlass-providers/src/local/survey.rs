//! What the state folder says of its machines, hostd or not.
//!
//! Inputs: state files, `/proc`. Outputs: machines with the processes that really run, for people's tools: list, logs,
//! shell.

use std::path::PathBuf;

use windlass_spec::full::{CgroupMode, Facts};
use windlass_spec::identity::ClusterId;

use super::hostd::cgroups::Hierarchies;
use super::hostd::clone::MachineFolder;
use super::hostd::ground;
use super::hostd::store::Store;
use super::paths::Paths;
use crate::ports::{Machine, MachineState, ProviderError};

/// A machine as found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Cluster name.
    pub cluster: String,
    /// Cluster id.
    pub cluster_id: ClusterId,
    /// As hostd has it, its state corrected by what runs.
    pub machine: Machine,
    /// Its init's pid, where it runs.
    pub init: Option<i32>,
    /// Its journal.
    pub journal: PathBuf,
    /// What its init and nspawn said.
    pub console: PathBuf,
    /// Its cgroups.
    pub cgroups: Vec<PathBuf>,
    /// What kind they are.
    pub mode: CgroupMode,
}

impl Found {
    /// Moves the calling process into the machine's cgroups, so that it and its children end with the machine.
    pub fn join_cgroups(&self) -> std::io::Result<()> {
        for folder in &self.cgroups {
            let folder = match self.mode {
                CgroupMode::V1 => folder.clone(),
                // One that has cgroups below it takes no process itself.
                CgroupMode::V2 => folder.join("shell"),
            };
            fs_err::create_dir_all(&folder)?;
            fs_err::write(folder.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }
}

/// What this computer is like as the ground of machines, found without changing it or starting hostd.
pub async fn facts(paths: &Paths) -> Result<Facts, ProviderError> {
    let hierarchies = Hierarchies::detect(&paths.unit())
        .map_err(|error| ProviderError::Failed { operation: "finding cgroups".to_owned(), cause: error.to_string() })?;
    ground::facts(&hierarchies).await
}

/// Every machine of the state folder.
pub fn machines(paths: &Paths) -> Result<Vec<Found>, ProviderError> {
    let store = Store::new(paths.clone());
    let hierarchies = Hierarchies::detect(&paths.unit())
        .map_err(|error| ProviderError::Failed { operation: "finding cgroups".to_owned(), cause: error.to_string() })?;
    let mut found = Vec::new();
    for holdings in store.load()? {
        let id = &holdings.scope.cluster_id;
        for name in holdings.machines.keys() {
            let mut machine = holdings.show_machine(name)?;
            let process = store.process(id, name)?.filter(|running| running.init.is_alive());
            if process.is_none() && machine.state == MachineState::Running {
                machine.state = MachineState::Stopped { reason: "dead, and hostd does not run".to_owned() };
            }
            let folder = MachineFolder(paths.machine(id, name));
            let cgroup = format!("{}/{}", paths.cgroup(), paths.machine_names(id, name).cgroup);
            found.push(Found {
                cluster: holdings.scope.cluster.clone(),
                cluster_id: id.clone(),
                machine,
                init: process.map(|running| running.init.pid),
                journal: folder.journal(),
                console: folder.console(),
                cgroups: hierarchies.folders(&cgroup),
                mode: hierarchies.mode(),
            });
        }
    }
    Ok(found)
}

/// The machine called `MACHINE` or `CLUSTER/MACHINE`.
pub fn machine(paths: &Paths, name: &str) -> Result<Found, ProviderError> {
    let (cluster, machine) = name.split_once('/').map_or((None, name), |(cluster, machine)| (Some(cluster), machine));
    let mut found = machines(paths)?;
    found.retain(|found| found.machine.name == machine && cluster.is_none_or(|cluster| found.cluster == cluster));
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|found| format!("{}/{machine}", found.cluster)).collect();
        return Err(ProviderError::Conflict {
            what: format!("machine {machine}"),
            difference: format!("there are several: {}", names.join(", ")),
        });
    }
    found.pop().ok_or_else(|| ProviderError::NotFound { what: format!("machine {name}") })
}
