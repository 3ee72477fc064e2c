//! Conditions that a program's allocator has to survive. Each test runs this program again, with one
//! of the tests that are otherwise ignored, in a process of its own and with a time limit: a deadlock
//! is a failure, not a hang.

#![cfg(target_os = "linux")]

#[path = "../child/mod.rs"]
mod child;

mod cancel;
mod fork;
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
