//! The generated pages of `docs/reference`.
//!
//! Input: what the hidden command `windlass reference PAGE` prints. Output: the files, or how they differ from it.

use std::path::Path;

use anyhow::Result;

/// Page of the binary and the file it goes to.
const PAGES: &[(&str, &str)] = &[
    ("cli", "docs/reference/cli.md"),
    ("cluster", "docs/reference/cluster.md"),
    ("schema", "docs/reference/cluster.schema.json"),
    ("exit-codes", "docs/reference/exit-codes.md"),
];

/// Pages that are not what the binary says, with the lines that differ.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (page, file) in PAGES {
        let wanted = render(root, page)?;
        let found = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        if found != wanted {
            let diff = similar::TextDiff::from_lines(&found, &wanted);
            let diff = diff.unified_diff().context_radius(1).header(file, "what the binary says").to_string();
            let shown: Vec<&str> = diff.lines().take(20).collect();
            problems.push(format!("{file} is stale, run `make docs`:\n{}", shown.join("\n")));
        }
    }
    Ok(problems)
}

/// Writes every page.
pub(crate) fn write(root: &Path) -> Result<()> {
    for (page, file) in PAGES {
        let path = root.join(file);
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        fs_err::write(path, render(root, page)?)?;
    }
    Ok(())
}

/// Asks the binary that `WINDLASS` names, else the one `make` left.
fn render(root: &Path, page: &str) -> Result<String> {
    let made = || root.join("target/release/windlass").display().to_string();
    let windlass = std::env::var("WINDLASS").unwrap_or_else(|_| made());
    crate::output(root, &windlass, &["reference", page])
}
