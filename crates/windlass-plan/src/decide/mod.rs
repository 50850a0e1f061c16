//! Decisions about machines: which there should be, where they go, what their Nodes must carry.
//!
//! Inputs: the full spec and what is. Outputs: names, places, taints. Used by controllers and by the preview alike.

mod domains;
mod machines;
mod nodes;

pub use domains::spread;
pub use machines::{WantedMachine, free_slot, next_worker_number, wanted_machines};
pub use nodes::{control_plane_taint, managed_node};
