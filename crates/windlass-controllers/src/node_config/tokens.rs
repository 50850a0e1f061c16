//! Join tokens: derived, so that whoever renders a control plane's configuration and whoever renders a worker's agree
//! without asking each other. Worthless to anybody without the cluster's encryption key.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// How long tokens outlive the last machine that joined.
const REST: Duration = Duration::from_secs(120);

/// May the tokens of a cluster's machines be taken away?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spent {
    /// A machine has not joined.
    NotYet,
    /// After this time.
    In(Duration),
    /// Now.
    All,
}

/// Judges by when each machine joined, as its NodeConfig says.
pub(super) fn spent<'a>(joined: impl Iterator<Item = Option<&'a str>>, now: Timestamp) -> Spent {
    let mut last = Timestamp::MIN;
    for joined in joined {
        let Some(joined) = joined else { return Spent::NotYet };
        // What is no time was written by hand, long ago for all we know.
        last = last.max(joined.parse().unwrap_or(Timestamp::MIN));
    }
    let age = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    match REST.checked_sub(age) {
        Some(left) if !left.is_zero() => Spent::In(left),
        _ => Spent::All,
    }
}

/// The token `id.secret` of a machine, by the cluster's key, the machine's name and its nonce.
pub(super) fn token(key: &str, machine: &str, nonce: &str) -> String {
    let mut letters = stream(key, machine, nonce);
    let id: String = letters.by_ref().take(ID_LENGTH).collect();
    let secret: String = letters.take(SECRET_LENGTH).collect();
    format!("{id}.{secret}")
}

/// An endless stream of letters: a keyed hash over a counter (key at both ends, so nothing can be appended). Bytes that
/// would favour some letters are left out.
fn stream(key: &str, machine: &str, nonce: &str) -> impl Iterator<Item = char> {
    let bound = 256 - 256 % ALPHABET.len();
    let (key, text) = (key.to_owned(), format!("windlass-join-token\0{machine}\0{nonce}"));
    (0_u32..)
        .flat_map(move |round| {
            let inner = Sha256::digest(format!("{key}\0{text}\0{round}"));
            Sha256::digest([key.as_bytes(), &inner[..]].concat()).to_vec()
        })
        .filter(move |byte| usize::from(*byte) < bound)
        .map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_spent_a_while_after_the_last_machine_joined() {
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        let judge = |joined: &[Option<&str>]| spent(joined.iter().copied(), now);
        let (long_ago, lately) = (Some("2026-01-01T00:00:00Z"), Some("2026-01-01T00:01:30Z"));
        assert_eq!(judge(&[]), Spent::All);
        assert_eq!(judge(&[long_ago, None]), Spent::NotYet);
        assert_eq!(judge(&[long_ago, lately]), Spent::In(Duration::from_secs(90)));
        assert_eq!(judge(&[long_ago, Some("true")]), Spent::All);
        // A clock that was set back keeps them a while longer, not for ever.
        assert_eq!(judge(&[Some("2026-01-01T09:00:00Z")]), Spent::In(REST));
    }

    #[test]
    fn tokens_have_kubernetes_form_and_differ_by_key_machine_and_nonce() {
        let one = token("key", "lab-md-1", "aa");
        let (id, secret) = one.split_once('.').unwrap_or_default();
        assert_eq!((id.len(), secret.len()), (6, 16));
        assert!(one.chars().all(|letter| letter == '.' || letter.is_ascii_lowercase() || letter.is_ascii_digit()));
        assert_eq!(one, token("key", "lab-md-1", "aa"));
        for other in [token("yek", "lab-md-1", "aa"), token("key", "lab-md-2", "aa"), token("key", "lab-md-1", "ab")] {
            assert_ne!(one, other);
        }
    }
}
