//! The state of an operation as people see it. Pure.
//!
//! Input: events. Outputs: lines that stay ([`View::take`]) and lines that change ([`View::live`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_engine::{Event, EventKind, Failure, Level, Progress, ProgressState};

/// A line that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// What sort.
    pub(crate) mark: Mark,
    /// The text.
    pub(crate) text: String,
}

/// What sort of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A heading.
    Begin,
    /// A step is done.
    Done,
    /// A step is skipped.
    Skipped,
    /// Something failed.
    Failed,
    /// A person should look at it.
    Warning,
    /// Good to know.
    Info,
}

impl Mark {
    /// Its sign.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Begin => "»",
            Self::Done => "✓",
            Self::Skipped => "-",
            Self::Failed => "✗",
            Self::Warning => "!",
            Self::Info => "·",
        }
    }
}

/// A line that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// What it is about: a step's title or a machine.
    pub(crate) subject: String,
    /// What is going on.
    pub(crate) text: String,
    /// Is it a machine (shown below the steps)?
    pub(crate) machine: bool,
    /// Where a machine is.
    pub(crate) state: ProgressState,
}

/// The state of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    titles: Vec<(String, String)>,
    running: Vec<(String, String)>,
    machines: BTreeMap<String, Progress>,
    failure: Option<Failure>,
    begun: Option<Timestamp>,
}

impl View {
    /// Takes an event; returns lines that stay.
    pub(crate) fn take(&mut self, event: &Event) -> Vec<Line> {
        match &event.event {
            EventKind::OperationStarted { operation, subject, steps } => {
                self.begun = Some(event.at);
                self.titles = steps.iter().map(|step| (step.name.clone(), step.title.clone())).collect();
                vec![line(Mark::Begin, format!("{operation} cluster {subject}"))]
            }
            EventKind::StepStarted { step, .. } => {
                self.running.push((step.clone(), String::new()));
                Vec::new()
            }
            EventKind::StepWaiting { step, reason } => {
                if let Some(running) = self.running.iter_mut().find(|(name, _)| name == step) {
                    running.1.clone_from(reason);
                }
                Vec::new()
            }
            EventKind::StepFinished { step, millis, note } => {
                self.ended(step);
                let note = if note.is_empty() { String::new() } else { format!(": {note}") };
                vec![line(Mark::Done, format!("{}{note} ({})", self.title(step), seconds(*millis)))]
            }
            EventKind::StepSkipped { step, reason } => {
                self.ended(step);
                vec![line(Mark::Skipped, format!("{}: skipped, {reason}", self.title(step)))]
            }
            EventKind::StepFailed { step, attempt, again, failure } => {
                self.ended(step);
                let mark = if *again { Mark::Warning } else { Mark::Failed };
                let again = if *again { format!(" (attempt {attempt}, tried again)") } else { String::new() };
                vec![line(mark, format!("{}: {failure}{again}", self.title(step)))]
            }
            EventKind::StepUndone { step, failure: None } => {
                vec![line(Mark::Info, format!("{}: taken back", self.title(step)))]
            }
            EventKind::StepUndone { step, failure: Some(failure) } => {
                vec![line(Mark::Warning, format!("{}: not taken back: {failure}", self.title(step)))]
            }
            EventKind::Progress(progress) => {
                self.machines.insert(progress.subject.clone(), progress.clone());
                Vec::new()
            }
            EventKind::Notice { level, text } => {
                let mark = if *level == Level::Warning { Mark::Warning } else { Mark::Info };
                vec![line(mark, text.clone())]
            }
            EventKind::Log { .. } => Vec::new(),
            EventKind::OperationFinished { millis, failure } => {
                self.failure.clone_from(failure);
                self.running.clear();
                self.machines.clear();
                match failure {
                    None => vec![line(Mark::Done, format!("done in {}", seconds(*millis)))],
                    Some(_) => vec![line(Mark::Failed, format!("stopped after {}", seconds(*millis)))],
                }
            }
        }
    }

    /// What is going on now: running steps in the list's order, then machines.
    pub(crate) fn live(&self) -> Vec<Live> {
        let place = |name: &str| self.titles.iter().position(|(title, _)| title == name);
        let mut running: Vec<&(String, String)> = self.running.iter().collect();
        running.sort_by_key(|(name, _)| place(name));
        let steps = running.into_iter().map(|(name, reason)| Live {
            subject: self.title(name),
            text: reason.clone(),
            machine: false,
            state: ProgressState::Working,
        });
        let machines = self.machines.values().filter(|machine| machine.state != ProgressState::Gone);
        steps.chain(machines.map(machine_line)).collect()
    }

    /// Seconds since the operation began, at that time.
    pub(crate) fn elapsed(&self, at: Timestamp) -> f64 {
        self.begun.map_or(0.0, |begun| at.duration_since(begun).as_secs_f64())
    }

    fn ended(&mut self, step: &str) {
        self.running.retain(|(name, _)| name != step);
    }

    fn title(&self, step: &str) -> String {
        self.titles.iter().find(|(name, _)| name == step).map_or_else(|| step.to_owned(), |(_, title)| title.clone())
    }
}

fn machine_line(machine: &Progress) -> Live {
    Live { subject: machine.subject.clone(), text: what(machine), machine: true, state: machine.state }
}

/// What a machine does, in words.
pub(crate) fn what(machine: &Progress) -> String {
    if machine.detail.is_empty() { machine.doing.clone() } else { format!("{}: {}", machine.doing, machine.detail) }
}

fn line(mark: Mark, text: String) -> Line {
    Line { mark, text }
}

fn seconds(millis: u64) -> String {
    let tenths = (millis + 50) / 100;
    if tenths < 1200 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} min {} s", tenths / 600, tenths % 600 / 10)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use windlass_engine::StepSummary;

    use super::*;

    pub(crate) fn story() -> Vec<Event> {
        let step = |name: &str, title: &str| StepSummary { name: name.into(), title: title.into() };
        let progress = |subject: &str, state, doing: &str, detail: &str| {
            EventKind::Progress(Progress { subject: subject.into(), state, doing: doing.into(), detail: detail.into() })
        };
        let kinds = vec![
            EventKind::OperationStarted {
                operation: "create".into(),
                subject: "lab".into(),
                steps: vec![
                    step("set-up", "Set up and validate"),
                    step("etcd", "etcd"),
                    step("gitops", "GitOps manager"),
                ],
            },
            EventKind::StepStarted { step: "set-up".into(), attempt: 1 },
            EventKind::StepFinished { step: "set-up".into(), millis: 1234, note: "3 machines".into() },
            EventKind::StepSkipped { step: "gitops".into(), reason: "not configured".into() },
            EventKind::StepStarted { step: "etcd".into(), attempt: 1 },
            progress("lab-cp-a", ProgressState::Working, "etcd", "peers b, c"),
            progress("lab-cp-b", ProgressState::Working, "boot", ""),
            EventKind::Notice { level: Level::Info, text: "inotify limits are raised".into() },
            progress("lab-cp-b", ProgressState::Failed, "etcd", "the volume is not blank"),
            EventKind::StepFailed {
                step: "etcd".into(),
                attempt: 1,
                again: false,
                failure: Failure::failed("etcd failed on machine lab-cp-b"),
            },
            EventKind::OperationFinished { millis: 130_000, failure: Some(Failure::failed("x")) },
        ];
        let at = |second: i64| Timestamp::from_second(second).expect("in range");
        kinds.into_iter().zip(1..).map(|(event, seq)| Event { format: 1, seq, at: at(seq as i64), event }).collect()
    }

    #[test]
    fn lines_that_stay_tell_the_story() {
        let mut view = View::default();
        let lines: Vec<String> = story()
            .iter()
            .flat_map(|event| view.take(event))
            .map(|line| format!("{} {}", line.mark.sign(), line.text))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        » create cluster lab
        ✓ Set up and validate: 3 machines (1.2 s)
        - GitOps manager: skipped, not configured
        · inotify limits are raised
        ✗ etcd: etcd failed on machine lab-cp-b
        ✗ stopped after 2 min 10 s
        ");
    }

    #[test]
    fn live_lines_show_what_each_machine_waits_for() {
        let mut view = View::default();
        for event in story().iter().take(9) {
            view.take(event);
        }
        let lines: Vec<String> =
            view.live().iter().map(|line| format!("{:?} {} | {}", line.state, line.subject, line.text)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        Working etcd | 
        Working lab-cp-a | etcd: peers b, c
        Failed lab-cp-b | etcd: the volume is not blank
        ");
    }
}
