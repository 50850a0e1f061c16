//! The Debian root of machines, as one compressed archive: made by mmdebstrap, read for the files images take from it.
//!
//! Inputs: a suite and packages; later the archive. Outputs: `debian.tar.zst`; its packages with versions; chosen files.

mod packages;
mod root;
mod selection;

pub(crate) use packages::Packages;
pub(crate) use root::{ARCHIVE, bootstrap, unpack};
pub(crate) use selection::{Choice, select};

use std::io;
use std::path::{Path, PathBuf};

use crate::tool::ToolError;

/// Why the root cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum DebianError {
    /// mmdebstrap failed.
    #[error("the Debian root cannot be made")]
    Bootstrap(#[source] ToolError),
    /// The archive cannot be written.
    #[error("the Debian root cannot be written to {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The archive cannot be read.
    #[error("the Debian root {} cannot be read", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A package or path is not in it.
    #[error("the Debian root has no {}", missing.join(", "))]
    Missing {
        /// Everything that is missing.
        missing: Vec<String>,
    },
}

/// The archive's entries, decompressed.
fn open(path: &Path) -> io::Result<tar::Archive<zstd::Decoder<'static, io::BufReader<fs_err::File>>>> {
    Ok(tar::Archive::new(zstd::Decoder::new(fs_err::File::open(path)?)?))
}

/// A path as it is on a system where `/bin` and the like are links into `/usr`, without leading slash.
fn canonical(path: &str) -> String {
    let path = path.trim_start_matches('.').trim_matches('/');
    let merged = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
    match path.split_once('/') {
        Some((first, _)) if merged.contains(&first) => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn paths_of_the_merged_system() {
        let cases = [
            ("/bin/sh", "usr/bin/sh"),
            ("./lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
            ("/usr/bin/nft", "usr/bin/nft"),
            ("./etc/", "etc"),
            ("./lib", "lib"),
        ];
        for (given, wanted) in cases {
            assert_eq!(canonical(given), wanted);
        }
    }
}
