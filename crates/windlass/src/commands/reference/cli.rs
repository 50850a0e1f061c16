//! The page of commands and options, from the command line's own definition.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

/// The page.
pub(super) fn page() -> String {
    let mut text = format!("# Command line\n{}", super::NOTE);
    let mut root = super::super::Cli::command();
    root.build();
    command(&mut text, &root, "");
    text
}

fn command(text: &mut String, of: &Command, path: &str) {
    let path = format!("{path} {}", of.get_name());
    let path = path.trim();
    let _ = writeln!(text, "\n## {path}\n");
    if let Some(about) = of.get_long_about().or_else(|| of.get_about()) {
        let _ = writeln!(text, "{about}\n");
    }
    let usage = of.clone().render_usage().to_string().replace("Usage: ", "");
    let _ = writeln!(text, "```\n{}\n```", usage.trim());
    let arguments: Vec<&Arg> = of.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").collect();
    if !arguments.is_empty() {
        text.push_str("\n| argument | meaning |\n|---|---|\n");
    }
    for arg in arguments {
        let _ = writeln!(text, "| `{}` | {} |", name(arg), meaning(arg));
    }
    if let Some(help) = of.get_after_help() {
        let _ = writeln!(text, "\n```\n{}\n```", help.to_string().trim());
    }
    for sub in of.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        command(text, sub, path);
    }
}

fn name(arg: &Arg) -> String {
    arg.to_string().replace('|', "\\|")
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " Default: `{}`.", defaults.join(" "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " Or from `{}`.", variable.to_string_lossy());
    }
    text.replace('\n', " ").replace('|', "\\|").trim().to_owned()
}
