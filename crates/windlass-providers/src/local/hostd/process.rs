//! Processes by pid and start time, so that a pid used again is never taken for the old process.
//!
//! Inputs: `/proc`. Outputs: identities that can be written down, waited for (pidfd) and killed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe::Receiver;

/// One process, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProcessId {
    /// Its pid.
    pub(crate) pid: i32,
    /// Clock ticks from the host's boot to its start.
    pub(crate) start_time: u64,
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: i32,
    start_time: u64,
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may itself hold blanks and parentheses.
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let fields: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
    Some(Stat {
        name: text.get(open + 1..close)?.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn all_pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl ProcessId {
    /// The process that has this pid now; none when it is dead or a zombie.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        stat(pid)
            .filter(|stat| stat.state != 'Z' && stat.state != 'X')
            .map(|stat| Self { pid, start_time: stat.start_time })
    }

    /// Is it alive?
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Is there a living process one of whose arguments begins like this?
    pub(crate) fn any_with_argument(beginning: &str) -> bool {
        let matches = |pid: &i32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|&byte| byte == 0).any(|found| found.starts_with(beginning.as_bytes()))
        };
        all_pids().into_iter().filter(matches).any(|pid| Self::of(pid).is_some())
    }

    /// Finds the process one of whose arguments is exactly this; the oldest of several.
    pub(crate) fn with_argument(argument: &str) -> Option<Self> {
        let matches = |pid: &i32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|&byte| byte == 0).any(|found| found == argument.as_bytes())
        };
        let found = all_pids().into_iter().filter(matches).filter_map(Self::of);
        found.min_by_key(|process| (process.start_time, process.pid))
    }

    /// The child that is the init of a pid namespace of its own and has left its parent's program behind.
    pub(crate) fn init_child(self) -> Option<Self> {
        let leads = |pid: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let innermost = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            innermost.and_then(|pids| pids.split_whitespace().nth(1)) == Some("1")
        };
        let children = all_pids().into_iter().filter(|&pid| stat(pid).is_some_and(|stat| stat.parent == self.pid));
        let mut inits = children.filter(leads).filter(|&pid| {
            stat(pid).is_some_and(|stat| !stat.name.starts_with("(sd-") && !stat.name.starts_with("systemd-nspawn"))
        });
        inits.next().and_then(Self::of)
    }

    /// A path seen from inside the process.
    pub(crate) fn inside(self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    /// Is it in this network namespace?
    pub(crate) fn is_in_netns(self, path: &std::path::Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &std::path::Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        let own = identity(&PathBuf::from(format!("/proc/{}/ns/net", self.pid)));
        own.is_some() && own == identity(path)
    }

    fn open(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            // Opened first, checked after: what it refers to cannot change any more.
            Ok(fd) => Ok(self.is_alive().then_some(fd)),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal; a dead process is as good.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        match self.open()?.map(|fd| pidfd_send_signal(fd, signal)) {
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Waits until it is dead. Says how it ended where it was a child of this process.
    pub(crate) async fn ended(self) -> io::Result<Option<Ending>> {
        if let Some(fd) = self.open()? {
            // A pidfd is readable when its process has ended, like a pipe with data; nothing is ever read from it.
            Receiver::from_owned_fd_unchecked(fd)?.readable().await?;
        }
        Ok(self.reap())
    }

    fn reap(self) -> Option<Ending> {
        let (_, status) = waitpid(Pid::from_raw(self.pid), WaitOptions::NOHANG).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(Ending::Exited(code)),
            (None, Some(signal)) => Some(Ending::Killed(signal)),
            (None, None) => None,
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(0) => f.write_str("powered off"),
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_parentheses_are_read() {
        let text = format!("42 (a) b (c)) S 7 {} 99 0 0", (0..17).map(|_| "0").collect::<Vec<_>>().join(" "));
        let stat = parse_stat(&text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.start_time), ("a) b (c)", 'S', 7, 99));
    }

    #[tokio::test]
    #[expect(clippy::zombie_processes, reason = "reaped by what is tested")]
    async fn a_child_is_seen_alive_waited_for_and_reaped() {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let process = ProcessId::of(child.id().try_into().unwrap()).unwrap();
        assert!(process.is_alive());
        assert!(!ProcessId { start_time: process.start_time + 1, ..process }.is_alive());
        process.signal(Signal::KILL).unwrap();
        assert_eq!(process.ended().await.unwrap(), Some(Ending::Killed(9)));
        assert!(!process.is_alive());
        process.signal(Signal::KILL).unwrap();
        assert_eq!(process.ended().await.unwrap(), None);
    }
}
