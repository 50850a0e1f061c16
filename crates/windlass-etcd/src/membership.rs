//! The next step by which a member without data comes into a living cluster.
//!
//! Inputs: the live member list, who answers, who we are. Output: one [`Step`]. Quorum holds at every step: the old
//! member goes first, the new one comes as a learner and is promoted when it has caught up.

/// A member as the living cluster lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// Its name; empty until it has started once.
    pub name: String,
    /// Where peers reach it.
    pub peer_urls: Vec<String>,
    /// Without a vote yet.
    pub is_learner: bool,
    /// Has it published where clients reach it, as each member does once it has started?
    pub has_started: bool,
    /// Does it answer now?
    pub answers: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Remove the member whose data is gone.
    Remove(u64),
    /// Add this peer URL as a learner.
    AddLearner,
    /// It is listed and has not started: start it.
    Start,
    /// Not now; why.
    Wait(String),
}

/// The next step for the member of this peer URL, which holds no data.
pub fn next_step(members: &[Member], peer_url: &str) -> Step {
    let own = members.iter().find(|member| member.peer_urls.iter().any(|url| url == peer_url));
    match own {
        Some(member) if member.name.is_empty() => Step::Start,
        Some(member) => remove_or_wait(members, member),
        None => match members.iter().find(|member| member.is_learner) {
            Some(learner) => Step::Wait(format!("learner {:x} to be promoted first", learner.id)),
            None => add_or_wait(members),
        },
    }
}

fn remove_or_wait(members: &[Member], gone: &Member) -> Step {
    let (left, answering) = voters(members.iter().filter(|member| member.id != gone.id));
    if answering * 2 > left {
        Step::Remove(gone.id)
    } else {
        Step::Wait(format!("quorum without member {:x}: {answering} of {left} voters answer", gone.id))
    }
}

fn add_or_wait(members: &[Member]) -> Step {
    let (all, answering) = voters(members.iter());
    if answering * 2 > all {
        Step::AddLearner
    } else {
        Step::Wait(format!("quorum: {answering} of {all} voters answer"))
    }
}

fn voters<'a>(members: impl Iterator<Item = &'a Member>) -> (usize, usize) {
    members
        .filter(|member| !member.is_learner)
        .fold((0, 0), |(all, answering), member| (all + 1, answering + usize::from(member.answers)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(id: u64, name: &str, is_learner: bool, answers: bool) -> Member {
        Member {
            id,
            name: name.into(),
            peer_urls: vec![format!("https://{id}")],
            is_learner,
            has_started: !name.is_empty(),
            answers,
        }
    }

    #[test]
    fn b17_the_old_member_goes_before_the_new_one_comes() {
        let three = [member(1, "a", false, false), member(2, "b", false, true), member(3, "c", false, true)];
        assert_eq!(next_step(&three, "https://1"), Step::Remove(1));
        assert_eq!(next_step(&three[1..], "https://1"), Step::AddLearner);
        let learner = [member(4, "", true, false), three[1].clone(), three[2].clone()];
        assert_eq!(next_step(&learner, "https://4"), Step::Start);
    }

    #[test]
    fn one_learner_at_a_time() {
        let members = [member(2, "b", false, true), member(3, "c", false, true), member(9, "", true, false)];
        assert!(matches!(next_step(&members, "https://1"), Step::Wait(_)));
    }

    #[test]
    fn without_quorum_nothing_moves() {
        let members = [member(1, "a", false, false), member(2, "b", false, true), member(3, "c", false, false)];
        assert!(matches!(next_step(&members, "https://1"), Step::Wait(_)));
    }

    proptest! {
        #[test]
        fn a_removal_leaves_a_quorum(answers in proptest::collection::vec(any::<bool>(), 1..7)) {
            let members: Vec<Member> = answers
                .iter()
                .enumerate()
                .map(|(index, &answers)| member(index as u64, "m", false, answers && index > 0))
                .collect();
            if let Step::Remove(id) = next_step(&members, "https://0") {
                let rest: Vec<_> = members.iter().filter(|member| member.id != id).collect();
                prop_assert!(rest.iter().filter(|member| member.answers).count() * 2 > rest.len());
            }
        }
    }
}
