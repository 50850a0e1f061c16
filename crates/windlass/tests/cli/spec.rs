//! `generate`, `validate` and `plan` as a person runs them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs the binary with folders of its own: exit code, standard output, standard error.
fn windlass(arguments: &[&str], input: &str) -> (i32, String, String) {
    let home = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments)
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("XDG_CACHE_HOME", home.path().join("cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // A command that reads nothing may be gone before all is written.
    drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code().expect("a code"), text(stdout), text(stderr))
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
