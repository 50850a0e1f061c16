//! A machine image from end to end: the real containerd of the bundle in the cache fills a store; the Debian root and the
//! release are small ones of the test's own. Needs root and `windlass bundle build` before.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_assets::{
    Bundle, Cache, Event, MachineImage, MachineImageError, Recipe, Silent, Tools, WindlassBinary, build, machine_image,
};

/// Programs of the real bundle that a store is filled with.
const PROGRAMS: [&str; 3] = ["containerd", "ctr", "crictl"];

struct World {
    folder: tempfile::TempDir,
    cache: Cache,
    bundle: Bundle,
}

impl World {
    /// A bundle of the real containerd and an image `pause` that holds ctr.
    fn new() -> Self {
        let real = real_bundle();
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("cache"));
        let release = folder.path().join("release");
        fs_err::create_dir_all(release.join("modules/any")).unwrap();
        fs_err::write(release.join("modules/any/go.mod"), "").unwrap();
        fs_err::write(release.join("1.2.3.yaml"), manifest()).unwrap();
        let tools = stand_ins(folder.path(), &real);
        let recipe = Recipe::from_folder(&release, "1.2.3.yaml").unwrap();
        let bundle = build(&recipe, &cache, &tools, &Silent).unwrap();
        Self { folder, cache, bundle }
    }

    fn binary(&self, content: &str) -> WindlassBinary {
        let path = self.folder.path().join(format!("binary-{content}"));
        fs_err::write(&path, content).unwrap();
        WindlassBinary::at(&path).unwrap()
    }

    fn image(&self, binary: &WindlassBinary) -> MachineImage {
        machine_image(&self.bundle, binary, &self.cache, &Silent).unwrap()
    }
}

fn real_bundle() -> Bundle {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("windlass");
    let bundle = Bundle::locate(&Recipe::find("").unwrap().manifest.kubernetes, &Cache::new(cache)).unwrap();
    bundle.expect("no bundle in the cache: run `make build`")
}

fn manifest() -> String {
    let programs = PROGRAMS.map(|name| format!("  - {{name: {name}, package: p, install: /usr/local/bin}}\n")).concat();
    format!(
        "format: 1
kubernetes: 1.2.3
toolchain: {{go: 1.20.0, needs: []}}
root: {{suite: none, packages: [], exclude: []}}
components:
- name: containerd
  version: 1.2.3
  module: any
  programs:
{programs}images:
- {{name: pause, component: containerd, tag: '{{version}}', programs: [ctr]}}
"
    )
}

/// A Go that copies programs of the real bundle, and an mmdebstrap that gives a small root.
fn stand_ins(folder: &Path, real: &Bundle) -> Tools {
    let tools = folder.join("tools");
    let root = folder.join("debian");
    for path in ["etc/ssh", "etc/ssl/certs", "usr/bin", "var/lib/dpkg/info"] {
        fs_err::create_dir_all(root.join(path)).unwrap();
    }
    fs_err::write(root.join("etc/ssl/certs/ca-certificates.crt"), "").unwrap();
    fs_err::write(root.join("etc/machine-id"), "0123").unwrap();
    fs_err::write(root.join("etc/ssh/ssh_host_ed25519_key"), "shared").unwrap();
    fs_err::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let go = format!(
        "#!/bin/sh\nif [ \"$1\" = env ]; then echo go1.26.0; exit; fi\nwhile [ \"$1\" != -o ]; do shift; done\ncp {}/bin/$(basename \"$2\") \"$2\"\n",
        real.folder().display()
    );
    let mmdebstrap = format!("#!/bin/sh\nexec tar -C {} --sort=name --mtime=@0 -c .\n", root.display());
    fs_err::create_dir_all(&tools).unwrap();
    for (name, script) in [("go", go), ("mmdebstrap", mmdebstrap)] {
        fs_err::write(tools.join(name), script).unwrap();
        fs_err::set_permissions(tools.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut path = OsString::from(tools);
    path.push(":/usr/bin:/bin");
    Tools { path, debian_mirror: None }
}

/// Is anything mounted below a folder?
fn mounted_below(folder: &Path) -> bool {
    fs_err::read_to_string("/proc/self/mountinfo").unwrap().contains(&*folder.to_string_lossy())
}

#[test]
fn an_image_is_made_once_a_bundle_and_once_a_binary() {
    let world = World::new();
    let steps = Mutex::new(Vec::new());
    let count = |event: Event| {
        if let Event::Started { step } = event {
            steps.lock().unwrap().push(step);
        }
    };
    let one = machine_image(&world.bundle, &world.binary("one"), &world.cache, &count).unwrap();
    let two = machine_image(&world.bundle, &world.binary("two"), &world.cache, &count).unwrap();
    let again = machine_image(&world.bundle, &world.binary("one"), &world.cache, &count).unwrap();
    assert_eq!(one, again);
    assert_eq!(
        *steps.lock().unwrap(),
        ["verify the bundle", "machine root", "containerd store", "machine image", "machine image"]
    );
    assert!(!mounted_below(world.folder.path()), "no mount is left");

    one.verify().unwrap();
    assert_eq!(one.release().images["windlass"], world.binary("one").reference());
    assert_eq!(one.lowerdirs()[1], two.lowerdirs()[1], "both stand on the same base");
    let [top, base] = <[PathBuf; 2]>::try_from(one.lowerdirs()).unwrap();
    assert_eq!(fs_err::read(top.join("usr/local/bin/windlass")).unwrap(), b"one");
    assert_eq!(fs_err::read(base.join("etc/machine-id")).unwrap(), b"");
    assert!(!base.join("etc/ssh/ssh_host_ed25519_key").exists(), "host keys are each machine's own");
    assert!(base.join("usr/local/share/windlass/bundle.lock.json").is_file());
    assert_eq!(MachineImage::open(&world.cache, one.id()).unwrap(), one);
    assert!(matches!(MachineImage::open(&world.cache, "other"), Err(MachineImageError::NotFound { .. })));
}

#[test]
fn a_clone_shares_blocks_and_damage_is_named() {
    let world = World::new();
    let image = world.image(&world.binary("one"));
    let clone = world.folder.path().join("machine/containerd");
    image.clone_store(&clone).unwrap();
    let blobs = "io.containerd.content.v1.content/blobs/sha256";
    let blob = fs_err::read_dir(clone.join(blobs)).unwrap().next().unwrap().unwrap();
    assert!(blob.metadata().unwrap().nlink() > 1, "blobs are shared");
    let database = fs_err::metadata(clone.join("io.containerd.metadata.v1.bolt/meta.db")).unwrap();
    assert_eq!(database.nlink(), 1, "databases are not");
    assert!(!clone.join("io.containerd.grpc.v1.introspection/uuid").exists());

    let base = image.lowerdirs().pop().unwrap();
    let mut content = fs_err::read(base.join("usr/local/bin/ctr")).unwrap();
    content[1000] ^= 1;
    fs_err::write(base.join("usr/local/bin/ctr"), content).unwrap();
    let damage = image.verify().unwrap_err().to_string();
    assert!(damage.contains("/usr/local/bin/ctr was changed: expected sha256:"), "{damage}");
    world.bundle.verify().expect("the bundle has its own copy");
}

#[test]
fn what_a_killed_builder_left_does_not_matter() {
    let world = World::new();
    fs_err::create_dir_all(world.cache.folder().join("staging/base/root")).unwrap();
    fs_err::write(world.cache.folder().join("staging/base/root/half"), "").unwrap();
    let image = world.image(&world.binary("one"));
    image.verify().unwrap();
    assert!(!world.cache.folder().join("staging").exists());
}
