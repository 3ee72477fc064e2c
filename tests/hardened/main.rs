//! Hardened mode: the allocator works with every set of parts, and each misuse that a part detects
//! stops the process with that part's message.
//!
//! Each case is an ignored test, run in its own process with `PAGEWISE_HARDENED` set.

#![cfg(all(any(target_os = "linux", windows), not(miri)))]

#[path = "../child/mod.rs"]
mod child;
#[cfg(unix)]
mod limits;
mod misuse;
#[path = "../random/mod.rs"]
mod random;
mod works;

use pagewise::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Sizes of each kind: small, the largest small ones, medium, a mapping in this mode only, a
/// mapping in any mode.
const SIZES: [usize; 7] = [1, 64, 3000, 16_384, 100_000, 1_100_000, 40 << 20];
