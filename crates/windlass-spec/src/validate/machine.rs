//! What a person puts on machines.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{duplicates, metadata, syntax};
use crate::identity::Role;
use crate::paths;
use crate::problems::Problem;
use crate::resolve::join;
use crate::v1alpha1::{ClusterSpec, FileAsset, Hook, StaticPod, User, UserData};
use crate::values::parse_duration;

/// All files and scripts together must fit into a machine's configuration, a Secret.
const CONTENT_LIMIT: usize = 512 << 10;
/// The longest a hook may take, seconds.
const LONGEST_HOOK: u64 = 3600;
/// Static pods Windlass runs itself.
const OWN_PODS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// Namespaces that a cluster makes for itself.
const NAMESPACES_FROM_THE_START: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Accounts of the system.
const OWN_USERS: [&str; 7] = ["root", "daemon", "bin", "sys", "nobody", "www-data", "messagebus"];
/// Kernel parameters the pod network needs.
const OWN_SYSCTLS: [(&str, &str); 2] = [("net.ipv4.ip_forward", "1"), ("net.bridge.bridge-nf-call-iptables", "1")];
/// Beginnings of a public key's line.
const KEY_TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Checks files, static pods, hooks, scripts, users and kernel parameters.
pub(super) fn check(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    files(&spec.files, &spec.users, found);
    static_pods(&spec.static_pods, found);
    hooks(&spec.hooks, found);
    scripts(&spec.extra_user_data, found);
    users(&spec.users, found);
    sysctls(spec, found);
    let contents = spec.files.iter().map(|file| file.content.len());
    let total: usize = contents.chain(spec.extra_user_data.iter().map(|data| data.script.len())).sum();
    if total > CONTENT_LIMIT {
        let message = format!("files and scripts have {} KiB together", total >> 10);
        let problem = Problem::error("content-size", "spec.files", message);
        found.push(problem.label(format!("at most {} KiB are allowed", CONTENT_LIMIT >> 10)));
    }
}

fn files(files: &[FileAsset], users: &[User], found: &mut Vec<Problem>) {
    for (index, file) in files.iter().enumerate() {
        let path = format!("spec.files[{index}]");
        found.extend(file_path(&format!("{path}.path"), &file.path));
        found.extend(own_keys(&format!("{path}.path"), &file.path, users));
        if let Some(mode) = file.mode.as_deref().filter(|mode| !is_mode(mode)) {
            let problem = Problem::error("file-mode", format!("{path}.mode"), format!("`{mode}` is no file mode"));
            found.push(problem.hint("three or four octal digits are wanted, such as 0644"));
        }
        let shared = |other: &FileAsset| other.path == file.path && roles_meet(&other.roles, &file.roles);
        if let Some(first) = files[..index].iter().position(shared) {
            let message = format!("file `{}` is there twice", file.path);
            let problem = Problem::error("duplicate-name", format!("{path}.path"), message).label("again here");
            found.push(problem.with(format!("spec.files[{first}].path"), "first here"));
        }
    }
}

fn roles_meet(one: &[Role], two: &[Role]) -> bool {
    one.is_empty() || two.is_empty() || one.iter().any(|role| two.contains(role))
}

fn is_mode(text: &str) -> bool {
    let digits = text.len() == 3 || (text.len() == 4 && text.starts_with(['0', '1', '2', '4']));
    digits && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
}

fn file_path(path: &str, text: &str) -> Option<Problem> {
    let problem = |message: String| Problem::error("file-path", path, message);
    let parts: Vec<&str> = text.split('/').skip(1).collect();
    let plain = !parts.is_empty() && parts.iter().all(|part| !part.is_empty() && *part != "." && *part != "..");
    if !text.starts_with('/') || !plain || text.contains(['\0', '\n']) {
        return Some(problem(format!("`{text}` is no plain absolute path")).hint("write it from `/`, without `..`"));
    }
    if let Some(owned) = paths::owner_of(text) {
        let place = owned.path.trim_end_matches('*');
        return Some(problem(format!("`{place}` is kept by Windlass or the system")).hint(owned.instead));
    }
    paths::is_folder(text).then(|| problem(format!("`{text}` is a folder that machines need")))
}

/// Keys of a user of the spec: the agent keeps that file.
fn own_keys(path: &str, text: &str, users: &[User]) -> Option<Problem> {
    let login = text.strip_prefix("/home/")?.strip_suffix("/.ssh/authorized_keys")?;
    users.iter().find(|user| user.name == login)?;
    let problem =
        Problem::error("file-path", path, format!("`{text}` is kept by Windlass: `{login}` is in `spec.users`"));
    Some(problem.hint("write `sshAuthorizedKeys` there"))
}

fn static_pods(pods: &[StaticPod], found: &mut Vec<Problem>) {
    for (index, pod) in pods.iter().enumerate() {
        let path = format!("spec.staticPods[{index}]");
        metadata::label(&format!("{path}.name"), "the static pod's name", &pod.name, found);
        if OWN_PODS.contains(&pod.name.as_str()) {
            let message = format!("`{}` is one of Windlass's own static pods", pod.name);
            found.push(Problem::error("reserved-name", format!("{path}.name"), message));
        }
        pod_kind(&path, pod, found);
        found.extend(pod_name(&path, pod));
        found.extend(pod_namespace(&path, pod));
        let containers = pod.manifest.get("spec").and_then(|spec| spec.get("containers"));
        if containers.and_then(|list| list.as_array()).is_none_or(Vec::is_empty) {
            let message = "the manifest has no `spec.containers`";
            found.push(Problem::error("static-pod", format!("{path}.manifest"), message));
        }
    }
    let names = pods.iter().enumerate();
    duplicates(
        found,
        "static pod",
        names.map(|(index, pod)| (format!("spec.staticPods[{index}].name"), pod.name.as_str())),
    );
}

/// `apiVersion` and `kind`, where they are written.
fn pod_kind(path: &str, pod: &StaticPod, found: &mut Vec<Problem>) {
    for (field, wanted) in [("apiVersion", "v1"), ("kind", "Pod")] {
        if pod.manifest.get(field).is_some_and(|value| value != wanted) {
            let message = format!("a static pod's `{field}` is `{wanted}`");
            let problem = Problem::error("static-pod", format!("{path}.manifest.{field}"), message);
            found.push(problem.hint("kubelet runs nothing but Pods without an API server; leave the field out"));
        }
    }
}

/// The pod is found by the name it has here: in kubelet's log folders, in reports, in its manifest's file.
fn pod_name(path: &str, pod: &StaticPod) -> Option<Problem> {
    let path = format!("{path}.manifest.metadata");
    let metadata = pod.manifest.get("metadata")?;
    let Some(metadata) = metadata.as_object() else {
        return Some(Problem::error("static-pod", path, "a Pod's `metadata` holds fields"));
    };
    let found = metadata.get("name").filter(|name| *name != pod.name.as_str())?;
    let found = found.as_str().map_or_else(|| found.to_string(), ToOwned::to_owned);
    let message = format!("the Pod is called `{found}`, the static pod `{}`", pod.name);
    let problem = Problem::error("static-pod", format!("{path}.name"), message);
    let problem = problem.label("must be the same").hint(format!("leave it out or write `{}`", pod.name));
    Some(problem.hint("a machine would wait for a pod that never comes"))
}

fn pod_namespace(path: &str, pod: &StaticPod) -> Option<Problem> {
    let path = format!("{path}.manifest.metadata.namespace");
    let namespace = pod.manifest.get("metadata")?.get("namespace")?;
    let Some(namespace) = namespace.as_str().filter(|text| syntax::is_dns_label(text)) else {
        let problem = Problem::error("static-pod", path, format!("{namespace} is no name of a namespace"));
        return Some(problem.hint("leave it out or write one such as `kube-system`"));
    };
    (!NAMESPACES_FROM_THE_START.contains(&namespace)).then(|| {
        let message = format!("namespace `{namespace}` is not there when a cluster starts");
        let problem = Problem::warning("static-pod", path, message);
        problem.label("the pod runs, but the API shows it only once the namespace exists")
    })
}

fn hooks(hooks: &[Hook], found: &mut Vec<Problem>) {
    for (index, hook) in hooks.iter().enumerate() {
        let path = format!("spec.hooks[{index}]");
        metadata::label(&format!("{path}.name"), "the hook's name", &hook.name, found);
        if !hook.command.first().is_some_and(|program| program.starts_with('/')) {
            let message = "a hook's command begins with a program's absolute path";
            let problem = Problem::error("hook", format!("{path}.command"), message);
            found.push(problem.hint("there is no shell: write `[/bin/sh, -c, \"…\"]` for one"));
        }
        if let Some(timeout) = &hook.timeout {
            found.extend(hook_timeout(&format!("{path}.timeout"), timeout));
        }
    }
    let names = hooks.iter().enumerate();
    duplicates(found, "hook", names.map(|(index, hook)| (format!("spec.hooks[{index}].name"), hook.name.as_str())));
}

fn hook_timeout(path: &str, text: &str) -> Option<Problem> {
    match parse_duration(text) {
        Err(error) => Some(Problem::error("duration", path, error.to_string())),
        Ok(0) => Some(Problem::error("duration", path, "a hook needs some time")),
        Ok(seconds) if seconds > LONGEST_HOOK => {
            let problem = Problem::error("duration", path, format!("{text} is too long for a hook"));
            Some(problem.label("at most 1h: a machine waits for it"))
        }
        Ok(_) => None,
    }
}

fn scripts(scripts: &[UserData], found: &mut Vec<Problem>) {
    for (index, data) in scripts.iter().enumerate() {
        let path = format!("spec.extraUserData[{index}]");
        metadata::label(&format!("{path}.name"), "the script's name", &data.name, found);
        if !data.script.starts_with("#!/") {
            let problem = Problem::error("script", format!("{path}.script"), "the script does not say what runs it");
            found.push(problem.hint("begin it with a line such as `#!/bin/sh -eu`"));
        }
    }
    let names = scripts.iter().enumerate();
    duplicates(
        found,
        "script",
        names.map(|(index, data)| (format!("spec.extraUserData[{index}].name"), data.name.as_str())),
    );
}

fn users(users: &[User], found: &mut Vec<Problem>) {
    for (index, user) in users.iter().enumerate() {
        let path = format!("spec.users[{index}]");
        if !syntax::is_login(&user.name) {
            let problem = Problem::error("user", format!("{path}.name"), format!("`{}` is no login name", user.name));
            found.push(problem.hint("lower-case letters, digits, `-` and `_` are allowed, at most 32"));
        } else if OWN_USERS.contains(&user.name.as_str()) || user.name.starts_with("systemd-") {
            let message = format!("`{}` is an account of the system", user.name);
            found.push(Problem::error("reserved-name", format!("{path}.name"), message));
        }
        for (key, line) in user.ssh_authorized_keys.iter().enumerate() {
            found.extend(ssh_key(&format!("{path}.sshAuthorizedKeys[{key}]"), line));
        }
    }
    let names = users.iter().enumerate();
    duplicates(found, "user", names.map(|(index, user)| (format!("spec.users[{index}].name"), user.name.as_str())));
}

fn ssh_key(path: &str, line: &str) -> Option<Problem> {
    let problem = |message: &str| Some(Problem::error("ssh-key", path, message));
    if line.contains("PRIVATE KEY") {
        return problem("this is a private key").map(|problem| problem.hint("the line of the `.pub` file is wanted"));
    }
    if line.contains('\n') {
        return problem("a key is one line").map(|problem| problem.hint("one item a key"));
    }
    let mut words = line.split_whitespace().skip_while(|word| !KEY_TYPES.contains(word));
    let body = words.next().and_then(|_| words.next());
    match body {
        Some(body) if STANDARD.decode(body).is_ok() => None,
        _ => problem("this is no line of `authorized_keys`")
            .map(|problem| problem.hint("such as `ssh-ed25519 AAAA… name`")),
    }
}

fn sysctls(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    for (name, value) in &spec.sysctls {
        let path = join("spec.sysctls", name);
        if !syntax::is_sysctl(name) {
            let problem = Problem::error("sysctl", path, format!("`{name}` is no kernel parameter")).on_key();
            found.push(problem.hint("names with dots are wanted, such as vm.max_map_count"));
        } else if value.trim().is_empty() || value.contains('\n') {
            found.push(Problem::error("sysctl", path, format!("`{name}` needs one line as its value")));
        } else if OWN_SYSCTLS.iter().any(|(own, wanted)| own == name && wanted != value) {
            found.push(Problem::error("sysctl", path, format!("`{name}` must be 1: pods would be cut off")));
        } else if spec.provider.local.is_some() && !name.starts_with("net.") {
            let message = format!("`{name}` is changed for this whole computer");
            let problem = Problem::warning("sysctl", path, message).on_key();
            found.push(problem.label("its machines share the kernel"));
        }
    }
}
