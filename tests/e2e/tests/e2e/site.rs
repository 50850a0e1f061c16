//! What the spec of [`crate::everything`] asks of machines, seen on them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use windlass_e2e::cluster::Cluster;
use windlass_e2e::sandbox::{Said, Sandbox};
use windlass_e2e::wait;

use crate::everything::{CONTROL_PLANE, WORKER};

pub(crate) const MOTD: &str = "a lab\n";
pub(crate) const WORKER_FILE: &str = "/etc/lab/worker.conf";
/// Nothing of it may be expanded on its way.
pub(crate) const VERBATIM: &str = "home = \"$HOME\" # 100%i \\n\n";
pub(crate) const HOOK_MARK: &str = "/var/lib/hook-ran";
pub(crate) const FIRST_BOOT_MARK: &str = "/var/lib/first-boot-ran";
pub(crate) const USER: &str = "ops";
/// A certificate that signs nothing but itself; its key was thrown away.
pub(crate) const AUTHORITY: &str = include_str!("authority.pem");

const BOTH: [&str; 2] = [CONTROL_PLANE, WORKER];

/// A key pair of a person.
pub(crate) struct SshKey {
    private: PathBuf,
    /// The line of `authorized_keys`.
    pub(crate) public: String,
}

/// A fresh key; none where this computer has no SSH client.
pub(crate) fn ssh_key(sandbox: &Sandbox) -> Result<Option<SshKey>> {
    let private = sandbox.work().join("id_ed25519");
    let path = private.display().to_string();
    let made =
        sandbox.run(Path::new("ssh-keygen"), 20, &["-q", "-t", "ed25519", "-N", "", "-C", "e2e", "-f", &path], &[]);
    match made {
        Err(error) => {
            println!("     no SSH client here, so nobody logs in: {error:#}");
            Ok(None)
        }
        Ok(said) => {
            said.expect(0)?;
            let public = fs_err::read_to_string(private.with_extension("pub"))?.trim().to_owned();
            Ok(Some(SshKey { private, public }))
        }
    }
}

/// A machine's address.
pub(crate) fn address(sandbox: &Sandbox, machine: &str) -> Result<String> {
    let machines: Value = serde_json::from_str(&sandbox.ok(20, &["machine", "ls", "-o", "json"])?)?;
    let named = machines.as_array().into_iter().flatten().find(|found| found["machine"]["name"] == machine);
    let address = named.and_then(|found| found["machine"]["address"].as_str());
    Ok(address.with_context(|| format!("{machine} has no address: {machines}"))?.to_owned())
}

pub(crate) fn files(cluster: &Cluster<'_>) -> Result<()> {
    for machine in BOTH {
        ensure!(cluster.file(machine, "/etc/motd")? == MOTD, "{machine}");
    }
    ensure!(cluster.file(WORKER, WORKER_FILE)? == VERBATIM, "{}", cluster.file(WORKER, WORKER_FILE)?);
    let mode = cluster.inside(WORKER, &["stat", "-c", "%a %U:%G", WORKER_FILE])?;
    ensure!(mode.trim() == "600 root:root", "{mode}");
    ensure!(cluster.file(CONTROL_PLANE, WORKER_FILE).is_err(), "a worker's file is on the control plane");
    Ok(())
}

pub(crate) fn hooks(cluster: &Cluster<'_>) -> Result<()> {
    BOTH.iter().try_for_each(|machine| {
        let mark = cluster.file(machine, HOOK_MARK)?;
        ensure!(mark.trim() == "first", "{machine}: {mark}");
        Ok(())
    })
}

pub(crate) fn extra_user_data(cluster: &Cluster<'_>) -> Result<()> {
    BOTH.iter().try_for_each(|machine| {
        let mark = cluster.file(machine, FIRST_BOOT_MARK)?;
        ensure!(mark == "ran\n", "{machine}: {mark}");
        Ok(())
    })
}

pub(crate) fn sysctls(cluster: &Cluster<'_>) -> Result<()> {
    BOTH.iter().try_for_each(|machine| {
        let value = cluster.file(machine, "/proc/sys/net/ipv4/tcp_keepalive_time")?;
        ensure!(value.trim() == "600", "{machine}: {value}");
        Ok(())
    })
}

/// Real SSH from this computer, with nothing but the key.
fn ssh(cluster: &Cluster<'_>, machine: &str, options: &[&str], command: &str) -> Result<Said> {
    let login = format!("{USER}@{}", address(cluster.sandbox, machine)?);
    let usual = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "ConnectTimeout=5"];
    let usual = usual.iter().flat_map(|option| ["-o", option]);
    let line: Vec<&str> = ["-F", "none"]
        .into_iter()
        .chain(usual)
        .chain(options.iter().copied())
        .chain([login.as_str(), command])
        .collect();
    cluster.sandbox.run(Path::new("ssh"), 20, &line, &[])
}

pub(crate) fn users_log_in(cluster: &Cluster<'_>, key: &SshKey) -> Result<()> {
    let private = key.private.display().to_string();
    for machine in BOTH {
        let said = wait::until(&format!("{USER} logs in to {machine}"), 20, || {
            ssh(cluster, machine, &["-i", &private], "id -un; sudo -n id -un; hostname")?.expect(0)
        })?;
        ensure!(said.out.lines().eq([USER, "root", machine]), "{said:?}");
    }
    let refused = ssh(cluster, WORKER, &["-o", "PubkeyAuthentication=no"], "true")?.expect(255)?;
    ensure!(refused.err.contains("Permission denied (publickey)"), "{}", refused.err);
    Ok(())
}

pub(crate) fn host_keys(cluster: &Cluster<'_>) -> Result<()> {
    let [one, two] = BOTH.map(|machine| cluster.file(machine, "/etc/ssh/ssh_host_ed25519_key.pub"));
    ensure!(one? != two?, "two machines have one host key");
    Ok(())
}

pub(crate) fn proxy(cluster: &Cluster<'_>) -> Result<()> {
    for program in ["containerd", "kubelet"] {
        let running = cluster.sandbox.running(program);
        ensure!(running.len() == 2, "{program} runs {} times", running.len());
        for process in running {
            let value = |name: &str| {
                let found = process.environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
                found.map(str::to_owned).with_context(|| format!("{program} has no {name}"))
            };
            for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
                ensure!(value(name)? == "http://proxy.example:3128", "{program}: {name}");
            }
            let exempt = value("NO_PROXY")?;
            let exempt: Vec<&str> = exempt.split(',').collect();
            for wanted in ["internal.example", "127.0.0.1", "10.96.0.0/16", "10.244.0.0/16", ".svc"] {
                ensure!(exempt.contains(&wanted), "{program}: {wanted} is not in {exempt:?}");
            }
        }
    }
    Ok(())
}

pub(crate) fn mirrors(cluster: &Cluster<'_>) -> Result<()> {
    let folder = "/etc/containerd/certs.d/docker.io";
    for machine in BOTH {
        let hosts = cluster.file(machine, &format!("{folder}/hosts.toml"))?;
        for line in ["[host.\"https://mirror.example/v2/cache\"]", "override_path = true", "/docker.io/ca.crt\""] {
            ensure!(hosts.contains(line), "{machine}: no {line} in\n{hosts}");
        }
        ensure!(cluster.file(machine, &format!("{folder}/ca.crt"))?.trim() == AUTHORITY.trim(), "{machine}");
    }
    let config = cluster.file(WORKER, "/etc/containerd/config.toml")?;
    ensure!(config.contains("/etc/containerd/certs.d"), "containerd does not look there:\n{config}");
    Ok(())
}

pub(crate) fn authorities(cluster: &Cluster<'_>) -> Result<()> {
    BOTH.iter().try_for_each(|machine| {
        let bundle = cluster.file(machine, "/etc/ssl/certs/ca-certificates.crt")?;
        ensure!(bundle.contains(AUTHORITY.trim()), "{machine} does not trust it");
        Ok(())
    })
}

pub(crate) fn time_servers(cluster: &Cluster<'_>) -> Result<()> {
    BOTH.iter().try_for_each(|machine| {
        let drop_in = cluster.file(machine, "/etc/systemd/timesyncd.conf.d/windlass.conf")?;
        ensure!(drop_in.contains("NTP=time.example"), "{machine}: {drop_in}");
        Ok(())
    })
}

pub(crate) fn static_pod(cluster: &Cluster<'_>) -> Result<()> {
    cluster.wait_for_pod(&format!("custom-{WORKER}"), 60)?;
    let of_control_plane = cluster.try_kubectl(&["get", "pod", &format!("custom-{CONTROL_PLANE}")])?;
    ensure!(of_control_plane.code != 0, "a worker's static pod runs on the control plane");
    Ok(())
}

pub(crate) fn kubelet_configuration(cluster: &Cluster<'_>) -> Result<()> {
    for machine in BOTH {
        let path = format!("/api/v1/nodes/{machine}/proxy/configz");
        let config: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", &path])?)?;
        ensure!(config["kubeletconfig"]["maxPods"] == 60, "{machine}: {}", config["kubeletconfig"]["maxPods"]);
    }
    Ok(())
}

pub(crate) fn flags(cluster: &Cluster<'_>) -> Result<()> {
    let set = [
        ("kube-apiserver", "--v=2"),
        ("kube-apiserver", "--secure-port=8443"),
        ("kube-controller-manager", "--node-monitor-period=4s"),
        ("kube-controller-manager", "--profiling=false"),
        ("kube-scheduler", "--v=1"),
        ("kube-proxy", "--v=1"),
        ("etcd", "--max-request-bytes=2097152"),
        ("containerd", "--log-level=warn"),
        ("kubelet", "--v=1"),
    ];
    for (program, flag) in set {
        let running = cluster.sandbox.running(program);
        ensure!(!running.is_empty(), "{program} does not run");
        for process in running {
            ensure!(process.arguments.iter().any(|argument| argument == flag), "{flag}: {:?}", process.arguments);
        }
    }
    for process in cluster.sandbox.running("kube-apiserver") {
        let taken_away = process.arguments.iter().find(|argument| argument.starts_with("--profiling"));
        ensure!(taken_away.is_none(), "{taken_away:?} was taken away");
    }
    Ok(())
}

pub(crate) fn labels_and_taints(cluster: &Cluster<'_>) -> Result<()> {
    let labels = |machine: &str| anyhow::Ok(cluster.get(&["node", machine])?["metadata"]["labels"].clone());
    let (control_plane, worker) = (labels(CONTROL_PLANE)?, labels(WORKER)?);
    ensure!(control_plane["shelf"] == "top" && control_plane["tier"].is_null(), "{control_plane}");
    ensure!(worker["tier"] == "app" && worker["node-role.kubernetes.io/app"] == "", "{worker}");
    ensure!(control_plane["node-role.kubernetes.io/control-plane"] == "", "{control_plane}");
    let taints = cluster.get(&["node", WORKER])?["spec"]["taints"].clone();
    let team = serde_json::json!({"key": "team", "value": "a", "effect": "PreferNoSchedule"});
    ensure!(taints.as_array().is_some_and(|taints| taints.contains(&team)), "{taints}");
    Ok(())
}

/// The certificate of the API server names what the spec adds, and the port is the spec's.
pub(crate) fn endpoint_names(cluster: &Cluster<'_>) -> Result<()> {
    let kubeconfig = fs_err::read_to_string(cluster.kubeconfig())?;
    ensure!(kubeconfig.contains(":8443"), "the kubeconfig does not lead to port 8443");
    let certificate = "/etc/kubernetes/pki/apiserver.crt";
    let names =
        cluster.inside(CONTROL_PLANE, &["openssl", "x509", "-in", certificate, "-noout", "-ext", "subjectAltName"])?;
    ensure!(names.contains("DNS:api.lab.example"), "{names}");
    Ok(())
}
