//! Kubernetes versions.

use crate::problems::Problem;
use crate::releases;
use crate::v1alpha1::ClusterSpec;
use crate::values::{Version, VersionWish};

/// How many minor versions a kubelet may be behind its API server.
const SKEW: u32 = 3;

/// Checks the cluster's and the groups' versions.
pub(super) fn check(spec: &ClusterSpec, found: &mut Vec<Problem>) {
    let cluster = version("spec.kubernetesVersion", spec.kubernetes_version.as_deref(), found);
    for (index, group) in spec.workers.iter().enumerate().filter(|(_, group)| group.version.is_some()) {
        let path = format!("spec.workers[{index}].version");
        if let (Some(cluster), Some(group)) = (cluster, version(&path, group.version.as_deref(), found)) {
            found.extend(skew(&path, cluster, group));
        }
    }
}

fn version(path: &str, text: Option<&str>, found: &mut Vec<Problem>) -> Option<Version> {
    let wish = match text.map(str::parse::<VersionWish>).transpose() {
        Ok(wish) => wish,
        Err(error) => {
            found.push(Problem::error("version", path, error.to_string()));
            return None;
        }
    };
    let version = releases::choose(wish);
    if let (None, Some(wish)) = (version, wish) {
        found.push(Problem::error("version", path, format!("Kubernetes {wish} is not supported")).hint(supported()));
    }
    version
}

/// What may be written instead.
fn supported() -> String {
    let versions: Vec<String> = releases::supported().iter().map(ToString::to_string).collect();
    format!("this build runs {}; its minor alone means the newest of these", versions.join(", "))
}

/// A kubelet may be older than the API server, never newer.
pub(super) fn skew(path: &str, cluster: Version, group: Version) -> Option<Problem> {
    let problem = |message: String| Problem::error("version-skew", path, message);
    if group > cluster {
        return Some(problem(format!("workers of {group} are newer than the control plane ({cluster})")));
    }
    if group.major != cluster.major || cluster.minor - group.minor > SKEW {
        let message = format!("workers of {group} are too old for a control plane of {cluster}");
        return Some(problem(message).hint(format!("a kubelet may be {SKEW} minor versions behind")));
    }
    None
}
