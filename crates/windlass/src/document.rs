//! Reads a cluster's document for commands that act on it.
//!
//! Input: a file's name. Output: text and types, or every problem at once with exit code 2.

use std::io::Read;

use anyhow::Context as _;
use windlass_spec::releases;
use windlass_spec::v1alpha1::Cluster;

use crate::exit::{Code, Failure};

/// Reads, loads and validates; `-` is standard input. Warnings go to standard error.
pub(crate) fn read(file: &str) -> Result<(String, Cluster), Failure> {
    let text = text(file).map_err(|error| Failure::new(Code::Usage, error))?;
    let cluster = windlass_spec::load(&text, file).map_err(|problems| Failure::new(Code::Usage, problems))?;
    let problems = windlass_spec::validate(&cluster);
    if problems.has_errors() {
        return Err(Failure::new(Code::Usage, problems));
    }
    if !problems.is_empty() {
        eprintln!("{problems}");
    }
    Ok((text, cluster))
}

fn text(file: &str) -> Result<String, anyhow::Error> {
    if file != "-" {
        return Ok(fs_err::read_to_string(file)?);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
    Ok(text)
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
