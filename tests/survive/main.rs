//! Conditions that a program's allocator must survive. Each test runs this program again, with one
//! of its ignored tests, in its own process with a time limit: a deadlock is a failure, not a hang.

#![cfg(target_os = "linux")]

#[path = "../child/mod.rs"]
mod child;

mod cancel;
mod fork;
mod large_blocks;
mod limits;
mod locked_memory;
mod memory;
#[path = "../package/mod.rs"]
mod package;
mod programs;
#[path = "../random/mod.rs"]
mod random;
mod refused_calls;
mod refused_moves;
mod stacks;

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();
