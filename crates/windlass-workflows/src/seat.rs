//! The seat of management while this process holds it: a bootstrap plane and the controllers on it.
//!
//! Inputs: programs, places, a provider. Output: a client of the plane; both parts are stopped, or removed with their
//! data, in the right order.

use std::sync::Arc;

use tokio::sync::Mutex;
use windlass_engine::Failure;
use windlass_engine::failure::OrFail;
use windlass_providers::ports::Provider;

use crate::controllers::Controllers;
use crate::management;
use crate::plane::{Places, Plane, PlaneError, Programs};

/// A seat; empty at first.
#[derive(Debug, Default)]
pub struct Seat {
    plane: Mutex<Option<Plane>>,
    controllers: Mutex<Option<Controllers>>,
}

impl Seat {
    /// Starts the plane if it does not run; returns where its kubeconfig lies.
    pub async fn raise(&self, programs: &Programs, places: &Places) -> Result<String, Failure> {
        let mut held = self.plane.lock().await;
        if held.is_none() {
            *held = Some(Plane::start(programs, places).await.map_err(|error| plane_failure(&error))?);
        }
        Ok(held.as_ref().map(|plane| plane.kubeconfig().into_string()).unwrap_or_default())
    }

    /// A client of the plane; a failure when one of its programs has ended.
    pub async fn client(&self) -> Result<kube::Client, Failure> {
        let plane = self.plane.lock().await;
        let plane = plane.as_ref().ok_or_else(|| Failure::failed("the bootstrap plane does not run"))?;
        match plane.fault() {
            None => Ok(plane.client()),
            Some(fault) => Err(plane_failure(&fault)),
        }
    }

    /// Fails when a plane that was started has lost a program, or the controllers have ended.
    pub async fn check(&self) -> Result<(), Failure> {
        if self.is_raised().await {
            self.client().await?;
        }
        match &*self.controllers.lock().await {
            Some(controllers) if controllers.ended() => Err(Failure::failed("the controllers in this process ended")),
            _ => Ok(()),
        }
    }

    /// Does the plane run?
    pub async fn is_raised(&self) -> bool {
        self.plane.lock().await.is_some()
    }

    /// Installs the definitions and starts the controllers.
    pub async fn occupy(&self, provider: Arc<dyn Provider>) -> Result<(), Failure> {
        let client = self.client().await?;
        management::definitions(&client).await.or_fail("failed to install the definitions")?;
        let mut held = self.controllers.lock().await;
        if held.is_none() {
            *held = Some(Controllers::start(client, provider));
        }
        Ok(())
    }

    /// Stops the controllers.
    pub async fn vacate(&self) {
        let held = self.controllers.lock().await.take();
        if let Some(controllers) = held {
            controllers.stop().await;
        }
    }

    /// Stops the plane; its data stays.
    pub async fn lower(&self) {
        let held = self.plane.lock().await.take();
        if let Some(plane) = held {
            plane.stop().await;
        }
    }

    /// Stops everything and removes the plane's data.
    pub async fn retire(&self) -> Result<(), Failure> {
        self.vacate().await;
        let held = self.plane.lock().await.take();
        match held {
            Some(plane) => plane.destroy().await.or_fail("failed to delete the bootstrap plane"),
            None => Ok(()),
        }
    }
}

fn plane_failure(error: &PlaneError) -> Failure {
    let failure = Failure::from_error("the bootstrap plane does not run", error);
    failure.part("bootstrap plane").log(error.log().to_vec())
}
