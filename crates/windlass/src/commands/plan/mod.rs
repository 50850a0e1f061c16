//! `windlass plan`: what a spec would make or change, before anything is done.
//!
//! Inputs: the spec, the ground, the bundle if there is one, what exists. Output: machines with their
//! addresses, volumes, versions and actions; or the full spec.

mod observe;
mod text;
mod view;

use std::path::Path;

use windlass_assets::{Bundle, Cache, Recipe};
use windlass_providers::local::paths::Paths;
use windlass_providers::local::survey;
use windlass_spec::annotate;
use windlass_spec::full::{Facts, FullCluster, Release};
use windlass_spec::load::Document;
use windlass_spec::problems::Problems;
use windlass_spec::releases;
use windlass_spec::validate::validate_ground;

use crate::document::{self, refused};
use crate::exit::{Code, Failure, Outcome};
use crate::local::{block_on, failure, paths};
use crate::output::{Format, print_value};

use view::View;

/// Arguments of `windlass plan`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass plan -f lab.yaml\n  windlass plan -f lab.yaml --full\n  windlass plan -f lab.yaml -o json | jq -r '.machines[].name'\n\nExit codes: 0 when it could be planned, 2 when the spec is wrong. With --detailed-exitcode: 0 when there is nothing\nto do, 2 when there are changes, 1 after every error."
)]
pub(crate) struct Args {
    /// The cluster's document; `-` reads standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: String,
    /// Show every value of the cluster and who set it, instead of what would be done.
    #[arg(long)]
    full: bool,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Let the exit code tell whether there is something to do.
    #[arg(long)]
    detailed_exitcode: bool,
}

/// Plans.
pub(crate) fn run(args: &Args) -> Outcome {
    match planned(args) {
        Err(failure) if args.detailed_exitcode => Err(failure.with_code(Code::Failed)),
        other => other,
    }
}

fn planned(args: &Args) -> Outcome {
    let document = document::located(&args.file)?.1;
    let paths = paths()?;
    let facts = block_on(async { survey::facts(&paths).await.map_err(failure) })?;
    let full = full(&document, &facts, &paths)?;
    if args.full {
        print_full(args.output, &full)?;
        return Ok(Code::Ok);
    }
    let observed = observe::observe(&full)?;
    let view = View::new(&full, &observed);
    match args.output {
        Format::Table | Format::Wide => print!("{}", text::render(&view, args.output == Format::Wide)),
        machine => print_value(machine, &view)?,
    }
    let changes = args.detailed_exitcode && !view.plan.is_empty();
    Ok(if changes { Code::Usage } else { Code::Ok })
}

/// The full spec on this ground.
fn full(document: &Document, facts: &Facts, paths: &Paths) -> Result<FullCluster, Failure> {
    let release = release(document, paths.cache())?;
    let checked = validate_ground(&document.cluster, facts);
    let located = |problems: Problems| refused(&document.locate(problems));
    if checked.has_errors() {
        return Err(located(checked));
    }
    windlass_spec::resolve(&document.cluster, &release, facts).map_err(located)
}

/// The release of the bundle there is; of the recipe while none was built.
fn release(document: &Document, cache: &Path) -> Result<Release, Failure> {
    let wish = document.cluster.spec.kubernetes_version.as_deref().and_then(|text| text.parse().ok());
    let version = releases::choose(wish).map(|version| version.to_string()).unwrap_or_default();
    match Bundle::locate(&version, &Cache::new(cache))? {
        Some(bundle) => Ok(bundle.release()),
        None => Ok(Recipe::find(&version)?.manifest.release()),
    }
}

fn print_full(format: Format, full: &FullCluster) -> Result<(), Failure> {
    match format {
        Format::Json => print_value(format, &annotate::shown(full)),
        _ => {
            print!("{}", annotate::annotated_yaml(full));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_assets::Recipe;
    use windlass_spec::releases;

    /// `validate` and `plan` promise what bundles hold.
    #[test]
    fn specs_and_bundles_know_the_same_releases() {
        let manifests: Vec<_> =
            Recipe::embedded().expect("recipes").into_iter().map(|recipe| recipe.manifest).collect();
        let known: Vec<String> = manifests.iter().map(|manifest| manifest.kubernetes.clone()).collect();
        let supported = releases::supported();
        assert_eq!(known, supported.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (manifest, version) in manifests.iter().zip(supported) {
            let (held, promised) = (manifest.release(), releases::planned(version).expect("it is supported"));
            for (name, version) in &promised.versions {
                assert_eq!(held.versions.get(name), Some(version), "{name}");
            }
            for (name, image) in &promised.images {
                assert_eq!(held.images.get(name), Some(image), "{name}");
            }
        }
    }
}
