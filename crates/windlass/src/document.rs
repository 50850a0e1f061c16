//! Reads a cluster's document for commands that act on it.
//!
//! Input: a file's name. Output: text and types, or every problem at once, each with its place, and exit code 2.

use std::io::Read;

use windlass_spec::load::{self, Document};
use windlass_spec::problems::Problems;
use windlass_spec::releases;
use windlass_spec::v1alpha1::Cluster;

use crate::exit::{Code, Failure};

/// Reads, loads and validates; `-` is standard input. Warnings go to standard error.
pub(crate) fn read(file: &str) -> Result<(String, Cluster), Failure> {
    let (text, document) = located(file)?;
    Ok((text, document.cluster))
}

/// As [`read`], with the places of fields for problems that are found later.
pub(crate) fn located(file: &str) -> Result<(String, Document), Failure> {
    let (name, text) = text(file)?;
    let document = load::read(&text, &name).map_err(|problems| refused(&problems))?;
    if !document.warnings.is_empty() {
        eprintln!("{}", document.warnings);
    }
    Ok((text, document))
}

/// The file's name for messages, and its text.
pub(crate) fn text(file: &str) -> Result<(String, String), Failure> {
    let (name, bytes) = if file == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| Failure::new(Code::Usage, error))?;
        ("<standard input>".to_owned(), bytes)
    } else {
        (file.to_owned(), fs_err::read(file).map_err(|error| Failure::new(Code::Usage, error))?)
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        Failure::new(Code::Usage, anyhow::anyhow!("{name} is not UTF-8 text: byte {at} begins no character"))
    })?;
    Ok((name, text))
}

/// Prints problems and makes the failure that stands for them.
pub(crate) fn refused(problems: &Problems) -> Failure {
    eprintln!("{problems}");
    let file = problems.source().map_or("the spec", |source| source.file.as_str());
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let errors = count(problems.errors().count(), "error");
    let summary = match problems.warnings().count() {
        0 => format!("{file} has {errors}"),
        warnings => format!("{file} has {errors} and {}", count(warnings, "warning")),
    };
    Failure::new(Code::Usage, anyhow::anyhow!(summary))
}

/// The Kubernetes version a document resolves to: `1.37.2`.
pub(crate) fn kubernetes_version(cluster: &Cluster) -> Result<String, Failure> {
    let wish = cluster.spec.kubernetes_version.as_deref().map(str::parse).transpose();
    let wish = wish.map_err(|error| Failure::new(Code::Usage, anyhow::anyhow!("spec.kubernetesVersion: {error}")))?;
    let version = releases::choose(wish);
    let version =
        version.ok_or_else(|| Failure::new(Code::Usage, anyhow::anyhow!("no release has this Kubernetes version")))?;
    Ok(version.to_string())
}
