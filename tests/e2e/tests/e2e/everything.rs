//! A spec that uses every field, on one control plane and one worker: each value is seen on the real machine, the defaults
//! an auditor would ask for hold, every command does what it says, and the host is as it was.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_e2e::cluster::Cluster;
use windlass_e2e::runner::Runner;
use windlass_e2e::sandbox::Sandbox;
use windlass_testkit::host::HostInventory;

use crate::one_and_one::delete;
use crate::{commands, defaults, site};

/// Its control plane.
pub(crate) const CONTROL_PLANE: &str = "lab-cp-a";
/// Its worker, until the group is scaled.
pub(crate) const WORKER: &str = "lab-md-1";

pub(crate) fn run(runner: &mut Runner) -> Result<()> {
    let sandbox = Sandbox::new("everything")?;
    let before = HostInventory::take(&[]);
    let cluster = Cluster::new(&sandbox, "lab");
    let key = site::ssh_key(&sandbox)?;
    let text = spec(&pause_image(&sandbox)?, key.as_ref().map(|key| key.public.as_str()));
    let file = sandbox.write("lab.yaml", &text)?.display().to_string();
    sandbox.ok(300, &["create", "cluster", "-f", &file])?;
    runner.check("all_nodes_are_ready", || cluster.wait_for_nodes(&[CONTROL_PLANE, WORKER], 5));

    runner.check("files_are_where_their_roles_are", || site::files(&cluster));
    runner.check("hooks_run_before_kubelet", || site::hooks(&cluster));
    runner.check("extra_user_data_runs_once", || site::extra_user_data(&cluster));
    runner.check("kernel_parameters_are_set", || site::sysctls(&cluster));
    if let Some(key) = &key {
        runner.check("users_log_in_by_key", || site::users_log_in(&cluster, key));
        runner.check("host_keys_are_each_machines_own", || site::host_keys(&cluster));
    }
    runner.check("the_proxy_is_told_and_the_cluster_is_exempt", || site::proxy(&cluster));
    runner.check("mirrors_have_their_authority", || site::mirrors(&cluster));
    runner.check("further_authorities_are_trusted", || site::authorities(&cluster));
    runner.check("time_servers_are_told", || site::time_servers(&cluster));
    runner.check("a_static_pod_runs", || site::static_pod(&cluster));
    runner.check("kubelet_has_its_configuration", || site::kubelet_configuration(&cluster));
    runner.check("flags_are_set_and_unset", || site::flags(&cluster));
    runner.check("labels_and_taints_are_on_the_nodes", || site::labels_and_taints(&cluster));
    runner.check("the_endpoint_has_its_names", || site::endpoint_names(&cluster));

    runner.check("the_audit_log_follows_its_policy", || defaults::audit(&cluster));
    runner.check("secrets_are_encrypted_at_rest", || defaults::secrets_at_rest(&cluster));
    runner.check("anonymous_is_for_health_only", || defaults::anonymous(&cluster));
    runner.check("a_kubelet_keeps_to_its_own_node", || defaults::node_restriction(&cluster));
    runner.check("join_tokens_are_revoked", || defaults::join_tokens(&cluster));
    runner.check("daemons_tell_their_metrics", || defaults::metrics(&cluster));

    runner.check("nothing_is_left_to_plan", || commands::plan_is_empty(&sandbox, &file));
    runner.check("lists_are_data", || commands::lists(&sandbox));
    runner.check("logs_are_printed", || commands::logs(&sandbox));
    runner.check("kubeconfig_merges_beside_others", || commands::kubeconfig_merges(&cluster));
    runner.check("a_shell_passes_input_and_exit_code", || commands::shell(&sandbox));
    runner.check("another_build_takes_hostd_over", || commands::another_build(&sandbox));
    runner.check("a_machine_is_stopped_and_started", || commands::stop_and_start(&cluster));
    runner.check("a_swapped_file_is_refused_by_name", || commands::swapped_file(&cluster));
    runner.check("extra_user_data_does_not_run_again", || site::extra_user_data(&cluster));

    runner.check("the_taint_goes_and_comes_with_workers", || defaults::taint_follows_workers(&cluster));
    runner.check("machines_have_events", || defaults::events(&cluster));
    runner.check("delete_leaves_nothing", || delete(&cluster));
    runner.check("kernel_limits_are_as_before", || limits_are_as_before(&before));
    Ok(())
}

fn limits_are_as_before(before: &HostInventory) -> Result<()> {
    let changed = HostInventory::take(&[]).left_since(before);
    let limits: Vec<&String> = changed.iter().filter(|line| line.starts_with("limits:")).collect();
    ensure!(limits.is_empty(), "{limits:?}");
    Ok(())
}

/// An image that every machine has.
fn pause_image(sandbox: &Sandbox) -> Result<String> {
    let folder = sandbox.ok(10, &["bundle", "path"])?;
    let lock = fs_err::read_to_string(std::path::Path::new(folder.trim()).join("bundle.lock.json"))?;
    let lock: Value = serde_json::from_str(&lock)?;
    Ok(lock["images"]["pause"]["reference"].as_str().context("the bundle has a pause image")?.to_owned())
}

/// The whole document; JSON is YAML.
fn spec(pause: &str, key: Option<&str>) -> String {
    let proxy = "http://proxy.example:3128";
    let worker_only = json!(["Worker"]);
    let document = json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "lab"},
        "spec": {
            "provider": {"local": {}},
            "controlPlane": {"count": 1, "labels": {"shelf": "top"}},
            "workers": [{
                "name": "md", "count": 1,
                "labels": {"tier": "app", "node-role.kubernetes.io/app": ""},
                "taints": [{"key": "team", "value": "a", "effect": "PreferNoSchedule"}],
            }],
            "etcd": [{"name": "main", "topology": "Stacked", "volume": {"size": "1Gi"}}],
            "endpoint": {"port": 8443, "certSANs": ["api.lab.example"]},
            "components": {
                "kubeApiserver": {"flags": {"v": "2", "profiling": null}},
                "kubeControllerManager": {"flags": {"node-monitor-period": "4s"}},
                "kubeScheduler": {"flags": {"v": "1"}},
                "kubeProxy": {"flags": {"v": "1"}},
                "etcd": {"flags": {"max-request-bytes": "2097152"}},
                "containerd": {"flags": {"log-level": "warn"}},
                "kubelet": {"flags": {"v": "1"}, "config": {"maxPods": 60}},
            },
            "audit": {"policy": {"rules": [
                {"level": "Metadata", "resources": [{"group": "", "resources": ["configmaps"]}]},
                {"level": "None"},
            ]}},
            "files": [
                {"path": "/etc/motd", "content": site::MOTD},
                {"path": site::WORKER_FILE, "content": site::VERBATIM, "mode": "0600", "roles": worker_only},
            ],
            "staticPods": [{"name": "custom", "roles": worker_only, "manifest": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "custom"},
                "spec": {"containers": [{"name": "pause", "image": pause}]},
            }}],
            "hooks": [{"name": "tune", "when": "BeforeKubelet", "timeout": "30s", "command": [
                "/bin/sh", "-c", format!("pgrep -x kubelet || echo first > {}", site::HOOK_MARK),
            ]}],
            "extraUserData": [
                {"name": "mark", "script": format!("#!/bin/sh -eu\necho ran >> {}\n", site::FIRST_BOOT_MARK)},
            ],
            "sysctls": {"net.ipv4.tcp_keepalive_time": "600"},
            "users": [{"name": site::USER, "sshAuthorizedKeys": key.as_slice(), "sudo": true}],
            "proxy": {"http": proxy, "https": proxy, "noProxy": ["internal.example"]},
            "registryMirrors": [
                {"registry": "docker.io", "endpoints": ["https://mirror.example/cache"], "caCert": site::AUTHORITY},
            ],
            "trustedCAs": [site::AUTHORITY],
            "ntp": {"servers": ["time.example"]},
        },
    });
    document.to_string()
}
