//! A collection may free a block with any size from the requested to the returned one, and may
//! expect zeros up to the returned one. Strategies identified a block by the requested size:
//! buddies freed another block, and the remaining bytes were not zeroed.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use pagewise::catalogue::{BestFit, Buddy, nielsen};
use pagewise::pages::Config;
use pagewise::{Arena, PageHeap, Reserved, Strategy};

use crate::layout;

const CAPACITY: usize = 1 << 24;

/// Returns the longest layout that fits a block.
fn longest(block: NonNull<[u8]>, align: usize) -> Layout {
    layout(block.len(), align)
}

/// Frees, grows and shrinks blocks with the longest layout that fits.
fn any_size_that_fits(strategy: impl Strategy) {
    let arena: Arena<_> = Arena::new(strategy);
    let arena = &arena;
    let mut blocks = Vec::new();
    for (size, align) in [(1, 1), (13, 16), (100, 8), (5000, 64), (8192, 8192), (9000, 1 << 15)] {
        for _ in 0..4 {
            let block = arena.allocate_zeroed(layout(size, align)).expect("there is room");
            blocks.push((block, align));
        }
    }
    for (which, (block, align)) in blocks.into_iter().enumerate() {
        let old = longest(block, align);
        // SAFETY: the block is in use, and this layout fits it.
        unsafe {
            let resized = match which % 3 {
                0 => arena.grow(block.cast(), old, layout(2 * old.size(), align)),
                1 => arena.shrink(block.cast(), old, layout(old.size() / 2 + 1, align)),
                _ => Ok(block),
            };
            let resized = resized.expect("there is room");
            arena.deallocate(resized.cast(), longest(resized, align));
        }
        assert_eq!(arena.audit(), Ok(()), "{align}");
    }
    assert_eq!((arena.usage().blocks, arena.usage().block), (0, 0));
}

#[test]
fn of_buddies() {
    any_size_that_fits(Buddy::new(16, 4096, Reserved::new(CAPACITY), ()));
}

#[test]
fn of_lists() {
    any_size_that_fits(nielsen::I1::new(4096, Reserved::new(CAPACITY), ()));
    any_size_that_fits(nielsen::V1::new(4096, Reserved::new(CAPACITY), ()));
}

#[test]
fn of_pages() {
    let config = Config::arena().ffcrossover(1000);
    any_size_that_fits(PageHeap::new(config, Reserved::new(CAPACITY), ()));
}

#[test]
fn grow_zeroed_clears_up_to_the_returned_length() {
    let arena: Arena<_> = Arena::new(BestFit::new(4096, Reserved::new(CAPACITY), ()));
    let arena = &arena;
    let used = Allocator::allocate(&arena, layout(1000, 8)).expect("there is room");
    // SAFETY: the block is in use, and this long; it is freed with a layout that fits.
    unsafe {
        used.cast::<u8>().write_bytes(0xff, used.len());
        Allocator::deallocate(&arena, used.cast(), longest(used, 8));
    }
    let block = Allocator::allocate(&arena, layout(1, 8)).expect("there is room");
    // SAFETY: the block is in use with this layout.
    let grown = unsafe { arena.grow_zeroed(block.cast(), layout(1, 8), layout(100, 8)) };
    let grown = grown.expect("there is room");
    // SAFETY: the block is in use, and `grow_zeroed` has written zeros up to its new length.
    let new = unsafe { &grown.as_ref()[block.len()..] };
    assert!(new.iter().all(|&byte| byte == 0), "{new:?}");
}
