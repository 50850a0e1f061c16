//! Stopping on request, in two grades.
//!
//! Input: Ctrl-C or SIGTERM, through [`Cancel::ask`]. Output: once, running steps end at their next safe point and no new
//! one starts; twice, everything is dropped where it stands.

use tokio::sync::watch;

/// How urgently a stop was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Not at all.
    #[default]
    Run,
    /// At the next safe point.
    SafePoint,
    /// At once.
    AtOnce,
}

/// A shared switch. Clones are the same switch.
#[derive(Clone, Debug)]
pub struct Cancel {
    sender: watch::Sender<Urgency>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self { sender: watch::Sender::new(Urgency::Run) }
    }
}

impl Cancel {
    /// A switch that is off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks once more; returns the new urgency.
    pub fn ask(&self) -> Urgency {
        self.sender.send_modify(|urgency| {
            *urgency = match urgency {
                Urgency::Run => Urgency::SafePoint,
                Urgency::SafePoint | Urgency::AtOnce => Urgency::AtOnce,
            };
        });
        self.urgency()
    }

    /// How urgent it is now.
    pub fn urgency(&self) -> Urgency {
        *self.sender.borrow()
    }

    /// Was a stop asked for?
    pub fn asked(&self) -> bool {
        self.urgency() > Urgency::Run
    }

    /// Returns when the urgency is at least this.
    pub async fn reached(&self, urgency: Urgency) {
        let mut receiver = self.sender.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = receiver.wait_for(|now| *now >= urgency).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_urgent() {
        let cancel = Cancel::new();
        assert!(!cancel.asked());
        assert_eq!([cancel.ask(), cancel.ask(), cancel.ask()], [Urgency::SafePoint, Urgency::AtOnce, Urgency::AtOnce]);
    }
}
