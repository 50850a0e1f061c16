//! Machines: control plane, worker groups, etcd.
//!
//! Input: the spec. Outputs: the same with every value, counts as slots.

use crate::full::{ControlPlane, Etcd, Origin, Release, WorkerGroup};
use crate::identity::Slot;
use crate::node_config::{Taint, TaintEffect};
use crate::problems::Problem;
use crate::v1alpha1::{self, ClusterSpec};
use crate::values::{Version, VersionWish, parse_size};
use crate::{names, releases};

use super::Draft;

/// Label and taint of control-plane Nodes.
pub const CONTROL_PLANE_KEY: &str = "node-role.kubernetes.io/control-plane";
const DEFAULT_VOLUME: &str = "2Gi";
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;

/// The control plane, with its taint while there are workers.
pub(super) fn control_plane(draft: &mut Draft, spec: &ClusterSpec) -> ControlPlane {
    let wish = &spec.control_plane;
    let origins = &mut draft.origins;
    let count = origins.choose("controlPlane.slots", wish.count, 1);
    let dedicated = origins.choose("controlPlane.dedicated", wish.dedicated, true);
    let mut taints = origins.own("controlPlane.taints", wish.taints.clone());
    if dedicated && has_workers(spec) {
        origins.mark(format!("controlPlane.taints[{}]", taints.len()), Origin::Derived);
        taints.push(control_plane_taint());
    }
    let labels = origins.own("controlPlane.labels", wish.labels.clone());
    let failure_domains = origins.own("controlPlane.failureDomains", wish.failure_domains.clone());
    let slots = slots(draft, count);
    ControlPlane { slots, dedicated, labels, taints, failure_domains }
}

fn slots(draft: &mut Draft, count: u32) -> Vec<Slot> {
    let places = Slot::ALL.len();
    match usize::try_from(count) {
        Ok(count) if (1..=places).contains(&count) => Slot::first(count).to_vec(),
        _ => {
            let message = format!("a control plane has 1 to {places} machines, not {count}");
            draft.problems.push(Problem::error("control-plane-count", "spec.controlPlane.count", message));
            Vec::new()
        }
    }
}

/// `node-role.kubernetes.io/control-plane:NoSchedule`.
pub fn control_plane_taint() -> Taint {
    Taint { key: CONTROL_PLANE_KEY.to_owned(), value: String::new(), effect: TaintEffect::NoSchedule }
}

/// Is there a machine but the control plane's?
pub(crate) fn has_workers(spec: &ClusterSpec) -> bool {
    spec.workers.iter().any(|group| group.count.unwrap_or(1) > 0)
}

/// Worker groups.
pub(super) fn workers(draft: &mut Draft, spec: &ClusterSpec, release: &Release) -> Vec<WorkerGroup> {
    spec.workers.iter().enumerate().map(|(index, group)| worker_group(draft, index, group, release)).collect()
}

fn worker_group(draft: &mut Draft, index: usize, group: &v1alpha1::WorkerGroup, release: &Release) -> WorkerGroup {
    let path = format!("workers[{index}]");
    let origins = &mut draft.origins;
    origins.mark(path.clone(), Origin::User);
    let wish = group.version.as_deref();
    origins.derive(&format!("{path}.version"), wish, "");
    let max_surge = origins.choose(&format!("{path}.maxSurge"), group.rollout.max_surge, 1);
    let max_unavailable = origins.choose(&format!("{path}.maxUnavailable"), group.rollout.max_unavailable, 0);
    WorkerGroup {
        name: group.name.clone(),
        count: origins.choose(&format!("{path}.count"), group.count, 1),
        labels: origins.own(&format!("{path}.labels"), group.labels.clone()),
        taints: origins.own(&format!("{path}.taints"), group.taints.clone()),
        max_surge,
        max_unavailable,
        version: version(draft, &format!("spec.{path}.version"), wish, release),
    }
}

/// A group's version: the cluster's own release when that fulfils the wish, else the newest supported one that does.
fn version(draft: &mut Draft, path: &str, wish: Option<&str>, release: &Release) -> String {
    let own = release.kubernetes.clone();
    let Some(text) = wish else { return own };
    let Some(wish) = draft.take(path, text.parse::<VersionWish>()) else { return own };
    if own.parse::<Version>().is_ok_and(|own| wish.admits(own)) {
        return own;
    }
    let chosen = releases::choose(Some(wish)).ok_or_else(|| format!("version {wish} is not supported"));
    draft.take(path, chosen).map_or(own, |version| version.to_string())
}

/// Is the release another version than asked for?
pub(super) fn version_mismatch(path: &str, wish: &str, release: &Release) -> Option<Problem> {
    match wish.parse::<VersionWish>() {
        Err(error) => Some(Problem::error("version", path, error.to_string())),
        Ok(wish) if release.kubernetes.parse::<Version>().is_ok_and(|version| wish.admits(version)) => None,
        Ok(wish) => {
            let message = format!("version {wish} is asked for, but the bundle holds {}", release.kubernetes);
            Some(Problem::error("version", path, message))
        }
    }
}

/// etcd clusters; `main` with a member on every slot unless the spec says otherwise.
pub(super) fn etcd(draft: &mut Draft, spec: &ClusterSpec, slots: &[Slot]) -> Vec<Etcd> {
    let wished = if spec.etcd.is_empty() {
        draft.origins.mark("etcd", Origin::Default);
        vec![v1alpha1::Etcd { name: names::MAIN_ETCD.to_owned(), ..v1alpha1::Etcd::default() }]
    } else {
        draft.origins.mark("etcd", Origin::User);
        spec.etcd.clone()
    };
    wished.iter().enumerate().map(|(index, etcd)| etcd_cluster(draft, index, etcd, slots)).collect()
}

fn etcd_cluster(draft: &mut Draft, index: usize, etcd: &v1alpha1::Etcd, slots: &[Slot]) -> Etcd {
    let path = format!("etcd[{index}]");
    let members = Some(&etcd.members).filter(|members| !members.is_empty()).cloned();
    let size = draft.origins.choose(&format!("{path}.volumeBytes"), etcd.volume.size.as_deref(), DEFAULT_VOLUME);
    let volume_bytes = draft.take(&format!("spec.{path}.volume.size"), parse_size(size)).unwrap_or_default();
    draft.origins.mark(format!("{path}.clientPort"), Origin::Default);
    draft.origins.mark(format!("{path}.peerPort"), Origin::Default);
    Etcd {
        name: etcd.name.clone(),
        members: draft.origins.derive(&format!("{path}.members"), members, slots.to_vec()),
        volume_bytes,
        client_port: CLIENT_PORT,
        peer_port: PEER_PORT,
    }
}
