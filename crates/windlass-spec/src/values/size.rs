//! Sizes such as `2Gi`.

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size: a whole number with a unit is wanted, such as 512Mi, 2Gi or 10G")]
pub struct NotASize(pub String);

const UNITS: [(&str, u64); 9] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("", 1),
];

/// Bytes of a size as Kubernetes writes quantities.
pub fn parse_size(text: &str) -> Result<u64, NotASize> {
    let refused = || NotASize(text.to_owned());
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor)).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes() {
        let table = [
            ("2Gi", Some(2 << 30)),
            ("512Mi", Some(512 << 20)),
            ("10G", Some(10_000_000_000)),
            ("1024", Some(1024)),
            ("2GB", None),
            ("2 Gi", None),
            ("1.5Gi", None),
            ("-1Gi", None),
            ("Gi", None),
            ("99999999999Ti", None),
            ("", None),
        ];
        for (text, wanted) in table {
            assert_eq!(parse_size(text).ok(), wanted, "{text}");
        }
    }
}
