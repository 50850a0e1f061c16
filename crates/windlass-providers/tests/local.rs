//! Real machines of the local provider, in a state folder of the test's own: what every place must do, power loss, and
//! nothing left behind. Needs root; without it the tests say so and pass over, but fail in CI.

mod conformance;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use windlass_providers::local::hostd::{self, Options};
use windlass_providers::local::protocol::Power;
use windlass_providers::local::{Client, Paths, survey};
use windlass_providers::ports::{Inventory, Machine, MachineState, Provider, ProviderError, VolumeWanted};
use windlass_spec::boot_stub::BootStub;
use windlass_spec::identity::Slot;
use windlass_testkit::needs;

use conformance::{machine, network, scope};

const IMAGE: &str = "tiny";
const HOSTD: &str = "WINDLASS_TEST_HOSTD";
/// What a machine needs to boot and to answer these tests' questions.
const PACKAGES: &str = "--include=systemd,systemd-sysv,iproute2";

/// Not a test of its own: the process in which the tests' hostd runs.
#[tokio::test(flavor = "multi_thread")]
async fn hostd_process() {
    let Ok(folder) = std::env::var(HOSTD) else { return };
    let paths = world_paths(Path::new(&folder));
    hostd::run(Options { paths, build: "test".to_owned(), resume: false }).await.expect("hostd");
}

fn world_paths(folder: &Path) -> Paths {
    Paths::new(&folder.join("state"), &folder.join("cache")).expect("paths")
}

/// A state folder with an hostd of its own.
struct World {
    folder: tempfile::TempDir,
    paths: Paths,
    hostd: Option<Child>,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("windlass-local-").tempdir_in("/var/tmp").expect("a folder");
        let paths = world_paths(folder.path());
        lay_image(&paths);
        let mut world = Self { folder, paths, hostd: None };
        world.start().await;
        world
    }

    async fn start(&mut self) {
        let exe = std::env::current_exe().expect("the test binary");
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).expect("a log");
        let child = Command::new(exe)
            .args(["hostd_process", "--exact", "--nocapture"])
            .env(HOSTD, self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("hostd");
        self.hostd = Some(child);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.client().hello().await.is_ok_and(|hello| !hello.starting) {
            assert!(Instant::now() < deadline, "hostd did not come up: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn kill_hostd(&mut self) {
        let mut child = self.hostd.take().expect("a running hostd");
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    fn client(&self) -> Client {
        Client::socket(self.paths.clone())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Runs a command inside a machine, as `windlass machine shell` does.
    fn inside(&self, machine: &str, command: &str) -> String {
        let init = survey::machine(&self.paths, machine).expect("the machine").init.expect("it runs").to_string();
        let output = Command::new("nsenter")
            .args(["-t", &init, "-m", "-u", "-i", "-n", "-p", "-r", "--", "/bin/sh", "-c", command])
            .output()
            .expect("nsenter");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn eventually_inside(&self, machine: &str, command: &str, expected: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let printed = self.inside(machine, command);
            if printed.contains(expected) {
                return;
            }
            assert!(Instant::now() < deadline, "{command} in {machine} printed {printed:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Everything on the host that carries this state folder's names.
    fn traces(&self) -> Vec<String> {
        let id = self.paths.id();
        let folder = self.folder.path().join("state").display().to_string();
        let ours = |text: &String| {
            text.contains(&format!("-{id}")) || text.contains(&format!("_{id}")) || text.contains(&folder)
        };
        let links = names("/sys/class/net").into_iter().filter(|link| link.starts_with(&self.paths.link_prefix()));
        let mounts = lines(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        let loops = names("/sys/block")
            .into_iter()
            .filter_map(|name| std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok());
        let cgroups = names("/sys/fs/cgroup").into_iter().flat_map(|hierarchy| {
            let name = self.paths.cgroup();
            let folder = PathBuf::from("/sys/fs/cgroup").join(&hierarchy).join(&name);
            let inner = if hierarchy == name {
                Some(hierarchy)
            } else {
                folder.exists().then_some(format!("{hierarchy}/{name}"))
            };
            inner.into_iter()
        });
        let tables = Command::new("nft").args(["list", "tables"]).output().expect("nft").stdout;
        let tables = lines(&String::from_utf8_lossy(&tables));
        let processes = names("/proc").into_iter().filter_map(|pid| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some(String::from_utf8_lossy(&arguments).replace('\0', " "))
        });
        let rest =
            mounts.into_iter().chain(loops).chain(names("/run/netns")).chain(tables).chain(processes).filter(ours);
        links.chain(cgroups).chain(rest).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let Some(mut child) = self.hostd.take() else { return };
        if std::thread::panicking() {
            eprintln!("hostd's log:\n{}", self.log());
        }
        // Whatever failed before, no machine stays.
        for found in survey::machines(&self.paths).unwrap_or_default() {
            let cut = found.init.map(|pid| Command::new("kill").args(["-9", &pid.to_string()]).status());
            drop(cut);
        }
        std::thread::sleep(Duration::from_secs(1));
        drop(child.kill().and_then(|()| child.wait()));
    }
}

fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// A minimal root, made once in the cache folder of the person who runs the tests.
fn lay_image(paths: &Paths) {
    let cache = Paths::from_environment().expect("a cache folder").cache().join("test-images");
    let root = cache.join("tiny");
    if !root.exists() {
        std::fs::create_dir_all(&cache).expect("a cache folder");
        let beside = cache.join(format!("tiny.new-{}", std::process::id()));
        let made = Command::new("mmdebstrap")
            .args(["--quiet", "--variant=minbase", PACKAGES, "bookworm"])
            .arg(&beside)
            .status()
            .expect("mmdebstrap");
        assert!(made.success(), "mmdebstrap failed");
        if std::fs::rename(&beside, &root).is_err() {
            std::fs::remove_dir_all(&beside).expect("another test was faster");
        }
    }
    let image = paths.machine_images().join(IMAGE);
    std::fs::create_dir_all(image.join("containerd")).expect("an image");
    std::fs::write(image.join("containerd/meta.db"), "database").expect("a store");
    let none = format!("sha256:{}", "0".repeat(64));
    let release = serde_json::json!({"kubernetes": "0.0.0", "bundle": none, "versions": {}, "images": {}});
    let description = serde_json::json!({
        "format": 1, "id": IMAGE, "lowerdirs": [root], "containerd": "containerd",
        "bundle": none, "windlass": none, "release": release,
    });
    std::fs::write(image.join("image.json"), description.to_string()).expect("an image");
}

/// What must be the same before and after a power loss.
fn lasting(inventory: &Inventory) -> String {
    let machines: Vec<String> = inventory
        .machines
        .iter()
        .map(|machine| {
            format!("{} {:?} {} {:?} {:?}", machine.name, machine.state, machine.address, machine.slot, machine.volumes)
        })
        .collect();
    format!("{:?} {machines:?} {:?}", inventory.network, inventory.volumes)
}

#[tokio::test(flavor = "multi_thread")]
async fn real_machines_do_what_every_place_must_do() {
    if !needs::root() {
        return;
    }
    let world = World::new().await;
    let client = world.client();
    conformance::names_and_addresses(&client).await;
    conformance::owners(&client).await;
    conformance::volumes(&client, IMAGE).await;
    assert_nothing_left(world).await;
}

/// hostd ends by itself when it holds nothing, and then nothing of it is there.
async fn assert_nothing_left(mut world: World) {
    let mut child = world.hostd.take().expect("hostd");
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().expect("hostd").is_none() {
        assert!(Instant::now() < deadline, "hostd does not end: {}", world.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.traces(), Vec::<String>::new());
    assert!(!world.paths.state().exists());
    assert!(!world.paths.run().exists());
}

/// Two machines, a volume, names, the endpoint; power loss of everything; the same again; delete; nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_power_loss_changes_nothing() {
    if !needs::root() {
        return;
    }
    let mut world = World::new().await;
    let client = world.client();
    let scope = scope("00000000000000e1", "lab", "one", 1);
    let network = client.ensure_network(&scope, &network("lab")).await.expect("a network");
    let volume = VolumeWanted { name: "etcd-main-a".to_owned(), bytes: 64 << 20, slot: Some(Slot::A) };
    client.ensure_volume(&scope, &volume).await.expect("a volume");
    client.reserve(&scope, "lab-cp-a", Some(Slot::A)).await.expect("a reservation");
    client.reserve(&scope, "lab-md-1", None).await.expect("a reservation");
    let mut control_plane = machine("lab-cp-a", Some(Slot::A), IMAGE, &["etcd-main-a"]);
    control_plane.dns_names = vec!["etcd-a.lab.windlass.internal".to_owned()];
    let worker = machine("lab-md-1", None, IMAGE, &[]);
    let (one, two) =
        tokio::join!(client.ensure_machine(&scope, &control_plane), client.ensure_machine(&scope, &worker));
    let (one, two) = (one.expect("a machine"), two.expect("a machine"));

    // B20: running means that its own init runs, in its own network, with the boot id hostd tells.
    world.eventually_inside(
        "lab-cp-a",
        "cat /proc/sys/kernel/random/boot_id",
        one.boot_id.as_deref().expect("a boot id"),
    );
    world.eventually_inside("lab-cp-a", "ip -br address show eth0; hostname", &format!("{}/24", one.address));
    world.eventually_inside(
        "lab-cp-a",
        "cat /sys/class/block/$(basename $(readlink /dev/windlass/etcd-main-a))/size",
        "131072",
    );
    // B06: no two machines are one, whatever the image carries.
    let ids = ["lab-cp-a", "lab-md-1"].map(|machine| world.inside(machine, "cat /etc/machine-id"));
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.trim().len() == 32), "{ids:?}");
    // R08: what several machines share is enough while they are there.
    let instances = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").expect("a limit");
    assert!(instances.trim().parse::<u64>().expect("a number") >= 8192);
    world.inside("lab-cp-a", "mkfs.ext4 -q /dev/windlass/etcd-main-a && mkdir -p /data && mount /dev/windlass/etcd-main-a /data && echo kept > /data/file && sync");
    // The zone: machines, slots, the endpoint; nothing outside.
    let names = ["lab-md-1", "etcd-a", "api"].map(|name| format!("{name}.lab.windlass.internal"));
    for (name, address) in names.iter().zip([two.address, one.address, network.endpoint]) {
        world.eventually_inside("lab-cp-a", &format!("getent ahostsv4 {name}"), &address.to_string());
    }
    world.eventually_inside("lab-md-1", &format!("getent hosts {}", one.address), "lab-cp-a.lab.windlass.internal");
    world.eventually_inside("lab-cp-a", "getent hosts example.test || echo none", "none");

    let before = client.inventory(&scope).await.expect("an inventory");
    world.kill_hostd();
    // Names and machines of a dead hostd: machines go on.
    world.eventually_inside("lab-cp-a", "cat /data/file", "kept");
    for found in survey::machines(&world.paths).expect("machines") {
        let init = found.init.expect("it runs").to_string();
        assert!(Command::new("kill").args(["-9", &init]).status().expect("kill").success());
    }
    world.start().await;
    // Control planes first: a worker can do nothing until an API server answers.
    let state = |inventory: &Inventory, name: &str| {
        inventory.machines.iter().find(|machine| machine.name == name).map(|machine| machine.state.clone())
    };
    let first = client.inventory(&scope).await.expect("an inventory");
    assert_eq!(state(&first, "lab-cp-a"), Some(MachineState::Running));
    assert_eq!(state(&first, "lab-md-1"), Some(MachineState::Starting));
    report(&world, "lab-cp-a", true);
    conformance::await_machine(&client, &scope, "lab-md-1", |machine| machine.state == MachineState::Running).await;
    let after = client.inventory(&scope).await.expect("an inventory");
    assert_eq!(lasting(&before), lasting(&after), "{}", world.log());
    let boots = |inventory: &Inventory| {
        inventory.machines.iter().map(|m: &Machine| (m.starts, m.boot_id.clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids, ["lab-cp-a", "lab-md-1"].map(|machine| world.inside(machine, "cat /etc/machine-id")));
    assert!(boots(&after).iter().all(|(starts, _)| *starts == 2));
    assert_ne!(boots(&before), boots(&after));
    world.eventually_inside(
        "lab-cp-a",
        "mkdir -p /data && mount /dev/windlass/etcd-main-a /data; cat /data/file",
        "kept",
    );

    // hostd alone killed: taken up again, untouched.
    world.kill_hostd();
    world.start().await;
    let again = client.inventory(&scope).await.expect("an inventory");
    assert_eq!(boots(&after), boots(&again));

    // A machine that dies by itself is reported, and stays dead.
    let init = survey::machine(&world.paths, "lab-md-1").expect("found").init.expect("it runs").to_string();
    assert!(Command::new("kill").args(["-9", &init]).status().expect("kill").success());
    let is_dead = |machine: &Machine| matches!(machine.state, MachineState::Stopped { .. });
    conformance::await_machine(&client, &scope, "lab-md-1", is_dead).await;
    let same = client.ensure_machine(&scope, &worker).await.expect("the machine as it is");
    assert!(is_dead(&same), "{same:?}");

    for machine in ["lab-cp-a", "lab-md-1"] {
        client.delete_machine(&scope, machine).await.expect("gone");
    }
    client.delete_network(&scope).await.expect("gone");
    client.delete_volume(&scope, "etcd-main-a").await.expect("gone");
    assert!(matches!(client.inventory(&scope).await, Err(ProviderError::NotFound { .. })));
    assert_nothing_left(world).await;
}

/// The endpoint's address leads to ready servers, also from such a server itself and while hostd is dead; without one
/// it refuses at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_leads_to_ready_servers_only() {
    if !needs::root() {
        return;
    }
    let mut world = World::new().await;
    let client = world.client();
    let scope = scope("00000000000000e4", "point", "one", 1);
    let network = client.ensure_network(&scope, &network("point")).await.expect("a network");
    for (name, slot) in [("point-cp-a", Some(Slot::A)), ("point-md-1", None)] {
        client.reserve(&scope, name, slot).await.expect("a reservation");
        client.ensure_machine(&scope, &machine(name, slot, IMAGE, &[])).await.expect("a machine");
    }
    let ask = format!("timeout 5 bash -c 'read -r line < /dev/tcp/{}/6443; echo answer $line' 2>&1", network.endpoint);
    world.eventually_inside("point-md-1", &ask, "refused");
    let serve = "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalPort => 6443, Listen => 9, ReuseAddr => 1); \
                 while (my $c = $s->accept) { print $c \"ready\\n\"; close $c }'";
    world.inside("point-cp-a", &format!("setsid {serve} > /dev/null 2>&1 < /dev/null &"));
    report(&world, "point-cp-a", true);
    let from_host = || {
        let output = Command::new("sh").args(["-c", &ask]).output().expect("a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for machine in ["point-md-1", "point-cp-a"] {
        world.eventually_inside(machine, &ask, "answer ready");
    }
    assert!(from_host().contains("answer ready"));
    world.eventually_inside("point-md-1", "getent ahostsv4 api.point.example", &network.endpoint.to_string());
    world.kill_hostd();
    for machine in ["point-md-1", "point-cp-a"] {
        world.eventually_inside(machine, &ask, "answer ready");
    }
    world.start().await;
    assert!(from_host().contains("answer ready"));
    client.set_power("point/point-cp-a", Power::Kill).await.expect("stopped");
    world.eventually_inside("point-md-1", &ask, "refused");
    for machine in ["point-cp-a", "point-md-1"] {
        client.delete_machine(&scope, machine).await.expect("gone");
    }
    client.delete_network(&scope).await.expect("gone");
    assert_nothing_left(world).await;
}

/// Reports as a machine's agent does, with the identity in its boot stub.
fn report(world: &World, machine: &str, api_server_ready: bool) {
    let found = survey::machine(&world.paths, machine).expect("the machine");
    let root = format!("/proc/{}/root", found.init.expect("it runs"));
    let stub = std::fs::read_to_string(format!("{root}{}", BootStub::PATH)).expect("a boot stub");
    let stub: BootStub = serde_json::from_str(&stub).expect("a boot stub");
    let folder = tempfile::tempdir().expect("a folder");
    let report = serde_json::json!({
        "format": 1, "machine": machine, "bootId": found.machine.boot_id, "at": "2026-01-01T00:00:00Z",
        "windlassVersion": "0", "config": null, "parts": [], "etcdFormedBy": null, "etcdMemberId": null,
        "apiServerReady": api_server_ready, "apiServerNames": ["api.point.example"], "nodeReady": false,
    });
    let files = [("ca", stub.ca), ("cert", stub.certificate), ("key", stub.key), ("report", report.to_string())];
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("a file");
    }
    let status = Command::new("curl")
        .current_dir(folder.path())
        .args(["--silent", "--fail", "--cacert", "ca", "--cert", "cert", "--key", "key", "--request", "PUT"])
        .args(["--header", "content-type: application/json", "--data", "@report"])
        .arg(format!("{}/v1/self/report", stub.config_source))
        .status()
        .expect("curl");
    assert!(status.success());
}

/// The mutual-TLS side: an owner's credential reaches its cluster, and that alone.
#[tokio::test(flavor = "multi_thread")]
async fn owners_elsewhere_reach_their_own_cluster_only() {
    if !needs::root() {
        return;
    }
    let world = World::new().await;
    let client = world.client();
    let (mine, other) = (scope("00000000000000e2", "mine", "one", 1), scope("00000000000000e3", "other", "one", 1));
    client.ensure_network(&mine, &network("mine")).await.expect("a network");
    client.ensure_network(&other, &network("other")).await.expect("a network");
    let remote = Client::with_credential(&client.credential(&mine).await.expect("a credential")).expect("a client");
    remote.reserve(&mine, "mine-md-1", None).await.expect("its own cluster");
    assert!(remote.facts().await.is_ok());
    for denied in [
        remote.reserve(&other, "other-md-1", None).await.map(drop),
        remote.inventory(&other).await.map(drop),
        remote.reserve(&scope("00000000000000e2", "mine", "one", 2), "mine-md-2", None).await.map(drop),
        remote.clusters().await.map(drop),
        remote.stop(false).await,
    ] {
        assert!(matches!(denied, Err(ProviderError::Denied { .. })), "{denied:?}");
    }
    client.reserve(&scope("00000000000000e2", "mine", "two", 2), "mine-md-3", None).await.expect("the next owner");
    assert!(matches!(remote.reserve(&mine, "mine-md-4", None).await, Err(ProviderError::Fenced { seen: 2, asked: 1 })));
    assert_eq!(remote.inventory(&mine).await.expect("reading is free").scope.ownership.epoch.0, 2);
    let next = scope("00000000000000e2", "mine", "two", 2);
    for machine in ["mine-md-1", "mine-md-3"] {
        client.delete_machine(&next, machine).await.expect("gone");
    }
    client.delete_network(&next).await.expect("gone");
    client.delete_network(&other).await.expect("gone");
    assert_nothing_left(world).await;
}
