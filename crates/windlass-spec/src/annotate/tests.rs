//! The annotated full spec reads back as what it shows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{annotated_yaml, redacted, shown, without_password, yaml};
use crate::full::{CgroupMode, Facts, FullCluster};
use crate::v1alpha1::{Cluster, ClusterSpec, LocalProvider, Provider, Proxy};
use crate::{releases, resolve};

fn full() -> FullCluster {
    let facts = Facts {
        cgroup: CgroupMode::V2,
        oom_score_adjustable: true,
        conntrack_writable: false,
        shared_disk: true,
        host_routes: Vec::new(),
    };
    let provider = Provider { local: Some(LocalProvider {}) };
    let proxy = Proxy { http: "http://ops:hunter2@proxy.example:3128".to_owned(), ..Proxy::default() };
    let cluster = Cluster::new("lab", ClusterSpec { provider, proxy, ..ClusterSpec::default() });
    let release = releases::choose(None).and_then(releases::planned).unwrap();
    resolve(&cluster, &release, &facts).unwrap()
}

#[test]
fn the_text_reads_back_as_the_value() {
    let mut value = shown(&full());
    value.as_object_mut().unwrap().remove("origins");
    let read: Value = serde_saphyr::from_str(&annotated_yaml(&full())).unwrap();
    assert_eq!(read, value);
}

#[test]
fn each_value_says_who_set_it() {
    let text = annotated_yaml(&full());
    for line in ["name: lab  # yours", "  port: 6443  # default", "  clusterDns: \"10.96.0.10\"  # derived"] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let unsaid: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(':') && !line.contains("  # ")).collect();
    assert!(unsaid.is_empty(), "{unsaid:?}");
}

#[test]
fn a_proxy_password_is_not_shown() {
    let full = full();
    assert!(full.proxy.as_ref().unwrap().http.contains("hunter2"));
    assert!(!annotated_yaml(&full).contains("hunter2"));
    assert!(!shown(&full).to_string().contains("hunter2"));
    let once = redacted(&full);
    assert_eq!(once.proxy.as_ref().unwrap().http, "http://ops:***@proxy.example:3128");
    assert_eq!(redacted(&once), once, "what is redacted stays as it is");
}

#[test]
fn only_passwords_are_taken_out_of_addresses() {
    let table = [
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        ("http://ops@proxy.example", "http://ops@proxy.example"),
        ("http://ops:a@b:c@proxy.example", "http://ops:***@proxy.example"),
        ("http://:secret@proxy.example", "http://:***@proxy.example"),
        ("", ""),
    ];
    for (url, wanted) in table {
        assert_eq!(without_password(url), wanted);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_survives(key in ".{0,12}", text in "(.|\n){0,60}", more in "[ -~\n]{0,60}") {
        let value = json!({ "a": { key: text, "list": [more, { "b": 1 }, [], {}, null, true, "yes", "0644", "1e3"] } });
        let written = yaml::document(&value, &|_| "default");
        let read: BTreeMap<String, Value> = serde_saphyr::from_str(&written).unwrap();
        proptest::prop_assert_eq!(&read["a"], &value["a"], "{}", written);
    }
}
