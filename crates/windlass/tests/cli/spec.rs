//! `generate`, `validate` and `plan` as a person runs them.

use windlass_node::paths::{
    BOOT_ID, CLUSTER_CA, KUBELET_KUBECONFIG, LEDGER, METRICS_ADDRESS, NODE_CONFIG, POD_RESOLV_CONF, REPORT,
};

use crate::runner::Home;

/// Runs the binary with folders of its own: exit code, standard output, standard error.
fn windlass(arguments: &[&str], input: &str) -> (i32, String, String) {
    let ran = Home::new().run(arguments, input);
    (ran.code, ran.out, ran.err)
}

fn generated() -> String {
    let (code, text, errors) = windlass(&["generate", "cluster", "lab", "--control-planes", "3", "--workers", "2"], "");
    assert_eq!((code, errors.as_str()), (0, ""));
    text
}

#[test]
fn what_is_generated_is_valid_and_can_be_planned() {
    let spec = generated();
    let (code, said, errors) = windlass(&["validate", "-f", "-"], &spec);
    assert_eq!((code, said.as_str(), errors.as_str()), (0, "<standard input>: cluster lab is valid\n", ""));
    let (code, plan, errors) = windlass(&["plan", "-f", "-", "-o", "json"], &spec);
    assert_eq!((code, errors.as_str()), (0, ""));
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    let machines = plan["machines"].as_array().expect("a list");
    let names: Vec<&str> = machines.iter().filter_map(|machine| machine["name"].as_str()).collect();
    assert_eq!(names, ["lab-cp-a", "lab-cp-b", "lab-cp-c", "lab-md-1", "lab-md-2"]);
    assert!(plan["volumes"].as_array().expect("a list").iter().all(|volume| volume["willFormat"] == true));
    let (code, text, _) = windlass(&["plan", "-f", "-"], &spec);
    assert_eq!(code, 0);
    assert!(text.contains("5 machines, 3 volumes") && text.contains("will format"), "{text}");
}

#[test]
fn the_full_spec_says_who_set_each_value() {
    let (code, text, _) = windlass(&["plan", "-f", "-", "--full"], &generated());
    assert_eq!(code, 0);
    for line in
        ["name: lab  # yours", "  dnsDomain: cluster.local  # default", "  clusterDns: \"10.96.0.10\"  # derived"]
    {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let (code, json, _) = windlass(&["plan", "-f", "-", "--full", "-o", "json"], &generated());
    let full: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &full["origins"]["network.dnsDomain"]), (0, &"default".into()));
}

#[test]
fn exit_codes_tell_a_wrong_spec_from_changes() {
    let wrong = generated().replace("count: 3", "count: 4");
    let (code, said, errors) = windlass(&["validate", "-f", "-"], &wrong);
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(errors.contains("`controlPlane.count` must be odd") && errors.contains("<standard input>:"), "{errors}");
    let (code, json, _) = windlass(&["validate", "-f", "-", "-o", "json"], &wrong);
    let problems: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &problems["problems"][0]["rule"]), (2, &"control-plane-count".into()));
    assert_eq!(windlass(&["plan", "-f", "-"], &wrong).0, 2);
    assert_eq!(windlass(&["plan", "-f", "-", "--detailed-exitcode"], &wrong).0, 1, "2 would mean changes");
    assert_eq!(windlass(&["plan", "-f", "-", "--detailed-exitcode"], &generated()).0, 2);
    assert_eq!(windlass(&["validate", "-f", "/no/such/file"], "").0, 2);
    assert_eq!(windlass(&["generate", "cluster", "Lab"], "").0, 2);
}

#[test]
fn where_two_means_changes_every_error_is_one() {
    let usage: [&[&str]; 4] =
        [&["plan"], &["plan", "-f"], &["plan", "-f", "lab.yaml", "--no-such-flag"], &["plan", "-f", "/no/such/file"]];
    for arguments in usage {
        assert_eq!(windlass(arguments, "").0, 2, "{arguments:?}");
        let detailed = [arguments, &["--detailed-exitcode"]].concat();
        let (code, said, errors) = windlass(&detailed, "");
        assert_eq!((code, said.as_str()), (1, ""), "{detailed:?}");
        assert!(errors.starts_with("error: "), "{errors}");
    }
    assert_eq!(windlass(&["plan", "--detailed-exitcode", "--help"], "").0, 0);
}

/// What bundles install and agents keep could be overwritten by a file of the spec, were it not refused.
#[test]
fn no_file_of_the_spec_lies_where_a_bundle_or_an_agent_writes() {
    let recipes = windlass_assets::Recipe::embedded().expect("recipes");
    let programs = recipes.iter().flat_map(|recipe| recipe.manifest.programs().chain(recipe.manifest.documents()));
    let installed = programs.filter_map(|(_, program)| Some(format!("{}/{}", program.install.as_ref()?, program.name)));
    let kept = [BOOT_ID, CLUSTER_CA, KUBELET_KUBECONFIG, LEDGER, NODE_CONFIG, POD_RESOLV_CONF, REPORT];
    for path in installed.chain(kept.map(str::to_owned)) {
        assert!(windlass_spec::paths::owner_of(&path).is_some(), "{path}");
    }
}

#[test]
fn no_port_of_a_daemon_is_the_apis() {
    let daemons = [windlass_providers::local::protocol::PORT.to_string(), port(METRICS_ADDRESS)];
    for port in daemons.into_iter().chain(["7441".to_owned()]) {
        let spec = generated().replace("port: 6443", &format!("port: {port}"));
        let (code, _, errors) = windlass(&["validate", "-f", "-"], &spec);
        assert!(code == 2 && errors.contains(&format!("port {port} is needed for")), "{errors}");
    }
}

fn port(address: &str) -> String {
    address.rsplit(':').next().unwrap_or_default().to_owned()
}
