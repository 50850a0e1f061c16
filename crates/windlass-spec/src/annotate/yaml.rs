//! A value as YAML with a comment behind each scalar.
//!
//! Input: a value, and the comment for a field path. Output: text that any reader of YAML 1.1 or 1.2 understands alike:
//! what is not plainly text is quoted.

use serde_json::Value;

use crate::resolve::join;

type Comment<'a> = &'a dyn Fn(&str) -> &'static str;

/// The whole document.
pub(super) fn document(value: &Value, comment: Comment<'_>) -> String {
    let mut text = String::new();
    below(value, "", 0, comment, &mut text);
    text
}

/// Fields or items, a line each, at this depth.
fn below(value: &Value, path: &str, depth: usize, comment: Comment<'_>, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                text.push_str(&format!("{indent}{}:", key_text(key)));
                inline(value, &join(path, key), depth, comment, text);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                text.push_str(&format!("{indent}-"));
                item_text(item, &format!("{path}[{index}]"), depth, comment, text);
            }
        }
        _ => {}
    }
}

/// What follows `key:`.
fn inline(value: &Value, path: &str, depth: usize, comment: Comment<'_>, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            below(value, path, depth + 1, comment, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            below(value, path, depth, comment, text);
        }
        Value::String(long) if is_block(long) => block(long, path, depth, comment, text),
        _ => text.push_str(&format!(" {}  # {}\n", scalar(value), comment(path))),
    }
}

/// What follows `-`: the first field of a mapping stands on the same line.
fn item_text(item: &Value, path: &str, depth: usize, comment: Comment<'_>, text: &mut String) {
    let nested = matches!(item, Value::Object(fields) if !fields.is_empty())
        || matches!(item, Value::Array(items) if !items.is_empty());
    if !nested {
        return inline(item, path, depth, comment, text);
    }
    let mut inner = String::new();
    below(item, path, depth + 1, comment, &mut inner);
    text.push(' ');
    text.push_str(inner.trim_start_matches(' '));
}

/// Several lines are easier to read as a block, where a block keeps them byte for byte.
fn is_block(text: &str) -> bool {
    let plain = |character: char| {
        character == '\n'
            || (!character.is_control() && character != '\u{feff}' && !('\u{2028}'..='\u{2029}').contains(&character))
    };
    let lines = || text.lines();
    text.contains('\n')
        && text.chars().all(plain)
        && lines().all(|line| !line.ends_with(' '))
        && lines().next().is_some_and(|line| !line.is_empty() && !line.starts_with(' '))
        && !text.trim_end_matches('\n').is_empty()
}

fn block(long: &str, path: &str, depth: usize, comment: Comment<'_>, text: &mut String) {
    let chomp = match long.len() - long.trim_end_matches('\n').len() {
        0 => "-",
        1 => "",
        _ => "+",
    };
    text.push_str(&format!(" |{chomp}  # {}\n", comment(path)));
    let indent = "  ".repeat(depth + 1);
    for line in long.strip_suffix('\n').unwrap_or(long).split('\n') {
        text.push_str(&if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") });
    }
}

fn key_text(key: &str) -> String {
    if is_plain(key) { key.to_owned() } else { quoted(key) }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// JSON's quoting is YAML's too, but for a few characters YAML wants escaped.
fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.chars()
        .map(|character| match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => format!("\\u{:04x}", u32::from(character)),
            other => other.to_string(),
        })
        .collect()
}

/// Is it text to every reader, without quotes?
fn is_plain(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];
    let first = text.starts_with(|character: char| character.is_ascii_alphabetic() || character == '/');
    let inner = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    first && text.chars().all(inner) && !words.contains(&text.to_ascii_lowercase().as_str())
}
