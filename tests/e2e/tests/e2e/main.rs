//! Whole clusters, made by the real binary on real machines.
//!
//! Run by `make test`; by hand: `WINDLASS=target/release/windlass cargo test --release -p windlass-e2e -- NAME…`, where
//! NAME is a part of a scenario's name. `WINDLASS_E2E_KEEP=1` leaves everything running to be looked at.

mod commands;
mod defaults;
mod everything;
mod failures;
mod one_and_one;
mod site;
mod three_and_two;
mod workloads;

use std::path::Path;

use windlass_e2e::runner::Runner;

/// What pods run.
fn probe() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_probe"))
}

fn main() -> std::process::ExitCode {
    let mut runner = Runner::from_arguments();
    runner.scenario("one_and_one", one_and_one::run);
    runner.scenario("everything", everything::run);
    runner.scenario("three_and_two", three_and_two::run);
    runner.scenario("nonsense_flag", failures::nonsense_flag);
    runner.scenario("volume_not_blank", failures::volume_not_blank);
    runner.scenario("machine_never_boots", failures::machine_never_boots);
    runner.scenario("interrupted_create", failures::interrupted_create);
    runner.finish()
}
