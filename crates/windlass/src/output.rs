//! How data is printed: tables as kubectl prints them, JSON or YAML. Data goes to standard output, the rest to
//! standard error.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;
use windlass_spec::annotate;
use windlass_spec::full::FullCluster;

use crate::exit::Failure;

/// The `-o` option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints one value in a machine format; the table formats are the caller's.
pub(crate) fn print_value(format: Format, value: &impl Serialize) -> Result<(), Failure> {
    let text = match format {
        Format::Yaml => serde_saphyr::to_string(value)?,
        _ => serde_json::to_string_pretty(value)? + "\n",
    };
    print_text(&text)
}

/// Prints text; a reader that has gone is an error, not a panic.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a full spec without passwords: as YAML with a comment behind each value, as JSON with `origins`.
pub(crate) fn print_full(format: Format, full: &FullCluster) -> Result<(), Failure> {
    match format {
        Format::Json => print_value(format, &annotate::shown(full)),
        Format::Table | Format::Wide | Format::Yaml => print_text(&annotate::annotated_yaml(full)),
    }
}

/// Columns of text, as wide as their content, three blanks apart.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text, a line a row.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows.iter().fold(String::new(), |mut text, row| {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(cells.join("   ").trim_end());
            text.push('\n');
            text
        })
    }
}
