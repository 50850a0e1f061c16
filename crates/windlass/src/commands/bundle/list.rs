//! `windlass bundle list`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use windlass_assets::{Bundle, Cache, MachineImage, Recipe};

use crate::exit::{Code, Outcome};
use crate::output::{Format, Table, print_value};

/// Arguments of `windlass bundle list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// One bundle, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    kubernetes: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    size_bytes: u64,
    versions: BTreeMap<String, String>,
    images: BTreeMap<String, String>,
    machine_images: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<PathBuf>,
}

/// Prints the bundles there are and the releases not built yet.
pub(super) fn run(args: &Args, cache: &Cache) -> Outcome {
    let rows = rows(cache)?;
    match args.output {
        Format::Table => print!("{}", table(&rows, false)),
        Format::Wide => print!("{}", table(&rows, true)),
        Format::Json | Format::Yaml => print_value(args.output, &rows)?,
    }
    Ok(Code::Ok)
}

fn rows(cache: &Cache) -> Result<Vec<Row>, crate::exit::Failure> {
    let recipes = Recipe::embedded()?;
    let images = MachineImage::list(cache)?;
    let mut rows = Vec::new();
    for bundle in Bundle::list(cache)? {
        match bundle {
            Ok(bundle) => rows.push(row(&bundle, &recipes, &images)),
            Err(broken) => eprintln!("warning: {broken}"),
        }
    }
    let unbuilt = recipes.iter().filter(|recipe| !rows.iter().any(|row| row.kubernetes == recipe.manifest.kubernetes));
    let unbuilt: Vec<Row> = unbuilt.map(unbuilt_row).collect();
    rows.extend(unbuilt);
    Ok(rows)
}

fn row(bundle: &Bundle, recipes: &[Recipe], images: &[MachineImage]) -> Row {
    let current = recipes.iter().any(|recipe| recipe.digest() == bundle.lock().recipe);
    let release = bundle.release();
    let made = images.iter().filter(|image| image.bundle() == bundle.digest());
    Row {
        name: bundle.name(),
        kubernetes: release.kubernetes,
        state: if current { "Current" } else { "Other build" },
        digest: Some(release.bundle),
        size_bytes: bundle.size(),
        versions: release.versions,
        images: release.images,
        machine_images: made.map(|image| image.id().to_owned()).collect(),
        folder: Some(bundle.folder().to_path_buf()),
    }
}

fn unbuilt_row(recipe: &Recipe) -> Row {
    let release = recipe.manifest.release();
    Row {
        name: "-".to_owned(),
        kubernetes: release.kubernetes,
        state: "Not built",
        digest: None,
        size_bytes: 0,
        versions: release.versions,
        images: release.images,
        machine_images: Vec::new(),
        folder: None,
    }
}

fn table(rows: &[Row], wide: bool) -> String {
    let mut headings = vec!["NAME", "KUBERNETES", "STATE", "SIZE", "IMAGES", "MACHINE IMAGES"];
    if wide {
        headings.extend(["ETCD", "CONTAINERD", "COREDNS", "FOLDER"]);
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = vec![
            row.name.clone(),
            row.kubernetes.clone(),
            row.state.to_owned(),
            if row.size_bytes == 0 { "-".to_owned() } else { format!("{} MB", row.size_bytes / 1_000_000) },
            row.images.len().to_string(),
            row.machine_images.len().to_string(),
        ];
        if wide {
            let version = |name: &str| row.versions.get(name).cloned().unwrap_or_else(|| "-".to_owned());
            cells.extend(["etcd", "containerd", "coredns"].map(version));
            cells.push(row.folder.as_ref().map_or_else(|| "-".to_owned(), |folder| folder.display().to_string()));
        }
        table.row(cells);
    }
    table.render()
}
