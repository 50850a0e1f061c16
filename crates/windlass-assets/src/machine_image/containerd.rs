//! A containerd of our own for a moment, which fills a store with images.
//!
//! Inputs: the bundle's containerd, ctr and crictl, a store, OCI layouts. Output: the store with every image imported,
//! unpacked for overlayfs, pinned, and known to the Kubernetes runtime interface. The process has a mount namespace of
//! its own and ends with this one, so an interruption leaves no mount behind.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::bundle::Bundle;
use crate::cache::{Cache, clear};
use crate::digest::Digest;
use crate::oci::{self, OciError};
use crate::tool::{Running, Tool, ToolError};

/// What is run of the bundle to fill a store. Whoever fills one has verified them.
pub(super) const PROGRAMS: [&str; 3] = ["containerd", "ctr", "crictl"];

/// Keeps images from kubelet's garbage collection: they could not be pulled again.
const PINNED: &str = "io.cri-containerd.pinned=pinned";

/// How long it may take to answer, and to see an image.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files of a store that belong to one containerd and not to its clones.
const OWN: [&str; 2] = ["io.containerd.grpc.v1.introspection", "tmpmounts"];

/// Why a store could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A tool failed.
    #[error("containerd's store cannot be filled")]
    Tool(#[from] ToolError),
    /// Images could not be packed for import.
    #[error(transparent)]
    Image(#[from] OciError),
    /// A file could not be written or removed.
    #[error("containerd's store cannot be prepared")]
    Prepare(#[source] io::Error),
    /// It never answered.
    #[error("containerd did not answer within {} s: {cause}", PATIENCE.as_secs())]
    Silent {
        /// How the last question failed.
        cause: String,
    },
    /// It does not know images that were imported.
    #[error("after the import, containerd does not offer as pinned: {}", missing.join(", "))]
    Unknown {
        /// Which images.
        missing: Vec<String>,
    },
    /// crictl's answer could not be understood.
    #[error("crictl's list of images cannot be understood")]
    List(#[from] serde_json::Error),
}

/// Fills a store, existing or not, with images and leaves it at rest.
pub(super) fn fill(
    bundle: &Bundle,
    cache: &Cache,
    store: &Path,
    layouts: &[PathBuf],
    references: &[String],
    said: &dyn Fn(&str),
) -> Result<(), StoreError> {
    let containerd = Containerd::start(bundle, cache, store)?;
    said("importing images");
    containerd.import(layouts)?;
    for reference in references {
        containerd.ctr(["images", "label", reference, PINNED])?;
    }
    said("waiting for the runtime interface to see them");
    containerd.expect(references)?;
    containerd.stop()?;
    OWN.iter().try_for_each(|own| clear(&store.join(own))).map_err(StoreError::Prepare)
}

struct Containerd<'a> {
    bundle: &'a Bundle,
    /// Socket, state and configuration; short, as a socket's path must be.
    run: PathBuf,
    process: Running,
}

impl<'a> Containerd<'a> {
    fn start(bundle: &'a Bundle, cache: &Cache, store: &Path) -> Result<Self, StoreError> {
        let id = Digest::of(cache.folder().as_os_str().as_encoded_bytes()).short();
        let run = PathBuf::from(format!("/run/windlass-store-{id}"));
        clear(&run).and_then(|()| fs_err::create_dir_all(&run)).map_err(StoreError::Prepare)?;
        let config = run.join("config.toml");
        let sandbox = bundle.lock().images.get("pause").map_or("", |image| image.reference.as_str());
        fs_err::write(&config, configuration(&run, store, sandbox)).map_err(StoreError::Prepare)?;
        let process = Tool::new(program(bundle, "containerd"))
            .args(["--config".as_ref(), config.as_os_str()])
            .own_mounts()
            .start(Stdio::null(), Stdio::null(), |_| ())?;
        Self { bundle, run, process }.answering()
    }

    fn socket(&self) -> PathBuf {
        self.run.join("s")
    }

    /// Waits until it answers; when it ended instead, its own last lines are the error.
    fn answering(mut self) -> Result<Self, StoreError> {
        let begun = Instant::now();
        loop {
            let Err(failure) = self.images() else { return Ok(self) };
            if self.process.ended() {
                self.process.wait()?;
                return Err(failure);
            }
            if begun.elapsed() > PATIENCE {
                return Err(StoreError::Silent { cause: failure.to_string() });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ctr_tool<'b>(&self, arguments: impl IntoIterator<Item = &'b str>) -> Tool {
        Tool::new(program(self.bundle, "ctr"))
            .args(["--address".as_ref(), self.socket().as_os_str()])
            .args(["--namespace", "k8s.io"])
            .args(arguments)
    }

    fn ctr<'b>(&self, arguments: impl IntoIterator<Item = &'b str>) -> Result<(), StoreError> {
        Ok(self.ctr_tool(arguments).run(|_| ())?)
    }

    /// Imports layouts as one stream.
    fn import(&self, layouts: &[PathBuf]) -> Result<(), StoreError> {
        let tool = self.ctr_tool(["images", "import", "--snapshotter", "overlayfs", "-"]);
        let mut running = tool.start(Stdio::piped(), Stdio::null(), |_| ())?;
        let Some(input) = running.child.stdin.take() else {
            return Err(running.broken(io::Error::other("no standard input")).into());
        };
        match oci::pack(layouts, input) {
            Ok(()) => Ok(running.wait()?),
            // A broken pipe is ctr's failure, which says more.
            Err(OciError::Pack { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                Err(running.broken(source).into())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Images the runtime interface knows, and whether each is pinned.
    fn images(&self) -> Result<Vec<Listed>, StoreError> {
        #[derive(Deserialize)]
        struct Answer {
            images: Vec<Listed>,
        }
        let endpoint = format!("unix://{}", self.socket().display());
        let text = Tool::new(program(self.bundle, "crictl"))
            .args(["--config", "/dev/null", "--runtime-endpoint", &endpoint, "--image-endpoint", &endpoint])
            .args(["--timeout", "5s", "images", "--output", "json"])
            .output()?;
        Ok(serde_json::from_str::<Answer>(&text)?.images)
    }

    /// Waits until every image is there and pinned: the runtime interface learns of them by events.
    fn expect(&self, references: &[String]) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            let images = self.images()?;
            let there =
                |reference: &&String| images.iter().any(|image| image.pinned && image.repo_tags.contains(reference));
            let missing: Vec<String> = references.iter().filter(|reference| !there(reference)).cloned().collect();
            if missing.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(StoreError::Unknown { missing });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(self) -> Result<(), StoreError> {
        self.process.terminate()?;
        clear(&self.run).map_err(StoreError::Prepare)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    repo_tags: Vec<String>,
    #[serde(default)]
    pinned: bool,
}

fn program(bundle: &Bundle, name: &str) -> PathBuf {
    bundle.program(name).unwrap_or_else(|| bundle.folder().join("bin").join(name))
}

/// Nothing outside `run` and the store is touched.
fn configuration(run: &Path, store: &Path, sandbox: &str) -> String {
    let (run, store) = (run.display(), store.display());
    format!(
        "version = 3
root = '{store}'
state = '{run}/state'
[grpc]
  address = '{run}/s'
[ttrpc]
  address = '{run}/t'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{sandbox}'
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{run}/cni']
  conf_dir = '{run}/cni'
[plugins.'io.containerd.internal.v1.opt']
  path = '{run}/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = true
"
    )
}
