//! What is put on machines, and what the site asks for.
//!
//! Input: the spec. Outputs: the same with every value.

use std::collections::BTreeMap;

use super::Draft;
use super::origins::join;
use crate::full::{
    Addons, Endpoint, FileAsset, HookAsset, KubeProxy, LoginUser, Network, Origin, Proxy, RegistryMirror,
    StaticPodAsset, UserData,
};
use crate::identity::Role;
use crate::names;
use crate::node_config::OnFailure;
use crate::v1alpha1::{self, Object};
use crate::values::parse_duration;

const DEFAULT_MODE: &str = "0644";
const DEFAULT_TIMEOUT: &str = "1m";
/// Ranges the local provider takes machines' addresses from.
pub const MACHINE_POOL: &str = "10.77.0.0/16";

/// Add-ons are on unless turned off.
pub(super) fn addons(draft: &mut Draft, wish: &v1alpha1::Addons) -> Addons {
    let origins = &mut draft.origins;
    Addons {
        coredns: origins.choose("addons.coredns", wish.coredns.enabled, true),
        local_path: origins.choose("addons.localPath", wish.local_path.enabled, true),
    }
}

/// Every role where none is named.
fn roles(draft: &mut Draft, path: &str, wish: &[Role]) -> Vec<Role> {
    let user = Some(wish.to_vec()).filter(|wish| !wish.is_empty());
    draft.origins.choose(&format!("{path}.roles"), user, vec![Role::ControlPlane, Role::Worker])
}

/// Files.
pub(super) fn files(draft: &mut Draft, wish: &[v1alpha1::FileAsset]) -> Vec<FileAsset> {
    draft.origins.mark("files", list_origin(wish));
    let one = |(index, file): (usize, &v1alpha1::FileAsset)| {
        let path = format!("files[{index}]");
        let mode = draft.origins.choose(&format!("{path}.mode"), file.mode.clone(), DEFAULT_MODE.to_owned());
        let roles = roles(draft, &path, &file.roles);
        FileAsset { path: file.path.clone(), content: file.content.clone(), mode, roles }
    };
    wish.iter().enumerate().map(one).collect()
}

/// Custom static pods; `apiVersion`, `kind` and the Pod's name may have been left out.
pub(super) fn static_pods(draft: &mut Draft, wish: &[v1alpha1::StaticPod]) -> Vec<StaticPodAsset> {
    draft.origins.mark("staticPods", list_origin(wish));
    let one = |(index, pod): (usize, &v1alpha1::StaticPod)| {
        let path = format!("staticPods[{index}]");
        let manifest = pod_manifest(draft, &format!("{path}.manifest"), pod);
        StaticPodAsset { name: pod.name.clone(), manifest: manifest.into(), roles: roles(draft, &path, &pod.roles) }
    };
    wish.iter().enumerate().map(one).collect()
}

fn pod_manifest(draft: &mut Draft, path: &str, pod: &v1alpha1::StaticPod) -> Object {
    let mut manifest = Object::new();
    for (field, value) in [("apiVersion", "v1"), ("kind", "Pod")] {
        if !pod.manifest.contains_key(field) {
            draft.origins.mark(join(path, field), Origin::Default);
        }
        manifest.insert(field.to_owned(), value.into());
    }
    manifest.extend(pod.manifest.clone());
    let metadata = manifest.entry("metadata").or_insert_with(|| Object::new().into());
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.entry("name").or_insert_with(|| {
            draft.origins.mark(format!("{path}.metadata.name"), Origin::Derived);
            pod.name.as_str().into()
        });
    }
    manifest
}

/// Hooks.
pub(super) fn hooks(draft: &mut Draft, wish: &[v1alpha1::Hook]) -> Vec<HookAsset> {
    draft.origins.mark("hooks", list_origin(wish));
    let one = |(index, hook): (usize, &v1alpha1::Hook)| {
        let path = format!("hooks[{index}]");
        let timeout = draft.origins.choose(&format!("{path}.timeoutSeconds"), hook.timeout.as_deref(), DEFAULT_TIMEOUT);
        let timeout_seconds = draft.take(&format!("spec.{path}.timeout"), parse_duration(timeout)).unwrap_or_default();
        HookAsset {
            name: hook.name.clone(),
            when: hook.when,
            command: hook.command.clone(),
            timeout_seconds,
            on_failure: draft.origins.choose(&format!("{path}.onFailure"), hook.on_failure, OnFailure::Stop),
            roles: roles(draft, &path, &hook.roles),
        }
    };
    wish.iter().enumerate().map(one).collect()
}

/// First-boot scripts.
pub(super) fn user_data(draft: &mut Draft, wish: &[v1alpha1::UserData]) -> Vec<UserData> {
    draft.origins.mark("extraUserData", list_origin(wish));
    let one = |(index, data): (usize, &v1alpha1::UserData)| {
        let roles = roles(draft, &format!("extraUserData[{index}]"), &data.roles);
        UserData { name: data.name.clone(), script: data.script.clone(), roles }
    };
    wish.iter().enumerate().map(one).collect()
}

/// Login users.
pub(super) fn users(draft: &mut Draft, wish: &[v1alpha1::User]) -> Vec<LoginUser> {
    draft.origins.mark("users", list_origin(wish));
    let one = |(index, user): (usize, &v1alpha1::User)| LoginUser {
        name: user.name.clone(),
        ssh_authorized_keys: user.ssh_authorized_keys.clone(),
        sudo: draft.origins.choose(&format!("users[{index}].sudo"), user.sudo, false),
    };
    wish.iter().enumerate().map(one).collect()
}

/// Registry mirrors.
pub(super) fn registry_mirrors(draft: &mut Draft, wish: &[v1alpha1::RegistryMirror]) -> Vec<RegistryMirror> {
    draft.origins.mark("registryMirrors", list_origin(wish));
    let one = |mirror: &v1alpha1::RegistryMirror| RegistryMirror {
        registry: mirror.registry.clone(),
        endpoints: mirror.endpoints.clone(),
        ca_cert: mirror.ca_cert.clone(),
    };
    wish.iter().map(one).collect()
}

fn list_origin<T>(list: &[T]) -> Origin {
    if list.is_empty() { Origin::Default } else { Origin::User }
}

/// Kernel parameters of the pod network with the user's over them. Only those of a network namespace are Windlass's
/// to set; what else kubelet needs it sets itself.
pub(super) fn sysctls(
    draft: &mut Draft,
    wish: &BTreeMap<String, String>,
    kube_proxy: KubeProxy,
) -> BTreeMap<String, String> {
    let mut sysctls = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
    if kube_proxy != KubeProxy::None {
        sysctls.insert("net.bridge.bridge-nf-call-iptables".to_owned(), "1".to_owned());
    }
    draft.origins.mark("sysctls", Origin::Default);
    for (name, value) in wish {
        draft.origins.mark(join("sysctls", name), Origin::User);
        sysctls.insert(name.clone(), value.clone());
    }
    sysctls
}

/// The proxy, with everything of the cluster's own exempt.
pub(super) fn proxy(
    draft: &mut Draft,
    wish: &v1alpha1::Proxy,
    cluster: &str,
    network: &Network,
    endpoint: &Endpoint,
) -> Option<Proxy> {
    if wish.http.is_empty() && wish.https.is_empty() {
        draft.origins.mark("proxy", Origin::Default);
        return None;
    }
    draft.origins.mark("proxy", Origin::User);
    let mut no_proxy = wish.no_proxy.clone();
    for exempt in own_destinations(cluster, network, endpoint) {
        if !no_proxy.contains(&exempt) {
            draft.origins.mark(format!("proxy.noProxy[{}]", no_proxy.len()), Origin::Derived);
            no_proxy.push(exempt);
        }
    }
    Some(Proxy { http: wish.http.clone(), https: wish.https.clone(), no_proxy })
}

/// Names and ranges of the cluster itself: no request to them may go through a proxy.
fn own_destinations(cluster: &str, network: &Network, endpoint: &Endpoint) -> Vec<String> {
    let mut own: Vec<String> =
        ["localhost", "127.0.0.0/8", "127.0.0.1", "::1", MACHINE_POOL, ".svc"].map(str::to_owned).into();
    own.push(format!(".{}", network.dns_domain));
    own.push(format!(".{}", names::zone(cluster)));
    own.push(endpoint.name.clone());
    own.push(endpoint.internal_name.clone());
    own.extend(network.pods.iter().chain(&network.services).map(ToString::to_string));
    own
}
