//! kubeadm's side: the same machines by the same hostd, from the same image with kubeadm and its files laid over it, the
//! agent masked. Everything that can be prepared is in the image, so that its clock runs for kubeadm's own work.
//!
//! `kubeadm init`, then control planes one after the other as kubeadm demands; workers join beside them.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_e2e::cluster::Cluster;
use windlass_e2e::sandbox::Sandbox;
use windlass_e2e::wait;
use windlass_providers::local::Client;
use windlass_providers::local::paths::Paths as HostPaths;
use windlass_providers::ports::{MachineWanted, NetworkWanted, Provider, Scope};
use windlass_spec::identity::{Epoch, Ownership, Role, Slot};
use windlass_spec::paths;

use crate::{ours, proof};

/// Files of a machine of ours that kubeadm's machine has too.
const SAME: [&str; 3] = ["/etc/containerd/config.toml", paths::CNI_TEMPLATE, "/etc/systemd/system/containerd.service"];

const KUBELET: &str = "[Unit]
After=containerd.service
Wants=containerd.service
StartLimitIntervalSec=0
[Service]
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
";

/// The peer in its sandbox.
#[derive(Debug)]
pub(crate) struct Peer {
    sandbox: Sandbox,
    runtime: tokio::runtime::Runtime,
    image: String,
    /// Kubelet settings of a machine of ours, so that both run alike in a sandbox.
    kubelet: Value,
    /// The local-path add-on's objects.
    storage: String,
    round: u64,
}

impl Peer {
    /// Lays kubeadm's files over the newest machine image, in a cache of the sandbox's own.
    pub(crate) fn new(mut sandbox: Sandbox, kubeadm: &Path) -> Result<Self> {
        let cache = sandbox.own_cache()?;
        eprintln!("taking settings from a machine of ours");
        let model = Model::take(&sandbox)?;
        let image = lay_over(&cache.join("machine-images"), kubeadm, &model.files)?;
        let runtime = tokio::runtime::Runtime::new()?;
        Ok(Self { sandbox, runtime, image, kubelet: model.kubelet, storage: model.storage, round: 0 })
    }

    /// The binary under test.
    pub(crate) fn windlass(&self) -> &Path {
        self.sandbox.binary()
    }

    /// One cluster; seconds from the first machine asked for to the proof.
    pub(crate) fn run(&mut self, control_planes: u32, workers: u32) -> Result<f64> {
        self.round += 1;
        let scope = Scope {
            cluster_id: format!("{:016x}", self.round).as_str().into(),
            cluster: "peer".to_owned(),
            ownership: Ownership { owner: "bench".into(), epoch: Epoch(1) },
        };
        self.sandbox.ok(60, &["hostd", "start"])?;
        let client = Client::socket(HostPaths::new(&self.sandbox.state(), &self.sandbox.cache())?);
        let names = names(control_planes, workers);
        let wanted = NetworkWanted {
            endpoint_port: 6443,
            endpoint_names: vec!["api.peer.windlass.internal".to_owned()],
            zone: "peer.windlass.internal".to_owned(),
            avoid: Vec::new(),
        };
        let network = self.runtime.block_on(client.ensure_network(&scope, &wanted))?;
        let began = Instant::now();
        let addresses = self.runtime.block_on(self.machines(&client, &scope, &names))?;
        let raised = self.raise(&names, &addresses);
        let seconds = began.elapsed().as_secs_f64();
        if raised.is_err() {
            eprintln!("{:?}; network {network:?}", raised.as_ref().err());
        }
        self.runtime.block_on(async {
            for name in &names {
                client.delete_machine(&scope, name).await?;
            }
            client.delete_network(&scope).await
        })?;
        raised.map(|()| seconds)
    }

    async fn machines(&self, client: &Client, scope: &Scope, names: &[String]) -> Result<BTreeMap<String, String>> {
        let mut addresses = BTreeMap::new();
        // Control planes have places, as ours do: hostd favours the first one alike.
        let control_planes = names.iter().filter(|name| name.contains("-cp-"));
        let places: BTreeMap<_, _> = control_planes.zip(Slot::ALL).collect();
        let place = |name: &String| places.get(name).copied();
        for name in names {
            let reservation = client.reserve(scope, name, place(name)).await?;
            addresses.insert(name.clone(), reservation.address.to_string());
        }
        let mut made = tokio::task::JoinSet::new();
        for name in names {
            let role = if name.contains("-cp-") { Role::ControlPlane } else { Role::Worker };
            let wanted = MachineWanted {
                name: name.clone(),
                role,
                slot: place(name),
                image: self.image.clone(),
                volumes: Vec::new(),
                dns_names: Vec::new(),
            };
            let (client, scope) = (client.clone(), scope.clone());
            made.spawn(async move { client.ensure_machine(&scope, &wanted).await });
        }
        while let Some(machine) = made.join_next().await {
            machine??;
        }
        Ok(addresses)
    }

    fn raise(&self, names: &[String], addresses: &BTreeMap<String, String>) -> Result<()> {
        let first = &names[0];
        let config = self.config(first, &addresses[first], names.len());
        self.containerd_runs(first)?;
        self.feed(first, "cat > /root/kubeadm.yaml", &config)?;
        let upload = if names.len() > 1 { "--upload-certs" } else { "" };
        let said = self.shell(
            first,
            180,
            &format!("kubeadm init --config=/root/kubeadm.yaml --ignore-preflight-errors=all {upload}"),
        )?;
        let kubeconfig =
            self.sandbox.write("peer.kubeconfig", &self.shell(first, 10, "cat /etc/kubernetes/admin.conf")?)?;
        let cluster = Cluster::new(&self.sandbox, "peer").with_kubeconfig(kubeconfig);
        cluster.apply(&self.storage)?;
        let image = ours::image(&self.sandbox)?;
        std::thread::scope(|scope| {
            let joins = scope.spawn(|| self.join(&said, &names[1..]));
            let proof = proof::wait(cluster.kubeconfig(), names.len(), &image, Duration::from_secs(400));
            let proof = scope.spawn(|| self.runtime.block_on(proof));
            let routes = if names.len() > 1 { self.routes(&cluster, names) } else { Ok(()) };
            let joined = joins.join().map_err(|_| anyhow::anyhow!("joining panicked"))?;
            let proven = proof.join().map_err(|_| anyhow::anyhow!("the proof panicked"))?;
            joined.and(routes).and(proven)
        })
    }

    /// Control planes one by one, workers beside them.
    fn join(&self, said: &str, names: &[String]) -> Result<()> {
        let line = said.replace("\\\n", " ");
        let commands: Vec<&str> = line.lines().map(str::trim).filter(|line| line.starts_with("kubeadm join")).collect();
        let control = commands.iter().find(|command| command.contains("--control-plane"));
        let worker = commands.iter().find(|command| !command.contains("--control-plane"));
        std::thread::scope(|scope| {
            let workers = names
                .iter()
                .filter(|name| !name.contains("-cp-"))
                .map(|name| scope.spawn(move || self.join_one(name, worker.context("no join command for workers")?)));
            let workers: Vec<_> = workers.collect();
            for name in names.iter().filter(|name| name.contains("-cp-")) {
                self.join_one(name, control.context("no join command for control planes")?)?;
            }
            workers.into_iter().try_for_each(|join| join.join().map_err(|_| anyhow::anyhow!("a join panicked"))?)
        })
    }

    fn join_one(&self, name: &str, command: &str) -> Result<()> {
        self.containerd_runs(name)?;
        self.shell(name, 180, &format!("{command} --ignore-preflight-errors=all")).map(drop)
    }

    /// What a pod network's agent does: each machine has a route to each other Node's range.
    fn routes(&self, cluster: &Cluster<'_>, names: &[String]) -> Result<()> {
        let mut known = BTreeMap::new();
        let started = Instant::now();
        while known.len() < names.len() {
            ensure!(started.elapsed() < Duration::from_secs(400), "only {known:?} have a range");
            let nodes = cluster.get(&["nodes"]).unwrap_or_default();
            for node in nodes["items"].as_array().into_iter().flatten() {
                let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let range = node["spec"]["podCIDR"].as_str().map(str::to_owned);
                let address = node["status"]["addresses"][0]["address"].as_str().map(str::to_owned);
                let (Some(range), Some(address)) = (range, address) else { continue };
                if known.insert(name.clone(), (range, address)).is_none() {
                    self.spread(names, &known)?;
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn spread(&self, names: &[String], known: &BTreeMap<String, (String, String)>) -> Result<()> {
        for name in names {
            let others = known.iter().filter(|(other, _)| *other != name);
            let commands: Vec<String> =
                others.map(|(_, (range, address))| format!("ip route replace {range} via {address}")).collect();
            if !commands.is_empty() {
                self.shell(name, 10, &commands.join("; "))?;
            }
        }
        Ok(())
    }

    fn containerd_runs(&self, name: &str) -> Result<()> {
        wait::until(&format!("containerd on {name}"), 60, || self.shell(name, 10, "systemctl is-active containerd"))
            .map(drop)
    }

    fn shell(&self, name: &str, seconds: u64, command: &str) -> Result<String> {
        self.sandbox.ok(seconds, &["machine", "shell", name, "--", "sh", "-c", command])
    }

    fn feed(&self, name: &str, command: &str, input: &str) -> Result<()> {
        let line = ["machine", "shell", name, "--", "sh", "-c", command];
        self.sandbox.feed(20, &line, input.as_bytes())?.expect(0)?;
        Ok(())
    }

    /// kubeadm's own defaults but for names of images and what a sandbox needs.
    fn config(&self, name: &str, address: &str, machines: usize) -> String {
        let mut kubelet = json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"});
        let settings = [
            "cgroupDriver",
            "failCgroupV1",
            "failSwapOn",
            "oomScoreAdj",
            "imageGCHighThresholdPercent",
            "imageGCLowThresholdPercent",
            "evictionHard",
        ];
        for setting in settings {
            if !self.kubelet[setting].is_null() {
                kubelet[setting] = self.kubelet[setting].clone();
            }
        }
        // Alone, the machine carries workloads, as ours does.
        let taints = if machines == 1 { json!([]) } else { Value::Null };
        let mut registration = json!({"name": name, "criSocket": "unix:///run/containerd/containerd.sock", "imagePullPolicy": "IfNotPresent"});
        if !taints.is_null() {
            registration["taints"] = taints;
        }
        let documents = [
            json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration",
                "localAPIEndpoint": {"advertiseAddress": address}, "nodeRegistration": registration}),
            json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.37.2",
                "imageRepository": "windlass.dev", "controlPlaneEndpoint": format!("{address}:6443"),
                "dns": {"imageRepository": "windlass.dev", "imageTag": "v1.14.6"},
                "etcd": {"local": {"imageRepository": "windlass.dev", "imageTag": "v3.7.0"}},
                "networking": {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/16"}}),
            kubelet,
            json!({"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
                "conntrack": {"maxPerCore": 0, "min": 0}}),
        ];
        documents.map(|document| document.to_string()).join("\n---\n")
    }
}

fn names(control_planes: u32, workers: u32) -> Vec<String> {
    let control_planes = (1..=control_planes).map(|number| format!("peer-cp-{number}"));
    control_planes.chain((1..=workers).map(|number| format!("peer-md-{number}"))).collect()
}

/// What a machine of ours looks like.
struct Model {
    files: BTreeMap<&'static str, String>,
    kubelet: Value,
    storage: String,
}

impl Model {
    fn take(sandbox: &Sandbox) -> Result<Self> {
        ours::create(sandbox, 1, 0)?;
        let cluster = Cluster::new(sandbox, "bench");
        let read = |path: &str| sandbox.ok(20, &["machine", "shell", "bench-cp-a", "--", "cat", path]);
        let mut files = BTreeMap::new();
        for path in SAME {
            files.insert(path, read(path)?);
        }
        let kubelet = cluster.get(&["--raw", "/api/v1/nodes/bench-cp-a/proxy/configz"]);
        let kubelet = kubelet.or_else(|_| raw(&cluster, "/api/v1/nodes/bench-cp-a/proxy/configz"))?;
        let kinds = "namespace,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,configmap,deployment,storageclass";
        let mut storage = cluster.get(&[kinds, "-A", "-l", "windlass.dev/addon=local-path"])?;
        for item in storage["items"].as_array_mut().into_iter().flatten() {
            bare(item);
        }
        sandbox.ok(300, &["delete", "cluster", "bench", "--delete-volumes", "--yes"])?;
        Ok(Self { files, kubelet: kubelet["kubeletconfig"].clone(), storage: storage.to_string() })
    }
}

fn raw(cluster: &Cluster<'_>, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&cluster.kubectl(&["get", "--raw", path])?)?)
}

/// Takes away what another cluster's API server wrote.
fn bare(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
    }
}

/// A layer on top of the newest image: kubeadm, containerd and kubelet as units, the agent masked. Its name.
fn lay_over(images: &Path, kubeadm: &Path, same: &BTreeMap<&str, String>) -> Result<String> {
    let folder = newest(images)?;
    let layer = folder.join("kubeadm");
    let units = layer.join("etc/systemd/system");
    let wants = units.join("multi-user.target.wants");
    fs_err::create_dir_all(layer.join("usr/local/bin"))?;
    fs_err::create_dir_all(&wants)?;
    fs_err::copy(kubeadm, layer.join("usr/local/bin/kubeadm"))?;
    fs_err::set_permissions(layer.join("usr/local/bin/kubeadm"), PermissionsExt::from_mode(0o755))?;
    for (path, text) in same {
        let path = layer.join(path.trim_start_matches('/'));
        fs_err::create_dir_all(path.parent().context("a folder")?)?;
        fs_err::write(path, text)?;
    }
    fs_err::write(units.join("kubelet.service"), KUBELET)?;
    symlink("/dev/null", units.join("windlass-agent.service"))?;
    symlink("../containerd.service", wants.join("containerd.service"))?;
    let sysctls = layer.join("etc/sysctl.d");
    fs_err::create_dir_all(&sysctls)?;
    fs_err::write(sysctls.join("90-peer.conf"), "net.ipv4.ip_forward = 1\n")?;
    let path = folder.join("image.json");
    let mut image: Value = serde_json::from_slice(&fs_err::read(&path)?)?;
    image["lowerdirs"].as_array_mut().context("layers")?.insert(0, json!("kubeadm"));
    // Shared with the real cache by a hard link: replaced, not rewritten.
    fs_err::remove_file(&path)?;
    fs_err::write(&path, image.to_string())?;
    Ok(folder.file_name().context("a name")?.to_string_lossy().into_owned())
}

fn newest(images: &Path) -> Result<PathBuf> {
    let folders = fs_err::read_dir(images)?.flatten().map(|entry| entry.path());
    let made = |folder: &PathBuf| folder.join("image.json").metadata().and_then(|found| found.modified()).ok();
    folders
        .filter(|folder| folder.join("image.json").is_file())
        .max_by_key(made)
        .context("no machine image; run `make build`")
}
