//! A library with its own copy of the allocator.

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Allocates and frees in the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn use_memory() -> usize {
    let blocks: Vec<Vec<u8>> = (0..1000).map(|size| vec![1; size]).collect();
    blocks.iter().map(Vec::len).sum()
}

/// Returns the number of quick lists ever created: one per concurrent thread, if ended threads
/// leave theirs for reuse.
#[unsafe(no_mangle)]
pub extern "C" fn lists() -> usize {
    ALLOCATOR.stats().threads
}
