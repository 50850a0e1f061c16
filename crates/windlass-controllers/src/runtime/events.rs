//! Kubernetes Events on objects, written beside the work: an event that cannot be written holds nothing up.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::reasons::Reason;

/// Writes events.
pub(crate) struct Events {
    sender: mpsc::Sender<(ObjectReference, Said)>,
}

struct Said {
    trouble: bool,
    reason: Reason,
    note: String,
}

/// Events waiting to be written; beyond that they are dropped.
const WAITING: usize = 256;

impl Events {
    /// Starts the writer; it ends when [`Events`] is dropped.
    pub(crate) fn new(client: Client, instance: Option<String>) -> Self {
        let (sender, mut receiver) = mpsc::channel::<(ObjectReference, Said)>(WAITING);
        let recorder = Recorder::new(client, Reporter { controller: "windlass-controller".to_owned(), instance });
        tokio::spawn(async move {
            while let Some((about, said)) = receiver.recv().await {
                let event = Event {
                    type_: if said.trouble { EventType::Warning } else { EventType::Normal },
                    reason: said.reason.as_str().to_owned(),
                    note: Some(said.note),
                    action: "Reconcile".to_owned(),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::debug!(%error, "an event was not written");
                }
            }
        });
        Self { sender }
    }

    /// Says what was done.
    pub(crate) fn say<K: Resource<DynamicType = ()>>(&self, about: &K, reason: Reason, note: impl Into<String>) {
        self.send(about, Said { trouble: false, reason, note: note.into() });
    }

    /// Says what went wrong.
    pub(crate) fn warn<K: Resource<DynamicType = ()>>(&self, about: &K, reason: Reason, note: impl Into<String>) {
        self.send(about, Said { trouble: true, reason, note: note.into() });
    }

    fn send<K: Resource<DynamicType = ()>>(&self, about: &K, mut said: Said) {
        const LONGEST: usize = 1000;
        let end = (0..=LONGEST.min(said.note.len())).rev().find(|&at| said.note.is_char_boundary(at)).unwrap_or(0);
        said.note.truncate(end);
        if self.sender.try_send((about.object_ref(&()), said)).is_err() {
            tracing::debug!("events are written too slowly; one was dropped");
        }
    }
}
