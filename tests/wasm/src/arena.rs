//! An arena over static memory as the global allocator.

use std::alloc::Layout;

use pagewise::arena::lock::Unshared;
use pagewise::pages::Config;
use pagewise::source::Region;
use pagewise::{Arena, PageHeap};

const LEN: usize = 4 << 20;

static mut MEMORY: [u64; LEN / 8] = [0; LEN / 8];

/// On this machine the program has another allocator, and the arena is unused.
#[cfg_attr(target_arch = "wasm32", global_allocator)]
// SAFETY: only the arena uses the memory, and there is one thread.
static ARENA: Arena<PageHeap<Region>, Unshared> = unsafe {
    let region = Region::new((&raw mut MEMORY).cast(), LEN);
    Arena::with_lock(PageHeap::new(Config::arena(), region, ()), Unshared::new())
};

/// Checks that the allocations went through the arena, that all is freed, that every invariant
/// holds, and that memory runs out and can be reused.
pub(crate) fn check() -> u32 {
    if ARENA.usage().peak_requested < 100_000 {
        return 1;
    }
    if ARENA.usage().blocks != 0 {
        return 2;
    }
    let layout = Layout::from_size_align(50_000, 16).expect("a valid layout");
    for _ in 0..2 {
        let mut blocks = [None; LEN / 50_000];
        let mut count = 0;
        while let Ok(block) = ARENA.allocate(layout) {
            blocks[count] = Some(block.cast());
            count += 1;
        }
        if count < blocks.len() * 9 / 10 {
            return 3;
        }
        // SAFETY: each is in use, and freed once.
        blocks.iter().flatten().for_each(|&block| unsafe { ARENA.deallocate(block, layout) });
    }
    if ARENA.audit().is_ok() { 0 } else { 4 }
}
