//! SHA-256 digests of bytes, files and streams.
//!
//! Inputs: bytes or paths. Output: [`Digest`], written as `sha256:HEX`.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of a file's content.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_reader(fs_err::File::open(path)?)
    }

    /// Of everything a reader gives.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                read => hasher.update(&buffer[..read]),
            }
        }
    }

    /// The digits alone.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// The first twelve digits, for names.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// A text that is no `sha256:HEX`.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no sha256 digest")]
pub struct NotADigest(String);

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NotADigest(text.to_owned());
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.strip_prefix("sha256:").ok_or_else(wrong)?, &mut bytes).map_err(|_| wrong())?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// A writer that hashes and counts what passes through.
pub(crate) struct HashingWriter<W> {
    inner: W,
    hasher: Sha256,
    written: u64,
}

impl<W: Write> HashingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new(), written: 0 }
    }

    /// The writer below, the digest and the number of bytes.
    pub(crate) fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest(self.hasher.finalize().into()), self.written)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert_eq!(digest.short(), "e3b0c44298fc");
        for wrong in [
            "",
            "sha256:",
            "e3b0",
            "sha256:zz",
            "sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stream_hashes_like_its_bytes() {
        let mut writer = HashingWriter::new(Vec::new());
        writer.write_all(b"abc").unwrap();
        let (bytes, digest, written) = writer.finish();
        assert_eq!((bytes.as_slice(), digest, written), (&b"abc"[..], Digest::of(b"abc"), 3));
        assert_eq!(Digest::of_reader(&b"abc"[..]).unwrap(), digest);
    }
}
