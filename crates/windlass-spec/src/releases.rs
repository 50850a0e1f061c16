//! Kubernetes versions this build can run, and what goes with each.
//!
//! Input: a wish. Output: the version chosen, or what may be chosen. Bundles hold the files themselves; a test of `windlass
//! plan` keeps both lists equal.

use std::collections::BTreeMap;

use crate::full::Release;
use crate::values::{Version, VersionWish};

/// One Kubernetes version and the components that go with it, as kubeadm of that version pairs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// Kubernetes.
    pub kubernetes: Version,
    /// Version by component.
    pub components: [(&'static str, &'static str); 8],
}

/// Every supported version, the newest last.
pub const PAIRINGS: [Pairing; 1] = [Pairing {
    kubernetes: Version { major: 1, minor: 37, patch: 2 },
    components: [
        ("cni-plugins", "1.10.0"),
        ("containerd", "2.4.2"),
        ("coredns", "1.14.6"),
        ("cri-tools", "1.37.0"),
        ("etcd", "3.7.0"),
        ("local-path-provisioner", "0.0.30"),
        ("pause", "3.10.2"),
        ("runc", "1.5.3"),
    ],
}];

/// Supported versions, the newest last.
pub fn supported() -> Vec<Version> {
    PAIRINGS.iter().map(|pairing| pairing.kubernetes).collect()
}

/// The newest supported version that fulfils the wish; the newest of all without one.
pub fn choose(wish: Option<VersionWish>) -> Option<Version> {
    supported().into_iter().rev().find(|version| wish.is_none_or(|wish| wish.admits(*version)))
}

/// The release of a version as it will be once its bundle is made: versions are known, digests are not.
pub fn planned(version: Version) -> Option<Release> {
    let pairing = PAIRINGS.iter().find(|pairing| pairing.kubernetes == version)?;
    let versions: BTreeMap<String, String> =
        pairing.components.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect();
    Some(Release {
        kubernetes: version.to_string(),
        bundle: UNBUILT.to_owned(),
        images: images(version, &versions),
        versions,
    })
}

/// [`Release::bundle`] while no bundle was made.
pub const UNBUILT: &str = "unbuilt";

const KUBERNETES_IMAGES: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"];
/// Image, the component whose version it carries, what stands before the version.
const OTHER_IMAGES: [(&str, &str, &str); 5] = [
    ("coredns", "coredns", "v"),
    ("etcd", "etcd", "v"),
    ("local-path-provisioner", "local-path-provisioner", "v"),
    ("pause", "pause", ""),
    ("volume-helper", "local-path-provisioner", "v"),
];

fn images(kubernetes: Version, versions: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = KUBERNETES_IMAGES.iter().map(|name| ((*name).to_owned(), format!("windlass.dev/{name}:v{kubernetes}")));
    let others = OTHER_IMAGES.iter().filter_map(|(name, component, prefix)| {
        let version = versions.get(*component)?;
        Some(((*name).to_owned(), format!("windlass.dev/{name}:{prefix}{version}")))
    });
    own.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::{choose, planned, supported};

    #[test]
    fn a_minor_means_its_newest_patch() {
        let wish = |text: &str| choose(text.parse().ok()).map(|version| version.to_string());
        assert_eq!(wish("1.37").as_deref(), Some("1.37.2"));
        assert_eq!(wish("1.37.2").as_deref(), Some("1.37.2"));
        assert_eq!(wish("1.37.1"), None);
        assert_eq!(wish("1.30"), None);
        assert_eq!(choose(None), supported().last().copied());
    }

    #[test]
    fn every_supported_version_has_a_release() {
        for version in supported() {
            let release = planned(version).unwrap();
            assert_eq!(release.images["kube-apiserver"], format!("windlass.dev/kube-apiserver:v{version}"));
            assert!(release.versions.contains_key("etcd"));
        }
    }
}
