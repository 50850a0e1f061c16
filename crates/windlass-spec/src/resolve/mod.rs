//! From what a person wrote to what nothing is left out of.
//!
//! Inputs: a spec (judged by [`crate::validate`] before), a release, facts about the ground. Output: the
//! [`FullCluster`] with the origin of each value; the same inputs give the same output. What cannot be understood is
//! returned as [`Problems`] with field paths.

mod control_plane;
mod flags;
mod merge;
mod network;
mod node;
mod origins;
mod policy;
mod site;
mod topology;

use serde_json::Value;

use crate::full::{Components, Endpoint, Etcd, Facts, FullCluster, LocalProvider, Network, Origin, Provider, Release};
use crate::problems::{Problem, Problems};
use crate::v1alpha1::{self, Object};
use node::Document;
use origins::Origins;

pub(crate) use network::{DEFAULT_NODE_MASK_SIZE, DEFAULT_PODS, DEFAULT_SERVICES};
pub use origins::{join, origin_at};
pub use policy::HEALTH_PATHS;
pub use site::MACHINE_POOL;
pub(crate) use topology::has_workers;
pub use topology::{CONTROL_PLANE_KEY, control_plane_taint};

/// What components' flags and configurations are made from.
#[derive(Debug)]
struct Basis<'a> {
    name: &'a str,
    release: &'a Release,
    facts: &'a Facts,
    network: &'a Network,
    endpoint: &'a Endpoint,
    audit_log: bool,
}

/// Values in the making: origins, and what could not be understood.
#[derive(Debug, Default)]
struct Draft {
    origins: Origins,
    problems: Vec<Problem>,
}

impl Draft {
    /// Keeps a value, or notes why there is none.
    fn take<T, E: std::fmt::Display>(&mut self, path: &str, value: Result<T, E>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(Problem::error("invalid-value", path, error.to_string()));
                None
            }
        }
    }
}

/// Grows a spec into the full spec.
///
/// # Errors
/// When a value cannot be understood, or the release is not of the version asked for. A spec that
/// [`crate::validate`] passes with this release's version gives none.
pub fn resolve(cluster: &v1alpha1::Cluster, release: &Release, facts: &Facts) -> Result<FullCluster, Problems> {
    let mut draft = Draft::default();
    let full = draft_cluster(&mut draft, cluster, release, facts);
    if draft.problems.is_empty() {
        Ok(FullCluster { origins: draft.origins.into_map(), ..full })
    } else {
        Err(draft.problems.into_iter().collect())
    }
}

fn draft_cluster(draft: &mut Draft, cluster: &v1alpha1::Cluster, release: &Release, facts: &Facts) -> FullCluster {
    let spec = &cluster.spec;
    let name = cluster.metadata.name.clone();
    identity(draft, cluster, release);
    let provider = Provider { local: spec.provider.local.as_ref().map(|v1alpha1::LocalProvider {}| LocalProvider {}) };
    let control_plane = topology::control_plane(draft, spec);
    let workers = topology::workers(draft, spec, release);
    let etcd = topology::etcd(draft, spec, &control_plane.slots);
    let network = network::network(draft, &spec.network);
    let endpoint = network::endpoint(draft, &name, &spec.endpoint);
    let audit_log = audit_log_wanted(spec);
    let basis = Basis { name: &name, release, facts, network: &network, endpoint: &endpoint, audit_log };
    let components = components(draft, &spec.components, &basis, &etcd);
    let audit_policy = audit_log.then(|| policy::audit(&spec.audit.policy, &mut draft.origins));
    let authentication_configuration = policy::authentication(&spec.authentication.configuration, &mut draft.origins);
    let sysctls = site::sysctls(draft, &spec.sysctls, network.kube_proxy);
    let proxy = site::proxy(draft, &spec.proxy, &name, &network, &endpoint);
    let origins = &mut draft.origins;
    let trusted_cas = origins.own("trustedCas", spec.trusted_cas.clone());
    let ntp_servers = origins.own("ntpServers", spec.ntp.servers.clone());
    FullCluster {
        namespace: cluster.namespace().to_owned(),
        release: release.clone(),
        provider,
        facts: facts.clone(),
        control_plane,
        workers,
        etcd,
        components,
        addons: site::addons(draft, &spec.addons),
        audit_policy,
        authentication_configuration,
        files: site::files(draft, &spec.files),
        static_pods: site::static_pods(draft, &spec.static_pods),
        hooks: site::hooks(draft, &spec.hooks),
        extra_user_data: site::user_data(draft, &spec.extra_user_data),
        sysctls,
        users: site::users(draft, &spec.users),
        proxy,
        registry_mirrors: site::registry_mirrors(draft, &spec.registry_mirrors),
        trusted_cas,
        ntp_servers,
        network,
        endpoint,
        name,
        origins: std::collections::BTreeMap::new(),
    }
}

/// Name, namespace and version.
fn identity(draft: &mut Draft, cluster: &v1alpha1::Cluster, release: &Release) {
    let origins = &mut draft.origins;
    origins.mark("name", Origin::User);
    origins.mark("provider", Origin::User);
    origins.mark("facts", Origin::Derived);
    origins.mark("release", Origin::Derived);
    origins.choose("namespace", cluster.metadata.namespace.as_ref(), &String::new());
    let wish = cluster.spec.kubernetes_version.as_deref();
    origins.choose("release.kubernetes", wish, "");
    if let Some(problem) = wish.and_then(|wish| topology::version_mismatch("spec.kubernetesVersion", wish, release)) {
        draft.problems.push(problem);
    }
}

/// Taking the policy's flag away takes the audit log away.
fn audit_log_wanted(spec: &v1alpha1::ClusterSpec) -> bool {
    spec.components.kube_apiserver.flags.get("audit-policy-file") != Some(&None)
}

fn components(draft: &mut Draft, spec: &v1alpha1::Components, basis: &Basis<'_>, etcd: &[Etcd]) -> Components {
    let origins = &mut draft.origins;
    let none = Object::new();
    Components {
        kube_apiserver: control_plane::api_server(basis).with("kubeApiserver", &spec.kube_apiserver.flags, origins),
        kube_controller_manager: control_plane::controller_manager(basis).with(
            "kubeControllerManager",
            &spec.kube_controller_manager.flags,
            origins,
        ),
        kube_scheduler: control_plane::scheduler().with("kubeScheduler", &spec.kube_scheduler.flags, origins),
        kube_proxy: node::kube_proxy_flags().with("kubeProxy", &spec.kube_proxy.flags, origins),
        etcd: control_plane::etcd(etcd.first()).with("etcd", &spec.etcd.flags, origins),
        containerd: node::containerd_flags().with("containerd", &spec.containerd.flags, origins),
        kubelet: node::kubelet_flags().with("kubelet", &spec.kubelet.flags, origins),
        kubelet_config: document("components.kubeletConfig", node::kubelet(basis), &spec.kubelet.config, origins),
        kube_proxy_config: document("components.kubeProxyConfig", node::kube_proxy(basis), &none, origins),
        containerd_config: document("components.containerdConfig", node::containerd(basis), &none, origins),
    }
}

/// A component's document with the user's fields over it.
fn document(path: &str, (document, derived): Document, user: &Object, origins: &mut Origins) -> Value {
    origins.mark(path, Origin::Default);
    for field in derived {
        origins.mark(join(path, field), Origin::Derived);
    }
    let Value::Object(mut fields) = document else { return document };
    merge::merge(path, &mut fields, user, origins);
    Value::Object(fields)
}

#[cfg(test)]
mod tests;
