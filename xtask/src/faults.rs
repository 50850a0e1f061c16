//! The table of public faults names tests that exist.
//!
//! Input: `docs/reference/faults.md` and the tracked Rust files. Output: each name in backticks in its last column that no
//! test function and no check of the whole-cluster tests has.

use std::path::Path;

use anyhow::Result;

const TABLE: &str = "docs/reference/faults.md";

/// What is wrong, a line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let table = fs_err::read_to_string(root.join(TABLE))?;
    let listed = crate::output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])?;
    let sources: String = listed.lines().filter_map(|file| std::fs::read_to_string(root.join(file)).ok()).collect();
    let missing = named(&table).into_iter().filter(|name| !is_test(&sources, name));
    Ok(missing.map(|name| format!("{TABLE}: no test is named `{name}`")).collect())
}

/// Names in backticks in the last column.
fn named(table: &str) -> Vec<&str> {
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter_map(|path| path.rsplit("::").next()).collect()
}

fn is_test(sources: &str, name: &str) -> bool {
    sources.contains(&format!("fn {name}(")) || sources.contains(&format!("check(\"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_from_the_last_column() {
        let table = "text `x`\n| `no` | a | `yes`, e2e `one::two` |\n";
        assert_eq!(named(table), ["yes", "two"]);
        assert!(is_test("fn yes() {}", "yes") && is_test("runner.check(\"two\", || …)", "two") && !is_test("", "no"));
    }
}
