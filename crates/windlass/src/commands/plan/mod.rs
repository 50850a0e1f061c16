//! `windlass plan`: what a spec would make or change, before anything is done.
//!
//! Inputs: the spec, the ground, the bundle if there is one, what exists. Output: machines with their addresses, volumes,
//! versions and actions, and what was changed by hand; or the full spec.

mod observe;
mod text;
mod view;

use std::ffi::OsString;

use windlass_plan::Observed;
use windlass_providers::local::paths::Paths;
use windlass_providers::local::survey;
use windlass_spec::full::{Facts, FullCluster, Release};
use windlass_spec::load::Document;
use windlass_spec::problems::Problems;
use windlass_spec::validate::validate_ground;
use windlass_workflows::content;

use crate::document::{self, refused};
use crate::exit::{Code, Failure, Outcome};
use crate::local::{block_on, failure, paths};
use crate::operation;
use crate::output::{Format, print_full, print_text, print_value};

use view::View;

/// Arguments of `windlass plan`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A cluster that is there is compared with what its API holds. Worker groups that were scaled by hand are shown and left so: their count is written only when the spec's own changes.\n\nExamples:\n  windlass plan -f lab.yaml\n  windlass plan -f lab.yaml --full\n  windlass plan -f lab.yaml -o json | jq -r '.machines[].name'\n\nExit codes: 0 when it could be planned, 1 failed, 2 bad usage or a wrong spec. With --detailed-exitcode: 0 when there is nothing to do, 2 when there are changes, 1 after every error, bad usage too."
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

/// Is this the command line of a plan whose exit code tells whether there are changes, though it cannot be parsed?
pub(crate) fn exit_code_tells_changes(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|command| command == "plan")
        && arguments.iter().any(|argument| argument == "--detailed-exitcode")
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
    let (facts, observed) = block_on(async {
        let facts = survey::facts(&paths).await.map_err(failure)?;
        Ok((facts, observe::observe(&document.cluster.metadata.name).await?))
    })?;
    let full = full(&document, &ground(&document, &observed, facts, &paths)?)?;
    if args.full {
        print_full(args.output, &full)?;
        return Ok(Code::Ok);
    }
    let view = View::new(&full, &observed);
    match args.output {
        Format::Table | Format::Wide => print_text(&text::render(&view, args.output == Format::Wide))?,
        machine => print_value(machine, &view)?,
    }
    let changes = args.detailed_exitcode && !view.plan.is_empty();
    Ok(if changes { Code::Usage } else { Code::Ok })
}

/// What a spec is resolved with beside itself.
struct Ground {
    release: Release,
    facts: Facts,
}

/// A cluster that is there keeps the facts it was made with, and its release as long as the spec keeps its Kubernetes
/// version: no command or controller puts others in their place. A new one gets what create would give it.
fn ground(document: &Document, observed: &Observed, found: Facts, paths: &Paths) -> Result<Ground, Failure> {
    let kubernetes = document::kubernetes_version(&document.cluster)?;
    let release = || Ok::<_, Failure>(content::release_for(&kubernetes, &operation::utf8(paths.cache())?)?);
    Ok(match &observed.applied {
        None => Ground { release: release()?, facts: found },
        Some(applied) if applied.release.kubernetes == kubernetes => {
            Ground { release: applied.release.clone(), facts: applied.facts.clone() }
        }
        Some(applied) => Ground { release: release()?, facts: applied.facts.clone() },
    })
}

/// The full spec on this ground.
fn full(document: &Document, ground: &Ground) -> Result<FullCluster, Failure> {
    let checked = validate_ground(&document.cluster, &ground.facts);
    let located = |problems: Problems| refused(&document.locate(problems));
    if checked.has_errors() {
        return Err(located(checked));
    }
    windlass_spec::resolve(&document.cluster, &ground.release, &ground.facts).map_err(located)
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
