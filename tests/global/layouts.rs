//! Sizes, alignments, zeroed blocks, and resizing.

use std::alloc::{GlobalAlloc, Layout};

use crate::child::passes;
#[cfg(unix)]
use crate::child::{
    memory::{GOES_BACK_AT_ONCE, resident},
    passes_without_huge_pages,
};
use crate::{ALLOCATOR, Random};

/// Runs `check` on a block of this layout.
fn with_block(layout: Layout, check: impl FnOnce(*mut u8)) {
    // SAFETY: the layouts used have a size; the block is freed once.
    unsafe {
        let block = ALLOCATOR.alloc(layout);
        assert!(!block.is_null(), "{layout:?}");
        assert!(block.addr().is_multiple_of(layout.align()), "{layout:?}");
        block.write(1);
        block.add(layout.size() - 1).write(2);
        check(block);
        ALLOCATOR.dealloc(block, layout);
    }
}

#[test]
fn every_alignment_to_64_mib_is_met() {
    for log2 in 0..=26 {
        for size in [1, 24, 100, 1000, 5000, 16_384, 16_385, 70_000, 1 << 20] {
            let layout = Layout::from_size_align(size, 1 << log2).expect("a valid layout");
            with_block(layout, |_| with_block(layout, |_| {}));
        }
    }
}

#[test]
fn blocks_do_not_overlap() {
    let mut random = Random(3);
    let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
    for round in 0..30_000usize {
        if blocks.len() > 500 {
            let (block, layout, mark) = blocks.swap_remove(random.below(blocks.len()));
            // SAFETY: the block is in use, and as long as its layout.
            unsafe {
                let bytes = std::slice::from_raw_parts(block, layout.size());
                assert!(bytes.iter().all(|&byte| byte == mark), "{layout:?}");
                ALLOCATOR.dealloc(block, layout);
            }
        }
        let align = 1 << random.below(9);
        let layout = Layout::from_size_align(1 + random.size(), align).expect("a valid layout");
        // SAFETY: as above.
        unsafe {
            let block = ALLOCATOR.alloc(layout);
            block.write_bytes(round as u8, layout.size());
            blocks.push((block, layout, round as u8));
        }
    }
    for (block, layout, _) in blocks {
        // SAFETY: as above.
        unsafe { ALLOCATOR.dealloc(block, layout) };
    }
}

/// Memory that was given back to the system is known to be zero. Once small blocks have used it
/// again, it is not.
#[test]
fn memory_reused_by_small_blocks_is_not_assumed_zero() {
    passes("layouts::small_blocks_wrote");
}

#[test]
#[ignore = "in a process of its own"]
fn small_blocks_wrote() {
    const LEN: usize = 12 << 20;
    for size in [100, 1_000, 5_000] {
        // SAFETY: each block is in use and long enough while it is written to, and is freed once.
        unsafe {
            let block = ALLOCATOR.allocate(LEN);
            block.write_bytes(0xff, LEN);
            ALLOCATOR.free(block);
            assert!(ALLOCATOR.purge() >= LEN as u64 / 2, "it goes back");
            let blocks: Vec<_> = (0..LEN / 4 / size).map(|_| ALLOCATOR.allocate(size)).collect();
            blocks.iter().for_each(|block| block.write_bytes(0xff, size));
            blocks.into_iter().for_each(|block| ALLOCATOR.free(block));
            ALLOCATOR.thread_idle();
            for part in 1..16 {
                let len = LEN / 16 * part;
                let block = ALLOCATOR.allocate_zeroed(len);
                let bytes = std::slice::from_raw_parts(block, len);
                assert!(bytes.iter().all(|&byte| byte == 0), "{len} bytes behind blocks of {size}");
                ALLOCATOR.free(block);
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn untouched_zeroed_blocks_take_no_memory() {
    passes_without_huge_pages("layouts::untouched");
}

/// Fresh memory is zero already; so is memory that was given back, where it is gone at once.
#[test]
#[ignore = "in a process of its own"]
#[cfg(unix)]
fn untouched() {
    const LEN: usize = 12 << 20;
    let before = resident();
    for _ in 0..1 + usize::from(GOES_BACK_AT_ONCE) {
        let blocks = [(); 5].map(|()| ALLOCATOR.allocate_zeroed(LEN));
        let more = resident().saturating_sub(before);
        assert!(more < LEN / 2, "{} MiB more are resident", more >> 20);
        for block in blocks {
            // SAFETY: the block is in use, has this many bytes, and is freed once.
            unsafe {
                let bytes = std::slice::from_raw_parts_mut(block, LEN);
                assert!(bytes.iter().all(|&byte| byte == 0));
                bytes.fill(1);
                ALLOCATOR.free(block);
            }
        }
        ALLOCATOR.purge();
    }
}

#[test]
fn zeroed_blocks_are_zeros() {
    let mut random = Random(4);
    for _ in 0..3_000 {
        let size = 1 + random.size() + usize::from(random.below(100) == 0) * (2 << 20);
        let layout = Layout::from_size_align(size, 8).expect("a valid layout");
        // SAFETY: the block is as long as its layout, and freed once.
        unsafe {
            let block = ALLOCATOR.alloc_zeroed(layout);
            let bytes = std::slice::from_raw_parts_mut(block, size);
            assert!(bytes.iter().all(|&byte| byte == 0), "{size} bytes");
            bytes.fill(0xa5);
            ALLOCATOR.dealloc(block, layout);
        }
    }
}

#[test]
fn contents_survive_every_change_of_size() {
    for align in [1, 16, 64, 4096, 1 << 16] {
        let mut layout = Layout::from_size_align(1, align).expect("a valid layout");
        // SAFETY: the block is as long as its layout says after each step, and freed once.
        unsafe {
            let mut block = ALLOCATOR.alloc(layout);
            block.write(7);
            let up = (1..=27).map(|log2| (1usize << log2) + log2);
            let down = (1..=27).rev().map(|log2| (1usize << log2) - 1);
            for new_size in up.chain(down) {
                let kept = layout.size().min(new_size);
                let resized = ALLOCATOR.realloc(block, layout, new_size);
                assert!(!resized.is_null() && resized.addr().is_multiple_of(align));
                let bytes = std::slice::from_raw_parts_mut(resized, new_size);
                assert!(bytes[..kept].iter().all(|&byte| byte == 7), "{new_size} bytes");
                bytes[kept..].fill(7);
                layout = Layout::from_size_align(new_size, align).expect("a valid layout");
                block = resized;
            }
            ALLOCATOR.dealloc(block, layout);
        }
    }
}

/// Blocks that need an alignment of 8 at most have sizes between those that C's blocks have.
#[test]
fn blocks_that_need_little_alignment_take_less() {
    for (sizes, aligned_to_8, aligned_to_16) in
        // An unwinder writes to the 56 bytes that a panic throws as if they were aligned to 16.
        // (Regression: with LLVM's, each panic was a segmentation fault.)
        [
            (1..=8, 8, 16),
            (9..=16, 16, 16),
            (17..=24, 24, 32),
            (33..=40, 40, 48),
            (49..=56, 64, 64),
        ]
    {
        for size in sizes {
            for (align, usable) in
                [(1, aligned_to_8), (8, aligned_to_8), (16, aligned_to_16), (32, 0)]
            {
                let layout = Layout::from_size_align(size, align).expect("it is a layout");
                with_block(layout, |block| {
                    // SAFETY: the block is in use.
                    let found = unsafe { ALLOCATOR.usable_size(block) };
                    assert!(
                        found == usable || align == 32 && found.is_multiple_of(32),
                        "{layout:?}"
                    );
                });
            }
            // C programs take any block to be aligned to 16.
            let blocks = [
                ALLOCATOR.allocate(size),
                ALLOCATOR.allocate_zeroed(size),
                ALLOCATOR.allocate_aligned(size, 8),
            ];
            for block in blocks {
                // SAFETY: the block is in use, and freed once.
                unsafe {
                    assert_eq!(ALLOCATOR.usable_size(block), aligned_to_16, "{size}");
                    assert!(block.addr().is_multiple_of(16));
                    ALLOCATOR.free(block);
                }
            }
        }
    }
    for align in [1, 8, 16, 64] {
        let block = ALLOCATOR.allocate_aligned(0, align);
        assert!(!block.is_null() && block.addr().is_multiple_of(align.max(16)), "{align}");
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.free(block) };
    }
}

#[test]
fn a_block_of_a_c_interface_needs_no_layout() {
    // SAFETY: every block is in use until it is freed, once.
    unsafe {
        ALLOCATOR.free(std::ptr::null_mut());
        assert_eq!(ALLOCATOR.usable_size(std::ptr::null_mut()), 0);
        assert!(ALLOCATOR.allocate_aligned(1, 48).is_null());
        assert!(ALLOCATOR.allocate(usize::MAX).is_null());
        assert!(ALLOCATOR.allocate_zeroed(usize::MAX / 2).is_null());
        let mut random = Random(5);
        for round in 0..20_000usize {
            let size = random.size();
            let mut block = match round % 3 {
                0 => ALLOCATOR.allocate_aligned(size, 1 << random.below(14)),
                1 => ALLOCATOR.allocate_zeroed(size),
                _ => ALLOCATOR.allocate(size),
            };
            let usable = ALLOCATOR.usable_size(block);
            assert!(usable >= size);
            block.write_bytes(9, usable);
            let new_size = random.size();
            block = ALLOCATOR.reallocate(block, new_size);
            assert!(ALLOCATOR.usable_size(block) >= new_size);
            let kept = std::slice::from_raw_parts(block, new_size.min(size));
            assert!(kept.iter().all(|&byte| byte == 9));
            ALLOCATOR.free(block);
        }
        let (one, other) = (ALLOCATOR.allocate(0), ALLOCATOR.allocate(0));
        assert!(!one.is_null() && one != other);
        ALLOCATOR.free(one);
        ALLOCATOR.free(other);
    }
}

/// A block of the interface like C's may be deallocated by a layout of its size, though its class
/// can be another one then.
#[test]
fn a_block_without_a_layout_may_get_one_later() {
    for size in [1, 8, 17, 24, 33, 40, 56] {
        let layout = Layout::from_size_align(size, 8).expect("it is a layout");
        for _ in 0..4 {
            let blocks: Vec<*mut u8> = (0..2_000).map(|_| ALLOCATOR.allocate(size)).collect();
            for block in blocks {
                // SAFETY: the block is in use, has `size` bytes, and is freed once.
                unsafe {
                    block.write_bytes(1, size);
                    ALLOCATOR.dealloc(block, layout);
                }
            }
            ALLOCATOR.purge();
        }
        let blocks: Vec<*mut u8> = (0..5_000)
            // SAFETY: the layout has a size.
            .map(|_| unsafe { ALLOCATOR.alloc(layout) })
            .collect();
        for (index, &block) in blocks.iter().enumerate() {
            // SAFETY: the block is in use.
            unsafe { block.write_bytes(index as u8, size) };
        }
        for (index, &block) in blocks.iter().enumerate() {
            // SAFETY: the block is in use, and freed once.
            unsafe {
                let bytes = std::slice::from_raw_parts(block, size);
                assert!(bytes.iter().all(|&byte| byte == index as u8), "{size}");
                ALLOCATOR.dealloc(block, layout);
            }
        }
    }
}
