//! Plain lines, for logs and pipes: each with the seconds since the beginning.

use std::io::Write;

use windlass_engine::{Event, EventKind, Reader};

use super::view::{View, what};

/// Writes lines as things happen.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    out: W,
    view: View,
}

impl<W> Lines<W> {
    /// Lines into `out`.
    pub(crate) fn new(out: W) -> Self {
        Self { out, view: View::default() }
    }
}

impl<W: Write + Send> Reader for Lines<W> {
    fn read(&mut self, event: &Event) {
        let mut lines: Vec<String> =
            self.view.take(event).into_iter().map(|line| format!("{} {}", line.mark.sign(), line.text)).collect();
        match &event.event {
            EventKind::Progress(progress) => lines.push(format!("  {}: {}", progress.subject, what(progress))),
            EventKind::StepWaiting { step, reason } => lines.push(format!("  {step}: {reason}")),
            EventKind::Log { source, line } => lines.push(format!("  {source}: {line}")),
            _ => {}
        }
        let elapsed = self.view.elapsed(event.at);
        for line in lines {
            // A reader that went away must not stop the operation.
            let _ = writeln!(self.out, "{elapsed:7.1}s {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_time() {
        let mut lines = Lines::new(Vec::new());
        for event in super::super::view::tests::story() {
            lines.read(&event);
        }
        insta::assert_snapshot!(String::from_utf8(lines.out).expect("utf-8"), @r"
            0.0s » create cluster lab
            2.0s ✓ Set up and validate: 3 machines (1.2 s)
            3.0s - GitOps manager: skipped, not configured
            5.0s   lab-cp-a: etcd: peers b, c
            6.0s   lab-cp-b: boot
            7.0s · inotify limits are raised
            8.0s   lab-cp-b: etcd: the volume is not blank
            9.0s ✗ etcd: etcd failed on machine lab-cp-b
           10.0s ✗ stopped after 2 min 10 s
        ");
    }
}
