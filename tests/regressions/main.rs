//! One file for each fault that was found and mended, named by what it was.

#![cfg(target_os = "linux")]

#[path = "../child/mod.rs"]
mod child;

mod a_hostile_request;
mod a_pointer_into_a_block;
mod a_report_under_a_lock;
mod failing_requests_that_opened_heaps;
mod more_than_1024_cpus;
mod settings_that_calloc_ignored;
mod zeroed_mappings_that_are_resized;

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Bytes of this process that are resident now.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = status.split(' ').nth(1).expect("the second number");
    // SAFETY: the call touches no memory of ours.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
    pages.parse::<usize>().expect("a number") * page
}
