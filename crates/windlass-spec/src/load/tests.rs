//! Problems of the text, message for message.

use super::load;

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: lab}\n";

fn spec(fields: &str) -> String {
    format!("{HEAD}spec:\n  provider: {{local: {{}}}}\n{fields}")
}

fn said(text: &str) -> String {
    match load(text, "lab.yaml") {
        Ok(_) => "fine".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn the_smallest_cluster_is_valid() {
    assert_eq!(said(&spec("")), "fine");
}
