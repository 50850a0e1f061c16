//! Kubernetes versions.

use std::fmt;
use std::str::FromStr;

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version: MAJOR.MINOR or MAJOR.MINOR.PATCH is wanted, such as 1.37 or 1.37.2")]
pub struct NotAVersion(pub String);

/// A released version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wish: VersionWish = text.parse()?;
        let patch = wish.patch.ok_or_else(|| NotAVersion(text.to_owned()))?;
        Ok(Self { major: wish.major, minor: wish.minor, patch })
    }
}

/// A version as people wish for it: `[v]MAJOR.MINOR[.PATCH]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionWish {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; any when absent.
    pub patch: Option<u32>,
}

impl VersionWish {
    /// Does the version fulfil the wish?
    pub fn admits(self, version: Version) -> bool {
        (self.major, self.minor) == (version.major, version.minor)
            && self.patch.is_none_or(|patch| patch == version.patch)
    }
}

impl fmt::Display for VersionWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

impl FromStr for VersionWish {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NotAVersion(text.to_owned());
        let parts: Vec<&str> = text.strip_prefix('v').unwrap_or(text).split('.').collect();
        let numbers: Vec<u32> = parts.iter().map(|part| number(part)).collect::<Option<_>>().ok_or_else(refused)?;
        match numbers[..] {
            [major, minor] => Ok(Self { major, minor, patch: None }),
            [major, minor, patch] => Ok(Self { major, minor, patch: Some(patch) }),
            _ => Err(refused()),
        }
    }
}

/// Decimal digits without a leading zero.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::VersionWish;

    #[test]
    fn versions_are_read_as_text() {
        let read = |text: &str| text.parse::<VersionWish>().map(|wish| wish.to_string()).ok();
        let table = [
            ("1.30", Some("1.30")),
            ("1.40", Some("1.40")),
            ("v1.36", Some("1.36")),
            ("1.36.0", Some("1.36.0")),
            ("1.3e1", None),
            ("0x1F", None),
            ("1_36", None),
            ("1", None),
            ("1.37.2.1", None),
            ("1.037", None),
            ("1.", None),
            ("", None),
            ("1.99999999999", None),
            ("1.37.2-rc.1", None),
        ];
        for (text, wanted) in table {
            assert_eq!(read(text).as_deref(), wanted, "{text}");
        }
    }
}
