//! This machine's etcd member: its volume, its manifests, the wanted members.
//!
//! The manifests lie on the volume, so etcd cannot start without its disk. One forms the cluster with the attempt's
//! token; the other starts from data, or joins.

use windlass_spec::full::Etcd;
use windlass_spec::identity::{Role, Slot};
use windlass_spec::node_config::{DeviceSelector, EtcdMember, EtcdPeer, EtcdPermit, Volume};
use windlass_spec::{names, paths};

use super::certificates::ETCD_AGENT;
use super::flags::{FlagMap, command, flags, merged};
use super::pod::{ControlPlanePod, Health, HostMount};
use crate::inputs::{NodeInputs, RenderError};
use crate::yaml;

/// Where the manifest lies on the volume.
const MANIFEST: &str = "/var/lib/windlass/volumes/etcd-main/manifest/etcd.yaml";
const METRICS_PORT: u16 = 2381;

/// The etcd cluster that holds the cluster's state.
pub(super) fn main<'a>(inputs: &NodeInputs<'a>) -> Result<&'a Etcd, RenderError> {
    inputs.full.etcd.first().ok_or(RenderError::NoEtcd)
}

/// The slot of this machine, where it has a member.
fn member_slot(inputs: &NodeInputs<'_>) -> Result<Option<Slot>, RenderError> {
    let etcd = main(inputs)?;
    let slot = inputs.machine.slot.filter(|_| inputs.machine.role == Role::ControlPlane);
    Ok(slot.filter(|slot| etcd.members.contains(slot)))
}

/// The member's volume.
pub(super) fn volumes(inputs: &NodeInputs<'_>) -> Result<Vec<Volume>, RenderError> {
    let Some(slot) = member_slot(inputs)? else { return Ok(Vec::new()) };
    let etcd = main(inputs)?;
    Ok(vec![Volume {
        name: volume_name(etcd),
        device: DeviceSelector::Tag(names::etcd_volume(&etcd.name, slot)),
        slot,
        mount_point: paths::ETCD_VOLUME.to_owned(),
        filesystem: "ext4".to_owned(),
    }])
}

fn volume_name(etcd: &Etcd) -> String {
    format!("etcd-{}", etcd.name)
}

/// The member.
pub(super) fn member(inputs: &NodeInputs<'_>) -> Result<Option<EtcdMember>, RenderError> {
    let Some(slot) = member_slot(inputs)? else { return Ok(None) };
    let etcd = main(inputs)?;
    let form_manifest = match inputs.permit {
        EtcdPermit::Form { attempt } => Some(manifest(inputs, slot, "new", Some(attempt.as_str()))?),
        EtcdPermit::Join { .. } => None,
    };
    Ok(Some(EtcdMember {
        cluster: etcd.name.clone(),
        name: names::etcd_member(slot),
        volume: volume_name(etcd),
        permit: inputs.permit.clone(),
        members: peers(inputs)?,
        members_generation: inputs.members_generation,
        data_dir: data_dir(inputs),
        form_manifest,
        manifest: manifest(inputs, slot, "existing", None)?,
        manifest_path: MANIFEST.to_owned(),
        client_url: url(&inputs.machine.address.to_string(), etcd.client_port),
        client_certificate: ETCD_AGENT.to_owned(),
    }))
}

/// Every wanted member, by slot.
pub(super) fn peers(inputs: &NodeInputs<'_>) -> Result<Vec<EtcdPeer>, RenderError> {
    let etcd = main(inputs)?;
    let peer = |&slot: &Slot| {
        let host = names::etcd_host(&inputs.full.name, slot);
        EtcdPeer {
            slot,
            name: names::etcd_member(slot),
            peer_url: url(&host, etcd.peer_port),
            client_url: url(&host, etcd.client_port),
        }
    };
    Ok(etcd.members.iter().map(peer).collect())
}

/// What an API server on this machine asks: the member beside it alone, so that it fails and heals with it; a machine
/// without a member asks all of them.
pub(super) fn client_urls(inputs: &NodeInputs<'_>) -> Result<Vec<String>, RenderError> {
    Ok(match member_slot(inputs)? {
        Some(_) => vec![url("127.0.0.1", main(inputs)?.client_port)],
        None => peers(inputs)?.into_iter().map(|peer| peer.client_url).collect(),
    })
}

fn url(host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("https://{host}:{port}")
}

fn data_dir(inputs: &NodeInputs<'_>) -> String {
    inputs.full.components.etcd.set.get("data-dir").cloned().unwrap_or_else(|| paths::ETCD_DATA.to_owned())
}

fn manifest(
    inputs: &NodeInputs<'_>,
    slot: Slot,
    state: &'static str,
    token: Option<&str>,
) -> Result<String, RenderError> {
    let all = merged(member_flags(inputs, slot, state, token)?, &inputs.full.components.etcd);
    let pod = ControlPlanePod {
        name: "etcd",
        image: inputs.full.release.images.get("etcd").cloned().ok_or(RenderError::NoImage("etcd"))?,
        command: command("etcd", &all),
        annotations: Default::default(),
        mounts: vec![
            HostMount::writable(&data_dir(inputs)),
            HostMount::directory(&format!("{}/etcd", paths::PKI)),
            // The agent rewrites it in place, so the pod sees new addresses of its peers.
            HostMount::file("/etc/hosts"),
        ],
        health: Health {
            host: "127.0.0.1".to_owned(),
            port: METRICS_PORT,
            scheme: "HTTP",
            live: "/livez",
            ready: "/readyz",
        },
        cpu: "100m",
        memory: Some("100Mi"),
    };
    Ok(yaml::document(&pod.to_value()))
}

fn member_flags(
    inputs: &NodeInputs<'_>,
    slot: Slot,
    state: &'static str,
    token: Option<&str>,
) -> Result<FlagMap, RenderError> {
    let etcd = main(inputs)?;
    let host = names::etcd_host(&inputs.full.name, slot);
    let address = inputs.machine.address.to_string();
    let initial: Vec<String> =
        peers(inputs)?.into_iter().map(|peer| format!("{}={}", peer.name, peer.peer_url)).collect();
    let client = |host: &str| url(host, etcd.client_port);
    let mut all = flags([
        ("name", names::etcd_member(slot)),
        ("listen-client-urls", format!("{},{}", client("127.0.0.1"), client(&address))),
        ("advertise-client-urls", client(&host)),
        ("listen-peer-urls", url(&address, etcd.peer_port)),
        ("initial-advertise-peer-urls", url(&host, etcd.peer_port)),
        ("initial-cluster", initial.join(",")),
        ("initial-cluster-state", state.to_owned()),
        ("listen-metrics-urls", format!("http://127.0.0.1:{METRICS_PORT}")),
    ]);
    all.extend(token.map(|token| ("initial-cluster-token".to_owned(), token.to_owned())));
    Ok(all)
}
