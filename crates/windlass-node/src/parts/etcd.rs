//! This machine's etcd member: started only as [`windlass_etcd::formation`] allows.
//!
//! Inputs: the permit, ledger, volume label, what peers answer. Outputs: the static pod's manifest *on the volume*, a link
//! to it in kubelet's directory (made anew after each mount and edit, since kubelet does not watch through links), the
//! attempt in label and ledger before the member can start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use sha2::{Digest as _, Sha256};
use windlass_etcd::client::{Credentials, Endpoint};
use windlass_etcd::formation::{self, Decision, Evidence, LedgerEvidence, PeerAnswer, PeerEvidence, VolumeEvidence};
use windlass_etcd::identity::cluster_id;
use windlass_etcd::membership::{self, Step};
use windlass_spec::identity::FormAttempt;
use windlass_spec::node_config::{Authority, EtcdMember, EtcdPeer, EtcdPermit};

use super::volumes::{self, Label};
use super::{Context, certificates};
use crate::error::{Changes, PartError};
use crate::host::files;
use crate::ledger::EtcdRecord;
use crate::paths;

/// Part that lays the manifest; the member's health is the part [`PART`].
pub const MANIFEST_PART: &str = "etcd-manifest";
/// Part that says whether the member is healthy.
pub const PART: &str = "etcd";

const ASK: Duration = Duration::from_millis(500);
const CHANGE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// Decides, records and lays the manifest; returns when the member may start.
///
/// # Errors
/// When starting it is refused, or a file cannot be written.
pub async fn apply(cx: &Context, member: &EtcdMember) -> Result<Changes, PartError> {
    let at = volumes::mount_point(&cx.host, &cx.config().volumes, &member.volume)?;
    loop {
        let evidence = evidence(cx, member, &at).await?;
        match formation::decide(&member.permit, &evidence) {
            Decision::Restart => return restart(cx, member, &at, &evidence),
            Decision::Form(attempt) => return form(cx, member, &at, &attempt),
            Decision::Join => {
                if let Some(changes) = join(cx, member, &at).await? {
                    return Ok(changes);
                }
            }
            Decision::Wait(missing) => cx.board.waiting(MANIFEST_PART, missing),
            Decision::Refuse(reason) => return Err(PartError::Etcd(reason)),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn attempt_of(member: &EtcdMember) -> &FormAttempt {
    match &member.permit {
        EtcdPermit::Form { attempt } => attempt,
        EtcdPermit::Join { formed_by } => formed_by,
    }
}

async fn evidence(cx: &Context, member: &EtcdMember, at: &Path) -> Result<Evidence, PartError> {
    let label = label(at)?;
    let volume = VolumeEvidence {
        formed: label.formed_by.is_some(),
        has_data: has_data(&cx.host.root.at(&member.data_dir)),
        attempt: label.formed_by.or(label.attempt),
    };
    let ledger = cx.ledger.get().etcd.map_or_else(LedgerEvidence::default, |record| LedgerEvidence {
        attempt: Some(record.attempt),
        formed: record.formed,
    });
    // Data that was seen formed starts whatever the peers say: they may all be down.
    let peers = if volume.has_data && volume.formed { Vec::new() } else { ask_peers(cx, member).await? };
    let peer_urls = member.members.iter().map(|peer| peer.peer_url.as_str());
    Ok(Evidence { ledger, volume, peers, expected_cluster: cluster_id(peer_urls, attempt_of(member).as_str()) })
}

fn label(at: &Path) -> Result<Label, PartError> {
    let path = at.join(volumes::LABEL);
    let label = Label::read(at).map_err(PartError::file(&path))?;
    label.ok_or_else(|| PartError::Etcd(format!("{} is missing: the volume is not mounted", path.display())))
}

/// Does the directory hold a write-ahead log?
fn has_data(data_dir: &Path) -> bool {
    let Ok(entries) = fs_err::read_dir(data_dir.join("member/wal")) else { return false };
    entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "wal"))
}

/// How the agent proves itself to etcd.
///
/// # Errors
/// When its certificate or the authority is not there.
pub fn credentials(cx: &Context, member: &EtcdMember) -> Result<Credentials, PartError> {
    let missing = || PartError::Etcd("the agent's client certificate for etcd is not there".to_owned());
    let wanted = certificates::find(cx, &member.client_certificate)?;
    let pair = certificates::read_pair(&cx.host.root, wanted)?.ok_or_else(missing)?;
    let authority = cx.secrets().authorities.get(&Authority::Etcd).cloned().ok_or_else(missing)?;
    Ok(Credentials { authority, certificate: pair.certificate_pem, key: pair.key_pem })
}

fn others(member: &EtcdMember) -> impl Iterator<Item = &EtcdPeer> {
    member.members.iter().filter(|peer| peer.name != member.name)
}

fn own_peer_url(member: &EtcdMember) -> Result<&str, PartError> {
    let own = member.members.iter().find(|peer| peer.name == member.name);
    own.map(|peer| peer.peer_url.as_str())
        .ok_or_else(|| PartError::Etcd(format!("{} is not among the wanted members", member.name)))
}

async fn ask_peers(cx: &Context, member: &EtcdMember) -> Result<Vec<PeerEvidence>, PartError> {
    let credentials = credentials(cx, member)?;
    let peer_url = own_peer_url(member)?;
    let asked = others(member).map(|peer| {
        let endpoint = Endpoint::new(&peer.client_url, &credentials, ASK);
        async move { PeerEvidence { name: peer.name.clone(), answer: ask(&endpoint, peer_url).await } }
    });
    Ok(join_all(asked).await)
}

async fn ask(endpoint: &Endpoint, own_peer_url: &str) -> PeerAnswer {
    let status = match endpoint.status().await {
        Ok(status) => status,
        Err(error) => return PeerAnswer::Silent(error.to_string()),
    };
    match endpoint.members().await {
        Ok(members) => {
            let own = members.iter().find(|listed| listed.peer_urls.iter().any(|url| url == own_peer_url));
            let knows_us_started = own.is_some_and(|listed| !listed.name.is_empty() && listed.has_started);
            PeerAnswer::Serving { cluster: status.cluster, knows_us_started }
        }
        Err(error) => PeerAnswer::Silent(format!("it answers, without quorum: {error}")),
    }
}

/// Begins to form: the attempt is on the volume first, then in the ledger, then the member may start.
fn form(cx: &Context, member: &EtcdMember, at: &Path, attempt: &FormAttempt) -> Result<Changes, PartError> {
    let manifest = member.form_manifest.as_ref().ok_or_else(|| PartError::Config {
        what: "etcd".to_owned(),
        problem: "a permit to form without a manifest to form with".to_owned(),
    })?;
    let label = label(at)?;
    if label.attempt.as_ref() != Some(attempt) {
        let label = Label { attempt: Some(attempt.clone()), ..label };
        label.write(at).map_err(PartError::file(&at.join(volumes::LABEL)))?;
    }
    cx.ledger.update(|ledger| {
        let formed = ledger.etcd.as_ref().is_some_and(|record| record.formed);
        ledger.etcd = Some(EtcdRecord { attempt: attempt.clone(), formed });
    })?;
    let stamp = stamp(cx);
    files::ensure(&stamp, hash(&member.manifest).as_bytes(), 0o644, None).map_err(PartError::file(&stamp))?;
    let changed = lay(cx, member, manifest)?;
    Ok(changed.then(|| format!("forms the cluster (attempt {attempt})")).into_iter().collect())
}

/// Starts from data. The manifest with which this boot formed stays: replacing it would only restart the member.
fn restart(cx: &Context, member: &EtcdMember, at: &Path, evidence: &Evidence) -> Result<Changes, PartError> {
    let attempt = attempt_of(member);
    let formed = evidence.volume.formed || evidence.ledger.formed;
    cx.ledger.update(|ledger| ledger.etcd = Some(EtcdRecord { attempt: attempt.clone(), formed }))?;
    let label = label(at)?;
    if label.attempt.is_none() && label.formed_by.is_none() {
        let label = Label { attempt: Some(attempt.clone()), ..label };
        label.write(at).map_err(PartError::file(&at.join(volumes::LABEL)))?;
    }
    let stamp = stamp(cx);
    let formed_with = files::read_text(&stamp).map_err(PartError::file(&stamp))?;
    let laid = cx.host.root.at(&member.manifest_path);
    if formed_with.as_deref() == Some(&hash(&member.manifest)) && laid.exists() {
        link(cx, member, false)?;
        return Ok(Changes::new());
    }
    let changed = lay(cx, member, &member.manifest)?;
    Ok(changed.then(|| "starts from its data".to_owned()).into_iter().collect())
}

/// One step into a living cluster; changes once the member may start.
async fn join(cx: &Context, member: &EtcdMember, at: &Path) -> Result<Option<Changes>, PartError> {
    let credentials = credentials(cx, member)?;
    let peer_url = own_peer_url(member)?;
    let Some((endpoint, members)) = living_cluster(member, &credentials).await else {
        cx.board.waiting(MANIFEST_PART, "a member with quorum to join");
        return Ok(None);
    };
    let done = |operation: &str, outcome: Result<(), windlass_etcd::client::EtcdError>| match outcome {
        Ok(()) => cx.board.waiting(MANIFEST_PART, format!("joining: {operation}")),
        Err(error) => cx.board.waiting(MANIFEST_PART, format!("joining: {operation}: {error}")),
    };
    match membership::next_step(&members, peer_url) {
        Step::Remove(id) => done(&format!("removing the lost member {id:x}"), endpoint.remove(id).await),
        Step::AddLearner => done("being added as a learner", endpoint.add_learner(peer_url).await),
        Step::Wait(missing) => cx.board.waiting(MANIFEST_PART, missing),
        Step::Start => {
            let attempt = attempt_of(member).clone();
            let label = Label { attempt: Some(attempt.clone()), formed_by: Some(attempt.clone()), ..label(at)? };
            label.write(at).map_err(PartError::file(&at.join(volumes::LABEL)))?;
            cx.ledger.update(|ledger| ledger.etcd = Some(EtcdRecord { attempt, formed: true }))?;
            lay(cx, member, &member.manifest)?;
            return Ok(Some(vec!["joined as a learner".to_owned()]));
        }
    }
    Ok(None)
}

/// A peer that answers with quorum, and the list it gives, with who answers.
async fn living_cluster(member: &EtcdMember, credentials: &Credentials) -> Option<(Endpoint, Vec<membership::Member>)> {
    let endpoints: Vec<(&EtcdPeer, Endpoint)> =
        others(member).map(|peer| (peer, Endpoint::new(&peer.client_url, credentials, CHANGE))).collect();
    let answers = join_all(endpoints.iter().map(|(_, endpoint)| endpoint.members())).await;
    let answering: Vec<&str> = endpoints
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_ok())
        .map(|((peer, _), _)| peer.name.as_str())
        .collect();
    let (endpoint, members) =
        endpoints.iter().zip(&answers).find_map(|((_, endpoint), answer)| Some((endpoint, answer.as_ref().ok()?)))?;
    let mut members = members.clone();
    for listed in &mut members {
        listed.answers = answering.contains(&listed.name.as_str());
    }
    Some((endpoint.clone(), members))
}

/// Gives this learner its vote, asking each peer; errors mean "not yet".
pub async fn promote(member: &EtcdMember, credentials: &Credentials, id: u64) {
    for peer in others(member) {
        match Endpoint::new(&peer.client_url, credentials, CHANGE).promote(id).await {
            Ok(()) => return,
            Err(error) => tracing::debug!("promotion: {error}"),
        }
    }
}

/// Records, on the volume first, that the cluster is formed.
///
/// # Errors
/// When label or ledger cannot be written.
pub fn record_formed(cx: &Context, member: &EtcdMember) -> Result<(), PartError> {
    let at = volumes::mount_point(&cx.host, &cx.config().volumes, &member.volume)?;
    let attempt = attempt_of(member);
    let label = label(&at)?;
    if label.formed_by.as_ref() != Some(attempt) {
        let label = Label { formed_by: Some(attempt.clone()), ..label };
        label.write(&at).map_err(PartError::file(&at.join(volumes::LABEL)))?;
    }
    cx.ledger.update(|ledger| ledger.etcd = Some(EtcdRecord { attempt: attempt.clone(), formed: true }))?;
    Ok(())
}

/// Below `/run`: which restart manifest belongs to the forming manifest laid in this boot.
fn stamp(cx: &Context) -> PathBuf {
    cx.host.root.at(format!("{}/etcd-formed-with", paths::RUN_DIR))
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// Writes the manifest on the volume and links it; says whether it differed.
fn lay(cx: &Context, member: &EtcdMember, manifest: &str) -> Result<bool, PartError> {
    let path = cx.host.root.at(&member.manifest_path);
    let changed = files::ensure(&path, manifest.as_bytes(), 0o600, None).map_err(PartError::file(&path))?;
    link(cx, member, changed)?;
    Ok(changed)
}

/// Makes the link when it is missing, wrong, older than this boot, or what it points to was edited.
fn link(cx: &Context, member: &EtcdMember, edited: bool) -> Result<(), PartError> {
    let name = Path::new(&member.manifest_path).file_name().unwrap_or_default();
    let link = cx.host.root.at(&cx.config().kubelet.manifest_dir).join(name);
    let target = cx.host.root.at(&member.manifest_path);
    let made = cx.host.root.at(format!("{}/etcd-linked", paths::RUN_DIR));
    let is_right = fs_err::read_link(&link).is_ok_and(|found| found == target);
    if is_right && !edited && made.exists() {
        return Ok(());
    }
    let parent = link.parent().unwrap_or(Path::new("/"));
    fs_err::create_dir_all(parent).map_err(PartError::file(parent))?;
    let beside = parent.join(".etcd-link");
    files::remove(&beside).map_err(PartError::file(&beside))?;
    std::os::unix::fs::symlink(&target, &beside).map_err(PartError::file(&beside))?;
    fs_err::rename(&beside, &link).map_err(PartError::file(&link))?;
    files::ensure(&made, b"", 0o644, None).map(drop).map_err(PartError::file(&made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;
    use windlass_spec::report::PartState;

    fn forming() -> fixture::Machine {
        let mut machine = fixture::machine();
        machine.etcd(EtcdPermit::Form { attempt: "x".into() });
        machine
    }

    async fn prepared(machine: &fixture::Machine) -> Context {
        let cx = machine.context();
        certificates::apply(&cx).await.unwrap();
        let volume = cx.config().volumes[0].clone();
        volumes::apply(&cx, &volume).await.unwrap();
        cx
    }

    fn laid(machine: &fixture::Machine) -> String {
        fs_err::read_to_string(machine.path("/etc/kubernetes/manifests/etcd.yaml")).unwrap()
    }

    fn pretend_to_run(machine: &fixture::Machine) {
        let wal = machine.path("/var/lib/windlass/volumes/etcd-main/data/member/wal");
        fs_err::create_dir_all(&wal).unwrap();
        fs_err::write(wal.join("0.wal"), "").unwrap();
    }

    #[tokio::test]
    async fn it_forms_once_and_keeps_the_manifest_until_the_next_boot() {
        let mut machine = forming();
        let cx = prepared(&machine).await;
        let member = cx.config().etcd.clone().unwrap();
        assert_eq!(apply(&cx, &member).await.unwrap(), ["forms the cluster (attempt x)"]);
        assert!(apply(&cx, &member).await.unwrap().is_empty());
        assert_eq!(laid(&machine), "form");
        assert_eq!(cx.ledger.get().etcd, Some(EtcdRecord { attempt: "x".into(), formed: false }));

        pretend_to_run(&machine);
        record_formed(&cx, &member).unwrap();
        machine.etcd(EtcdPermit::Join { formed_by: "x".into() });
        let cx = machine.context();
        let member = cx.config().etcd.clone().unwrap();
        assert!(apply(&cx, &member).await.unwrap().is_empty());
        assert_eq!(laid(&machine), "form", "nothing restarts a member that just formed");

        fs_err::remove_dir_all(machine.path("/run/windlass")).unwrap();
        assert_eq!(apply(&cx, &member).await.unwrap(), ["starts from its data"]);
        assert_eq!(laid(&machine), "restart");
    }

    #[tokio::test]
    async fn b18_with_a_blank_volume_it_waits_and_says_what_is_missing() {
        let mut machine = forming();
        let cx = prepared(&machine).await;
        let member = cx.config().etcd.clone().unwrap();
        apply(&cx, &member).await.unwrap();
        fs_err::remove_dir_all(machine.path("/disks")).unwrap();
        fs_err::remove_dir_all(machine.path("/run/windlass")).unwrap();
        fs_err::remove_file(machine.path("/etc/kubernetes/manifests/etcd.yaml")).unwrap();
        machine.etcd(EtcdPermit::Join { formed_by: "x".into() });
        let cx = prepared(&machine).await;
        let member = cx.config().etcd.clone().unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(1500), apply(&cx, &member)).await;
        assert!(waited.is_err(), "it goes on waiting");
        let Some(PartState::Waiting { reason }) = cx.board.state(MANIFEST_PART) else {
            panic!("{:?}", cx.board.report())
        };
        assert!(reason.contains("the volume is blank") && reason.contains("never formed anew"), "{reason}");
        assert!(!machine.path("/etc/kubernetes/manifests/etcd.yaml").exists());
    }
}
