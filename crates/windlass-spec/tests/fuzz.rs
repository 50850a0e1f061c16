//! Mutated texts: the same cluster, or an error with its place; never a panic, never a silent difference.

use proptest::prelude::*;

use windlass_spec::full::{CgroupMode, Facts, FullCluster};
use windlass_spec::load::read;
use windlass_spec::{releases, resolve};

const TEXT: &str = r#"apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata:
  name: lab
spec:
  kubernetesVersion: "1.37"
  provider: {local: {}}
  controlPlane:
    count: 3
    dedicated: true
    labels: {zone: x}
  workers:
  - name: md
    count: 2
    labels:
      tier: app
    taints:
    - {key: team, value: a, effect: PreferNoSchedule}
  etcd: [{name: main, topology: Stacked, volume: {size: 2Gi}}]
  network:
    pods: [10.244.0.0/16]
    services: [10.96.0.0/16]
    nodeMaskSize: 24
    cni: Bridge
    kubeProxy: NFTables
  endpoint: {port: 6443, certSANs: [api.lab.example]}
  components:
    kubeApiserver: {flags: {v: "2", profiling: null}}
    kubelet: {config: {maxPods: 60}}
  files: [{path: /etc/motd, content: "costs $5 at $HOME", mode: "0644", roles: [Worker]}]
  hooks: [{name: tune, when: BeforeKubelet, command: [/bin/true], timeout: 30s, onFailure: Stop}]
  sysctls: {net.core.somaxconn: "1024"}
  users: [{name: ops, sudo: false}]
"#;

fn facts() -> Facts {
    Facts {
        cgroup: CgroupMode::V1,
        oom_score_adjustable: false,
        conntrack_writable: false,
        shared_disk: true,
        host_routes: Vec::new(),
    }
}

/// The full spec; or nothing where there are errors, each of which has a place in the text.
fn outcome(text: &str) -> Option<FullCluster> {
    match read(text, "lab.yaml") {
        Ok(document) => {
            let release = releases::choose(None).and_then(releases::planned).expect("there is a release");
            Some(resolve(&document.cluster, &release, &facts()).expect("what is valid can be resolved"))
        }
        Err(problems) => {
            assert!(problems.has_errors());
            let shown = problems.to_string();
            assert!(shown.contains("lab.yaml"), "{shown}");
            let lines = text.lines().count().max(1);
            for problem in problems.iter().filter(|problem| problem.rule != "no-document") {
                let place = problem.place.unwrap_or_else(|| panic!("no place: {problem:?}"));
                assert!((1..=lines + 1).contains(&place.line), "{problem:?}");
            }
            None
        }
    }
}

/// Line `index` replaced.
fn with_line(index: usize, edit: impl Fn(&str) -> String) -> String {
    let lines = TEXT.lines().enumerate();
    lines.map(|(line, text)| if line == index { edit(text) } else { text.to_owned() } + "\n").collect()
}

fn flip_case(text: &str, at: usize) -> String {
    let flip = |character: char| {
        if character.is_lowercase() { character.to_ascii_uppercase() } else { character.to_ascii_lowercase() }
    };
    text.chars().enumerate().map(|(index, character)| if index == at { flip(character) } else { character }).collect()
}

const LINES: usize = 33;

#[test]
fn the_text_itself_is_fine() {
    assert_eq!(TEXT.lines().count(), LINES);
    assert!(outcome(TEXT).is_some());
}

#[test]
fn line_ends_and_marks_make_no_difference() {
    let wanted = outcome(TEXT);
    for same in [
        TEXT.replace('\n', "\r\n"),
        format!("\u{feff}{TEXT}"),
        format!("---\n{TEXT}...\n"),
        format!("%YAML 1.2\n---\n{TEXT}"),
        format!("{TEXT}---\n"),
        format!("# a\n\n{TEXT}\n\n"),
        TEXT.trim_end().to_owned(),
        TEXT.replace('\n', "  \n"),
    ] {
        assert_eq!(outcome(&same), wanted, "{same}");
    }
}

#[test]
fn an_alias_means_what_it_stands_for() {
    let text =
        TEXT.replace("labels: {zone: x}", "labels: &l {zone: x}").replace("labels:\n      tier: app", "labels: *l");
    let wanted = TEXT.replace("labels:\n      tier: app", "labels: {zone: x}");
    assert_eq!(outcome(&text), outcome(&wanted));
}

proptest! {
    #[test]
    fn a_doubled_line_is_an_error_or_a_list_item(line in 0..LINES) {
        let text = with_line(line, |text| format!("{text}\n{text}"));
        prop_assert_eq!(outcome(&text), None, "{}", text);
    }

    #[test]
    fn a_flipped_letter_is_an_error_or_a_difference(line in 0..LINES, at in 0usize..60) {
        let text = with_line(line, |text| flip_case(text, at));
        // YAML spells it either way.
        let same = text.replace("Null", "null") == TEXT;
        let unseen = outcome(&text) == outcome(TEXT);
        prop_assert!(same || !unseen, "{}", text);
    }

    #[test]
    fn without_quotes_it_is_the_same_or_an_error(line in 0..LINES) {
        let text = with_line(line, |text| text.replace('"', ""));
        let found = outcome(&text);
        prop_assert!(found.is_none() || found == outcome(TEXT), "{}", text);
    }

    #[test]
    fn a_tab_before_a_line_is_an_error_or_means_nothing(line in 0..LINES) {
        let found = outcome(&with_line(line, |text| format!("\t{text}")));
        prop_assert!(found.is_none() || found == outcome(TEXT));
    }

    #[test]
    fn a_shifted_line_is_an_error_or_the_same(line in 0..LINES, by in 1usize..5) {
        let found = outcome(&with_line(line, |text| format!("{}{text}", " ".repeat(by))));
        prop_assert!(found.is_none() || found == outcome(TEXT));
    }

    #[test]
    fn a_lost_line_is_told_or_a_default(line in 0..LINES) {
        let lines: Vec<&str> = TEXT.lines().collect();
        let text: String = lines.iter().enumerate().filter(|(index, _)| *index != line).map(|(_, text)| format!("{text}\n")).collect();
        outcome(&text);
    }

    #[test]
    fn huge_numbers_and_dollars_are_taken_literally(line in 0..LINES, what in prop_oneof!["[0-9]{1,60}", "\\$\\{?[A-Z]{1,8}\\}?"]) {
        let text = with_line(line, |text| text.split_once(": ").map_or_else(|| text.to_owned(), |(key, _)| format!("{key}: {what}")));
        if let Some(full) = outcome(&text) {
            let shown = serde_json::to_string(&full).expect("it is data");
            prop_assert!(text == TEXT || shown.contains(what.as_str()) || line < 4, "{}\n{}", text, shown);
        }
    }

    #[test]
    fn inserted_anything_never_panics(at in 0usize..TEXT.len(), what in ".{0,6}|[\\[\\]{}&*!|>%@`\"',:?#\n\t -]{1,6}") {
        let at = (0..=at).rev().find(|at| TEXT.is_char_boundary(*at)).unwrap_or(0);
        outcome(&format!("{}{what}{}", &TEXT[..at], &TEXT[at..]));
    }

    #[test]
    fn any_text_never_panics(text in "(.|\n){0,200}") {
        outcome(&text);
    }

    #[test]
    fn a_cut_text_never_panics(at in 0usize..TEXT.len()) {
        outcome(&TEXT[..at]);
    }
}
