//! The last lines a component wrote.
//!
//! Inputs: unit names, pod logs as kubelet lays them out below `/var/log/pods`. Outputs: lines for reports, and what they
//! tell of a container that keeps ending.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::host::command::Command;
use crate::host::{Host, Root};

const LINES: usize = 20;
/// Bytes read from the end of a log file.
const TAIL: u64 = 16 << 10;

/// The last lines of a unit's journal.
pub async fn of_unit(host: &Host, unit: &str) -> Vec<String> {
    let lines = LINES.to_string();
    let args = ["--unit", unit, "--lines", &lines, "--no-pager", "--output", "cat"];
    match host.commands.run(Command::new("journalctl", args)).await {
        Ok(ended) => ended.last_lines(LINES),
        Err(error) => vec![format!("(no journal: {error})")],
    }
}

/// One run of a container, as its log file tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which run: 0 is the first.
    pub attempt: u32,
    /// When the first line was written.
    pub first: Option<Timestamp>,
    /// When the last line was written.
    pub last: Option<Timestamp>,
    /// The last lines.
    pub lines: Vec<String>,
}

/// The runs of a static pod's first container that still have logs, oldest first.
pub fn runs_of_pod(root: &Root, pod: &str, node: &str) -> Vec<Run> {
    let Some(directory) = newest(root, &format!("_{pod}-{node}_")) else { return Vec::new() };
    let Ok(containers) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut runs: Vec<Run> = containers
        .flatten()
        .filter_map(|container| std::fs::read_dir(container.path()).ok())
        .flat_map(|logs| logs.flatten())
        .filter_map(|log| read_run(&log.path()))
        .collect();
    runs.sort_by_key(|run| run.attempt);
    runs
}

fn newest(root: &Root, infix: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(root.at("/var/log/pods")).ok()?;
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(infix));
    ours.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok()).map(|entry| entry.path())
}

fn read_run(path: &Path) -> Option<Run> {
    use std::io::{Read as _, Seek as _, SeekFrom};

    let attempt = path.file_stem()?.to_str()?.parse().ok()?;
    let mut file = std::fs::File::open(path).ok()?;
    let mut head = vec![0; 64];
    let read = file.read(&mut head).ok()?;
    head.truncate(read);
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let lines: Vec<&str> = tail.lines().collect();
    Some(Run {
        attempt,
        first: moment(&String::from_utf8_lossy(&head)),
        last: lines.last().and_then(|line| moment(line)),
        lines: lines.iter().skip(lines.len().saturating_sub(LINES)).map(|line| message(line)).collect(),
    })
}

/// The time at the head of a line in CRI's log format: `TIME stdout|stderr F|P MESSAGE`.
fn moment(line: &str) -> Option<Timestamp> {
    line.split(' ').next()?.parse().ok()
}

fn message(line: &str) -> String {
    line.splitn(4, ' ').nth(3).unwrap_or(line).to_owned()
}

/// Does a container keep ending? Its last ended run's lines then.
///
/// A run has ended when a later one exists. One that ended within two seconds and said `error` is a wrong flag or file; any
/// other must end three times.
pub fn ends_again_and_again(runs: &[Run]) -> Option<&Run> {
    let (_, ended) = runs.split_last()?;
    let last = ended.last()?;
    let life = last.first.zip(last.last).map(|(first, last)| last.duration_since(first));
    let is_short = life.is_none_or(|life| life < jiff::SignedDuration::from_secs(2));
    let says_error = last.lines.iter().rev().take(3).any(|line| line.to_lowercase().contains("error"));
    ((is_short && says_error) || last.attempt >= 2).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Root, attempt: u32, lines: &str) {
        let path = root.at(format!("/var/log/pods/kube-system_kube-apiserver-n_1a/kube-apiserver/{attempt}.log"));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, lines).unwrap();
    }

    #[test]
    fn a_wrong_flag_is_told_after_the_first_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        write(&root, 0, "2026-01-01T00:00:00.1Z stderr F Error: unknown flag: --nonsense\n");
        assert_eq!(ends_again_and_again(&runs_of_pod(&root, "kube-apiserver", "n")), None, "it may still run");
        write(&root, 1, "");
        let runs = runs_of_pod(&root, "kube-apiserver", "n");
        assert_eq!(ends_again_and_again(&runs).unwrap().lines, ["Error: unknown flag: --nonsense"]);
    }

    #[test]
    fn a_long_run_must_end_three_times() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let long = "2026-01-01T00:00:00Z stderr F start\n2026-01-01T00:00:30Z stderr F error: no etcd\n";
        for attempt in 0..3 {
            write(&root, attempt, long);
            assert_eq!(ends_again_and_again(&runs_of_pod(&root, "kube-apiserver", "n")), None);
        }
        write(&root, 3, "");
        assert!(ends_again_and_again(&runs_of_pod(&root, "kube-apiserver", "n")).is_some());
    }
}
