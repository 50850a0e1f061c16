//! `--help` of every command, and the scripts for shells.

use crate::runner::Home;

/// Every command a person sees, from the generated page.
fn commands(home: &Home) -> Vec<Vec<String>> {
    let page = home.run(&["reference", "cli"], "");
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    let headings = page.out.lines().filter_map(|line| line.strip_prefix("## windlass"));
    headings.map(|path| path.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn every_command_has_help_with_examples() {
    let home = Home::new();
    let commands = commands(&home);
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = home.run(&arguments, "");
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{arguments:?}");
        assert!(help.out.contains("Examples:\n  "), "{arguments:?} shows no examples:\n{}", help.out);
    }
}

/// What scripts run says what its exit codes mean.
#[test]
fn commands_of_scripts_tell_their_exit_codes() {
    let home = Home::new();
    let documented: [&[&str]; 16] = [
        &[],
        &["create", "cluster"],
        &["apply"],
        &["delete", "cluster"],
        &["get", "clusters"],
        &["get", "cluster"],
        &["get", "machines"],
        &["status"],
        &["logs"],
        &["kubeconfig"],
        &["plan"],
        &["validate"],
        &["bundle", "verify"],
        &["machine"],
        &["hostd", "status"],
        &["agent", "status"],
    ];
    for command in documented {
        let help = home.run(&[command, &["--help"]].concat(), "").out;
        assert!(help.contains("Exit codes:"), "{command:?}:\n{help}");
    }
}

#[test]
fn help_reads_well() {
    let home = Home::new();
    for command in ["plan", "status", "logs"] {
        insta::assert_snapshot!(format!("help_of_{command}"), home.run(&[command, "--help"], "").out);
    }
    insta::assert_snapshot!("help", home.run(&["--help"], "").out);
    assert_eq!(home.run(&[], "").code, 2, "without a command its help is an error");
}

#[test]
fn completions_know_the_commands() {
    let home = Home::new();
    for (shell, word) in [("bash", "complete -F"), ("zsh", "#compdef windlass"), ("fish", "complete -c windlass")] {
        let script = home.run(&["completion", shell], "");
        assert_eq!((script.code, script.err.as_str()), (0, ""));
        assert!(script.out.contains(word) && script.out.contains("detailed-exitcode"), "{shell}");
    }
    assert_eq!(home.run(&["completion", "csh-of-old"], "").code, 2);
}
