//! Tests of the paper's heap walks, of the four compositions against a plain search, and of the
//! heap's edge cases.

use core::alloc::Layout;
use core::ptr::NonNull;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::FreeResult;
use crate::catalogue;
use crate::fit::{Best, First, Worst};
use crate::source::Reserved;
use crate::strategy::SpanKind;
use crate::tags::attack::{attack, try_free};

type Heap<O, H, P> = SpaceFitting<O, H, P, Reserved>;

/// The paper's two heaps, searched as the paper does.
type Published = Heap<RegionFirst, NoChunkUp, Traverse>;
type PublishedWithout = Heap<FitFirst, ChunkUp, Traverse>;

const MEMORY: usize = 16 << 20;

fn heap<O: Order, H: Halving, P: Index>(growth: usize) -> Heap<O, H, P> {
    Heap::new(growth, Reserved::new(MEMORY), ())
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

fn allocate<O: Order, H: Halving, P: Index>(heap: &mut Heap<O, H, P>, size: usize) -> NonNull<u8> {
    heap.allocate(layout(size)).expect("room enough").cast()
}

/// Returns, for each block, the position of its bookkeeping, whether it is free, and its
/// addressable bytes.
fn chain<S: Strategy>(heap: &S) -> Vec<(usize, bool, usize)> {
    let mut chain = Vec::new();
    let mut head = None;
    heap.walk(&mut |span| {
        if matches!(span.kind, SpanKind::Block | SpanKind::Free) {
            let head = *head.get_or_insert(span.start);
            chain.push((span.start - head, span.kind == SpanKind::Free, span.len));
        }
    });
    chain
}

const FREE: bool = true;
const USED: bool = false;

// The paper's header has 16 bytes and its unit is 8; ours has 8 and the unit is 16. So its blocks
// of 8, 16, 32, 80 and 128 bytes, which take 24, 32, 48, 96 and 144, are ours of 8, 24, 40, 88 and
// 136, which take 16, 32, 48, 96 and 144. The published offsets are in the comments.

#[test]
fn table_1_fresh_memory_is_two_halves() {
    let mut heap = heap::<RegionFirst, NoChunkUp, Traverse>(MEMORY);
    heap.prepare().unwrap();
    // 0: 8388584, 8388600: 8388600
    assert_eq!(chain(&heap), [(0, FREE, 8_388_584), (8_388_592, FREE, 8_388_600)]);
    heap.audit().unwrap();
}

/// Makes a heap, and plays the requests behind Tables 2 and 3 on it.
fn play<O: Order, H: Halving, P: Index>() -> Heap<O, H, P> {
    let mut heap = heap(MEMORY);
    let [_, _, freed, _] = [8, 8, 128, 16].map(|size| allocate(&mut heap, size));
    assert_eq!(try_free(&mut heap, freed, layout(128)), FreeResult::Freed);
    heap.audit().unwrap();
    heap
}

#[test]
fn tables_2_5_and_7_the_region_stays_at_the_head() {
    let mut heap: Published = play();
    let table_2 = [
        (0, USED, 8),            // 0
        (16, FREE, 16_776_984),  // 24: 16776976
        (16_777_008, USED, 24),  // 16777016
        (16_777_040, FREE, 136), // 16777048
        (16_777_184, USED, 8),   // 16777192
    ];
    assert_eq!(chain(&heap), table_2);
    // The free block of 136 bytes would fit best.
    let block = allocate(&mut heap, 32);
    let table_5 = [
        (0, USED, 8),            // 0
        (16, FREE, 16_776_936),  // 24: 16776928
        (16_776_960, USED, 40),  // 16776968
        (16_777_008, USED, 24),  // 16777016
        (16_777_040, FREE, 136), // 16777048
        (16_777_184, USED, 8),   // 16777192
    ];
    assert_eq!(chain(&heap), table_5);
    assert_eq!(try_free(&mut heap, block, layout(32)), FreeResult::Freed);
    assert_eq!(chain(&heap), table_2, "Table 7");
    heap.audit().unwrap();
}

#[test]
fn tables_3_4_and_6_the_region_is_at_the_end() {
    let mut heap: PublishedWithout = play();
    let table_3 = [
        (0, USED, 8),                 // 0
        (16, USED, 8),                // 24
        (32, FREE, 136),              // 48
        (176, USED, 24),              // 192
        (208, FREE, 8_388_376),       // 224: 8388360
        (8_388_592, FREE, 8_388_600), // 8388600
    ];
    assert_eq!(chain(&heap), table_3);
    let block = allocate(&mut heap, 32);
    let table_4 = [
        (0, USED, 8),                 // 0
        (16, USED, 8),                // 24
        (32, USED, 40),               // 48
        (80, FREE, 88),               // 96
        (176, USED, 24),              // 192
        (208, FREE, 8_388_376),       // 224: 8388360
        (8_388_592, FREE, 8_388_600), // 8388600
    ];
    assert_eq!(chain(&heap), table_4);
    assert_eq!(try_free(&mut heap, block, layout(32)), FreeResult::Freed);
    assert_eq!(chain(&heap), table_3, "Table 6");
    heap.audit().unwrap();
}

#[test]
fn the_search_does_not_change_the_walks() {
    assert_eq!(
        chain(&play::<RegionFirst, NoChunkUp, Best>()),
        chain(&play::<RegionFirst, NoChunkUp, Traverse>())
    );
    assert_eq!(
        chain(&play::<FitFirst, ChunkUp, Best>()),
        chain(&play::<FitFirst, ChunkUp, Traverse>())
    );
}

#[test]
fn without_chunk_up_the_region_is_at_the_head_though_it_is_not_asked_first() {
    let sizes = chain(&play::<FitFirst, NoChunkUp, Best>());
    assert_eq!(sizes, chain(&play::<RegionFirst, NoChunkUp, Best>()));
    let sizes = chain(&play::<RegionFirst, ChunkUp, Best>());
    assert_eq!(sizes, chain(&play::<FitFirst, ChunkUp, Best>()));
}

/// Makes random requests, the same for every strategy, and returns the addresses of their blocks,
/// relative to the first. One request in 16 is aligned to `greatest_align` bytes.
fn addresses<S: Strategy>(mut heap: S, greatest_align: usize) -> Vec<usize> {
    let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::new();
    let mut random = StdRng::seed_from_u64(7);
    let mut random = move |below: usize| random.random_range(0..below);
    let mut head = None;
    let mut given = Vec::new();
    for step in 0..if cfg!(miri) { 300 } else { 5_000 } {
        if blocks.len() > 200 && random(2) == 0 {
            let (block, layout) = blocks.swap_remove(random(blocks.len()));
            // SAFETY: the block is in use with this layout, and is forgotten.
            unsafe { heap.deallocate(block, layout) };
        } else {
            let align = if random(16) == 0 { greatest_align } else { 1 };
            let size = if random(8) == 0 { 1 + random(9_000) } else { 1 + random(600) };
            let layout = Layout::from_size_align(size, align).unwrap();
            let block = heap.allocate(layout).expect("room enough").cast::<u8>();
            let address = block.addr().get();
            given.push(address.wrapping_sub(*head.get_or_insert(address)));
            blocks.push((block, layout));
        }
        if step % 64 == 0 {
            heap.audit().unwrap();
        }
    }
    given
}

#[test]
fn bins_take_the_block_that_a_traversal_takes() {
    // No request is aligned above a cell: for those, bins look at two blocks only.
    fn compare<O: Order, H: Halving>() {
        const GROWTHS: [usize; 3] = [1 << 12, 1 << 16, MEMORY];
        for &growth in &GROWTHS[..if cfg!(miri) { 1 } else { 3 }] {
            let traversed = addresses(heap::<O, H, Traverse>(growth), 16);
            let binned = addresses(heap::<O, H, Best>(growth), 16);
            let differs = traversed.iter().zip(&binned).position(|(a, b)| a != b);
            assert_eq!(differs, None, "growth unit {growth}");
        }
    }
    compare::<FitFirst, ChunkUp>();
    compare::<FitFirst, NoChunkUp>();
    compare::<RegionFirst, ChunkUp>();
    compare::<RegionFirst, NoChunkUp>();
}

#[test]
fn other_fits_can_be_asked_behind_the_region() {
    addresses(heap::<RegionFirst, NoChunkUp, First>(1 << 14), 256);
    addresses(heap::<RegionFirst, NoChunkUp, Worst>(1 << 14), 256);
    addresses(heap::<FitFirst, ChunkUp, Worst>(1 << 14), 256);
}

#[test]
fn extra_bytes_go_to_the_right_then_to_the_left_then_to_a_block_of_their_own() {
    let mut heap = heap::<FitFirst, NoChunkUp, Best>(4096);
    // The lower half is the smaller: its extra bytes go to the upper half on its right.
    let low = allocate(&mut heap, 100);
    assert_eq!(chain(&heap), [(0, USED, 104), (112, FREE, 3_960)]);
    // Neither neighbour is free: the block is divided, and its high end is used.
    allocate(&mut heap, 1_000);
    assert_eq!(chain(&heap), [(0, USED, 104), (112, FREE, 2_952), (3_072, USED, 1_000)]);
    assert_eq!(try_free(&mut heap, low, layout(100)), FreeResult::Freed);

    // Only the upper half holds the request: its extra bytes go to the lower half on its left.
    let mut heap = self::heap::<FitFirst, NoChunkUp, Best>(4096);
    allocate(&mut heap, 2_036);
    assert_eq!(chain(&heap), [(0, FREE, 2_024), (2_032, USED, 2_040)]);
    heap.audit().unwrap();
}

#[test]
fn a_request_above_half_is_served_by_stitching() {
    let mut heap = heap::<RegionFirst, NoChunkUp, Traverse>(MEMORY);
    heap.prepare().unwrap();
    let block = allocate(&mut heap, 9 << 20);
    assert_eq!(chain(&heap).len(), 2);
    heap.audit().unwrap();
    assert_eq!(heap.allocate(layout(8 << 20)), Err(AllocError::Exhausted));
    assert_eq!(try_free(&mut heap, block, layout(9 << 20)), FreeResult::Freed);
    assert_eq!(chain(&heap), [(0, FREE, MEMORY - 24)]);
}

#[test]
fn new_memory_becomes_the_region_and_what_is_left_of_the_old_is_used() {
    let mut heap = heap::<RegionFirst, NoChunkUp, Best>(4096);
    let first = allocate(&mut heap, 3_000);
    let large = allocate(&mut heap, 2_000);
    assert!(large > first, "there was no room for it");
    heap.audit().unwrap();
    let next = allocate(&mut heap, 1_000);
    assert!(next > first && next < large, "from the high end of the new region: {next:?}");
    // 56 bytes are left there, so the 1,064 of the old region serve.
    let rest = allocate(&mut heap, 1_000);
    assert!(rest > first && rest < next);
    assert_eq!(heap.usage().held, 8192);
    heap.audit().unwrap();
}

#[test]
fn free_has_three_answers() {
    let mut heap = catalogue::HeadFirst::new(1 << 12, Reserved::new(MEMORY), ());
    assert_eq!(try_free(&mut heap, NonNull::dangling(), layout(8)), FreeResult::Unallocated);
    heap.set_owner(Owner(1));
    let mine = heap.allocate(layout(40)).unwrap().cast::<u8>();
    let yours = heap.allocate_for(Owner(u32::MAX), layout(40)).unwrap().cast::<u8>();
    assert_eq!(heap.owner_of(mine, layout(40)), Some(Owner(1)));
    assert_eq!(heap.owner_of(yours, layout(40)), Some(Owner(u32::MAX)));
    let before = heap.usage();
    assert_eq!(try_free(&mut heap, yours, layout(40)), FreeResult::NotOwner);
    assert_eq!(try_free(&mut heap, yours, layout(400)), FreeResult::Unallocated, "another size");
    assert_eq!(heap.usage(), before);
    assert_eq!(try_free(&mut heap, mine, layout(40)), FreeResult::Freed);
    assert_eq!(try_free(&mut heap, mine, layout(40)), FreeResult::Unallocated);
    heap.set_owner(Owner(u32::MAX));
    assert_eq!(try_free(&mut heap, yours, layout(40)), FreeResult::Freed);
    heap.audit().unwrap();
}

#[test]
fn a_block_keeps_its_owner_when_it_is_resized() {
    let mut heap = catalogue::NonHeadFirstChunkUp::new(1 << 12, Reserved::new(MEMORY), ());
    let block = heap.allocate_for(Owner(5), layout(24)).unwrap().cast::<u8>();
    for (from, to) in [(24, 1_000), (1_000, 5_000), (5_000, 8), (8, 9)] {
        // SAFETY: the block is in use with this layout.
        let resized = unsafe { heap.resize_in_place(block, layout(from), to) };
        assert!(resized.expect("free memory above").len() >= to);
        assert_eq!(heap.owner_of(block, layout(to)), Some(Owner(5)));
        heap.audit().unwrap();
    }
}

#[test]
fn a_checked_free_refuses_all_but_a_block_in_use() {
    attack(&mut heap::<RegionFirst, NoChunkUp, Best>(1 << 12));
    attack(&mut heap::<RegionFirst, ChunkUp, Traverse>(1 << 12));
    attack(&mut heap::<FitFirst, NoChunkUp, Traverse>(1 << 12));
    attack(&mut heap::<FitFirst, ChunkUp, Best>(1 << 12));
}

#[test]
fn an_overwritten_tag_is_found_and_a_checked_free_stays_in_the_heap() {
    let mut heap = catalogue::HeadFirst::new(1 << 12, Reserved::new(MEMORY), ());
    let [_, high, low] = [8, 8, 8].map(|size| heap.allocate(layout(size)).unwrap().cast::<u8>());
    assert_eq!(low.addr().get() + 16, high.addr().get());
    // SAFETY: the words behind the block are its owner and the header of the next.
    unsafe { low.add(12).cast::<u32>().write(u32::MAX) };
    assert!(heap.audit().is_err());
    assert_eq!(try_free(&mut heap, high, layout(8)), FreeResult::Unallocated);
}
