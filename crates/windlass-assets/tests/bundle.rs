//! A bundle from end to end, with a release of its own: built, resumed, damaged and found out, carried about in an
//! archive. Stand-ins for Go and mmdebstrap count their runs; one test uses the real Go.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use windlass_assets::{
    ArchiveError, ArchiveFile, BuildError, Bundle, BundleError, Cache, Digest, Event, GoModules, LocalCache, Recipe,
    Silent, SourceError, Tools, build, build_extra, export, import, obtain,
};

/// Folders and tools of one test.
struct World {
    folder: tempfile::TempDir,
    cache: Cache,
    tools: Tools,
}

impl World {
    /// With stand-ins for both tools.
    fn new() -> Self {
        let world = Self::without_tools();
        world.stand_in_go("1.26.0");
        world.stand_in_debian();
        world
    }

    fn without_tools() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("cache"));
        let mut path = OsString::from(folder.path().join("tools"));
        path.push(":/usr/bin:/bin");
        Self { folder, cache, tools: Tools { path, debian_mirror: None } }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lines a stand-in has written, and forgets them.
    fn runs(&self, name: &str) -> Vec<String> {
        let lines = fs_err::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect();
        fs_err::write(self.path(name), "").unwrap();
        lines
    }

    fn write(&self, name: &str, content: &str, mode: u32) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        fs_err::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// With the Go of this computer.
    fn with_real_go() -> Self {
        let mut world = Self::new();
        fs_err::remove_file(world.path("tools/go")).unwrap();
        world.tools.path.push(":");
        world.tools.path.push(Tools::from_environment().path);
        world
    }

    /// A Go that writes the program's name instead of compiling, and fails for names in the file `broken`.
    fn stand_in_go(&self, version: &str) {
        let (log, broken) = (self.path("go.log"), self.path("broken"));
        let script = format!(
            r#"#!/bin/sh
if [ "$1" = env ]; then echo go{version}; exit; fi
while [ "$1" != -o ]; do shift; done
name=$(basename "$2")
echo "$name" >> {log}
if grep -qx "$name" {broken} 2>/dev/null; then echo "$name.go:1: undefined: everything" >&2; exit 1; fi
echo "program $name" > "$2"
chmod 755 "$2"
"#,
            log = log.display(),
            broken = broken.display()
        );
        self.write("tools/go", &script, 0o755);
    }

    /// An mmdebstrap that gives a root of one package.
    fn stand_in_debian(&self) {
        self.write("debian/usr/bin/tiny", "tiny", 0o755);
        self.write("debian/etc/ssl/certs/ca-certificates.crt", "authorities", 0o644);
        let status = "Package: tiny\nStatus: install ok installed\nVersion: 7\n";
        self.write("debian/var/lib/dpkg/status", status, 0o644);
        self.write("debian/var/lib/dpkg/info/tiny.list", "/.\n/usr/bin/tiny\n/usr/share/doc/tiny\n", 0o644);
        let script = format!(
            "#!/bin/sh\necho run >> {log}\nexec tar -C {root} --sort=name --mtime=@0 --owner=0 --group=0 -c .\n",
            log = self.path("mmdebstrap.log").display(),
            root = self.path("debian").display()
        );
        self.write("tools/mmdebstrap", &script, 0o755);
    }

    fn build(&self) -> Result<Bundle, BuildError> {
        build(&recipe(), &self.cache, &self.tools, &Silent)
    }

    /// Replaces a file of the cache, as damage does: not by writing through a shared inode.
    fn replace(&self, path: &Path, content: &[u8]) {
        fs_err::remove_file(path).unwrap();
        fs_err::write(path, content).unwrap();
        fs_err::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn recipe() -> Recipe {
    Recipe::from_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture"), "1.2.3.yaml").unwrap()
}

/// Packs some files of a bundle as an export would, without its checks.
fn pack(bundle: &Bundle, file: &Path, paths: &[&str]) {
    let mut tar = Command::new("tar");
    tar.args(["--zstd", "-cf"]).arg(file).arg("-C").arg(bundle.folder()).arg("bundle.lock.json").args(paths);
    assert!(tar.status().unwrap().success());
}

#[test]
fn a_bundle_is_complete_and_its_own_release() {
    let world = World::new();
    let bundle = world.build().unwrap();
    bundle.verify().unwrap();
    assert_eq!(fs_err::read(bundle.program("hello").unwrap()).unwrap(), b"program hello\n");
    let lock = bundle.lock();
    assert_eq!(lock.files["bin/hello"].install.as_deref(), Some("/usr/local/bin/hello"));
    assert_eq!(lock.files["bin/goodbye"].install, None);
    assert_eq!((lock.toolchain.as_str(), lock.debian_packages["tiny"].as_str()), ("go1.26.0", "7"));
    let release = bundle.release();
    assert_eq!(release.images["hello"], "windlass.dev/hello:v1.2.3");
    assert_eq!(release.bundle, bundle.digest().to_string());
    assert_eq!(Bundle::locate("1.2.3", &world.cache).unwrap().unwrap(), bundle);
    assert_eq!(Bundle::locate("1.2.4", &world.cache).unwrap(), None);
}

#[test]
fn the_same_inputs_give_the_same_bundle() {
    let (one, two) = (World::new().build().unwrap().digest(), World::new().build().unwrap().digest());
    assert_eq!(one, two);
}

#[test]
fn nothing_is_built_twice_and_a_failed_build_goes_on_where_it_was() {
    let world = World::new();
    world.write("broken", "goodbye\n", 0o644);
    let failure = world.build().unwrap_err();
    let cause = std::error::Error::source(&failure).unwrap().to_string();
    assert_eq!(failure.to_string(), "building goodbye failed");
    assert!(cause.contains("goodbye.go:1: undefined: everything"), "{cause}");
    assert_eq!(world.runs("go.log"), ["hello", "goodbye"]);
    assert!(Bundle::list(&world.cache).unwrap().is_empty(), "nothing half is in the cache");

    fs_err::remove_file(world.path("broken")).unwrap();
    let bundle = world.build().unwrap();
    assert_eq!((world.runs("go.log"), world.runs("mmdebstrap.log").len()), (vec!["goodbye".to_owned()], 1));
    assert_eq!(world.build().unwrap(), bundle);
    assert!(world.runs("go.log").is_empty() && world.runs("mmdebstrap.log").is_empty());
}

#[test]
fn another_toolchain_builds_again_but_keeps_the_root() {
    let world = World::new();
    world.build().unwrap().remove().unwrap();
    world.runs("go.log");
    world.runs("mmdebstrap.log");
    world.stand_in_go("1.27.0");
    world.build().unwrap();
    assert_eq!((world.runs("go.log").len(), world.runs("mmdebstrap.log").len()), (2, 0));
}

#[test]
fn a_damaged_bundle_is_named_and_made_again() {
    let world = World::new();
    let bundle = world.build().unwrap();
    world.replace(&bundle.folder().join("bin/goodbye"), b"program g00dbye\n");
    let text = bundle.verify().unwrap_err().to_string();
    assert!(text.contains("bin/goodbye was changed: expected sha256:"), "{text}");

    let seen = Mutex::new(Vec::new());
    let again = build(&recipe(), &world.cache, &world.tools, &|event| seen.lock().unwrap().push(event)).unwrap();
    again.verify().unwrap();
    assert_eq!(again.digest(), bundle.digest());
    let told = |event: &Event| matches!(event, Event::Detail { text, .. } if text.contains("bin/goodbye was changed"));
    assert!(seen.lock().unwrap().iter().any(told));
}

#[test]
fn programs_are_read_again_before_they_are_run() {
    let world = World::new();
    let bundle = world.build().unwrap();
    world.replace(&bundle.folder().join("bin/goodbye"), b"program g00dbye\n");
    bundle.verify_programs(&["hello", "no-such-program"]).expect("only what is run is read");
    let text = bundle.verify_programs(&["hello", "goodbye"]).unwrap_err().to_string();
    assert!(text.contains("bin/goodbye was changed: expected sha256:") && !text.contains("bin/hello"), "{text}");
}

#[test]
fn a_swapped_lock_is_refused() {
    let world = World::new();
    let bundle = world.build().unwrap();
    let path = bundle.folder().join("bundle.lock.json");
    let text = fs_err::read_to_string(&path).unwrap().replace("go1.26.0", "go1.26.1");
    fs_err::write(&path, text).unwrap();
    assert!(matches!(Bundle::open(bundle.folder()), Err(BundleError::Swapped { .. })));
    assert_eq!(Bundle::locate("1.2.3", &world.cache).unwrap(), None);
}

#[test]
fn an_archive_carries_a_bundle_to_another_cache() {
    let (world, other) = (World::new(), World::without_tools());
    let bundle = world.build().unwrap();
    let file = world.path("bundle.tar.zst");
    export(&bundle, &file, &Silent).unwrap();
    let imported = import(&file, &other.cache, &Silent).unwrap();
    imported.verify().unwrap();
    assert_eq!(imported.digest(), bundle.digest());
    let mode = fs_err::metadata(imported.program("hello").unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    // What came by archive is found like what was built, so nothing is built there.
    let made = obtain(&[&LocalCache, &GoModules { tools: other.tools.clone() }], &recipe(), &other.cache, &Silent);
    assert_eq!(made.unwrap(), imported);
}

#[test]
fn a_damaged_archive_is_refused_by_name() {
    let (world, other) = (World::new(), World::without_tools());
    let bundle = world.build().unwrap();
    let file = world.path("bundle.tar.zst");
    world.replace(&bundle.folder().join("bin/hello"), b"program hell0\n");
    assert!(matches!(export(&bundle, &file, &Silent), Err(ArchiveError::Bundle(BundleError::Damaged { .. }))));

    let paths: Vec<&str> = bundle.lock().files.keys().map(String::as_str).collect();
    pack(&bundle, &file, &paths);
    let failure = import(&file, &other.cache, &Silent).unwrap_err();
    let ArchiveError::Damaged { file, expected, found, .. } = failure else { panic!("{failure}") };
    assert_eq!(file, "bin/hello");
    assert_eq!(expected, Digest::of(b"program hello\n").to_string());
    assert_eq!(found, Digest::of(b"program hell0\n").to_string());
    assert!(Bundle::list(&other.cache).unwrap().is_empty());
}

#[test]
fn an_incomplete_archive_is_refused() {
    let (world, other) = (World::new(), World::without_tools());
    let bundle = world.build().unwrap();
    let file = world.path("bundle.tar.zst");
    pack(&bundle, &file, &["bin/hello"]);
    let failure = import(&file, &other.cache, &Silent).unwrap_err();
    assert!(matches!(&failure, ArchiveError::Damaged { found, .. } if found == "nothing"), "{failure}");
}

#[test]
fn sources_are_asked_in_order() {
    let world = World::new();
    let archive = ArchiveFile { path: world.path("none.tar.zst") };
    let failure = obtain(&[&LocalCache], &recipe(), &world.cache, &Silent).unwrap_err();
    assert_eq!(failure.to_string(), "no source has a bundle for Kubernetes 1.2.3; asked: the local cache");
    let failure = obtain(&[&LocalCache, &archive], &recipe(), &world.cache, &Silent).unwrap_err();
    assert!(matches!(failure, SourceError::Archive(_)));
}

#[test]
fn what_the_computer_lacks_is_told_before_anything_is_done() {
    let mut world = World::without_tools();
    world.tools.path = world.path("tools").into();
    let failure = world.build().unwrap_err();
    let BuildError::Ground { missing, remedy } = failure else { panic!("{failure}") };
    assert_eq!(missing, ["Go 1.20.0 or newer is missing", "mmdebstrap is missing"]);
    assert_eq!(remedy, "run `make setup`, or `apt-get install mmdebstrap`");
    world.tools.path.push(":/usr/bin:/bin");
    world.stand_in_go("1.19.3");
    let failure = world.build().unwrap_err();
    assert!(failure.to_string().contains("Go 1.19.3 is too old: 1.20.0 or newer is needed"), "{failure}");
}

#[test]
fn extras_are_built_only_when_asked_for() {
    let world = World::new();
    assert!(world.build().unwrap().program("extra").is_none());
    let extra = build_extra(&recipe(), "extra", &world.cache, &world.tools, &Silent).unwrap();
    assert_eq!(fs_err::read(&extra).unwrap(), b"program extra\n");
    world.runs("go.log");
    assert_eq!(build_extra(&recipe(), "extra", &world.cache, &world.tools, &Silent).unwrap(), extra);
    assert!(world.runs("go.log").is_empty());
    let failure = build_extra(&recipe(), "other", &world.cache, &world.tools, &Silent).unwrap_err();
    assert_eq!(failure.to_string(), r#"the release has no extra "other""#);
}

#[test]
fn documents_are_what_programs_print() {
    let world = World::with_real_go();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture");
    let recipe = Recipe::from_folder(&folder, "1.2.4.yaml").unwrap();
    let bundle = build(&recipe, &world.cache, &world.tools, &Silent).unwrap();
    assert_eq!(fs_err::read_to_string(bundle.folder().join("documents/greeting.txt")).unwrap(), "good day\n");
    let entry = &bundle.lock().files["documents/greeting.txt"];
    assert_eq!((entry.executable, entry.install.as_deref()), (false, Some("/usr/local/share/greeting.txt")));
    bundle.verify().unwrap();
}

#[test]
fn the_real_go_builds_a_module_with_its_flags() {
    let world = World::with_real_go();
    let bundle = world.build().unwrap();
    let said = Command::new(bundle.program("hello").unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stderr), "1.2.3\n");
}
