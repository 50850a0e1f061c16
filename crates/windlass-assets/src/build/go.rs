//! The Go toolchain: found, asked for its version, and run for one program at a time.

use std::ffi::OsStr;
use std::path::Path;

use crate::ARCHITECTURE;
use crate::manifest::{Component, Program};
use crate::progress::{Progress, follow};
use crate::tool::{ToolError, Tools};

/// A Go toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolchain {
    tools: Tools,
    /// As Go tells it: `go1.26.8`.
    pub(super) version: String,
}

impl Toolchain {
    /// The first Go on the path that tells its version.
    pub(super) fn find(tools: &Tools) -> Option<Self> {
        let version = tools.tool("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output().ok()?;
        Some(Self { tools: tools.clone(), version: version.trim().to_owned() })
    }

    /// Its version without what Go puts around it: `1.26.8`.
    pub(super) fn number(&self) -> &str {
        let text = self.version.strip_prefix("go").unwrap_or(&self.version);
        text.split([' ', '-']).next().unwrap_or(text)
    }

    /// Builds one program of a module. The flags decide the bytes: nothing of this computer gets into them.
    pub(super) fn build(
        &self,
        component: &Component,
        program: &Program,
        module: &Path,
        output: &Path,
        progress: &dyn Progress,
    ) -> Result<(), ToolError> {
        let tool = self
            .tools
            .tool("go")
            .args(["build", "-v", "-trimpath", "-buildvcs=false"])
            .args([format!("-tags={}", component.tags.join(","))])
            .args(["-ldflags".to_owned(), component.linker_flags()])
            .args([OsStr::new("-o"), output.as_os_str(), OsStr::new(&program.package)])
            .folder(module)
            .env("GOTOOLCHAIN", "local")
            .env("GOWORK", "off")
            .env("GOFLAGS", "-mod=readonly")
            .env("GOOS", "linux")
            .env("GOARCH", ARCHITECTURE)
            .env("CGO_ENABLED", if component.cgo { "1" } else { "0" });
        follow(progress, &program.name, |said| tool.run(said))
    }
}
