//! Values written as text: versions, sizes, durations.
//!
//! Input: the text of one scalar. Output: the value, or what was expected.

mod duration;
mod size;
mod version;

pub use duration::{NotADuration, parse_duration};
pub use size::{NotASize, parse_size};
pub use version::{NotAVersion, Version, VersionWish};
