//! A plan as text.
//!
//! Input: a [`View`]. Output: tables as kubectl prints them.

use windlass_spec::identity::Role;

use super::view::View;
use crate::output::Table;

/// What `windlass apply` makes of changes.
const APPLIED: &str = "`windlass apply` carries out new counts of worker groups; it refuses the rest.\n";

/// The whole text.
pub(super) fn render(view: &View, wide: bool) -> String {
    let mut sections = vec![heading(view), machines(view), volumes(view), network(view)];
    if wide {
        sections.push(components(view));
    }
    if view.exists || wide {
        sections.push(actions(view));
    }
    sections.push(drift(view));
    if view.bundle == windlass_spec::releases::UNBUILT {
        sections.push(format!("The bundle of Kubernetes {} is not built yet: `windlass bundle build` does it, `windlass create cluster` otherwise.\n", view.kubernetes));
    }
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn heading(view: &View) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let (name, kubernetes) = (&view.cluster, &view.kubernetes);
    match (view.exists, view.plan.actions.len()) {
        (true, 0) if view.plan.drift.is_empty() => {
            format!("Cluster {name} (Kubernetes {kubernetes}) is as the spec says: nothing to do.\n")
        }
        (true, 0) => {
            format!("Cluster {name} (Kubernetes {kubernetes}) was changed by hand, the spec was not: nothing to do.\n")
        }
        (true, changes) => {
            format!("Cluster {name} (Kubernetes {kubernetes}) differs from the spec: {}.\n", count(changes, "change"))
        }
        (false, _) => {
            let machines = count(view.machines.len(), "machine");
            let volumes = count(view.volumes.len(), "volume");
            format!("Cluster {name} (Kubernetes {kubernetes}) would be made: {machines}, {volumes}.\n")
        }
    }
}

fn machines(view: &View) -> String {
    let mut table = Table::new(&["MACHINE", "ROLE", "GROUP", "KUBERNETES", "ADDRESS", "VOLUMES", "NOW"]);
    for machine in &view.machines {
        let role = match machine.role {
            Role::ControlPlane => "control-plane",
            Role::Worker => "worker",
        };
        table.row([
            machine.name.clone(),
            role.to_owned(),
            machine.group.clone(),
            machine.version.clone(),
            machine.address.map_or("-".to_owned(), |address| address.to_string()),
            if machine.volumes.is_empty() { "-".to_owned() } else { machine.volumes.join(",") },
            match (machine.exists, machine.goes) {
                (false, _) => "new",
                (true, false) => "exists",
                (true, true) => "goes",
            }
            .to_owned(),
        ]);
    }
    table.render()
}

fn volumes(view: &View) -> String {
    let mut table = Table::new(&["VOLUME", "SIZE", "MACHINE", "NOW"]);
    for volume in &view.volumes {
        table.row([
            volume.name.clone(),
            size(volume.bytes),
            volume.machine.clone().unwrap_or_else(|| "-".to_owned()),
            if volume.will_format { "new, will format (only what is blank)" } else { "exists, kept" }.to_owned(),
        ]);
    }
    table.render()
}

fn size(bytes: u64) -> String {
    match (bytes >> 30, bytes >> 20) {
        (whole, _) if whole > 0 && bytes.is_multiple_of(1 << 30) => format!("{whole}Gi"),
        (_, mebibytes) => format!("{mebibytes}Mi"),
    }
}

fn network(view: &View) -> String {
    let network = &view.network;
    let list = |ranges: &[ipnet::IpNet]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut table = Table::new(&["NETWORK", "VALUE"]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    if let Some(subnet) = network.machines {
        row("machines", format!("{subnet} (free now; kept at create)"));
    }
    row("pods", list(&network.pods));
    row("services", list(&network.services));
    row("zone", network.zone.clone());
    row("endpoint", network.endpoint.map_or(view.endpoint.clone(), |address| format!("{} ({address})", view.endpoint)));
    table.render()
}

fn components(view: &View) -> String {
    let mut table = Table::new(&["COMPONENT", "VERSION"]);
    table.row(["kubernetes".to_owned(), view.kubernetes.clone()]);
    for (name, version) in &view.components {
        table.row([name.clone(), version.clone()]);
    }
    table.row(["bundle".to_owned(), view.bundle.clone()]);
    table.render()
}

fn actions(view: &View) -> String {
    if view.plan.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["CLASS", "TARGET", "ACTION", "REASON"]);
    for action in &view.plan.actions {
        let class = format!("{:?}", action.class);
        table.row([class, action.target.clone(), action.action.clone(), action.reason.clone()]);
    }
    table.render() + if view.exists { APPLIED } else { "" }
}

fn drift(view: &View) -> String {
    view.plan.drift.iter().map(|drift| format!("{drift}\n")).collect()
}
