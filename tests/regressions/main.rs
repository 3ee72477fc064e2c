//! One file for each fault that was found and mended, named by what it was.

#![cfg(target_os = "linux")]

#[path = "../child/mod.rs"]
mod child;

mod a_hostile_request;

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();
