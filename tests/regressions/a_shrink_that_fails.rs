//! When memory was exhausted, shrinking a block failed if it should have moved, so that
//! `Vec::shrink_to_fit` ended the program.

use std::ptr::NonNull;

use pagewise::pages::Config;
use pagewise::{Strategy, catalogue};

use crate::layout;

/// Allocates all memory, in blocks of `sizes`.
fn exhaust(heap: &mut dyn Strategy, sizes: &[usize]) {
    for &size in sizes {
        while heap.allocate(layout(size, 1)).is_ok() {}
    }
}

const SIZES: [usize; 7] = [20_000, 5000, 1000, 400, 100, 32, 4];

#[test]
fn succeeds_now_in_every_strategy() {
    for entry in catalogue::all() {
        for (old, new) in [(20_000, 900), (900, 30), (20_000, 5), (900, 1), (64, 8)] {
            let name = entry.name;
            let mut heap = entry.build(Config::with_page_size(4096), 1 << 18).expect("valid");
            let heap = &mut *heap;
            let block = heap.allocate(layout(old, 8)).expect("room enough").cast::<u8>();
            exhaust(heap, &SIZES);
            // SAFETY: the block is used within its layouts, and freed once.
            unsafe {
                block.write_bytes(0x5a, old);
                let shrunk = heap.reallocate(block, layout(old, 8), new);
                let block =
                    shrunk.unwrap_or_else(|error| panic!("{name}, {old} to {new}: {error}"));
                assert!(block.len() >= new);
                let block = block.cast::<u8>();
                let bytes = std::slice::from_raw_parts(block.as_ptr(), new);
                assert!(bytes.iter().all(|&byte| byte == 0x5a), "{name}");
                heap.audit().unwrap_or_else(|fault| panic!("{name}, {old} to {new}: {fault}"));
                assert!(heap.is_in_use(block, layout(new, 8)), "{name}, {old} to {new}");
                heap.deallocate(block, layout(new, 8));
            }
            heap.audit().unwrap_or_else(|fault| panic!("{name}, {old} to {new}: {fault}"));
        }
    }
}

/// Shrinks to another alignment, which the block happens to have. Only Nielsen's buddies place
/// contents after a gap whose length depends on the alignment: they refuse, and the block is
/// unchanged.
#[test]
fn with_another_alignment() {
    for entry in catalogue::all() {
        for (old, new, align) in [(900, 300, 64), (20_000, 900, 64), (900, 300, 16)] {
            let name = entry.name;
            let mut heap = entry.build(Config::with_page_size(4096), 1 << 18).expect("valid");
            let heap = &mut *heap;
            let (from, mut to) = (layout(old, align), layout(new, 8));
            let block = heap.allocate(from).expect("room enough").cast::<u8>();
            exhaust(heap, &SIZES);
            // SAFETY: the block is used within its layouts, and freed once.
            unsafe {
                let kept = heap.keep(block, from, to);
                if name.starts_with("V-") && align > 16 {
                    assert_eq!(kept, None);
                    to = from;
                } else {
                    assert_eq!(kept.map(NonNull::cast), Some(block), "{name}, {old} to {new}");
                }
                assert!(heap.is_in_use(block, to), "{name}, {old} to {new}");
                heap.deallocate(block, to);
            }
            heap.audit().unwrap_or_else(|fault| panic!("{name}, {old} to {new}: {fault}"));
        }
    }
}

#[test]
#[cfg(feature = "allocator-api2")]
fn through_an_arena_and_its_collections() {
    use allocator_api2::alloc::Allocator;
    use allocator_api2::vec::Vec;
    use pagewise::AllocError;
    use pagewise::arena::Arena;
    use std::alloc::GlobalAlloc;

    let config = Config::with_page_size(4096);
    let heap = catalogue::LeastFree::new(config, crate::leaked(1 << 16), ());
    let arena = Arena::<catalogue::LeastFree<_>>::new(heap);
    // SAFETY: the block is in use with this layout, and freed once.
    unsafe {
        let block = arena.alloc(layout(900, 8));
        let mut full: Vec<u64, _> = Vec::with_capacity_in(100, &arena);
        full.extend([1, 2, 3]);
        let aligned = Allocator::allocate(&&arena, layout(900, 64)).expect("room enough").cast();
        for size in SIZES {
            while arena.allocate(layout(size, 1)) != Err(AllocError::Exhausted) {}
        }
        assert_eq!(arena.realloc(block, layout(900, 8), 20), block);
        full.shrink_to_fit();
        assert_eq!(full, [1, 2, 3]);
        let shrunk = Allocator::shrink(&&arena, aligned, layout(900, 64), layout(40, 8));
        assert_eq!(shrunk.map(NonNull::cast), Ok(aligned));
        arena.audit().expect("every invariant holds");
        arena.dealloc(block, layout(20, 8));
    }
}
