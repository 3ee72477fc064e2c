//! The heap profiler in this test program; each profile in its own process.

#![cfg(all(target_os = "linux", not(pagewise_forwarding)))]

#[path = "../child/mod.rs"]
mod child;
mod estimates;
mod files;
mod frees;
mod limits;
#[path = "../package/mod.rs"]
mod package;
#[path = "../random/mod.rs"]
mod random;
mod resizes;
mod server;
mod sites;

use pagewise::Pagewise;
use pagewise::global::Profiler;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

fn profiler() -> Profiler<'static> {
    ALLOCATOR.profiler()
}

/// Both modes, as set in the environment.
const MODES: [&str; 2] = ["0", "1"];

/// Runs an ignored test in its own process, in each mode.
fn passes_in_both_modes(test: &str) {
    for hardened in MODES {
        child::passes_when(test, |command| {
            command.env("PAGEWISE_HARDENED", hardened);
        });
    }
}
