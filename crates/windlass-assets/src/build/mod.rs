//! Builds a bundle from Go modules and Debian packages, step by step.
//!
//! Inputs: a [`Recipe`], the [`Cache`], this computer's toolchain. Output: a [`Bundle`] in the cache, whole or not at
//! all. Results of steps are kept by the hash of their inputs: an interrupted build goes on where it was.

mod go;
mod ground;
mod images;

pub(crate) use images::skeleton;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, BundleError};
use crate::cache::{Cache, CacheError, CacheLock};
use crate::debian::{self, DebianError, Packages};
use crate::digest::Digest;
use crate::lock::{FileEntry, Lock, LockError};
use crate::manifest::{Component, Program};
use crate::oci::OciError;
use crate::progress::{Event, Progress, detail, follow, step};
use crate::recipe::Recipe;
use crate::steps::{Made, Steps};
use crate::tool::{Tool, ToolError, Tools};

use go::Toolchain;

/// Name of the step that makes the Debian root.
const ROOT_STEP: &str = "debian-root";

/// Name of the step that puts everything together.
const ASSEMBLE_STEP: &str = "images and lock";

/// Folder of the bundle that documents go to.
const DOCUMENTS: &str = "documents";

/// Changes when the way a bundle is put together does.
const ASSEMBLY: u32 = 1;

/// Why a bundle could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The computer lacks something; nothing was done.
    #[error("this computer cannot build the bundle: {}", missing.join("; "))]
    Ground {
        /// Everything that is missing.
        missing: Vec<String>,
        /// One command that gets it.
        remedy: String,
    },
    /// No such extra.
    #[error("the release has no extra {name:?}")]
    NoExtra {
        /// What was asked for.
        name: String,
    },
    /// A program did not build.
    #[error("building {program} failed")]
    Program {
        /// Which.
        program: String,
        /// How.
        source: ToolError,
    },
    /// The Debian root could not be made or read.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// An image could not be written.
    #[error(transparent)]
    Image(#[from] OciError),
    /// The cache could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The bundle could not be put together.
    #[error("the bundle cannot be put together")]
    Assemble(#[source] io::Error),
    /// The lock could not be written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The finished bundle could not be opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// Makes the bundle of a recipe, or returns the one that is there when every file of it is whole.
pub fn build(recipe: &Recipe, cache: &Cache, tools: &Tools, progress: &dyn Progress) -> Result<Bundle, BuildError> {
    // Under the lock: another builder may be making it.
    let builder = Builder::start(recipe, cache, tools, progress)?;
    match Bundle::of_recipe(recipe, cache)? {
        Some(bundle) if whole(&bundle, progress)? => Ok(bundle),
        _ => builder.build(),
    }
}

/// Is a bundle that is there whole? One that is not is built again.
fn whole(bundle: &Bundle, progress: &dyn Progress) -> Result<bool, BuildError> {
    match bundle.verify() {
        Ok(()) => Ok(true),
        Err(BundleError::Damaged { damages, .. }) => {
            let name = bundle.name();
            damages.iter().for_each(|damage| detail(progress, &name, format!("made again: {damage}")));
            Ok(false)
        }
        Err(other) => Err(other.into()),
    }
}

/// Builds a program that belongs to no bundle (kubeadm, for comparison) and returns where it is.
pub fn build_extra(
    recipe: &Recipe,
    name: &str,
    cache: &Cache,
    tools: &Tools,
    progress: &dyn Progress,
) -> Result<PathBuf, BuildError> {
    let (component, program) =
        recipe.manifest.extra(name).ok_or_else(|| BuildError::NoExtra { name: name.to_owned() })?;
    let builder = Builder::start(recipe, cache, tools, progress)?;
    let todo = builder.pending(&[(component, program)], false);
    ground::check(&recipe.manifest, tools, builder.toolchain.as_ref(), &todo)?;
    progress.report(Event::Planned { steps: vec![name.to_owned()] });
    Ok(builder.program(component, program)?.folder.join(name))
}

/// What has to be built yet, and so what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pending {
    go: bool,
    cgo: bool,
    root: bool,
}

struct Builder<'a> {
    recipe: &'a Recipe,
    cache: &'a Cache,
    tools: &'a Tools,
    progress: &'a dyn Progress,
    lock: CacheLock,
    steps: Steps,
    /// None where there is no Go: everything must be in the steps then.
    toolchain: Option<Toolchain>,
}

impl<'a> Builder<'a> {
    fn start(
        recipe: &'a Recipe,
        cache: &'a Cache,
        tools: &'a Tools,
        progress: &'a dyn Progress,
    ) -> Result<Self, BuildError> {
        let lock = cache.lock(progress)?;
        let toolchain = Toolchain::find(tools);
        Ok(Self { recipe, cache, tools, progress, lock, steps: Steps::new(cache.steps()), toolchain })
    }

    fn build(&self) -> Result<Bundle, BuildError> {
        let programs: Vec<_> = self.recipe.manifest.programs().collect();
        let documents: Vec<_> = self.recipe.manifest.documents().collect();
        let all: Vec<_> = programs.iter().chain(&documents).copied().collect();
        let todo = self.pending(&all, true);
        ground::check(&self.recipe.manifest, self.tools, self.toolchain.as_ref(), &todo)?;
        let names = all.iter().map(|(_, program)| program.name.clone());
        let steps = names.chain([ROOT_STEP, ASSEMBLE_STEP].map(str::to_owned)).collect();
        self.progress.report(Event::Planned { steps });

        let mut made = BTreeMap::new();
        for (component, program) in &programs {
            made.insert(program.name.clone(), self.program(component, program)?);
        }
        for (component, document) in &documents {
            made.insert(document.name.clone(), self.document(component, document)?);
        }
        let root = self.root()?;
        let bundle = step(self.progress, ASSEMBLE_STEP, || self.assemble(&made, &root))?;
        self.forget_old_steps()?;
        Ok(bundle)
    }

    fn pending(&self, programs: &[(&Component, &Program)], with_root: bool) -> Pending {
        let mut pending = Pending::default();
        for (component, program) in programs {
            if self.steps.find(&program.name, self.program_inputs(component, program)).is_none() {
                pending.go = true;
                pending.cgo |= component.cgo;
            }
        }
        pending.root = with_root && self.steps.find(ROOT_STEP, self.root_inputs()).is_none();
        pending
    }

    /// Digest of all that a program depends on.
    fn program_inputs(&self, component: &Component, program: &Program) -> Digest {
        let inputs = serde_json::json!({
            "module": self.recipe.module_digest(&component.module),
            "package": program.package,
            "tags": component.tags,
            "cgo": component.cgo,
            "ldflags": component.linker_flags(),
            "go": self.toolchain.as_ref().map(|toolchain| &toolchain.version),
            "architecture": crate::ARCHITECTURE,
        });
        Digest::of(inputs.to_string().as_bytes())
    }

    fn root_inputs(&self) -> Digest {
        Digest::of(serde_json::json!([ASSEMBLY, self.recipe.manifest.root]).to_string().as_bytes())
    }

    /// Builds a program, unless its result is there.
    fn program(&self, component: &Component, program: &Program) -> Result<Made, BuildError> {
        self.kept_step(&program.name, self.program_inputs(component, program), |output| {
            self.compile(component, program, &output.join(&program.name))
        })
    }

    /// Builds and runs a document's program and keeps what it prints, unless that is there.
    fn document(&self, component: &Component, document: &Program) -> Result<Made, BuildError> {
        self.kept_step(&document.name, self.program_inputs(component, document), |output| {
            let folder = self.lock.work_folder("printer").map_err(BuildError::Assemble)?;
            let printer = folder.join("printer");
            self.compile(component, document, &printer)?;
            let text = Tool::new(&printer)
                .output()
                .map_err(|source| BuildError::Program { program: document.name.clone(), source })?;
            fs_err::write(output.join(&document.name), text).map_err(BuildError::Assemble)
        })
    }

    /// The result of a step: the one that is there, or the folder that `fill` fills.
    fn kept_step(
        &self,
        name: &str,
        inputs: Digest,
        fill: impl FnOnce(&Path) -> Result<(), BuildError>,
    ) -> Result<Made, BuildError> {
        if let Some(made) = self.steps.find(name, inputs) {
            self.progress.report(Event::Reused { step: name.to_owned() });
            return Ok(made);
        }
        step(self.progress, name, || {
            let output = self.lock.work_folder("output").map_err(BuildError::Assemble)?;
            fill(&output)?;
            self.steps.keep(name, inputs, &output).map_err(BuildError::Assemble)
        })
    }

    fn compile(&self, component: &Component, program: &Program, output: &Path) -> Result<(), BuildError> {
        let toolchain = self.toolchain.as_ref().ok_or_else(|| ground::no_go(&self.recipe.manifest))?;
        let module = self.lock.work_folder("module").map_err(BuildError::Assemble)?;
        self.recipe.write_module(&component.module, &module).map_err(BuildError::Assemble)?;
        toolchain
            .build(component, program, &module, output, self.progress)
            .map_err(|source| BuildError::Program { program: program.name.clone(), source })
    }

    /// Makes the Debian root, unless it is there.
    fn root(&self) -> Result<Made, BuildError> {
        self.kept_step(ROOT_STEP, self.root_inputs(), |output| {
            let scratch = self.lock.work_folder("mmdebstrap").map_err(BuildError::Assemble)?;
            follow(self.progress, ROOT_STEP, |said| {
                debian::bootstrap(&self.recipe.manifest.root, self.tools, output, &scratch, said)
            })
            .map_err(BuildError::Debian)
        })
    }

    /// Lays programs, images, root and lock into a folder and moves it to its place.
    fn assemble(&self, made: &BTreeMap<String, Made>, root: &Made) -> Result<Bundle, BuildError> {
        let folder = self.lock.work_folder("bundle").map_err(BuildError::Assemble)?;
        let mut files = BTreeMap::new();
        let programs = self.recipe.manifest.programs().map(|(component, program)| (component.folder.as_str(), program));
        let documents = self.recipe.manifest.documents().map(|(_, document)| (DOCUMENTS, document));
        for (into, program) in programs.chain(documents) {
            let path = format!("{into}/{}", program.name);
            let Some(made) = made.get(&program.name) else { continue };
            let install = program.install.as_ref().map(|into| format!("{into}/{}", program.name));
            let entry = lay(&folder, &path, &made.folder.join(&program.name), install).map_err(BuildError::Assemble)?;
            files.insert(path, entry);
        }
        let archive = root.folder.join(debian::ARCHIVE);
        let path = format!("root/{}", debian::ARCHIVE);
        files.insert(path.clone(), lay(&folder, &path, &archive, None).map_err(BuildError::Assemble)?);

        detail(self.progress, ASSEMBLE_STEP, "reading the Debian root");
        let packages = Packages::read(&archive)?;
        let images = images::write(&self.recipe.manifest, &folder, &archive, &packages, self.progress)?;
        files.extend(images::files(&folder).map_err(BuildError::Assemble)?);

        let lock = Lock {
            format: Lock::FORMAT,
            kubernetes: self.recipe.manifest.kubernetes.clone(),
            recipe: self.recipe.digest(),
            toolchain: self.toolchain.as_ref().map_or_else(String::new, |toolchain| toolchain.version.clone()),
            versions: self.recipe.manifest.versions(),
            debian_packages: packages.versions(),
            images,
            files,
        };
        let written = windlass_files::replace_durably(folder.join(Lock::FILE), &lock.to_bytes()?, 0o644);
        written.map_err(BuildError::Assemble)?;
        Ok(Bundle::take_in(&folder, self.cache)?)
    }

    /// Drops results that the current recipe has no use for.
    fn forget_old_steps(&self) -> Result<(), BuildError> {
        let manifest = &self.recipe.manifest;
        let mut in_use: BTreeMap<String, Digest> = manifest
            .programs()
            .chain(manifest.documents())
            .map(|(component, program)| (program.name.clone(), self.program_inputs(component, program)))
            .collect();
        in_use.insert(ROOT_STEP.to_owned(), self.root_inputs());
        self.steps.prune(&in_use).map_err(BuildError::Assemble)
    }
}

/// Lays one file into the bundle's folder, sharing its blocks where the file system can.
fn lay(folder: &Path, path: &str, source: &Path, install: Option<String>) -> io::Result<FileEntry> {
    let target = folder.join(path);
    if let Some(parent) = target.parent() {
        fs_err::create_dir_all(parent)?;
    }
    if fs_err::hard_link(source, &target).is_err() {
        fs_err::copy(source, &target)?;
    }
    let found = fs_err::metadata(&target)?;
    let executable = found.permissions().mode() & 0o111 != 0;
    Ok(FileEntry { sha256: Digest::of_file(&target)?, size: found.len(), executable, install })
}
