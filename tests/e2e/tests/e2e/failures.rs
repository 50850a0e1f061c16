//! What goes wrong ends in the right last lines and exit code, in the time it takes to know; and `delete` cleans up.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use windlass_e2e::runner::Runner;
use windlass_e2e::sandbox::{Said, Sandbox};
use windlass_testkit::clusters;

use crate::one_and_one::nothing_is_left;

/// The API server's own words reach the person.
pub(crate) fn nonsense_flag(runner: &mut Runner) -> Result<()> {
    let sandbox = Sandbox::new("nonsense")?;
    let text = clusters::sized("lab", 1, 0) + "  components: {kubeApiserver: {flags: {nonsense: \"1\"}}}\n";
    let said = create(&sandbox, &text, 150)?;
    runner.check("ends_with_the_cause", || {
        ends_with(&said, &["lab-cp-a", "kube-apiserver", "unknown flag: --nonsense", "windlass delete cluster lab"])
    });
    runner.check("delete_cleans_up", || clean_up(&sandbox));
    Ok(())
}

/// A disk with something on it is never formatted.
pub(crate) fn volume_not_blank(runner: &mut Runner) -> Result<()> {
    let sandbox = Sandbox::new("not-blank")?;
    let watched = sandbox.state().join("hostd/clusters");
    let done = std::sync::atomic::AtomicBool::new(false);
    let (said, spoilt) = std::thread::scope(|scope| {
        let spoiler = scope.spawn(|| spoil_first_volume(&watched, &done));
        let said = create(&sandbox, &clusters::sized("lab", 1, 0), 150);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        (said, spoiler.join())
    });
    let (said, volume) = (said?, spoilt.map_err(|_| anyhow::anyhow!("the spoiler panicked"))??);
    runner.check("ends_with_the_cause", || {
        ends_with(&said, &["lab-cp-a", "volumes", "etcd-main-a", "not blank", "windlass delete cluster lab"])
    });
    runner.check("what_is_on_it_is_untouched", || {
        let found =
            std::process::Command::new("blkid").args(["-p", "-s", "LABEL", "-o", "value"]).arg(&volume).output()?;
        ensure!(String::from_utf8_lossy(&found.stdout).trim() == "precious", "{found:?}");
        Ok(())
    });
    runner.check("delete_cleans_up", || clean_up(&sandbox));
    Ok(())
}

/// Lays a file system onto the first volume that appears, before any machine can have booted.
fn spoil_first_volume(clusters: &Path, done: &std::sync::atomic::AtomicBool) -> Result<PathBuf> {
    let volume = loop {
        if let Some(volume) = first_volume(clusters) {
            break volume;
        }
        ensure!(!done.load(std::sync::atomic::Ordering::Relaxed), "no volume appeared");
        std::thread::sleep(Duration::from_millis(5));
    };
    let made = std::process::Command::new("mkfs.ext4").args(["-q", "-F", "-L", "precious"]).arg(&volume).output()?;
    ensure!(made.status.success(), "{made:?}");
    Ok(volume)
}

fn first_volume(clusters: &Path) -> Option<PathBuf> {
    let cluster = std::fs::read_dir(clusters).ok()?.flatten().next()?.path();
    let volumes = std::fs::read_dir(cluster.join("volumes")).ok()?.flatten().map(|entry| entry.path());
    volumes.into_iter().find(|path| {
        path.extension().is_some_and(|extension| extension == "img")
            && path.metadata().is_ok_and(|found| found.len() > 0)
    })
}

/// A machine whose init does nothing is given up, and named.
pub(crate) fn machine_never_boots(runner: &mut Runner) -> Result<()> {
    let mut sandbox = Sandbox::new("no-boot")?;
    let cache = sandbox.own_cache()?;
    let broken = break_init(&cache)?;
    ensure!(broken > 0, "no machine image has an init");
    let said = create(&sandbox, &clusters::sized("lab", 1, 0), 240)?;
    runner.check("ends_with_the_cause", || ends_with(&said, &["lab-cp-a", "boot", "windlass delete cluster lab"]));
    runner.check("delete_cleans_up", || clean_up(&sandbox));
    Ok(())
}

/// Replaces init in every machine image by a program that only sleeps.
fn break_init(cache: &Path) -> Result<u32> {
    let found = std::process::Command::new("find")
        .arg(cache.join("machine-images"))
        .args(["-path", "*/usr/lib/systemd/systemd", "-type", "f"])
        .output()?;
    let mut broken = 0;
    for path in String::from_utf8(found.stdout)?.lines() {
        fs_err::remove_file(path)?;
        fs_err::write(path, "#!/bin/sh\nexec sleep 1000000\n")?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(path, mode)?;
        broken += 1;
    }
    Ok(broken)
}

/// `kill -9` in the middle of create, then delete; then the same name works.
pub(crate) fn interrupted_create(runner: &mut Runner) -> Result<()> {
    let sandbox = Sandbox::new("interrupted")?;
    let file = sandbox.write("lab.yaml", &clusters::sized("lab", 1, 0))?.display().to_string();
    let mut create = sandbox.start("create.log", &["create", "cluster", "-f", &file])?;
    let volumes = sandbox.state().join("hostd/clusters");
    let started = Instant::now();
    while first_volume(&volumes).is_none() && started.elapsed() < Duration::from_secs(90) {
        std::thread::sleep(Duration::from_millis(50));
    }
    create.kill()?;
    create.wait()?;
    runner.check("delete_cleans_up", || clean_up(&sandbox));
    runner.check("the_same_name_works_again", || {
        sandbox.ok(300, &["create", "cluster", "-f", &file])?;
        clean_up(&sandbox)
    });
    Ok(())
}

fn create(sandbox: &Sandbox, text: &str, seconds: u64) -> Result<Said> {
    let file = sandbox.write("lab.yaml", text)?;
    let started = Instant::now();
    let said = sandbox.windlass(seconds, &["create", "cluster", "-f", &file.display().to_string()])?;
    println!("     create ended with {} after {:.0} s", said.code, started.elapsed().as_secs_f32());
    Ok(said)
}

/// Exit code 1, and the last lines name everything a person needs.
fn ends_with(said: &Said, words: &[&str]) -> Result<()> {
    ensure!(said.code == 1, "exit code {}", said.code);
    let lines: Vec<&str> = said.err.lines().collect();
    let last = lines[lines.len().saturating_sub(30)..].join("\n");
    for word in words {
        ensure!(last.contains(word), "{word:?} is not in the last lines:\n{last}");
    }
    Ok(())
}

fn clean_up(sandbox: &Sandbox) -> Result<()> {
    sandbox.ok(120, &["delete", "cluster", "lab", "--delete-volumes", "--yes"]).context("delete")?;
    nothing_is_left(sandbox)
}
