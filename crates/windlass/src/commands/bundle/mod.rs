//! `windlass bundle`: every file and image of a Kubernetes release, built, listed, verified and carried about.

mod list;
mod progress;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use windlass_assets::{
    ArchiveError, BuildError, Bundle, BundleError, Cache, MachineImage, MachineImageError, Recipe, RecipeError, Tools,
    WindlassBinary,
};
use windlass_providers::local::paths::Paths;

use crate::exit::{Code, Failure, Outcome};

use progress::Steps;

/// Arguments of `windlass bundle`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass bundle build\n  windlass bundle list -o wide\n  windlass bundle export kubernetes.tar.zst"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build a bundle and the machine image for this binary; what is there is kept.
    #[command(
        after_help = "Examples:\n  windlass bundle build\n  windlass bundle build --kubernetes-version 1.37 --no-machine-image\n  windlass bundle build --extra kubeadm"
    )]
    Build(Build),
    /// Make the machine image of a bundle for this binary.
    #[command(after_help = "Examples:\n  windlass bundle image\n  windlass bundle image 1.37")]
    Image(Chosen),
    /// List bundles and their machine images.
    #[command(after_help = "Examples:\n  windlass bundle list\n  windlass bundle list -o wide")]
    List(list::Args),
    /// Compare every file of bundles and machine images with the lock; name each that differs.
    #[command(
        after_help = "Exit codes: 0 all is whole, 1 something differs, 3 no such bundle.\n\nExamples:\n  windlass bundle verify\n  windlass bundle verify 1.37.2-0123456789ab"
    )]
    Verify(Chosen),
    /// Write a bundle into one file, for places without a network.
    #[command(after_help = "Examples:\n  windlass bundle export kubernetes-1.37.2.tar.zst")]
    Export(Export),
    /// Take a bundle out of such a file.
    #[command(after_help = "Examples:\n  windlass bundle import kubernetes-1.37.2.tar.zst")]
    Import(Import),
    /// Print the folder of a bundle, or the path of one of its programs.
    #[command(
        after_help = "Examples:\n  windlass bundle path\n  $(windlass bundle path --program kubectl) version --client"
    )]
    Path(PathOf),
    /// Remove a bundle from the cache; machine images made from it stay.
    #[command(after_help = "Examples:\n  windlass bundle remove 1.37.2-0123456789ab")]
    Remove(Named),
}

#[derive(Debug, clap::Args)]
struct Build {
    /// Kubernetes version, whole or its beginning; the newest known when absent.
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    kubernetes_version: String,
    /// Build this program too, which belongs to no bundle, and print its path. May be given more than once.
    #[arg(long, value_name = "PROGRAM")]
    extra: Vec<String>,
    /// Leave the machine image out.
    #[arg(long)]
    no_machine_image: bool,
}

/// A bundle, or the one to use.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// Name or Kubernetes version; the newest release's when absent (verify: all).
    bundle: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Named {
    /// Name, as `windlass bundle list` shows it.
    bundle: String,
}

#[derive(Debug, clap::Args)]
struct Export {
    /// The file to write.
    file: PathBuf,
    /// Name or Kubernetes version; the newest release's when absent.
    #[arg(long)]
    bundle: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Import {
    /// The file to read.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct PathOf {
    /// Name or Kubernetes version; the newest release's when absent.
    bundle: Option<String>,
    /// A program of it.
    #[arg(long)]
    program: Option<String>,
}

/// Runs the chosen verb.
pub(crate) fn run(args: &Args) -> Outcome {
    let cache = Cache::new(Paths::from_environment()?.cache());
    match &args.verb {
        Verb::Build(args) => build(args, &cache),
        Verb::Image(args) => image(&choose(args.bundle.as_deref(), &cache)?, &cache),
        Verb::List(args) => list::run(args, &cache),
        Verb::Verify(args) => verify(args.bundle.as_deref(), &cache),
        Verb::Export(args) => export(args, &cache),
        Verb::Import(args) => import(&args.file, &cache),
        Verb::Path(args) => path(args, &cache),
        Verb::Remove(args) => remove(&args.bundle, &cache),
    }
}

fn build(args: &Build, cache: &Cache) -> Outcome {
    let tools = Tools::from_environment();
    let recipe = Recipe::find(&args.kubernetes_version).map_err(no_release)?;
    let bundle = windlass_assets::build(&recipe, cache, &tools, &Steps::new()).map_err(not_built)?;
    eprintln!("bundle {} at {}", bundle.name(), bundle.folder().display());
    for extra in &args.extra {
        let program = windlass_assets::build_extra(&recipe, extra, cache, &tools, &Steps::new()).map_err(not_built)?;
        println!("{}", program.display());
    }
    if args.no_machine_image { Ok(Code::Ok) } else { image(&bundle, cache) }
}

fn image(bundle: &Bundle, cache: &Cache) -> Outcome {
    let binary = WindlassBinary::running()?;
    let image = windlass_assets::machine_image(bundle, &binary, cache, &Steps::new()).map_err(no_image)?;
    eprintln!("machine image {} at {}", image.id(), image.folder().display());
    Ok(Code::Ok)
}

fn verify(wanted: Option<&str>, cache: &Cache) -> Outcome {
    let mut damages = Vec::new();
    let mut seen = 0;
    for bundle in Bundle::list(cache)? {
        if let (Ok(bundle), Some(wanted)) = (&bundle, wanted)
            && !answers_to(bundle, wanted)
        {
            continue;
        }
        seen += 1;
        match bundle.and_then(|bundle| bundle.verify().map(|()| bundle)) {
            Ok(bundle) => println!("bundle {} is whole ({} files)", bundle.name(), bundle.lock().files.len()),
            Err(damage) => damages.push(anyhow::Error::from(damage)),
        }
    }
    for image in
        MachineImage::list(cache)?.iter().filter(|image| wanted.is_none_or(|name| image.id().starts_with(name)))
    {
        match image.verify() {
            Ok(()) => println!("machine image {} is whole", image.id()),
            Err(damage) => damages.push(damage.into()),
        }
    }
    if seen == 0 {
        return Err(not_found(wanted.unwrap_or("in the cache")));
    }
    let text = damages.iter().map(|damage| format!("{damage:#}")).collect::<Vec<_>>().join("\n");
    if damages.is_empty() {
        return Ok(Code::Ok);
    }
    let failure = Failure::new(Code::Failed, anyhow::anyhow!("{text}"));
    Err(failure.hint("`windlass bundle build` makes a damaged bundle again"))
}

fn export(args: &Export, cache: &Cache) -> Outcome {
    let bundle = choose(args.bundle.as_deref(), cache)?;
    windlass_assets::export(&bundle, &args.file, &Steps::new()).map_err(archive)?;
    eprintln!("bundle {} is in {}", bundle.name(), args.file.display());
    Ok(Code::Ok)
}

fn import(file: &Path, cache: &Cache) -> Outcome {
    let bundle = windlass_assets::import(file, cache, &Steps::new()).map_err(archive)?;
    eprintln!("bundle {} at {}", bundle.name(), bundle.folder().display());
    Ok(Code::Ok)
}

fn path(args: &PathOf, cache: &Cache) -> Outcome {
    let bundle = choose(args.bundle.as_deref(), cache)?;
    let Some(program) = &args.program else {
        println!("{}", bundle.folder().display());
        return Ok(Code::Ok);
    };
    let missing =
        || Failure::new(Code::NotFound, anyhow::anyhow!("bundle {} has no program {program:?}", bundle.name()));
    println!("{}", bundle.program(program).ok_or_else(missing)?.display());
    Ok(Code::Ok)
}

fn remove(name: &str, cache: &Cache) -> Outcome {
    let bundle = Bundle::list(cache)?.into_iter().filter_map(Result::ok).find(|bundle| bundle.name() == name);
    bundle.ok_or_else(|| not_found(name))?.remove()?;
    eprintln!("bundle {name} is removed");
    Ok(Code::Ok)
}

/// The bundle of this name or version, or the newest release's.
fn choose(wanted: Option<&str>, cache: &Cache) -> Result<Bundle, Failure> {
    let Some(wanted) = wanted else {
        let version = Recipe::find("").map_err(no_release)?.manifest.kubernetes;
        return Bundle::locate(&version, cache)?.ok_or_else(|| not_found(&version));
    };
    if let Ok(recipe) = Recipe::find(wanted)
        && let Some(bundle) = Bundle::locate(&recipe.manifest.kubernetes, cache)?
    {
        return Ok(bundle);
    }
    let found = Bundle::list(cache)?.into_iter().filter_map(Result::ok).rfind(|bundle| answers_to(bundle, wanted));
    found.ok_or_else(|| not_found(wanted))
}

fn answers_to(bundle: &Bundle, wanted: &str) -> bool {
    let kubernetes = &bundle.lock().kubernetes;
    let beginning = kubernetes.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    bundle.name() == wanted || beginning
}

fn not_found(wanted: &str) -> Failure {
    Failure::new(Code::NotFound, anyhow::anyhow!("there is no bundle {wanted}"))
        .hint("`windlass bundle list` shows what there is, `windlass bundle build` makes one")
}

fn no_release(error: RecipeError) -> Failure {
    let code = if matches!(error, RecipeError::NoRelease { .. }) { Code::NotFound } else { Code::Failed };
    Failure::new(code, error)
}

/// A failed build with what to do about it.
fn not_built(error: BuildError) -> Failure {
    match error {
        BuildError::Ground { ref remedy, .. } => {
            let remedy = remedy.clone();
            Failure::new(Code::Ground, error).hint(remedy)
        }
        BuildError::NoExtra { .. } => Failure::new(Code::NotFound, error),
        _ => Failure::new(Code::Failed, error).hint("the same command goes on where it stopped"),
    }
}

fn no_image(error: MachineImageError) -> Failure {
    match error {
        MachineImageError::NotRoot => Failure::new(Code::Ground, error).hint("run the command as root"),
        MachineImageError::Bundle(BundleError::Damaged { .. }) => {
            Failure::new(Code::Failed, error).hint("`windlass bundle build` makes a damaged bundle again")
        }
        _ => Failure::new(Code::Failed, error),
    }
}

fn archive(error: ArchiveError) -> Failure {
    Failure::new(Code::Failed, error)
}
