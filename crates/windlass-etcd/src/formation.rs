//! May this machine's etcd member form a cluster, start from its data, or must it join or wait?
//!
//! Inputs: the permit of the configuration, and what ledger, volume and reachable peers know. Output: one
//! [`Decision`] with its reason. A cluster that ever existed is never formed anew because data is missing.

use windlass_spec::identity::FormAttempt;
use windlass_spec::node_config::EtcdPermit;

/// Everything known when a member is about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What the machine's ledger knows.
    pub ledger: LedgerEvidence,
    /// What the volume knows.
    pub volume: VolumeEvidence,
    /// What each other wanted member says.
    pub peers: Vec<PeerEvidence>,
    /// The id a cluster formed by the permit's attempt and the wanted members has.
    pub expected_cluster: u64,
}

/// What the machine's ledger knows of forming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerEvidence {
    /// An attempt this machine ever began or saw formed.
    pub attempt: Option<FormAttempt>,
    /// Was it seen formed?
    pub formed: bool,
}

/// What the volume knows of forming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeEvidence {
    /// The attempt begun on it.
    pub attempt: Option<FormAttempt>,
    /// Was it seen formed?
    pub formed: bool,
    /// Does it hold a member's data (a write-ahead log)?
    pub has_data: bool,
}

/// What one other wanted member says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEvidence {
    /// Its name.
    pub name: String,
    /// Its answer.
    pub answer: PeerAnswer,
}

/// A peer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAnswer {
    /// None, and why.
    Silent(String),
    /// It serves a cluster.
    Serving {
        /// The cluster's id.
        cluster: u64,
        /// Does that cluster hold a member of our peer URL that has started before?
        knows_us_started: bool,
    },
}

/// What the member does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start from the data on the volume.
    Restart,
    /// Form, or go on forming, with this attempt.
    Form(FormAttempt),
    /// Data is gone or never was, and a living cluster answers: join it.
    Join,
    /// Nothing can be done yet; what is missing.
    Wait(String),
    /// Never: why.
    Refuse(String),
}

/// Decides for one member.
pub fn decide(permit: &EtcdPermit, evidence: &Evidence) -> Decision {
    let (wanted, may_form) = match permit {
        EtcdPermit::Form { attempt } => (attempt, true),
        EtcdPermit::Join { formed_by } => (formed_by, false),
    };
    if let Some(reason) = foreign(wanted, evidence) {
        return Decision::Refuse(reason);
    }
    let volume = &evidence.volume;
    match (volume.has_data, may_form, volume.formed) {
        (true, _, true) | (true, false, false) => Decision::Restart,
        (true, true, false) => Decision::Form(wanted.clone()),
        (false, true, false) if !is_lost(evidence) => Decision::Form(wanted.clone()),
        (false, _, _) => join_or_wait(wanted, evidence),
    }
}

/// Something of another cluster or attempt: nothing may be started on it.
fn foreign(wanted: &FormAttempt, evidence: &Evidence) -> Option<String> {
    match (&evidence.volume.attempt, evidence.volume.has_data) {
        (Some(found), _) if found != wanted => {
            return Some(format!(
                "the volume belongs to attempt {found}, the cluster was formed by {wanted}: a stale twin"
            ));
        }
        (None, true) => return Some("the volume holds etcd data of unknown origin".to_owned()),
        _ => {}
    }
    if let Some(found) = evidence.ledger.attempt.as_ref().filter(|&found| found != wanted) {
        return Some(format!("this machine took part in attempt {found}, the configuration speaks of {wanted}"));
    }
    evidence.peers.iter().find_map(|peer| match peer.answer {
        PeerAnswer::Serving { cluster, .. } if !evidence.volume.formed && cluster != evidence.expected_cluster => Some(
            format!("{} serves another etcd cluster ({cluster:x}, not {:x})", peer.name, evidence.expected_cluster),
        ),
        _ => None,
    })
}

/// Has this member taken part before, so that its blank volume means lost data?
fn is_lost(evidence: &Evidence) -> bool {
    let began_elsewhere = evidence.ledger.attempt.is_some() && evidence.volume.attempt.is_none();
    let known_to_peers =
        evidence.peers.iter().any(|peer| matches!(peer.answer, PeerAnswer::Serving { knows_us_started: true, .. }));
    began_elsewhere || evidence.ledger.formed || known_to_peers
}

fn join_or_wait(wanted: &FormAttempt, evidence: &Evidence) -> Decision {
    let serving = evidence.peers.iter().any(|peer| matches!(peer.answer, PeerAnswer::Serving { .. }));
    if serving {
        return Decision::Join;
    }
    let silent: Vec<String> = evidence
        .peers
        .iter()
        .filter_map(|peer| match &peer.answer {
            PeerAnswer::Silent(why) => Some(format!("{} ({why})", peer.name)),
            PeerAnswer::Serving { .. } => None,
        })
        .collect();
    let asked = if silent.is_empty() { "there is no other member".to_owned() } else { silent.join(", ") };
    Decision::Wait(format!(
        "this member's data: the volume is blank, the cluster formed by {wanted} exists and is never formed anew; \
         no member with quorum answers to join: {asked}. Give the volume back, or restore"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X: &str = "x";
    const OURS: u64 = 7;

    fn form() -> EtcdPermit {
        EtcdPermit::Form { attempt: X.into() }
    }

    fn join() -> EtcdPermit {
        EtcdPermit::Join { formed_by: X.into() }
    }

    fn blank() -> Evidence {
        Evidence {
            ledger: LedgerEvidence::default(),
            volume: VolumeEvidence::default(),
            peers: vec![PeerEvidence { name: "etcd-b".into(), answer: PeerAnswer::Silent("refused".into()) }],
            expected_cluster: OURS,
        }
    }

    fn serving(cluster: u64, knows_us_started: bool) -> Vec<PeerEvidence> {
        vec![PeerEvidence { name: "etcd-b".into(), answer: PeerAnswer::Serving { cluster, knows_us_started } }]
    }

    fn ledger(attempt: &str, formed: bool) -> LedgerEvidence {
        LedgerEvidence { attempt: Some(attempt.into()), formed }
    }

    fn volume(attempt: &str, formed: bool, has_data: bool) -> VolumeEvidence {
        VolumeEvidence { attempt: Some(attempt.into()), formed, has_data }
    }

    #[test]
    fn a_first_start_forms() {
        assert_eq!(decide(&form(), &blank()), Decision::Form(X.into()));
    }

    #[test]
    fn a_crash_between_label_and_ledger_goes_on_forming() {
        let evidence = Evidence { volume: volume(X, false, false), ..blank() };
        assert_eq!(decide(&form(), &evidence), Decision::Form(X.into()));
        let evidence = Evidence { ledger: ledger(X, false), ..evidence };
        assert_eq!(decide(&form(), &evidence), Decision::Form(X.into()));
    }

    #[test]
    fn peers_of_the_same_forming_do_no_harm() {
        let evidence = Evidence { peers: serving(OURS, false), ..blank() };
        assert_eq!(decide(&form(), &evidence), Decision::Form(X.into()));
    }

    #[test]
    fn b18_a_swapped_blank_volume_never_forms() {
        let swapped = Evidence { ledger: ledger(X, false), ..blank() };
        assert!(matches!(decide(&form(), &swapped), Decision::Wait(_)), "the ledger knows the attempt");
        assert!(matches!(decide(&join(), &blank()), Decision::Wait(_)), "the permit says join");
        let lost = Evidence { volume: volume(X, true, false), ..blank() };
        assert!(matches!(decide(&form(), &lost), Decision::Wait(_)), "the volume was formed, its data is gone");
    }

    #[test]
    fn b18_a_blank_volume_beside_a_living_quorum_joins() {
        let evidence = Evidence { peers: serving(OURS, true), ..blank() };
        assert_eq!(decide(&join(), &evidence), Decision::Join);
        assert_eq!(decide(&form(), &evidence), Decision::Join, "the peers saw this member started");
    }

    #[test]
    fn data_restarts() {
        let evidence = Evidence { ledger: ledger(X, true), volume: volume(X, true, true), ..blank() };
        assert_eq!(decide(&join(), &evidence), Decision::Restart);
        assert_eq!(decide(&form(), &evidence), Decision::Restart, "a permit that came late");
    }

    #[test]
    fn what_belongs_elsewhere_is_refused() {
        for evidence in [
            Evidence { volume: volume("y", true, true), ..blank() },
            Evidence { volume: VolumeEvidence { has_data: true, ..VolumeEvidence::default() }, ..blank() },
            Evidence { ledger: ledger("y", true), ..blank() },
            Evidence { peers: serving(8, false), ..blank() },
        ] {
            assert!(matches!(decide(&form(), &evidence), Decision::Refuse(_)), "{evidence:?}");
        }
    }

    /// A world of three members whose volumes are swapped and whose agents crash at any point.
    #[derive(Clone, Debug, Default)]
    struct Member {
        ledger: LedgerEvidence,
        volume: VolumeEvidence,
        running: bool,
        formed_count: u32,
        ran_before: bool,
    }

    #[derive(Clone, Debug)]
    enum Event {
        Start(usize),
        Record(usize),
        PowerLoss(usize),
        SwapVolume(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        (0..4u8, 0..3usize).prop_map(|(kind, member)| match kind {
            0 => Event::Start(member),
            1 => Event::Record(member),
            2 => Event::PowerLoss(member),
            _ => Event::SwapVolume(member),
        })
    }

    fn evidence_of(world: &[Member], member: usize) -> Evidence {
        let serving = world.iter().filter(|other| other.running).count() >= 2;
        let peers = (0..world.len())
            .filter(|&other| other != member)
            .map(|other| PeerEvidence {
                name: other.to_string(),
                answer: if world[other].running && serving {
                    PeerAnswer::Serving { cluster: OURS, knows_us_started: world[member].ran_before }
                } else {
                    PeerAnswer::Silent("down".into())
                },
            })
            .collect();
        Evidence {
            ledger: world[member].ledger.clone(),
            volume: world[member].volume.clone(),
            peers,
            expected_cluster: OURS,
        }
    }

    fn step(world: &mut [Member], event: &Event) {
        match *event {
            Event::Start(index) if !world[index].running => {
                if let Decision::Form(attempt) = decide(&form(), &evidence_of(world, index)) {
                    let member = &mut world[index];
                    if !member.volume.has_data {
                        member.formed_count += 1;
                    }
                    member.volume = VolumeEvidence { attempt: Some(attempt.clone()), formed: false, has_data: true };
                    member.ledger.attempt = Some(attempt);
                    member.running = true;
                    member.ran_before = true;
                } else if decide(&form(), &evidence_of(world, index)) == Decision::Restart {
                    world[index].running = true;
                }
            }
            Event::Record(index) if world[index].running => {
                world[index].volume.formed = true;
                world[index].ledger.formed = true;
            }
            Event::PowerLoss(index) => world[index].running = false,
            Event::SwapVolume(index) if !world[index].running => world[index].volume = VolumeEvidence::default(),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn no_member_forms_twice(events in proptest::collection::vec(event(), 0..40)) {
            let mut world = vec![Member::default(); 3];
            for event in &events {
                step(&mut world, event);
            }
            for member in world {
                prop_assert!(member.formed_count <= 1);
            }
        }

        #[test]
        fn a_join_permit_never_forms(has_data: bool, formed: bool, began: bool, ledger_formed: bool, peer in 0..3u8) {
            let peers = match peer { 0 => Vec::new(), 1 => serving(OURS, began), _ => serving(8, began) };
            let evidence = Evidence {
                ledger: LedgerEvidence { attempt: began.then(|| X.into()), formed: ledger_formed },
                volume: VolumeEvidence { attempt: began.then(|| X.into()), formed, has_data },
                peers,
                expected_cluster: OURS,
            };
            prop_assert!(!matches!(decide(&join(), &evidence), Decision::Form(_)));
        }
    }
}
