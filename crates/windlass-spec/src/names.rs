//! Names made from a cluster's name: machines, objects, DNS. They are made here and nowhere else.
//!
//! Inputs: cluster, group, slot, number. Outputs: names, and [`LIMIT`], which each of them keeps when the document is
//! valid.

use crate::identity::Slot;

/// Longest Node name, label value and DNS label.
pub const LIMIT: usize = 63;
/// Group of the control-plane machines; no worker group may be called so.
pub const CONTROL_PLANE_GROUP: &str = "cp";
/// The etcd cluster that holds a cluster's state.
pub const MAIN_ETCD: &str = "main";
/// Domain under which each cluster has a zone.
pub const DOMAIN: &str = "windlass.internal";
/// Characters kept for what follows `CLUSTER-GROUP`: `-` and a machine's number of up to five digits, or `-` and the
/// eight characters by which MachineSets of one group differ.
pub const GROUP_SUFFIX: usize = 9;

/// A control-plane machine: `lab-cp-a`.
pub fn control_plane_machine(cluster: &str, slot: Slot) -> String {
    format!("{cluster}-{CONTROL_PLANE_GROUP}-{slot}")
}

/// A worker: `lab-md-1`; numbers count from one.
pub fn worker_machine(cluster: &str, group: &str, number: u32) -> String {
    format!("{cluster}-{group}-{number}")
}

/// The MachineDeployment of a group: `lab-md`.
pub fn machine_deployment(cluster: &str, group: &str) -> String {
    format!("{cluster}-{group}")
}

/// A MachineSet of a group; `hash` has at most eight characters.
pub fn machine_set(cluster: &str, group: &str, hash: &str) -> String {
    format!("{cluster}-{group}-{hash}")
}

/// The cluster's DNS zone: `lab.windlass.internal`.
pub fn zone(cluster: &str) -> String {
    format!("{cluster}.{DOMAIN}")
}

/// The endpoint's DNS name: `api.lab.windlass.internal`.
pub fn endpoint(cluster: &str) -> String {
    format!("api.{}", zone(cluster))
}

/// The endpoint's DNS name for machines: `api.internal.lab.windlass.internal`.
pub fn internal_endpoint(cluster: &str) -> String {
    format!("api.internal.{}", zone(cluster))
}

/// An etcd member: `etcd-a`.
pub fn etcd_member(slot: Slot) -> String {
    format!("etcd-{slot}")
}

/// An etcd member's DNS name: `etcd-a.lab.windlass.internal`.
pub fn etcd_host(cluster: &str, slot: Slot) -> String {
    format!("{}.{}", etcd_member(slot), zone(cluster))
}

/// An etcd volume, also the tag its machine finds it by: `etcd-main-a`.
pub fn etcd_volume(etcd: &str, slot: Slot) -> String {
    format!("etcd-{etcd}-{slot}")
}
