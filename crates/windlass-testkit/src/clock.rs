//! A clock that stands still until a test moves it.
//!
//! Input: a start and steps. Output: the time code under test is told.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

/// Time as a test says.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// A clock at this time, RFC 3339; panics when it is none.
    pub fn at(time: &str) -> Self {
        let now = time.parse().unwrap_or_else(|error| panic!("{time:?} is no time: {error}"));
        Self { now: Mutex::new(now) }
    }

    /// What the clock shows.
    pub fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Moves it; a negative step is a clock jumping back.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_only_when_told() {
        let clock = ManualClock::at("2026-01-02T03:04:05Z");
        assert_eq!(clock.now(), clock.now());
        clock.advance(SignedDuration::from_secs(-65));
        assert_eq!(clock.now().to_string(), "2026-01-02T03:03:00Z");
    }
}
