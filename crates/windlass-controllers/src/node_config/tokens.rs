//! Join tokens: derived, so that whoever renders a control plane's configuration and whoever renders a worker's agree
//! without asking each other. Worthless to anybody without the cluster's encryption key.

use sha2::{Digest, Sha256};

const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

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
