//! Problems as text for people.
//!
//! Input: problems and the document's text. Output: for each its message, the source line with a mark, and hints.

use std::fmt;

use super::{Place, Problem, Problems, Source};

/// Lines longer than this are cut around the mark.
const LINE_WIDTH: usize = 110;
/// Characters kept before the mark on a cut line.
const LEAD: usize = 30;

/// Writes every problem, a blank line between two.
pub(super) fn render(problems: &Problems, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, problem) in problems.list.iter().enumerate() {
        if index > 0 {
            writeln!(f)?;
        }
        one(problem, problems.source.as_ref(), f)?;
    }
    Ok(())
}

fn one(problem: &Problem, source: Option<&Source>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}: {}", problem.severity, problem.message)?;
    match (source, problem.place) {
        (Some(source), Some(place)) => excerpt(problem, source, place, f)?,
        (Some(source), None) => writeln!(f, " --> {}{}", source.file, field(problem))?,
        (None, _) if problem.path.is_empty() => {}
        (None, _) => writeln!(f, " --> {}", problem.path)?,
    }
    problem.hints.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
}

fn field(problem: &Problem) -> String {
    if problem.path.is_empty() { String::new() } else { format!(" ({})", problem.path) }
}

fn excerpt(problem: &Problem, source: &Source, place: Place, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut marks = vec![(place, problem.label.as_deref().unwrap_or_default(), '^')];
    marks.extend(problem.other.iter().map(|(place, label)| (*place, label.as_str(), '-')));
    marks.sort_by_key(|(place, ..)| *place);
    let gutter = marks.iter().map(|(place, ..)| place.line.to_string().len()).max().unwrap_or(1);
    writeln!(f, "{:gutter$}--> {}:{}:{}", "", source.file, place.line, place.column)?;
    writeln!(f, "{:gutter$} |", "")?;
    let mut last = (0, String::new());
    for (index, (place, label, sign)) in marks.iter().enumerate() {
        if index > 0 && place.line > marks[index - 1].0.line + 1 {
            writeln!(f, "{:gutter$} :", "")?;
        }
        let (text, column) = shown(source, *place);
        if last != (place.line, text.clone()) {
            writeln!(f, "{:>gutter$} | {text}", place.line)?;
        }
        last = (place.line, text);
        let line = format!("{:gutter$} | {:column$}{} {label}", "", "", sign.to_string().repeat(place.width.max(1)));
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The source line as shown, and how many characters stand before the mark.
fn shown(source: &Source, place: Place) -> (String, usize) {
    let line = source.text.lines().nth(place.line - 1).unwrap_or_default();
    let line: Vec<char> = line.trim_start_matches('\u{feff}').chars().map(visible).collect();
    let column = (place.column - 1).min(line.len());
    if line.len() <= LINE_WIDTH {
        return (line.iter().collect(), column);
    }
    let start = column.saturating_sub(LEAD);
    let cut: String = line[start..].iter().take(LINE_WIDTH).collect();
    if start > 0 { (format!("…{cut}"), column - start + 1) } else { (cut + "…", column) }
}

/// Control characters would move the mark.
fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}
