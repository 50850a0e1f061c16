//! Spreads events to every reader: terminal, lines, JSON, recorder.
//!
//! Input: [`EventKind`]s from any task. Output: each reader sees all of them, numbered, in one order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::event::{Event, EventKind, Level, Progress};

/// Someone who is told of every event. Called in order, one at a time; must not block for long.
pub trait Reader: Send {
    /// Takes one event.
    fn read(&mut self, event: &Event);
}

/// Where events are sent. Clones share readers and numbering.
#[derive(Clone, Default)]
pub struct Events {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    seq: u64,
    readers: Vec<Box<dyn Reader>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// A stream nobody reads yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a reader; it sees what comes from now on.
    pub fn add(&self, reader: impl Reader + 'static) {
        locked(&self.inner).readers.push(Box::new(reader));
    }

    /// Sends one event to all readers.
    pub fn send(&self, kind: EventKind) {
        let mut inner = locked(&self.inner);
        inner.seq += 1;
        let event = Event { format: Event::FORMAT, seq: inner.seq, at: Timestamp::now(), event: kind };
        for reader in &mut inner.readers {
            reader.read(&event);
        }
    }

    /// Says what a subject is doing.
    pub fn progress(&self, progress: Progress) {
        self.send(EventKind::Progress(progress));
    }

    /// Says something a person should know.
    pub fn notice(&self, text: impl Into<String>) {
        self.send(EventKind::Notice { level: Level::Info, text: text.into() });
    }

    /// Says something a person should look at.
    pub fn warning(&self, text: impl Into<String>) {
        self.send(EventKind::Notice { level: Level::Warning, text: text.into() });
    }
}

/// Keeps all events, for tests and for looking back.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// What was read so far.
    pub fn events(&self) -> Vec<Event> {
        locked(&self.events).clone()
    }

    /// The last thing each subject was seen doing, in the order the subjects appeared.
    pub fn subjects(&self) -> Vec<Progress> {
        let mut subjects: Vec<Progress> = Vec::new();
        for event in locked(&self.events).iter() {
            let EventKind::Progress(progress) = &event.event else { continue };
            match subjects.iter_mut().find(|seen| seen.subject == progress.subject) {
                Some(seen) => *seen = progress.clone(),
                None => subjects.push(progress.clone()),
            }
        }
        subjects
    }
}

impl Reader for Recorder {
    fn read(&mut self, event: &Event) {
        locked(&self.events).push(event.clone());
    }
}

/// Writes each event as one JSON line.
#[derive(Debug)]
pub struct JsonLines<W>(pub W);

impl<W: std::io::Write + Send> Reader for JsonLines<W> {
    fn read(&mut self, event: &Event) {
        // A reader that went away (closed pipe, full disk) must not stop the operation.
        if let Ok(line) = serde_json::to_string(event) {
            let _ = writeln!(self.0, "{line}").and_then(|()| self.0.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_sees_all_events_in_one_order() {
        let events = Events::new();
        let (first, second) = (Recorder::default(), Recorder::default());
        events.add(first.clone());
        events.notice("one");
        events.add(second.clone());
        events.notice("two");
        assert_eq!(first.events().iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(second.events().iter().map(|event| event.seq).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn an_event_is_one_json_line_of_a_known_shape() {
        let event = Event {
            format: 1,
            seq: 3,
            at: Timestamp::UNIX_EPOCH,
            event: EventKind::StepFinished { step: "bundle".into(), millis: 12, note: String::new() },
        };
        let line = serde_json::to_string(&event).expect("serialises");
        insta::assert_snapshot!(line, @r#"{"format":1,"seq":3,"at":"1970-01-01T00:00:00Z","event":{"type":"stepFinished","step":"bundle","millis":12,"note":""}}"#);
        assert_eq!(serde_json::from_str::<Event>(&line).expect("parses"), event);
    }
}
