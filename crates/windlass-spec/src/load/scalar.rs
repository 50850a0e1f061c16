//! What the source text of a scalar means where a field of some type stands.
//!
//! Input: the text as written. Output: the value, or what is wrong with it.

use serde_json::{Number, Value};

/// Why a scalar is not what its field wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

fn misfit(message: impl Into<String>, hint: Option<String>) -> Misfit {
    Misfit { message: message.into(), hint }
}

/// A whole number, written in plain decimal digits.
pub(super) fn integer(text: &str, low: i128, high: i128) -> Result<Value, Misfit> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if !decimal || leading_zero {
        let hint = "write it in decimal digits, without leading zeros, signs or separators";
        return Err(misfit(format!("a whole number is wanted, not `{text}`"), Some(hint.to_owned())));
    }
    let number: Option<i128> = text.parse().ok().filter(|number| (low..=high).contains(number));
    let number = number.and_then(|number| i64::try_from(number).map(Number::from).ok());
    number.map(Value::Number).ok_or_else(|| misfit(format!("{text} is not between {low} and {high}"), None))
}

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Result<Value, Misfit> {
    let meant = match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some("true"),
        "false" | "no" | "off" | "n" => Some("false"),
        _ => None,
    };
    match text {
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        _ => {
            let hint = meant.map(|meant| format!("write `{meant}`"));
            Err(misfit(format!("`true` or `false` is wanted, not `{text}`"), hint))
        }
    }
}

/// A scalar in an object of another API: read as kubectl reads it, where all readers agree.
pub(super) fn free(text: &str) -> Result<Value, Misfit> {
    match text {
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ if super::tree::is_null_text(text) => return Ok(Value::Null),
        _ => {}
    }
    if ["yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str()) {
        let message = format!("`{text}` is a text to some readers of YAML and a truth value to others");
        return Err(misfit(message, Some(format!("write `\"{text}\"`, or `true` or `false`"))));
    }
    number(text).unwrap_or_else(|| Ok(Value::from(text)))
}

fn number(text: &str) -> Option<Result<Value, Misfit>> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let radix = |prefix: &str, radix: u32| digits.strip_prefix(prefix).map(|rest| (rest, radix));
    let octal = (digits.len() > 1 && digits.starts_with('0')).then(|| (&digits[1..], 8));
    let (rest, base) = radix("0x", 16).or_else(|| radix("0o", 8)).or(octal).unwrap_or((digits, 10));
    if !rest.is_empty() && rest.chars().all(|digit| digit.is_digit(base)) {
        let number = i128::from_str_radix(rest, base).ok().map(|number| number * sign);
        return Some(whole(text, number));
    }
    let looks_like_float = digits.starts_with(|digit: char| digit.is_ascii_digit() || digit == '.')
        && digits.chars().all(|digit| digit.is_ascii_digit() || ".eE+-".contains(digit));
    let float = looks_like_float.then(|| text.parse::<f64>().ok()).flatten()?;
    Some(Number::from_f64(float).map(Value::Number).ok_or_else(|| misfit(format!("{text} is too large"), None)))
}

fn whole(text: &str, number: Option<i128>) -> Result<Value, Misfit> {
    let signed = number.and_then(|number| i64::try_from(number).ok()).map(Value::from);
    let unsigned = number.and_then(|number| u64::try_from(number).ok()).map(Value::from);
    signed.or(unsigned).ok_or_else(|| misfit(format!("{text} is too large for a number"), None))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{boolean, free, integer};

    #[test]
    fn whole_numbers_are_plain_decimals() {
        for text in ["6443", "1", "65535"] {
            assert_eq!(integer(text, 1, 65535), Ok(json!(text.parse::<u16>().unwrap())), "{text}");
        }
        for text in
            ["0x1F", "1_000", "1e3", "06443", "+1", "", "6443.0", "six", "0", "65536", "-1", "9".repeat(60).as_str()]
        {
            assert!(integer(text, 1, 65535).is_err(), "{text}");
        }
    }

    #[test]
    fn truth_is_true_or_false() {
        assert_eq!(boolean("true"), Ok(json!(true)));
        for text in ["yes", "on", "True", "1", ""] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }

    #[test]
    fn foreign_scalars_are_read_as_kubectl_reads_them() {
        let table: [(&str, Value); 10] = [
            ("60", json!(60)),
            ("-3", json!(-3)),
            ("0644", json!(420)),
            ("0x1F", json!(31)),
            ("1.5", json!(1.5)),
            ("true", json!(true)),
            ("", Value::Null),
            ("10Mi", json!("10Mi")),
            ("2026-11-30", json!("2026-11-30")),
            ("0899", json!(899.0)),
        ];
        for (text, wanted) in table {
            assert_eq!(free(text), Ok(wanted), "{text}");
        }
        assert!(free("yes").is_err());
        assert!(free(&"9".repeat(60)).is_err());
    }
}
