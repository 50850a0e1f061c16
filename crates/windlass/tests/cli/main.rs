//! The real binary as people and scripts run it, where no cluster, root or network is needed.

mod api;
mod help;
mod known;
mod runner;
mod spec;
mod unknown;
