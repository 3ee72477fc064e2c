//! Tests the effect of each parameter, the heap's edge cases, and the faults that its audit finds.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::*;
use crate::source::{Borrowed, Reserved};
use crate::strategy::SpanKind;
use crate::tags::attack::{attack, try_free};
use crate::{FreeResult, Strategy};

type Heap = Hybrid<Settings, Reserved>;

/// The generic setting with MONITOR, and nothing mapped.
const PLAIN: Settings = Settings { mmap_threshold: usize::MAX, ..Settings::generic() };

fn heap(settings: Settings) -> Heap {
    Hybrid::new(settings, Reserved::new(1 << 26), ())
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

fn allocate(heap: &mut impl Strategy, size: usize) -> NonNull<u8> {
    heap.allocate(layout(size)).expect("room enough").cast()
}

fn free(heap: &mut impl Strategy, block: NonNull<u8>, size: usize) {
    // SAFETY: the tests free what they allocated, once, with its size.
    unsafe { heap.deallocate(block, layout(size)) };
    heap.audit().unwrap();
}

fn resize(heap: &mut Heap, block: NonNull<u8>, from: usize, to: usize) -> NonNull<u8> {
    // SAFETY: the tests resize blocks in use with their size.
    let moved = unsafe { heap.reallocate(block, layout(from), to) }.expect("room enough");
    heap.audit().unwrap();
    moved.cast()
}

fn above(block: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    block.map_addr(|address| address.checked_add(bytes).unwrap())
}

fn monitor(heap: &Heap) -> Monitor {
    *heap.monitor().expect("MONITOR is on")
}

/// A request that is aligned to more than all addresses in its reach finds free memory below the
/// wilderness joined to it, or nothing. (Regression: where the reservation crossed a multiple of the
/// alignment, it wrote beyond the heap.)
#[cfg(all(unix, target_pointer_width = "64", not(miri)))]
#[test]
fn a_huge_alignment_is_served_within_the_heap() {
    for shift in [35, 36] {
        let heaps: Vec<_> = (0..40)
            .map(|_| {
                let settings = Settings::performance().growth(16);
                let mut heap = Hybrid::new(settings, Reserved::new(1 << 34), ());
                allocate(&mut heap, 4000);
                // Leaves a free block below.
                heap.allocate(Layout::from_size_align(64, 4096).unwrap()).unwrap();
                let aligned = Layout::from_size_align(64, 1 << shift).unwrap();
                if let Ok(block) = heap.allocate(aligned) {
                    assert!(block.cast::<u8>().addr().get().is_multiple_of(1 << shift));
                }
                heap.audit().unwrap();
                heap
            })
            .collect();
        drop(heaps);
    }
}

#[test]
fn small_blocks_come_back_as_they_were_freed() {
    let mut heap = heap(PLAIN);
    let blocks: Vec<_> = (0..4).map(|_| allocate(&mut heap, 100)).collect();
    for &block in &blocks {
        free(&mut heap, block, 100);
    }
    // 100 bytes and 104 have blocks of the same size.
    for &block in blocks.iter().rev() {
        assert_eq!(allocate(&mut heap, 104), block);
    }
    assert_eq!(monitor(&heap).quick, 4);
    assert_eq!(monitor(&heap).joins, 0);
}

#[test]
fn an_empty_quick_list_takes_from_the_next() {
    let mut heap = heap(PLAIN);
    let block = allocate(&mut heap, 44);
    free(&mut heap, block, 44);
    assert_eq!(heap.allocate(layout(28)).unwrap().len(), 44);
    assert_eq!(
        try_free(&mut heap, block, layout(29)),
        FreeResult::Freed,
        "a block of 48 serves up to 44"
    );
}

#[test]
fn a_medium_request_splits_only_if_it_may() {
    for (split, place) in [(true, 0), (false, 2000 + 16)] {
        let mut heap = heap(Settings { split, coalesce: false, coalesce_ql: false, ..PLAIN });
        let low = allocate(&mut heap, 1996);
        allocate(&mut heap, 12);
        free(&mut heap, low, 1996);
        assert_eq!(allocate(&mut heap, 604), above(low, place), "SPLIT {split}");
    }
}

#[test]
fn a_block_of_the_next_size_is_not_split() {
    let mut heap = heap(Settings { split: false, ..PLAIN });
    let block = allocate(&mut heap, 1004);
    allocate(&mut heap, 12);
    free(&mut heap, block, 1004);
    assert_eq!(heap.allocate(layout(988)).unwrap().len(), 1004);
}

#[test]
fn the_rest_of_a_split_is_preallocated() {
    let mut heap = heap(Settings { preallocate: 5, ..PLAIN });
    let block = allocate(&mut heap, 1004);
    allocate(&mut heap, 12);
    free(&mut heap, block, 1004);
    for place in 0..6 {
        assert_eq!(allocate(&mut heap, 28), above(block, 32 * place));
    }
    let figures = monitor(&heap);
    assert_eq!((figures.preallocated, figures.quick, figures.splits), (5, 5, 1));
    assert_eq!(allocate(&mut heap, 28), above(block, 32 * 6), "from the rest, which was free");
    heap.audit().unwrap();
}

#[test]
fn medium_blocks_are_joined_when_nothing_else_will_do() {
    for coalesce in [true, false] {
        let mut heap = heap(Settings { coalesce, coalesce_ql: false, ..PLAIN });
        let blocks: Vec<_> = (0..3).map(|_| allocate(&mut heap, 300)).collect();
        allocate(&mut heap, 12);
        for &block in &blocks {
            free(&mut heap, block, 300);
        }
        assert_eq!(monitor(&heap).joins, 0, "not when they are freed");
        let place = allocate(&mut heap, 900);
        assert_eq!(place == blocks[0], coalesce, "COALESCE {coalesce}");
        heap.audit().unwrap();
    }
}

#[test]
fn quick_lists_are_joined_only_beyond_the_threshold() {
    for (coalesce_ql, threshold, joined) in
        [(true, 100, true), (true, 1_000_000, false), (false, 100, false)]
    {
        let mut heap = heap(Settings { coalesce_ql, threshold, ..PLAIN });
        let blocks: Vec<_> = (0..40).map(|_| allocate(&mut heap, 60)).collect();
        allocate(&mut heap, 12);
        for &block in &blocks {
            free(&mut heap, block, 60);
        }
        let place = allocate(&mut heap, 1500);
        assert_eq!(place == blocks[0], joined, "COALESCE_QL {coalesce_ql}, {threshold} %");
        assert_eq!(monitor(&heap).complete_coalescings, u64::from(joined));
        heap.audit().unwrap();
    }
}

#[test]
fn a_free_that_leaves_few_blocks_joins_everything() {
    let eager = Settings { coalesce_in_free: true, few_blocks: 2, much_held: 0, ..PLAIN };
    let mut heap = heap(eager);
    let blocks: Vec<_> = (0..4).map(|_| allocate(&mut heap, 60)).collect();
    for &block in &blocks[..3] {
        free(&mut heap, block, 60);
    }
    assert_eq!(monitor(&heap).complete_coalescings, 1);
    let mut free_spans = 0;
    heap.walk(&mut |span| free_spans += u32::from(span.kind == SpanKind::Free));
    assert_eq!(free_spans, 2, "one block, and the wilderness");
}

#[test]
fn the_smallest_large_block_serves() {
    let mut heap = heap(PLAIN);
    let sizes = [9_000, 5_000, 7_000];
    let blocks = sizes.map(|size| {
        let block = allocate(&mut heap, size);
        allocate(&mut heap, 12);
        block
    });
    for (block, size) in blocks.into_iter().zip(sizes) {
        free(&mut heap, block, size);
    }
    assert_eq!(allocate(&mut heap, 6_000), blocks[2]);
    assert_eq!(allocate(&mut heap, 4_990), blocks[1]);
    heap.audit().unwrap();
}

#[test]
fn the_wilderness_grows_downwards_before_the_source_is_asked() {
    let mut heap = heap(Settings { coalesce: false, coalesce_ql: false, growth: 4096, ..PLAIN });
    let (low, high) = (allocate(&mut heap, 1000), allocate(&mut heap, 1000));
    free(&mut heap, low, 1000);
    free(&mut heap, high, 1000);
    assert_eq!(allocate(&mut heap, 4000), low);
    assert_eq!(heap.usage().held, 4096);
    assert_eq!(allocate(&mut heap, 100), above(low, 4016));
    assert_eq!(heap.usage().held, 8192);
    heap.audit().unwrap();
}

#[test]
fn blocks_are_extended_upwards_then_downwards() {
    let mut heap = heap(PLAIN);
    let blocks: Vec<_> = (0..6).map(|_| allocate(&mut heap, 300)).collect();
    // SAFETY: the block is in use and this long.
    unsafe { blocks[2].write_bytes(0xa5, 300) };
    free(&mut heap, blocks[3], 300);
    assert_eq!(resize(&mut heap, blocks[2], 300, 500), blocks[2], "upwards");
    free(&mut heap, blocks[0], 300);
    free(&mut heap, blocks[1], 300);
    let moved = resize(&mut heap, blocks[2], 500, 1_000);
    assert_eq!(moved, blocks[0], "downwards, over two blocks");
    for index in 0..300 {
        // SAFETY: the block is in use and longer.
        assert_eq!(unsafe { moved.add(index).read() }, 0xa5);
    }
    assert_eq!(resize(&mut heap, moved, 1_000, 12), moved, "the rest is freed");
    assert_eq!(allocate(&mut heap, 700), above(moved, 16));
    let last = resize(&mut heap, blocks[5], 300, 40_000);
    assert_eq!(last, blocks[5], "the wilderness, and the source");
    assert_ne!(resize(&mut heap, blocks[4], 300, 5_000), blocks[4]);
}

#[test]
fn large_requests_are_mapped_where_the_source_can() {
    let settings = Settings { mmap_threshold: 100 << 10, ..PLAIN };
    let mut heap = heap(settings);
    let small = allocate(&mut heap, 100);
    let held = heap.usage().held;
    let aligned = Layout::from_size_align(200_000, 1 << 14).unwrap();
    let blocks = [layout(200_000), aligned, layout(300_000)].map(|layout| {
        let block = heap.allocate(layout).unwrap();
        assert!(block.len() >= layout.size());
        assert!(block.cast::<u8>().addr().get().is_multiple_of(layout.align()));
        // SAFETY: the block is in use, and this long.
        unsafe { block.cast::<u8>().write_bytes(7, block.len()) };
        heap.audit().unwrap();
        (block.cast::<u8>(), layout)
    });
    assert!(heap.usage().held >= held + 700_000);
    // Within its pages a block is resized where it is; else it moves, even into the heap.
    let (first, _) = blocks[0];
    assert_eq!(resize(&mut heap, first, 200_000, 200_100), first);
    let in_heap = resize(&mut heap, first, 200_100, 50_000);
    // SAFETY: the block is in use, and longer.
    assert_eq!(unsafe { in_heap.add(49_999).read() }, 7);
    assert_eq!(try_free(&mut heap, above(blocks[1].0, 16), blocks[1].1), FreeResult::Unallocated);
    for (block, layout) in &blocks[1..] {
        assert_eq!(try_free(&mut heap, *block, *layout), FreeResult::Freed);
        assert_eq!(
            try_free(&mut heap, *block, *layout),
            FreeResult::Unallocated,
            "it is not even there"
        );
        heap.audit().unwrap();
    }
    free(&mut heap, small, 100);
    assert!(heap.usage().held < held + 60_000, "mappings are given back at once");
}

#[test]
fn requests_above_the_threshold_are_mapped_and_no_others() {
    let mut heap = heap(Settings { mmap_threshold: 100 << 10, ..PLAIN });
    for (size, is_mapped) in [(100 << 10, false), ((100 << 10) + 1, true)] {
        let block = allocate(&mut heap, size);
        let held = heap.usage().held;
        free(&mut heap, block, size);
        // Only mappings are given back at once.
        assert_eq!(heap.usage().held < held, is_mapped, "{size} bytes");
    }
    heap.audit().unwrap();
}

#[test]
fn even_small_requests_can_be_mapped() {
    let mut heap = heap(Settings { mmap_threshold: 0, ..PLAIN });
    let blocks = [12, 5_000].map(|size| (allocate(&mut heap, size), layout(size)));
    for (block, layout) in blocks {
        assert_eq!(try_free(&mut heap, block, layout), FreeResult::Freed);
    }
    heap.audit().unwrap();
    assert_eq!(heap.usage().held, 0);
}

#[test]
fn a_fixed_region_serves_every_size_from_the_heap() {
    let mut memory = Box::new_uninit_slice(1 << 20);
    let mut heap = Hybrid::new(Settings::generic(), Borrowed::new(&mut memory), ());
    let block = allocate(&mut heap, 500_000);
    assert!(heap.allocate(layout(600_000)).is_err());
    free(&mut heap, block, 500_000);
    assert_eq!(allocate(&mut heap, 1_000_000), block);
}

#[test]
fn before_a_request_fails_everything_is_joined() {
    // Each free is followed by an audit, and Miri is slow.
    const BYTES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 16 };
    let nothing = Settings { split: false, ..Settings::performance() };
    let mut memory = vec![core::mem::MaybeUninit::uninit(); BYTES];
    let mut heap = Hybrid::new(nothing, Borrowed::new(&mut memory), ());
    let mut blocks = Vec::new();
    while let Ok(block) = heap.allocate(layout(100)) {
        blocks.push(block.cast::<u8>());
    }
    for block in blocks {
        free(&mut heap, block, 100);
    }
    allocate(&mut heap, BYTES / 32 * 29);
    heap.audit().unwrap();
}

#[test]
fn an_aligned_block_leaves_its_gap_free() {
    let mut heap = heap(PLAIN);
    for align in [32, 256, 4096, 1 << 16] {
        let aligned = Layout::from_size_align(100, align).unwrap();
        let block = heap.allocate(aligned).unwrap().cast::<u8>();
        assert!(block.addr().get().is_multiple_of(align));
        heap.audit().unwrap();
        assert_eq!(try_free(&mut heap, block, aligned), FreeResult::Freed);
    }
    assert!(heap.usage().held < 3 << 16);
}

#[test]
fn parameters_change_at_run_time() {
    let mut heap = heap(Settings { ql_high: 2032, ..PLAIN });
    let block = allocate(&mut heap, 1000);
    free(&mut heap, block, 1000);
    assert_eq!(
        heap.retune(Settings { ql_high: 2048, ..PLAIN }),
        Err(SettingsError::QlHigh),
        "there are 127 lists"
    );
    assert_eq!(heap.settings().ql_high, 2032);
    heap.retune(PLAIN).unwrap();
    heap.audit().unwrap();
    assert_eq!(allocate(&mut heap, 1000), block);
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |settings: Settings| settings.check().unwrap_err().to_string();
    assert!(refused(Settings { ql_high: 72, ..PLAIN }).contains("QL_HIGH"));
    assert!(refused(Settings { threshold: 99, ..PLAIN }).contains("threshold"));
    assert!(refused(Settings { growth: 0, ..PLAIN }).contains("growth"));
    for settings in [Settings::generic(), Settings::memory(), Settings::performance()] {
        assert_eq!(settings.check(), Ok(()));
    }
}

#[test]
fn a_checked_free_refuses_all_but_a_block_in_use() {
    attack(&mut heap(PLAIN));
}

#[test]
fn an_overwritten_tag_or_link_is_found() {
    let overwrite = |offset: isize, word: u32, freed: usize| {
        let mut heap = heap(PLAIN);
        let blocks: Vec<_> = (0..4).map(|_| allocate(&mut heap, freed)).collect();
        free(&mut heap, blocks[1], freed);
        // SAFETY: the word lies in the heap's memory.
        unsafe { blocks[1].byte_offset(offset).cast::<u32>().write(word) };
        heap.audit()
    };
    for freed in [60, 300, 3_000] {
        assert!(overwrite(-4, u32::MAX, freed).is_err(), "a header of {freed} bytes");
        assert!(overwrite(0, u32::MAX, freed).is_err(), "a link of {freed} bytes");
    }
    assert_eq!(
        overwrite(300, 19 << 2 | 0b11, 300).unwrap_err().invariant,
        "a block that waits is on the stack of its class",
        "the block above does not know that it is free"
    );
}
