//! The systemd unit of hostd, where systemd runs the host.
//!
//! Inputs: paths and the copy of the binary. Output: the unit's text. Its cgroup is delegated, so machines' cgroups are
//! ours, and only the main process is killed: machines go on when hostd stops.

use std::path::Path;

use super::super::paths::Paths;
use super::exchange;

/// Is systemd this host's init?
pub(in super::super) fn is_systemd_host() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Where the unit lies.
pub(in super::super) fn path(paths: &Paths) -> std::path::PathBuf {
    Path::new("/etc/systemd/system").join(paths.unit())
}

/// The unit.
pub(in super::super) fn render(paths: &Paths, binary: &Path) -> String {
    let command: Vec<String> = std::iter::once(binary.display().to_string())
        .chain(exchange::arguments(paths))
        .map(|argument| quote(&argument))
        .collect();
    format!(
        "# Written by windlass; removed when the last cluster of {state} is gone.
[Unit]
Description=Windlass host daemon of {state}
Documentation=man:systemd-nspawn(1)
After=network.target nftables.service
RequiresMountsFor={mounts}

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=1
KillMode=process
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576
OOMScoreAdjust=-500

[Install]
WantedBy=multi-user.target
",
        state = paths.state().display().to_string().replace('%', "%%"),
        // Only commands know variables.
        mounts = quote(&paths.state().display().to_string()).replace("$$", "$"),
        command = command.join(" "),
    )
}

/// As systemd reads words: quoted, with `%` and `$` doubled.
fn quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_keeps_machines_when_hostd_stops() {
        let paths = Paths::new(Path::new("/a b/windlass"), Path::new("/c$")).unwrap();
        let text = render(&paths, Path::new("/a b/windlass/hostd/bin/windlass-0a1b"));
        insta::assert_snapshot!(text, @r#"
        # Written by windlass; removed when the last cluster of /a b/windlass is gone.
        [Unit]
        Description=Windlass host daemon of /a b/windlass
        Documentation=man:systemd-nspawn(1)
        After=network.target nftables.service
        RequiresMountsFor="/a b/windlass"

        [Service]
        ExecStart="/a b/windlass/hostd/bin/windlass-0a1b" "hostd" "run" "--state" "/a b/windlass" "--cache" "/c$$"
        Restart=on-failure
        RestartSec=1
        KillMode=process
        Delegate=yes
        TasksMax=infinity
        LimitNOFILE=1048576
        OOMScoreAdjust=-500

        [Install]
        WantedBy=multi-user.target
        "#);
    }
}
