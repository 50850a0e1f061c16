//! The live view on a terminal: lines that stay above, what is going on below.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use windlass_engine::{Event, EventKind, ProgressState, Reader};

use super::view::{Line, Live, Mark, View};

/// How often spinners move.
const TICK: Duration = Duration::from_millis(120);

/// Draws the view.
#[derive(Debug)]
pub(crate) struct Terminal {
    view: View,
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    colours: bool,
}

impl Terminal {
    /// An empty screen. Colours are off where `NO_COLOR` is set.
    pub(crate) fn new() -> Self {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { view: View::default(), screen: MultiProgress::new(), bars: Vec::new(), colours }
    }

    fn draw(&mut self) {
        let live = self.view.live();
        while self.bars.len() > live.len() {
            if let Some(bar) = self.bars.pop() {
                bar.finish_and_clear();
            }
        }
        while self.bars.len() < live.len() {
            let bar = self.screen.add(ProgressBar::new_spinner());
            bar.enable_steady_tick(TICK);
            self.bars.push(bar);
        }
        let width = live.iter().filter(|line| line.machine).map(|line| line.subject.chars().count()).max().unwrap_or(0);
        for (bar, line) in self.bars.iter().zip(&live) {
            bar.set_style(style(line));
            bar.set_message(self.message(line, width));
        }
    }

    fn message(&self, line: &Live, width: usize) -> String {
        if line.machine {
            let colour = match line.state {
                ProgressState::Done => "32",
                ProgressState::Failed => "31",
                ProgressState::Pending | ProgressState::Working | ProgressState::Gone => "0",
            };
            return format!("{:width$}  {}", line.subject, self.paint(colour, &line.text));
        }
        format!("{}  {}", line.subject, self.paint("2", &line.text))
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn line(&self, line: &Line) -> String {
        let colour = match line.mark {
            Mark::Begin => "1",
            Mark::Done => "32",
            Mark::Skipped | Mark::Info => "2",
            Mark::Failed => "31",
            Mark::Warning => "33",
        };
        format!("{} {}", self.paint(colour, line.mark.sign()), line.text)
    }
}

fn style(line: &Live) -> ProgressStyle {
    let template = match (line.machine, line.state) {
        (false, _) => "{spinner:.cyan} {msg}",
        (true, ProgressState::Working) => "  {spinner:.dim} {msg}",
        (true, _) => "    {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Reader for Terminal {
    fn read(&mut self, event: &Event) {
        for line in self.view.take(event) {
            // The screen may be gone (closed terminal): the operation goes on.
            let _ = self.screen.println(self.line(&line));
        }
        if matches!(event.event, EventKind::OperationFinished { .. }) {
            self.bars.drain(..).for_each(|bar| bar.finish_and_clear());
            return;
        }
        self.draw();
    }
}
