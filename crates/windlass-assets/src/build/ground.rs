//! What this computer lacks for a build, told all at once and before anything is done.

use crate::manifest::{Manifest, Need, numbers};
use crate::tool::Tools;

use super::go::Toolchain;
use super::{BuildError, Pending};

/// Refuses when something is missing for what is to be built.
pub(super) fn check(
    manifest: &Manifest,
    tools: &Tools,
    toolchain: Option<&Toolchain>,
    todo: &Pending,
) -> Result<(), BuildError> {
    let mut missing = Vec::new();
    if todo.go
        && let Some(problem) = go_problem(manifest, toolchain)
    {
        missing.push(problem);
    }
    let wanted = manifest.toolchain.needs.iter().filter(|need| matters(need, todo));
    let absent: Vec<&Need> = wanted.filter(|need| !present(need, tools)).collect();
    missing.extend(absent.iter().map(|need| format!("{} is missing", name(need))));
    if missing.is_empty() { Ok(()) } else { Err(BuildError::Ground { missing, remedy: remedy(&absent) }) }
}

/// The error for a build without Go.
pub(super) fn no_go(manifest: &Manifest) -> BuildError {
    let missing = go_problem(manifest, None).into_iter().collect();
    BuildError::Ground { missing, remedy: remedy(&[]) }
}

fn go_problem(manifest: &Manifest, toolchain: Option<&Toolchain>) -> Option<String> {
    let wanted = &manifest.toolchain.go;
    match toolchain {
        None => Some(format!("Go {wanted} or newer is missing")),
        Some(found) if numbers(found.number()) < numbers(wanted) => {
            Some(format!("Go {} is too old: {wanted} or newer is needed", found.number()))
        }
        Some(_) => None,
    }
}

/// Is a need one of what is to be built? mmdebstrap makes the root, the rest is for C.
fn matters(need: &Need, todo: &Pending) -> bool {
    if need.command.as_deref() == Some("mmdebstrap") { todo.root } else { todo.cgo }
}

fn present(need: &Need, tools: &Tools) -> bool {
    match (&need.command, &need.pkg_config) {
        (Some(command), _) => tools.find(command).is_some(),
        (None, Some(library)) => tools.tool("pkg-config").args(["--exists", library]).run(|_| ()).is_ok(),
        (None, None) => true,
    }
}

fn name(need: &Need) -> String {
    match (&need.command, &need.pkg_config) {
        (Some(command), _) => command.clone(),
        (None, library) => format!("the C library {}", library.as_deref().unwrap_or_default()),
    }
}

fn remedy(absent: &[&Need]) -> String {
    let packages: Vec<&str> = absent.iter().map(|need| need.package.as_str()).collect();
    if packages.is_empty() {
        "install Go from https://go.dev/dl/ and put it on the path".to_owned()
    } else {
        format!("run `make setup`, or `apt-get install {}`", packages.join(" "))
    }
}
