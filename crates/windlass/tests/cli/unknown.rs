//! Commands on a computer that knows no cluster and has no bundle.

use crate::runner::Home;

const SPEC: &str =
    "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: lab}\nspec: {provider: {local: {}}}\n";

#[test]
fn a_cluster_nobody_knows_is_an_error_of_its_own() {
    let home = Home::new();
    let commands: [&[&str]; 9] = [
        &["status", "lab"],
        &["logs", "lab"],
        &["logs", "lab", "--all"],
        &["get", "cluster", "lab"],
        &["get", "cluster", "lab", "--full", "-o", "json"],
        &["get", "machines", "lab"],
        &["kubeconfig", "lab", "--merge"],
        &["delete", "cluster", "lab", "--yes"],
        &["apply", "-f", "-"],
    ];
    let said: Vec<String> = commands.iter().map(|command| home.run(command, SPEC).refusal()).collect();
    insta::assert_snapshot!(said[0], @r"
    3
    error: no cluster `lab` is known on this computer
    hint: windlass get clusters
    ");
    for (command, said_by) in commands.iter().zip(&said) {
        assert_eq!(said_by, &said[0], "{command:?}");
    }
    assert!(!home.state().exists(), "looking leaves nothing behind");
}

#[test]
fn nothing_is_listed_as_nothing() {
    let home = Home::new();
    let clusters = home.run(&["get", "clusters"], "");
    assert_eq!((clusters.code, clusters.out.as_str(), clusters.err.as_str()), (0, "", "no clusters\n"));
    assert_eq!(home.run(&["get", "clusters", "-o", "json"], "").json(), serde_json::json!([]));
    assert_eq!(home.run(&["machine", "ls", "-o", "json"], "").json(), serde_json::json!([]));
    assert_eq!(home.run(&["machine", "logs", "lab-cp-a"], "").code, 3);
    let daemon = home.run(&["hostd", "status", "-o", "json"], "");
    assert_eq!((daemon.code, &daemon.json()["running"]), (3, &false.into()));
}

#[test]
fn an_empty_cache_has_releases_and_no_bundles() {
    let home = Home::new();
    insta::assert_snapshot!(home.run(&["bundle", "list"], "").out, @r"
    NAME   KUBERNETES   STATE       SIZE   IMAGES   MACHINE IMAGES
    -      1.37.2       Not built   -      9        0
    ");
    let list = home.run(&["bundle", "list", "-o", "json"], "");
    assert_eq!((list.code, &list.json()[0]["kubernetes"]), (0, &"1.37.2".into()));
    insta::assert_snapshot!(home.run(&["bundle", "verify"], "").refusal(), @r"
    3
    error: there is no bundle in the cache
    hint: `windlass bundle list` shows what there is, `windlass bundle build` makes one
    ");
    insta::assert_snapshot!(home.run(&["bundle", "path"], "").refusal(), @r"
    3
    error: there is no bundle 1.37.2
    hint: `windlass bundle list` shows what there is, `windlass bundle build` makes one
    ");
    insta::assert_snapshot!(home.run(&["bundle", "verify", "1.2.3"], "").refusal(), @r"
    3
    error: there is no bundle 1.2.3
    hint: `windlass bundle list` shows what there is, `windlass bundle build` makes one
    ");
}

#[test]
fn bad_usage_is_two_everywhere() {
    let home = Home::new();
    let commands: [&[&str]; 7] = [
        &["no-such-command"],
        &["status"],
        &["status", "lab", "-o", "xml"],
        &["logs", "lab", "--all", "--machine", "lab-cp-a"],
        &["logs", "lab", "--all", "--bootstrap"],
        &["delete", "cluster"],
        &["create", "cluster", "-f", "/no/such/file"],
    ];
    for command in commands {
        let ran = home.run(command, "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{command:?}: {}", ran.err);
    }
}
