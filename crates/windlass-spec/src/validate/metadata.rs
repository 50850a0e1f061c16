//! Names, and the names made from them.

use super::{duplicates, syntax};
use crate::identity::Slot;
use crate::names;
use crate::problems::Problem;
use crate::resolve::join;
use crate::v1alpha1::Cluster;

/// A longer cluster name leaves less than this for the names of worker groups.
const ROOM_FOR_GROUPS: usize = 8;

/// Checks names, labels and annotations of the document, and names of groups.
pub(super) fn check(cluster: &Cluster, found: &mut Vec<Problem>) {
    label("metadata.name", "the cluster's name", &cluster.metadata.name, found);
    if let Some(namespace) = &cluster.metadata.namespace {
        label("metadata.namespace", "the namespace", namespace, found);
    }
    object_names(cluster, found);
    groups(cluster, found);
    lengths(cluster, found);
}

/// A name that becomes a DNS label.
pub(super) fn label(path: &str, what: &str, name: &str, found: &mut Vec<Problem>) {
    if name.is_empty() {
        found.push(Problem::error("name", path, format!("{what} is empty")));
    } else if !syntax::is_dns_label(name) && name.len() <= names::LIMIT {
        let problem = Problem::error("name", path, format!("{what} `{name}` is no DNS label"));
        let proposal: String = name.to_lowercase().replace(['_', '.', ' '], "-");
        let hint = "lower-case letters, digits and `-` are allowed, a letter or digit at both ends";
        let hint = if syntax::is_dns_label(&proposal) { format!("{hint}: `{proposal}`") } else { hint.to_owned() };
        found.push(problem.hint(hint));
    } else if name.len() > names::LIMIT {
        let message = format!("{what} has {} characters", name.len());
        found.push(Problem::error("name", path, message).label(format!("at most {} are allowed", names::LIMIT)));
    }
}

fn object_names(cluster: &Cluster, found: &mut Vec<Problem>) {
    for (field, map) in [("labels", &cluster.metadata.labels), ("annotations", &cluster.metadata.annotations)] {
        for (key, value) in map {
            let path = join(&format!("metadata.{field}"), key);
            if !syntax::is_qualified_name(key) {
                let message = format!("`{key}` is no name of a label or annotation");
                found.push(Problem::error("label", path, message).on_key().hint("`[dns.name/]name` is wanted"));
            } else if field == "labels" && !syntax::is_label_value(value) {
                found.push(Problem::error("label", path, format!("`{value}` is no label's value")));
            } else if key.starts_with("windlass.dev/") {
                let message = format!("`{key}` is Windlass's own");
                found.push(Problem::error("reserved-label", path, message).on_key());
            }
        }
    }
}

fn groups(cluster: &Cluster, found: &mut Vec<Problem>) {
    let workers = cluster.spec.workers.iter().enumerate();
    for (index, group) in workers.clone() {
        let path = format!("spec.workers[{index}].name");
        label(&path, "the group's name", &group.name, found);
        if group.name == names::CONTROL_PLANE_GROUP {
            let message = format!("`{}` is the group of the control plane", group.name);
            found.push(Problem::error("reserved-name", path, message).hint("call the group otherwise, such as `md`"));
        }
    }
    duplicates(
        found,
        "group",
        workers.map(|(index, group)| (format!("spec.workers[{index}].name"), group.name.as_str())),
    );
}

/// Names of machines and objects are made from the cluster's and the group's, and must stay within a label.
fn lengths(cluster: &Cluster, found: &mut Vec<Problem>) {
    let name = &cluster.metadata.name;
    if name.len() > names::LIMIT {
        return;
    }
    let longest = names::control_plane_machine(name, Slot::A);
    if longest.len() > names::LIMIT {
        let most = names::LIMIT - (longest.len() - name.len());
        let message = format!("the cluster's name has {} characters", name.len());
        let problem =
            Problem::error("name-length", "metadata.name", message).label(format!("at most {most} are allowed"));
        found
            .push(problem.hint(format!("its machines are called `{longest}`, which must not exceed {}", names::LIMIT)));
        return;
    }
    for (index, group) in cluster.spec.workers.iter().enumerate() {
        group_length(name, &group.name, &format!("spec.workers[{index}].name"), found);
    }
    let left = room(name);
    if left < ROOM_FOR_GROUPS && cluster.spec.workers.is_empty() {
        let message = format!("the cluster's name leaves {left} characters for names of worker groups");
        found.push(
            Problem::warning("name-length", "metadata.name", message)
                .hint("a name is for life; a shorter one leaves more"),
        );
    }
}

/// Characters left for a group's name.
fn room(cluster: &str) -> usize {
    names::LIMIT.saturating_sub(names::machine_deployment(cluster, "").len() + names::GROUP_SUFFIX)
}

fn group_length(cluster: &str, group: &str, path: &str, found: &mut Vec<Problem>) {
    let left = room(cluster);
    if group.len() <= left || group.len() > names::LIMIT {
        return;
    }
    let message = format!("the group's name has {} characters", group.len());
    let problem = Problem::error("name-length", path, message).label(format!("at most {left} are allowed"));
    let full = names::machine_set(cluster, group, "12345678");
    found.push(
        problem.hint(format!("machines and objects are called as in `{full}`, which must not exceed {}", names::LIMIT)),
    );
}
