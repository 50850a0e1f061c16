//! systemd, as far as the agent needs it.
//!
//! Inputs: unit names. Outputs: their state; starts and restarts that end when the job has ended.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::StreamExt as _;
use tokio::sync::OnceCell;
use zbus_systemd::systemd1::{ManagerProxy, ServiceProxy, UnitProxy};
use zbus_systemd::zbus::{Connection, OwnedObjectPath};

/// State of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    /// `active`, `activating`, `failed`, `inactive` …
    pub active: String,
    /// `running`, `auto-restart` …
    pub sub: String,
    /// How often systemd restarted it by itself.
    pub restarts: u32,
}

impl UnitState {
    /// Does it run?
    pub fn is_active(&self) -> bool {
        self.active == "active"
    }

    /// Does systemd start it again after it ended by itself?
    pub fn keeps_ending(&self) -> bool {
        self.sub == "auto-restart" || (self.active == "failed" && self.restarts > 0)
    }
}

/// A wish systemd did not fulfil.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// The bus failed.
    #[error("systemd: {operation} {unit}: {cause}")]
    Bus {
        /// What was asked.
        operation: &'static str,
        /// Of which unit.
        unit: String,
        /// Why it failed.
        cause: String,
    },
    /// The job ended otherwise than done.
    #[error("{operation} of {unit} ended as {result:?}")]
    Job {
        /// What was asked.
        operation: &'static str,
        /// Of which unit.
        unit: String,
        /// systemd's word for it.
        result: String,
    },
}

/// Starts and watches units.
#[async_trait]
pub trait Units: Send + Sync {
    /// Makes systemd read unit files again.
    async fn reload(&self) -> Result<(), UnitError>;
    /// State of a unit; an unknown one is inactive.
    async fn state(&self, unit: &str) -> Result<UnitState, UnitError>;
    /// Starts a unit and waits for the job's end.
    async fn start(&self, unit: &str) -> Result<(), UnitError>;
    /// Restarts a unit and waits for the job's end.
    async fn restart(&self, unit: &str) -> Result<(), UnitError>;
    /// Stops a unit and waits for the job's end.
    async fn stop(&self, unit: &str) -> Result<(), UnitError>;
    /// Has a unit started at each start of the machine, as its file says.
    async fn enable(&self, unit: &str) -> Result<(), UnitError>;
    /// Takes that back.
    async fn disable(&self, unit: &str) -> Result<(), UnitError>;
}

/// systemd of the running machine, over the system bus.
#[derive(Debug, Default)]
pub struct Systemd {
    connection: OnceCell<Connection>,
    subscribed: OnceCell<()>,
}

#[derive(Clone, Copy)]
enum Job {
    Start,
    Restart,
    Stop,
}

impl Job {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Stop => "stop",
        }
    }
}

fn bus_error(operation: &'static str, unit: &str) -> impl Fn(zbus_systemd::zbus::Error) -> UnitError {
    let unit = unit.to_owned();
    move |error| UnitError::Bus { operation, unit: unit.clone(), cause: error.to_string() }
}

impl Systemd {
    async fn connection(&self) -> Result<&Connection, UnitError> {
        self.connection.get_or_try_init(Connection::system).await.map_err(bus_error("connect", ""))
    }

    async fn manager(&self) -> Result<ManagerProxy<'_>, UnitError> {
        ManagerProxy::new(self.connection().await?).await.map_err(bus_error("connect", ""))
    }

    async fn job(&self, job: Job, unit: &str) -> Result<(), UnitError> {
        let fail = bus_error(job.name(), unit);
        let manager = self.manager().await?;
        // systemd refuses a second subscription of one connection.
        self.subscribed.get_or_try_init(|| async { manager.subscribe().await }).await.map_err(&fail)?;
        let mut removed = manager.receive_job_removed().await.map_err(&fail)?;
        let (name, mode) = (unit.to_owned(), "replace".to_owned());
        let path: OwnedObjectPath = match job {
            Job::Start => manager.start_unit(name, mode).await,
            Job::Restart => manager.restart_unit(name, mode).await,
            Job::Stop => manager.stop_unit(name, mode).await,
        }
        .map_err(&fail)?;
        while let Some(signal) = removed.next().await {
            let args = signal.args().map_err(&fail)?;
            if args.job == path {
                return match args.result.as_str() {
                    "done" => Ok(()),
                    result => {
                        Err(UnitError::Job { operation: job.name(), unit: unit.to_owned(), result: result.to_owned() })
                    }
                };
            }
        }
        Err(UnitError::Bus { operation: job.name(), unit: unit.to_owned(), cause: "the bus was closed".to_owned() })
    }
}

#[async_trait]
impl Units for Systemd {
    async fn reload(&self) -> Result<(), UnitError> {
        self.manager().await?.reload().await.map_err(bus_error("reload", ""))
    }

    async fn state(&self, unit: &str) -> Result<UnitState, UnitError> {
        let fail = bus_error("state of", unit);
        let path = self.manager().await?.load_unit(unit.to_owned()).await.map_err(&fail)?;
        let connection = self.connection().await?;
        let proxy = UnitProxy::new(connection, path.clone()).await.map_err(&fail)?;
        let service = ServiceProxy::new(connection, path).await.map_err(&fail)?;
        Ok(UnitState {
            active: proxy.active_state().await.map_err(&fail)?,
            sub: proxy.sub_state().await.map_err(&fail)?,
            restarts: service.n_restarts().await.unwrap_or(0),
        })
    }

    async fn start(&self, unit: &str) -> Result<(), UnitError> {
        self.job(Job::Start, unit).await
    }

    async fn restart(&self, unit: &str) -> Result<(), UnitError> {
        self.job(Job::Restart, unit).await
    }

    async fn stop(&self, unit: &str) -> Result<(), UnitError> {
        self.job(Job::Stop, unit).await
    }

    async fn enable(&self, unit: &str) -> Result<(), UnitError> {
        let (for_this_start_only, over_others) = (false, false);
        let enabled =
            self.manager().await?.enable_unit_files(vec![unit.to_owned()], for_this_start_only, over_others).await;
        enabled.map(drop).map_err(bus_error("enable", unit))
    }

    async fn disable(&self, unit: &str) -> Result<(), UnitError> {
        let for_this_start_only = false;
        let disabled = self.manager().await?.disable_unit_files(vec![unit.to_owned()], for_this_start_only).await;
        disabled.map(drop).map_err(bus_error("disable", unit))
    }
}

/// An in-memory twin: starts always work, and what was asked is remembered.
#[derive(Debug, Default)]
pub struct MemoryUnits {
    states: Mutex<BTreeMap<String, UnitState>>,
    asked: Mutex<Vec<String>>,
}

impl MemoryUnits {
    /// What was asked so far, as lines.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().map(|asked| asked.clone()).unwrap_or_default()
    }

    fn note(&self, what: String) {
        if let Ok(mut asked) = self.asked.lock() {
            asked.push(what);
        }
    }

    fn turn(&self, what: &str, unit: &str, active: &str) {
        self.note(format!("{what} {unit}"));
        if let Ok(mut states) = self.states.lock() {
            states.insert(unit.to_owned(), UnitState { active: active.to_owned(), ..UnitState::default() });
        }
    }
}

#[async_trait]
impl Units for MemoryUnits {
    async fn reload(&self) -> Result<(), UnitError> {
        self.note("reload".to_owned());
        Ok(())
    }

    async fn state(&self, unit: &str) -> Result<UnitState, UnitError> {
        Ok(self.states.lock().ok().and_then(|states| states.get(unit).cloned()).unwrap_or_default())
    }

    async fn start(&self, unit: &str) -> Result<(), UnitError> {
        self.turn("start", unit, "active");
        Ok(())
    }

    async fn restart(&self, unit: &str) -> Result<(), UnitError> {
        self.turn("restart", unit, "active");
        Ok(())
    }

    async fn stop(&self, unit: &str) -> Result<(), UnitError> {
        self.turn("stop", unit, "inactive");
        Ok(())
    }

    async fn enable(&self, unit: &str) -> Result<(), UnitError> {
        self.note(format!("enable {unit}"));
        Ok(())
    }

    async fn disable(&self, unit: &str) -> Result<(), UnitError> {
        self.note(format!("disable {unit}"));
        Ok(())
    }
}
