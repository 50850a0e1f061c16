//! The `windlass` binary: arguments in, a command run, output printed, an exit code out.

mod commands;
mod document;
mod exit;
mod local;
mod operation;
mod output;
mod progress;
mod recover;

use std::ffi::OsString;

use clap::Parser;

use commands::{Cli, plan};
use exit::Code;

fn main() -> std::process::ExitCode {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider was installed before the first command");
        return Code::Failed.into();
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(answer) => return unparsed(&answer, &arguments).into(),
    };
    match cli.run() {
        Ok(code) => code.into(),
        Err(failure) => {
            failure.print();
            failure.code.into()
        }
    }
}

/// Help and the version were asked for; anything else is bad usage.
fn unparsed(answer: &clap::Error, arguments: &[OsString]) -> Code {
    // Nobody is left to be told when even this cannot be printed.
    let _ = answer.print();
    match (answer.use_stderr(), plan::exit_code_tells_changes(arguments)) {
        (false, _) => Code::Ok,
        (true, true) => Code::Failed,
        (true, false) => Code::Usage,
    }
}
