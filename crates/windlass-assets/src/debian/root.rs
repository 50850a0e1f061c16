//! Makes the root with mmdebstrap and unpacks it.

use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;

use crate::manifest::Root;
use crate::tool::{ToolError, Tools};

use super::{DebianError, open};

/// Name of the archive.
pub(crate) const ARCHIVE: &str = "debian.tar.zst";

/// Times in the archive are no later than this, so that the same packages give the same bytes.
const SOURCE_DATE_EPOCH: &str = "1735689600";

/// Makes the folders of the merged `/usr` as links from the start; else a package with Perl would have to.
const MERGED_USR: &str = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr";

/// Level at which time spent and bytes saved balance for a root of 250 MB.
const COMPRESSION: i32 = 6;

/// Makes the root with mmdebstrap into `folder/debian.tar.zst`; `scratch` is for its work.
pub(crate) fn bootstrap(
    root: &Root,
    tools: &Tools,
    folder: &Path,
    scratch: &Path,
    said: impl FnMut(&str) + Send + 'static,
) -> Result<(), DebianError> {
    let mut tool = tools
        .tool("mmdebstrap")
        .args(["--variant=minbase", "--format=tar", MERGED_USR])
        .args([format!("--include={}", root.packages.join(","))])
        .args(root.exclude.iter().map(|pattern| format!("--dpkgopt=path-exclude={pattern}")))
        .args([root.suite.as_str(), "-"])
        .args(&tools.debian_mirror)
        .env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH)
        .env("TMPDIR", scratch);
    if rustix::process::geteuid().is_root() {
        tool = tool.own_mounts();
    }
    let path = folder.join(ARCHIVE);
    let mut running = tool.start(Stdio::null(), Stdio::piped(), said).map_err(DebianError::Bootstrap)?;
    let Some(output) = running.child.stdout.take() else {
        let cause = running.broken(io::Error::other("no standard output"));
        return Err(DebianError::Bootstrap(cause));
    };
    match compress(output, &path) {
        Ok(()) => running.wait().map_err(DebianError::Bootstrap),
        Err(source) => match running.broken(source) {
            ToolError::Pipe { source, .. } => Err(DebianError::Write { path, source }),
            failed => Err(DebianError::Bootstrap(failed)),
        },
    }
}

fn compress(mut stream: impl io::Read, path: &Path) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(fs_err::File::create(path)?, COMPRESSION)?;
    encoder.include_checksum(true)?;
    io::copy(&mut stream, &mut encoder)?;
    encoder.finish()?.flush()
}

/// Unpacks the root with owners, permissions and extended attributes; needs root.
pub(crate) fn unpack(archive: &Path, target: &Path) -> Result<(), DebianError> {
    let read = |source| DebianError::Read { path: archive.to_path_buf(), source };
    let mut tar = open(archive).map_err(read)?;
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(true);
    tar.set_preserve_mtime(true);
    tar.set_unpack_xattrs(true);
    fs_err::create_dir_all(target).map_err(read)?;
    for entry in tar.entries().map_err(read)? {
        let mut entry = entry.map_err(read)?;
        // Device nodes are the running system's affair.
        if matches!(entry.header().entry_type(), tar::EntryType::Char | tar::EntryType::Block | tar::EntryType::Fifo) {
            continue;
        }
        entry.unpack_in(target).map_err(read)?;
    }
    Ok(())
}
