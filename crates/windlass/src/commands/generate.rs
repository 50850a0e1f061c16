//! `windlass generate`: a spec to begin with.

use clap::Subcommand;

use windlass_spec::generate::{Wish, cluster};
use windlass_spec::load;

use crate::document::refused;
use crate::exit::{Code, Outcome};

/// Arguments of `windlass generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  windlass generate cluster lab --control-planes 3 --workers 2 > lab.yaml")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print a cluster's spec with comments.
    #[command(
        after_help = "Examples:\n  windlass generate cluster lab > lab.yaml\n  windlass generate cluster lab --control-planes 3 --workers 2 --kubernetes 1.37 > lab.yaml"
    )]
    Cluster(Cluster),
}

#[derive(Debug, clap::Args)]
struct Cluster {
    /// The cluster's name.
    name: String,
    /// Control-plane machines: 1, 3, 5 or 7.
    #[arg(long, default_value_t = 1, value_name = "N")]
    control_planes: u32,
    /// Workers.
    #[arg(long, default_value_t = 0, value_name = "N")]
    workers: u32,
    /// Kubernetes version; the newest supported minor when absent.
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// Leave the comments out.
    #[arg(long)]
    bare: bool,
}

/// Prints the spec, if it would be valid.
pub(crate) fn run(args: Args) -> Outcome {
    let What::Cluster(Cluster { name, control_planes, workers, kubernetes, bare }) = args.what;
    let text = cluster(&Wish { name, control_planes, workers, kubernetes, bare });
    load(&text, "<generated>").map_err(|problems| refused(&problems))?;
    print!("{text}");
    Ok(Code::Ok)
}
