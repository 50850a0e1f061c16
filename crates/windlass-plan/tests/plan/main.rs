//! Tests of what is rendered and decided for whole clusters.

mod decisions;
mod fixture;
mod render;

use windlass_spec::node_config::SealedNodeConfig;

/// The configuration of every machine.
fn render_all(world: &fixture::World) -> Vec<SealedNodeConfig> {
    world.machines.iter().map(|machine| world.try_render(machine).expect("a configuration")).collect()
}
