//! The pause program as process 1 of a process namespace: it collects what others leave, and ends well when asked to.
//! Needs root and `windlass bundle build` before.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use windlass_assets::{Bundle, Cache, Recipe};

fn pause() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("windlass");
    let bundle = Bundle::locate(&Recipe::find("").unwrap().manifest.kubernetes, &Cache::new(cache)).unwrap();
    bundle.expect("no bundle in the cache: run `make build`").program("pause").unwrap()
}

/// The process id of a process's only child.
fn child_of(parent: &Child) -> String {
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let begun = Instant::now();
    loop {
        let text = fs_err::read_to_string(&children).unwrap_or_default();
        if let Some(pid) = text.split_whitespace().next() {
            return pid.to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "unshare has no child");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes in the namespace, seen from inside.
fn processes(pid: &str) -> Vec<String> {
    let ps = ["--target", pid, "--pid", "--mount", "ps", "-e", "-o", "comm="];
    let output = Command::new("nsenter").args(ps).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn it_reaps_orphans_and_ends_on_term() {
    let mut unshare = Command::new("unshare").args(["--pid", "--fork", "--mount-proc"]).arg(pause()).spawn().unwrap();
    let pid = child_of(&unshare);
    // Wait for the program itself: before, the child is still unshare.
    while processes(&pid).first().is_none_or(|name| name != "pause") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let orphans = ["--target", &pid, "--pid", "--mount", "sh", "-c", "(sleep 0.05 &); (sleep 0.1 &); exit 0"];
    assert!(Command::new("nsenter").args(orphans).status().unwrap().success());
    let begun = Instant::now();
    while processes(&pid).iter().any(|name| name.starts_with("sleep")) {
        assert!(begun.elapsed() < Duration::from_secs(10), "zombies stay: {:?}", processes(&pid));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(unshare.wait().unwrap().code(), Some(0));
}
