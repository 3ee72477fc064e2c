//! Generates traces from a distribution of sizes, as Brent (§7.1, after Bozman et al.) does:
//! requests for each size arrive, and blocks are held, for exponentially distributed times.

mod built_in;
mod distribution;
mod process;

pub use built_in::fall_off;
pub use distribution::{Distribution, SizeClass};
pub use process::Process;
