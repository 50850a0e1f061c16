//! From judgements to conditions: keeps the time of the last change, summarises, orders.
//!
//! Inputs: what a decision judged, and the conditions before. Outputs: the conditions to write.

use crate::api::condition::Truth;
use crate::api::{Condition, Conditions, Time};
use crate::reasons::{Reason, types};

/// One judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Condition type.
    pub type_: &'static str,
    /// Is it so?
    pub status: Truth,
    /// Why, in a word.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

impl Judged {
    /// It is so; nothing needs to be said.
    pub fn yes(type_: &'static str, reason: Reason) -> Self {
        Self { type_, status: Truth::True, reason, message: String::new() }
    }

    /// It is not so.
    pub fn no(type_: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status: Truth::False, reason, message: message.into() }
    }

    /// It cannot be told.
    pub fn unknown(type_: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status: Truth::Unknown, reason, message: message.into() }
    }

    /// It is so, and people should know more.
    pub fn active(type_: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status: Truth::True, reason, message: message.into() }
    }

    /// An aspect that is bad when True: quiet or active.
    pub fn trouble(type_: &'static str, active: Option<(Reason, String)>, quiet: Reason) -> Self {
        match active {
            Some((reason, message)) => Self::active(type_, reason, message),
            None => Self::no(type_, quiet, ""),
        }
    }

    /// `Paused`, always there.
    pub fn paused(paused: bool) -> Self {
        if paused { Self::yes(types::PAUSED, Reason::Paused) } else { Self::no(types::PAUSED, Reason::NotPaused, "") }
    }

    /// `Deleting`, always there.
    pub fn deleting(why: Option<(Reason, String)>) -> Self {
        Self::trouble(types::DELETING, why, Reason::NotDeleting)
    }

    /// Copies another object's condition under a type of this one.
    pub fn mirror(type_: &'static str, of: Option<&Condition>, yes: Reason, missing: (Reason, &str)) -> Self {
        match of {
            Some(condition) if condition.status == Truth::True => Self::yes(type_, yes),
            Some(condition) => Self {
                type_,
                status: condition.status,
                reason: known(&condition.reason).unwrap_or(Reason::NotReady),
                message: condition.message.clone(),
            },
            None => Self::unknown(type_, missing.0, missing.1),
        }
    }
}

/// The reason of this name, where it is one of ours.
pub fn known(word: &str) -> Option<Reason> {
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == word)
}

/// Sums up: True when every part is good. `bad_when_true` names the parts of negative polarity. The message of a True
/// summary is empty; else it lists what is not good, first things first.
pub fn summary(type_: &'static str, parts: &[&Judged], bad_when_true: &[&str], good: Reason, bad: Reason) -> Judged {
    let is_good = |part: &Judged| {
        let wanted = if bad_when_true.contains(&part.type_) { Truth::False } else { Truth::True };
        part.status == wanted
    };
    let faults: Vec<String> = parts
        .iter()
        .filter(|part| !is_good(part))
        .map(|part| {
            let said = if part.message.is_empty() { part.reason.as_str() } else { &part.message };
            format!("{}: {said}", part.type_)
        })
        .collect();
    if faults.is_empty() { Judged::yes(type_, good) } else { Judged::no(type_, bad, faults.join("; ")) }
}

/// The conditions to write: each judged one, with the old time where its status is the old one.
pub fn settle(before: &Conditions, judged: &[Judged], generation: Option<i64>, now: Time) -> Conditions {
    let settled = judged.iter().map(|one| {
        let same = before.get(one.type_).filter(|old| old.status == one.status);
        Condition {
            type_: one.type_.to_owned(),
            status: one.status,
            observed_generation: generation,
            last_transition_time: same.map_or(now, |old| old.last_transition_time),
            reason: one.reason.as_str().to_owned(),
            message: cut(&one.message),
        }
    });
    Conditions(settled.collect())
}

/// All conditions as they are, but for `Paused` being True. What a paused object shows.
pub fn settle_paused(before: &Conditions, generation: Option<i64>, now: Time) -> Conditions {
    let paused = settle(before, &[Judged::paused(true)], generation, now);
    let others = before.0.iter().filter(|condition| condition.type_ != types::PAUSED).cloned();
    Conditions(others.chain(paused.0).collect())
}

/// The longest message the API takes.
fn cut(message: &str) -> String {
    const MOST: usize = 8000;
    if message.len() <= MOST {
        return message.to_owned();
    }
    let end = (0..=MOST).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
    format!("{} …", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::new(jiff::Timestamp::from_second(second).unwrap_or_default())
    }

    #[test]
    fn a_change_of_reason_keeps_the_time_and_a_change_of_status_moves_it() {
        let first = settle(&Conditions::default(), &[Judged::no(types::READY, Reason::Waiting, "x")], Some(1), at(10));
        let second = settle(&first, &[Judged::no(types::READY, Reason::Starting, "y")], Some(2), at(20));
        assert_eq!(second.0[0].last_transition_time, at(10));
        assert_eq!(second.0[0].observed_generation, Some(2));
        let third = settle(&second, &[Judged::yes(types::READY, Reason::Ready)], Some(2), at(30));
        assert_eq!(third.0[0].last_transition_time, at(30));
    }

    #[test]
    fn a_true_summary_is_silent_and_a_false_one_lists_faults() {
        let good = Judged::yes(types::NODE_HEALTHY, Reason::NodeHealthy);
        let quiet = Judged::deleting(None);
        let bad = Judged::no(types::INFRASTRUCTURE_READY, Reason::Starting, "machine lab-md-1 starts");
        let ready = summary(types::READY, &[&good, &quiet], &[types::DELETING], Reason::Ready, Reason::NotReady);
        assert_eq!((ready.status, ready.message.as_str()), (Truth::True, ""));
        let not = summary(types::READY, &[&bad, &good, &quiet], &[types::DELETING], Reason::Ready, Reason::NotReady);
        assert_eq!((not.status, not.message.as_str()), (Truth::False, "InfrastructureReady: machine lab-md-1 starts"));
    }

    #[test]
    fn pausing_keeps_every_other_condition() {
        let before = settle(
            &Conditions::default(),
            &[Judged::yes(types::READY, Reason::Ready), Judged::paused(false)],
            Some(1),
            at(10),
        );
        let after = settle_paused(&before, Some(2), at(20));
        assert!(after.is_true(types::PAUSED) && after.is_true(types::READY));
        assert_eq!(after.get(types::PAUSED).and_then(|paused| paused.observed_generation), Some(2));
        assert_eq!(after.0.len(), 2);
    }
}
