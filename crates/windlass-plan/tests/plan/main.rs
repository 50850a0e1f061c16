//! Tests of what is rendered and decided for whole clusters.

mod decisions;
mod fixture;
mod render;
