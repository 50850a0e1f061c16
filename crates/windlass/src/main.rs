//! The `windlass` binary: arguments in, a command run, output printed, an exit code out.

mod commands;
mod document;
mod exit;
mod local;
mod operation;
mod output;
mod progress;
mod recover;

use clap::Parser;

use commands::Cli;

fn main() -> std::process::ExitCode {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider was installed before the first command");
        return exit::Code::Failed.into();
    }
    let cli = Cli::parse();
    match cli.run() {
        Ok(code) => code.into(),
        Err(failure) => {
            failure.print();
            failure.code.into()
        }
    }
}
