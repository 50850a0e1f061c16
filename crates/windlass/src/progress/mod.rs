//! How an operation is shown while it runs: a live view on a terminal, plain lines elsewhere, JSON lines for programs.
//!
//! Input: the engine's events. Output: standard error (people) or standard output (JSON lines).

mod lines;
mod terminal;
mod view;

use std::io::IsTerminal;

use clap::ValueEnum;
use windlass_engine::Events;
use windlass_engine::stream::JsonLines;

/// The `-o` option of commands that work for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Show {
    /// A live view on a terminal, lines elsewhere.
    #[default]
    Text,
    /// Lines, also on a terminal.
    Plain,
    /// One JSON event a line on standard output.
    Json,
}

/// Adds the reader that fits.
pub(crate) fn attach(events: &Events, show: Show) {
    match show {
        Show::Json => events.add(JsonLines(std::io::stdout())),
        Show::Text if std::io::stderr().is_terminal() => events.add(terminal::Terminal::new()),
        Show::Text | Show::Plain => events.add(lines::Lines::new(std::io::stderr())),
    }
}
