//! `windlass validate`: is a spec right?

use windlass_spec::load::read;
use windlass_spec::problems::Problems;

use crate::document::{refused, text};
use crate::exit::{Code, Outcome};
use crate::output::{Format, print_text, print_value};

/// Arguments of `windlass validate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  windlass validate -f lab.yaml\n  windlass validate -f lab.yaml -o json | jq '.problems[].message'\n\nExit codes: 0 when it is right (there may be warnings), 2 when it is not."
)]
pub(crate) struct Args {
    /// The cluster's document; `-` reads standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: String,
    /// How the result is printed; problems as text go to standard error.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Judges the spec.
pub(crate) fn run(args: &Args) -> Outcome {
    let (name, text) = text(&args.file)?;
    let result = read(&text, &name);
    if matches!(args.output, Format::Json | Format::Yaml) {
        let (problems, code) = match &result {
            Ok(document) => (&document.warnings, Code::Ok),
            Err(problems) => (problems, Code::Usage),
        };
        print_value(args.output, &problems.to_json())?;
        return Ok(code);
    }
    let document = result.map_err(|problems| refused(&problems))?;
    say(&document.warnings);
    print_text(&format!("{name}: cluster {} is valid\n", document.cluster.metadata.name))?;
    Ok(Code::Ok)
}

fn say(warnings: &Problems) {
    if !warnings.is_empty() {
        eprintln!("{warnings}");
    }
}
