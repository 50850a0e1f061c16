//! The state of every part, for everyone who waits for a change of it.
//!
//! Inputs: what parts say of themselves. Output: one [`NodeReport`] that readers watch; it changes only when something
//! in it does.

use jiff::Timestamp;
use tokio::sync::watch;
use windlass_spec::report::{NodeReport, PartReport, PartState};

/// The report of this machine, shared.
#[derive(Clone, Debug)]
pub struct Board {
    report: watch::Sender<NodeReport>,
}

impl Board {
    /// A board without parts.
    pub fn new(machine: &str, boot_id: &str) -> Self {
        let report = NodeReport {
            format: NodeReport::FORMAT,
            machine: machine.to_owned(),
            boot_id: boot_id.to_owned(),
            at: Timestamp::now(),
            windlass_version: env!("CARGO_PKG_VERSION").to_owned(),
            config: None,
            parts: Vec::new(),
            etcd_formed_by: None,
            etcd_member_id: None,
            api_server_ready: None,
            api_server_names: Vec::new(),
            node_ready: false,
        };
        Self { report: watch::Sender::new(report) }
    }

    /// The report now.
    pub fn report(&self) -> NodeReport {
        self.report.borrow().clone()
    }

    /// Watches it.
    pub fn subscribe(&self) -> watch::Receiver<NodeReport> {
        self.report.subscribe()
    }

    /// Changes the report; readers wake only when it differs.
    pub fn change(&self, change: impl FnOnce(&mut NodeReport)) {
        self.report.send_if_modified(|report| {
            let before = report.clone();
            change(report);
            let differs = before != *report;
            if differs {
                report.at = Timestamp::now();
            }
            differs
        });
    }

    /// Starts over with these parts, all pending.
    pub fn begin(&self, parts: impl IntoIterator<Item = String>) {
        let now = Timestamp::now();
        let parts = parts
            .into_iter()
            .map(|part| PartReport { part, state: PartState::Pending, changes: Vec::new(), since: now })
            .collect();
        self.change(|report| report.parts = parts);
    }

    /// Sets a part's state, adding the part when it is new.
    pub fn set(&self, part: &str, state: PartState) {
        self.change(|report| {
            let now = Timestamp::now();
            match report.parts.iter_mut().find(|found| found.part == part) {
                Some(found) if found.state == state => {}
                Some(found) => {
                    // A failure that goes on is one failure, whatever its last lines say by now.
                    let is_still_failed =
                        matches!((&found.state, &state), (PartState::Failed { .. }, PartState::Failed { .. }));
                    if !is_still_failed {
                        found.since = now;
                    }
                    found.state = state;
                }
                None => {
                    report.parts.push(PartReport { part: part.to_owned(), state, changes: Vec::new(), since: now });
                }
            }
        });
    }

    /// A part waits for something.
    pub fn waiting(&self, part: &str, reason: impl Into<String>) {
        self.set(part, PartState::Waiting { reason: reason.into() });
    }

    /// A part is as the configuration says; what changed on the way.
    pub fn done(&self, part: &str, changes: Vec<String>) {
        self.set(part, PartState::Done);
        if !changes.is_empty() {
            self.change(|report| {
                if let Some(found) = report.parts.iter_mut().find(|found| found.part == part) {
                    found.changes = changes;
                }
            });
        }
    }

    /// A part failed.
    pub fn failed(&self, part: &str, message: impl Into<String>, log: Vec<String>) {
        self.set(part, PartState::Failed { message: message.into(), log });
    }

    /// A part's state.
    pub fn state(&self, part: &str) -> Option<PartState> {
        self.report.borrow().parts.iter().find(|found| found.part == part).map(|found| found.state.clone())
    }

    /// Forgets a part.
    pub fn remove(&self, part: &str) {
        self.change(|report| report.parts.retain(|found| found.part != part));
    }

    /// Waits until a part is done.
    pub async fn until_done(&self, part: &str) {
        let mut reader = self.subscribe();
        let is_done =
            |report: &NodeReport| report.parts.iter().any(|found| found.part == part && found.state == PartState::Done);
        // The sender lives as long as the board.
        let _ = reader.wait_for(is_done).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_wake_only_for_a_difference() {
        let board = Board::new("m", "b");
        board.begin(["files".to_owned()]);
        let mut reader = board.subscribe();
        reader.mark_unchanged();
        board.set("files", PartState::Pending);
        assert!(!reader.has_changed().unwrap());
        board.done("files", vec!["wrote /etc/motd".into()]);
        assert!(reader.has_changed().unwrap());
        assert_eq!(board.state("files"), Some(PartState::Done));
    }
}
