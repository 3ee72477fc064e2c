//! Allocates by an allocator of its own.

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Allocates and frees, in the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn use_memory() -> usize {
    let blocks: Vec<Vec<u8>> = (0..1000).map(|size| vec![1; size]).collect();
    blocks.iter().map(Vec::len).sum()
}

/// Quick lists that were ever made: one for each thread at one time, if threads that end leave theirs.
#[unsafe(no_mangle)]
pub extern "C" fn lists() -> usize {
    ALLOCATOR.stats().threads
}
