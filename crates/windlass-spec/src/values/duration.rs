//! Durations such as `30s`.

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no duration: whole hours, minutes and seconds are wanted, such as 30s, 5m or 1h30m")]
pub struct NotADuration(pub String);

const UNITS: [(char, u64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

/// Seconds of a duration as Go writes it.
pub fn parse_duration(text: &str) -> Result<u64, NotADuration> {
    seconds(text).filter(|_| !text.is_empty()).ok_or_else(|| NotADuration(text.to_owned()))
}

fn seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    for (unit, factor) in UNITS {
        let end = rest.find(|character: char| !character.is_ascii_digit());
        if let Some(end) = end.filter(|end| rest[*end..].starts_with(unit)) {
            total = total.checked_add(rest[..end].parse::<u64>().ok()?.checked_mul(factor)?)?;
            rest = &rest[end + 1..];
        }
    }
    rest.is_empty().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations() {
        let table = [
            ("30s", Some(30)),
            ("5m", Some(300)),
            ("1h30m", Some(5400)),
            ("0s", Some(0)),
            ("30", None),
            ("s", None),
            ("30 s", None),
            ("5m1h", None),
            ("1.5h", None),
            ("", None),
            ("99999999999999999999s", None),
        ];
        for (text, wanted) in table {
            assert_eq!(parse_duration(text).ok(), wanted, "{text}");
        }
    }
}
