//! YAML as every reader understands it: block style, and strings in quotes wherever YAML 1.1 or 1.2 could read them as
//! something else (`on`, `1.30`, `0644`, `null`, `1e3`).
//!
//! Input: JSON values. Output: text. Maps come from [`serde_json::Map`], so no key can stand twice.

use serde_json::Value;

/// One document with a final line break.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => map(&mut text, fields, 0),
        Value::Array(items) if !items.is_empty() => list(&mut text, items, 0),
        other => {
            text.push_str(&scalar(other, 0));
            text.push('\n');
        }
    }
    text
}

fn map(text: &mut String, fields: &serde_json::Map<String, Value>, indent: usize) {
    for (index, (key, value)) in fields.iter().enumerate() {
        // The first line of a list item is already indented.
        if index > 0 || text.is_empty() || text.ends_with('\n') {
            pad(text, indent);
        }
        text.push_str(&string(key));
        text.push(':');
        field(text, value, indent);
    }
}

fn field(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            map(text, fields, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            list(text, items, indent);
        }
        other => {
            text.push(' ');
            text.push_str(&scalar(other, indent + 2));
            text.push('\n');
        }
    }
}

fn list(text: &mut String, items: &[Value], indent: usize) {
    for item in items {
        pad(text, indent);
        text.push('-');
        match item {
            Value::Array(inner) if !inner.is_empty() => {
                text.push('\n');
                list(text, inner, indent + 2);
            }
            Value::Object(fields) if !fields.is_empty() => {
                text.push(' ');
                map(text, fields, indent + 2);
            }
            other => {
                text.push(' ');
                text.push_str(&scalar(other, indent + 2));
                text.push('\n');
            }
        }
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// A scalar or an empty collection; `indent` is that of a block's lines.
fn scalar(value: &Value, indent: usize) -> String {
    match value {
        Value::String(content) if fits_block(content) => block(content, indent),
        Value::String(content) => string(content),
        other => other.to_string(),
    }
}

fn string(content: &str) -> String {
    if is_plain(content) { content.to_owned() } else { quoted(content) }
}

/// Words some reader takes for a boolean or null.
const WORDS: [&str; 11] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"];

/// Can it stand without quotes for every reader?
fn is_plain(content: &str) -> bool {
    let mut bytes = content.bytes();
    let begins = match bytes.next() {
        Some(b'/') => true,
        Some(b'-') => content.len() > 3 && content.as_bytes()[1] == b'-' && content.as_bytes()[2].is_ascii_alphabetic(),
        Some(first) => first.is_ascii_alphabetic(),
        None => false,
    };
    begins
        && content.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=,@+".contains(&byte))
        && !content.ends_with(':')
        && !WORDS.contains(&content.to_ascii_lowercase().as_str())
}

/// Text of several lines that a literal block holds byte for byte.
fn fits_block(content: &str) -> bool {
    let body = content.strip_suffix('\n').unwrap_or(content);
    let lines_fit = body
        .split('\n')
        .all(|line| !line.ends_with([' ', '\t']) && line.chars().all(|each| each == '\t' || is_printable(each)));
    body.contains('\n') && lines_fit && !body.starts_with([' ', '\t', '\n']) && !body.ends_with('\n')
}

fn block(content: &str, indent: usize) -> String {
    let (body, head) = match content.strip_suffix('\n') {
        Some(body) => (body, "|"),
        None => (content, "|-"),
    };
    body.split('\n').fold(head.to_owned(), |mut text, line| {
        text.push('\n');
        if !line.is_empty() {
            pad(&mut text, indent);
            text.push_str(line);
        }
        text
    })
}

fn is_printable(each: char) -> bool {
    matches!(each, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}')
}

fn quoted(content: &str) -> String {
    let mut text = String::from("\"");
    for each in content.chars() {
        match each {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            each if is_printable(each) => text.push(each),
            each if u32::from(each) > 0xffff => text.push_str(&format!("\\U{:08X}", u32::from(each))),
            each => text.push_str(&format!("\\u{:04X}", u32::from(each))),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn words_that_change_their_meaning_are_quoted() {
        let value = json!({
            "words": ["on", "No", "y", "1.30", "0644", "1_000", "null", "~", "", "0x1F", "1e3", "::1", "a: b", "#x", "-"],
            "plain": ["abc", "--flag=1.30", "/etc/hosts", "kube-system", "https://127.0.0.1:7443"],
            "empty": { "map": {}, "list": [] },
            "script": "#!/bin/sh\nexit 0\n",
            "number": 1, "truth": true, "nothing": null,
            "nested": [[1, 2], { "a": [{ "b": "c" }] }],
        });
        insta::assert_snapshot!(document(&value), @r##"
        words:
        - "on"
        - "No"
        - "y"
        - "1.30"
        - "0644"
        - "1_000"
        - "null"
        - "~"
        - ""
        - "0x1F"
        - "1e3"
        - "::1"
        - "a: b"
        - "#x"
        - "-"
        plain:
        - abc
        - --flag=1.30
        - /etc/hosts
        - kube-system
        - https://127.0.0.1:7443
        empty:
          map: {}
          list: []
        script: |
          #!/bin/sh
          exit 0
        number: 1
        truth: true
        nothing: null
        nested:
        -
          - 1
          - 2
        - a:
          - b: c
        "##);
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            ".*",
            "[a-z0-9 :#\\n-]{0,12}",
            prop::sample::select(vec!["on", "1.30", "yes", "0644", "a\nb\n", "a\n\nb", "x: y", "- a"])
                .prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z0-9./ -]{1,8}", inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in values()) {
            let text = document(&value);
            let back: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(back, value, "{}", text);
        }
    }
}
