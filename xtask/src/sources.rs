//! What tracked files must have and must not have.
//!
//! Input: `git ls-files`. Output: a line a problem: a module without a `//!` that says what it is for, and words, paths
//! and hosts that belong to somebody's machine and not to the project.

use std::path::Path;

use anyhow::Result;

/// Parts of words which must not appear, joined so that this file does not trip over itself; and why.
const BANNED: &[(&[&str], &str)] = &[
    (&["/wo", "rk/"], "a path of one machine"),
    (&["/tmp/", "spike"], "a path of one machine"),
    (&["/root/", ".cargo"], "a path of one machine"),
    (&["proxy.golang", ".org"], "a registry's host"),
    (&["sum.golang", ".org"], "a registry's host"),
    (&["crates", ".io/api"], "a registry's host"),
    (&["deb.debian", ".org"], "a registry's host"),
    (&["pypi", ".org"], "a registry's host"),
    (&["registry.npmjs", ".org"], "a registry's host"),
    (&["repo1.maven", ".org"], "a registry's host"),
    (&["ground", ".md"], "a note that is not in the project"),
    (&["design", ".md"], "a note that is not in the project"),
    (&["bugs", ".md"], "a note that is not in the project"),
    (&["brief", ".md"], "a note that is not in the project"),
    (&["todo", "!("], "unfinished work"),
    (&["FIX", "ME"], "unfinished work"),
];

/// Go's and cargo's lock files name what they lock; the licence is the licence's.
const EXEMPT: &[&str] = &["Cargo.lock", "go.sum", "LICENSE"];

/// What is wrong, a line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let listed = crate::output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut problems = Vec::new();
    for file in listed.lines().filter(|file| !EXEMPT.iter().any(|exempt| file.ends_with(exempt))) {
        // A listed file may be gone from the working tree; a binary file has no words.
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        problems.extend(banned(file, &text));
        problems.extend(undocumented(file, &text));
    }
    Ok(problems)
}

fn banned(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (parts, why) in BANNED {
        let word = parts.concat();
        let lines = text.lines().enumerate().filter(|(_, line)| line.contains(&word));
        found.extend(lines.map(|(number, _)| format!("{file}:{}: {word:?}: {why}", number + 1)));
    }
    found
}

fn undocumented(file: &str, text: &str) -> Option<String> {
    let module = file.ends_with(".rs") && (file.contains("/src/") || file.starts_with("tests/"));
    let missing = module && !text.starts_with("//!");
    missing.then(|| format!("{file}:1: say what the module is for, its inputs and outputs (`//!`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found_with_its_line() {
        let text = format!("ok\ncd {}x\n", ["/wo", "rk/"].concat());
        assert_eq!(banned("a.sh", &text), ["a.sh:2: \"/wo".to_owned() + "rk/\": a path of one machine"]);
    }

    #[test]
    fn only_modules_need_words() {
        assert!(undocumented("crates/a/src/b.rs", "use x;").is_some());
        assert!(undocumented("crates/a/src/b.rs", "//! B.").is_none());
        assert!(undocumented("crates/a/build.rs", "fn main() {}").is_none());
    }
}
