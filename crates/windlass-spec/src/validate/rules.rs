//! Every rule by name, with the Windlass version that brought it.
//!
//! Output: a closed list for people and scripts.

use crate::values::Version;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name in problems: `control-plane-count`.
    pub name: &'static str,
    /// First Windlass version that has it.
    pub since: Version,
    /// What it demands.
    pub demand: &'static str,
}

const FIRST: Version = Version { major: 0, minor: 1, patch: 0 };

const fn rule(name: &'static str, demand: &'static str) -> Rule {
    Rule { name, since: FIRST, demand }
}

/// Rules of the form: what the text itself must keep.
pub const FORM: [Rule; 17] = [
    rule("syntax", "the text is YAML 1.2"),
    rule("no-document", "the file holds a document"),
    rule("second-document", "the file holds one document"),
    rule("other-kind", "`apiVersion` and `kind` are those of a Cluster"),
    rule("unknown-field", "every field is known, in its place and in its spelling"),
    rule("duplicate-field", "no field is there twice, not even through a merge key"),
    rule("missing-field", "required fields are there"),
    rule("no-value", "a field that is written has a value"),
    rule("type", "a value is of its field's type"),
    rule("document", "the document is understood"),
    rule("key", "field names are plain text"),
    rule("tag", "there are no tags"),
    rule("alias", "an alias stands for something complete"),
    rule("merge", "a merge key takes mappings"),
    rule("too-deep", "the document is at most 64 levels deep"),
    rule("too-large", "the document has at most 50000 values, its aliases written out"),
    rule("invalid-value", "a value is understood"),
];

/// Rules of the content.
pub const RULES: [Rule; 47] = [
    rule("name", "names are DNS labels"),
    rule("name-length", "names made from names stay within 63 characters"),
    rule("reserved-name", "names of Windlass and the system are not taken"),
    rule("duplicate-name", "names in a list differ"),
    rule("label", "labels and annotations have the form Kubernetes demands"),
    rule("reserved-label", "labels with an owner are left to it"),
    rule("taint", "taints have the form Kubernetes demands and differ"),
    rule("reserved-taint", "taints with an owner are left to it"),
    rule("version", "versions are supported ones"),
    rule("version-skew", "workers are at most three minors older than the control plane, never newer"),
    rule("provider", "one provider is named"),
    rule("control-plane-count", "the control plane has 1, 3, 5 or 7 machines"),
    rule("failure-domains", "failure domains mean something to the provider"),
    rule("worker-count", "there are addresses for all workers"),
    rule("rollout", "a roll-out can move"),
    rule("etcd", "there is one etcd cluster `main`, stacked on every control-plane machine"),
    rule("size", "sizes are understood and large enough"),
    rule("duration", "durations are understood and sensible"),
    rule("unschedulable", "some machine takes workloads, and some the add-ons"),
    rule("range", "ranges are address ranges"),
    rule("host-bits", "ranges are written by their first address"),
    rule("range-size", "ranges are neither too small nor too large"),
    rule("range-overlap", "ranges do not overlap each other or special ones"),
    rule("host-route", "ranges do not overlap this computer's routes"),
    rule("families", "pods and services have the same address families in the same order"),
    rule("node-mask", "a machine's part of the pod range is a sensible one"),
    rule("dns-upstream", "name servers are reachable from pods"),
    rule("endpoint-name", "the endpoint has a full DNS name"),
    rule("endpoint-mode", "the endpoint's mode is supported by the provider"),
    rule("port", "the API's port is free on machines"),
    rule("cert-san", "certificate names are DNS names or addresses"),
    rule("flag", "flags are written without dashes, on one line"),
    rule("reserved-flag", "flags that follow from other values are left to Windlass"),
    rule("kubelet-config", "kubelet's configuration is of the right kind"),
    rule("policy", "the audit policy and authentication configuration are of the right kind"),
    rule("anonymous", "health checks work without authentication"),
    rule("file-path", "files have plain absolute paths outside Windlass's places"),
    rule("file-mode", "file modes are octal"),
    rule("content-size", "files and scripts fit into a machine's configuration"),
    rule("static-pod", "static pods are Pods called as their entry is"),
    rule("hook", "hooks run a program"),
    rule("script", "scripts say what runs them"),
    rule("user", "login names are login names"),
    rule("ssh-key", "SSH keys are public keys"),
    rule("sysctl", "kernel parameters have names and values"),
    rule("registry", "registries are called as in image names"),
    rule("mirror", "mirrors are plain addresses that differ from the registry"),
];

/// Rules of the site, the rest of the content.
pub const SITE: [Rule; 3] = [
    rule("certificate", "certificates are certificates in PEM"),
    rule("proxy", "proxies are URLs, exemptions hosts or ranges"),
    rule("ntp", "time servers are names or addresses"),
];

/// Every rule.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    FORM.iter().chain(&RULES).chain(&SITE)
}
