//! The full global allocator: one heap that grows with the machine's memory.

use std::alloc::{GlobalAlloc, Layout};

use pagewise::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Checks that the allocations went through the allocator and all is freed; that a vector of 300
/// MiB grows by doubling; that impossible requests are refused; and that memory runs out, and freed
/// memory can be reused.
pub(crate) fn check() -> u32 {
    let before = ALLOCATOR.stats();
    if before.held < 100_000 || before.heaps == 0 {
        return 1;
    }
    if before.blocks != 0 {
        return 2;
    }
    let mut numbers = Vec::new();
    while numbers.len() < 75 << 20 {
        numbers.push(numbers.len() as u32);
    }
    if numbers.iter().enumerate().any(|(index, &number)| index as u32 != number) {
        return 3;
    }
    let stats = ALLOCATOR.stats();
    if stats.blocks != 1 || stats.live < 300 << 20 || stats.heaps <= before.heaps {
        return 4;
    }
    drop(numbers);
    let layout = |size| Layout::from_size_align(size, 16).expect("a valid layout");
    // SAFETY: the layout has a size.
    if !unsafe { ALLOCATOR.alloc(layout(isize::MAX as usize - 15)) }.is_null() {
        return 5;
    }
    let large = layout(100 << 20);
    let counts = [(); 2].map(|()| {
        let mut blocks = [core::ptr::null_mut(); 64];
        // SAFETY: the layout has a size; a block is written only if it is not null, and freed once.
        unsafe {
            blocks.iter_mut().for_each(|block| *block = ALLOCATOR.alloc(large));
            let blocks = blocks.into_iter().filter(|block| !block.is_null());
            blocks
                .map(|block| {
                    block.write(1);
                    block.add((100 << 20) - 1).write(2);
                    ALLOCATOR.dealloc(block, large);
                })
                .count()
        }
    });
    if counts[0] < 20 || counts[0] > 41 || counts[1] != counts[0] {
        return 6;
    }
    if ALLOCATOR.stats().blocks == 0 { 0 } else { 7 }
}
