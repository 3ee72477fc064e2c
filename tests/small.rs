//! Arenas for small machines: with their own memory, with memory that is supplied later, and with
//! unusable memory.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pagewise::arena::RegionError;
use pagewise::arena::lock::{Exclusive, NewLock, Single};
use pagewise::meter::{Meter, Part};
use pagewise::source::Borrowed;
use pagewise::{
    AllocError, Arena, FreeResult, Region, SmallArena, SmallHeap, StaticArena, Strategy,
};

#[path = "random/mod.rs"]
mod random;
use random::Random;

const LEAST: usize = SmallHeap::<Region>::LEAST_REGION;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a valid layout")
}

fn over(
    memory: &mut [MaybeUninit<u8>],
) -> Result<Arena<SmallHeap<Borrowed<'_>>, Single>, RegionError> {
    Arena::over(memory)
}

#[test]
fn the_minimum_region_works_at_any_address_and_smaller_ones_are_refused() {
    let mut memory = [MaybeUninit::uninit(); 2 * LEAST];
    for start in 0..size_of::<usize>() {
        for len in [0, 1, LEAST - 1] {
            let refused = over(&mut memory[start..start + len]);
            assert_eq!(refused.err(), Some(RegionError::TooSmall), "{len} bytes at {start}");
        }
        let arena = over(&mut memory[start..start + LEAST]).expect("long enough");
        let block = arena.allocate(layout(2 * size_of::<usize>(), 1)).expect("room for one");
        assert_eq!(arena.allocate(layout(LEAST, 1)), Err(AllocError::Exhausted));
        assert_eq!(arena.audit(), Ok(()));
        // SAFETY: the block is allocated and no longer used.
        unsafe {
            block.cast::<u8>().write_bytes(0xff, block.len());
            let fits = layout(size_of::<usize>() + 1, 1);
            assert_eq!(arena.try_free(block.cast(), fits), FreeResult::Freed);
        }
    }
}

#[test]
fn memory_can_be_supplied_later_and_only_once() {
    static HEAP: SmallArena = SmallArena::empty();
    for (size, align) in [(1, 1), (100, 64), (1 << 17, 4096)] {
        assert_eq!(HEAP.allocate(layout(size, align)), Err(AllocError::NoRegion));
    }
    assert_eq!(HEAP.allocate(layout(0, 4)).map(|block| block.len()), Ok(0));
    assert_eq!((HEAP.used(), HEAP.free(), HEAP.audit()), (0, 0, Ok(())));
    assert!(!HEAP.is_in_use(NonNull::dangling(), layout(8, 8)));
    // SAFETY: nothing is freed.
    let freed = unsafe { HEAP.try_free(NonNull::dangling(), layout(8, 8)) };
    assert_eq!(freed, FreeResult::Unallocated);

    let memory = Box::leak(Box::new([MaybeUninit::uninit(); 1024]));
    let (few, rest) = memory.split_at_mut(LEAST - 1);
    assert_eq!(HEAP.init(Region::from_static(few)), Err(RegionError::TooSmall));
    let len = rest.len();
    HEAP.init(Region::from_static(rest)).expect("it has none yet");
    assert_eq!(HEAP.free(), len);
    HEAP.allocate(layout(100, 4)).expect("room enough");
    let used = 100_usize.next_multiple_of(size_of::<usize>());
    assert_eq!(HEAP.used(), used);
    assert!(HEAP.free() < len - used && HEAP.free() > len - used - 50);
    static mut OTHER: [u64; 8] = [0; 8];
    // SAFETY: the memory lives for ever, and is the region's alone.
    let other = unsafe { Region::new((&raw mut OTHER).cast(), 64) };
    assert_eq!(HEAP.init(other), Err(RegionError::AlreadySet));
}

#[test]
fn a_static_arena_needs_no_set_up() {
    static ARENA: StaticArena<4096, Exclusive> = StaticArena::new();
    let blocks: Vec<_> = std::iter::from_fn(|| ARENA.allocate(layout(24, 8)).ok()).collect();
    assert_eq!(blocks.len(), if cfg!(target_pointer_width = "64") { 168 } else { 165 });
    for (index, block) in blocks.iter().enumerate() {
        // SAFETY: the block is in use and this long.
        unsafe { block.cast::<u8>().write_bytes(index as u8, 24) };
    }
    assert_eq!(ARENA.audit(), Ok(()));
    for (index, block) in blocks.iter().enumerate() {
        // SAFETY: as above; the block is no longer used afterwards.
        unsafe {
            assert_eq!(block.cast::<[u8; 24]>().read(), [index as u8; 24]);
            ARENA.deallocate(block.cast(), layout(24, 8));
        }
    }
    assert_eq!((ARENA.used(), ARENA.audit()), (0, Ok(())));
    assert_eq!(ARENA.arena().usage(), ARENA.usage());
}

/// Moving an arena invalidates the blocks that it handed out, but not its own state.
#[test]
fn an_arena_that_was_moved_is_intact() {
    let arena = StaticArena::<2048, Single>::new();
    for size in [10, 300, 40] {
        arena.allocate(layout(size, 2)).expect("room enough");
    }
    let moved = Box::new(arena);
    assert_eq!(moved.audit(), Ok(()));
    moved.allocate(layout(500, 64)).expect("room enough");
    let used = moved.used();
    let back = *moved;
    assert_eq!((back.used(), back.audit()), (used, Ok(())));
    assert_eq!(back.allocate(layout(2000, 1)), Err(AllocError::Exhausted));
}

#[test]
fn reentering_an_exclusive_arena_panics() {
    static ARENA: StaticArena<1024, Exclusive> = StaticArena::new();
    ARENA.allocate(layout(1, 1)).expect("room enough");
    let used = std::panic::catch_unwind(|| ARENA.walk(&mut |_| assert_eq!(ARENA.used(), 1)));
    assert!(used.is_err());
    assert_eq!(ARENA.audit(), Ok(()), "the lock was let go of on the way out");
}

/// Tries checked frees of every address and size in a heap of 1 KiB: only blocks in use are
/// accepted.
#[test]
fn a_checked_free_accepts_only_blocks_in_use() {
    let mut memory = [MaybeUninit::uninit(); 1024];
    let base = memory.as_ptr().addr();
    let mut heap = SmallHeap::new(Borrowed::new(&mut memory), ());
    let mut blocks = Vec::new();
    for (index, size) in [16, 24, 100, 7, 64, 33, 16, 200, 8].into_iter().enumerate() {
        let block = heap.allocate(layout(size, 8)).expect("room enough");
        // SAFETY: the block is this long.
        unsafe { block.cast::<u8>().write_bytes(0xff, block.len()) };
        blocks.push((index % 3 != 1, block.cast::<u8>(), block.len()));
    }
    for &(stays, block, len) in &blocks {
        if !stays {
            // SAFETY: the block is in use.
            unsafe { heap.deallocate(block, layout(len, 8)) };
        }
    }
    for offset in 0..1024 {
        let address = NonNull::new(std::ptr::without_provenance_mut(base + offset));
        let address = address.expect("not null");
        for len in (8..1024).step_by(if cfg!(miri) { 104 } else { 8 }) {
            let known = blocks.iter().any(|&(stays, block, block_len)| {
                stays
                    && block.addr() == address.addr()
                    && block_len == len.max(2 * size_of::<usize>())
            });
            assert_eq!(heap.is_in_use(address, layout(len, 1)), known, "{len} at {offset}");
        }
    }
}

#[test]
fn a_small_arena_serves_as_an_allocator() {
    static ARENA: StaticArena<{ 32 << 10 }> = StaticArena::new();
    for step in 0..if cfg!(miri) { 40 } else { 2_000_usize } {
        let small = layout(1 + step * 7919 % 1_000, 1 << (step % 7));
        let large = 2 * small.size();
        // SAFETY: blocks are used within their layouts, and freed once.
        unsafe {
            let block = ARENA.alloc_zeroed(small);
            assert!(!block.is_null() && block.addr().is_multiple_of(small.align()));
            block.write_bytes(7, small.size());
            let block = ARENA.realloc(block, small, large);
            assert!(!block.is_null() && block.addr().is_multiple_of(small.align()));
            assert_eq!((block.read(), block.add(small.size() - 1).read()), (7, 7));
            ARENA.dealloc(block, layout(large, small.align()));
        }
    }
    assert_eq!((ARENA.used(), ARENA.audit()), (0, Ok(())));
}

/// Items visited by the current operation, and the maximum per kind of operation.
#[derive(Default)]
struct Visits {
    now: Cell<u64>,
    most: [Cell<u64>; 2],
}

// SAFETY: it only counts, and does not unwind.
unsafe impl Meter for Visits {
    fn item(&self, _: usize, weight: u32) {
        self.now.set(self.now.get().wrapping_add(u64::from(weight)));
    }

    fn served(&self, _: Part) {}
}

impl Visits {
    /// Records the end of an operation of this kind.
    fn end(&self, kind: usize) {
        self.most[kind].set(self.most[kind].get().max(self.now.take()));
    }
}

/// The module's bounds hold on heaps in use, some of them until exhaustion: an allocation examines
/// the blocks on two lists, unlinks one, and links the rest into another; a free unlinks two
/// neighbours. A link to a block counts as a visit.
#[test]
fn no_operation_visits_more_items_than_its_bound() {
    /// When the heap grows, its topmost block is unlinked and relinked with its new length.
    const ALLOCATE: u64 = 2 * 4 + (2 + 1) + (2 + 1);
    const FREE: u64 = 2 * 2 + 1;
    const WORD: usize = size_of::<usize>();
    let meter = Visits::default();
    for (seed, (most_size, keep)) in
        [(64, 500), (200, 300), (1_000, 50), (1_000, 400), (8_000, 9)].into_iter().enumerate()
    {
        let mut random = Random(seed as u64 + 1);
        let mut memory = vec![MaybeUninit::uninit(); 64 << 10];
        let mut heap = SmallHeap::new(Borrowed::new(&mut memory), &meter);
        let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::new();
        for _ in 0..if cfg!(miri) { 100 } else { 40_000 } {
            if blocks.len() < random.below(2 * keep) {
                let layout = layout(1 + random.below(most_size), WORD);
                if let Ok(block) = heap.allocate(layout) {
                    meter.end(0);
                    blocks.push((block.cast(), layout));
                    continue;
                }
                // Refused: all lists were examined.
                meter.now.set(0);
            }
            if !blocks.is_empty() {
                let (block, layout) = blocks.swap_remove(random.below(blocks.len()));
                // SAFETY: the block is in use, and freed once.
                unsafe { heap.deallocate(block, layout) };
                meter.end(1);
            }
        }
        assert_eq!(heap.audit(), Ok(()));
    }
    // A list full of blocks that are all slightly too short, and the next list full as well.
    let mut memory = vec![MaybeUninit::uninit(); 64 << 10];
    let mut heap = SmallHeap::new(Borrowed::new(&mut memory), &meter);
    let allocate = |heap: &mut SmallHeap<_, _>, words| {
        heap.allocate(layout(words * WORD, WORD)).expect("room")
    };
    let mut free = Vec::new();
    for index in 0..40 {
        free.push((
            allocate(&mut heap, 128 + index % 2 * 16),
            layout((128 + index % 2 * 16) * WORD, WORD),
        ));
        // Separates the block from its neighbour.
        allocate(&mut heap, 2);
    }
    for (block, layout) in free {
        // SAFETY: the block is in use, and freed once.
        unsafe { heap.deallocate(block.cast(), layout) };
    }
    meter.now.set(0);
    allocate(&mut heap, 143);
    meter.end(0);
    let [allocating, freeing] = meter.most.map(Cell::into_inner);
    println!("items visited at most: {allocating} to allocate, {freeing} to free");
    assert!((1..=ALLOCATE).contains(&allocating), "{allocating} to allocate");
    assert!((1..=FREE).contains(&freeing), "{freeing} to free");
}

/// Memory of exactly the minimum length suffices, however it is supplied.
#[test]
fn the_minimum_region_suffices() {
    static mut LATE: [u8; 2 * LEAST] = [0; 2 * LEAST];
    static mut AT_ONCE: [u8; 2 * LEAST] = [0; 2 * LEAST];
    for len in [0, 1, LEAST - 1, LEAST, LEAST + 1, 2 * LEAST] {
        let expected = if len < LEAST { Err(RegionError::TooSmall) } else { Ok(()) };
        // SAFETY: the memory lives for ever, and only this turn's arena uses it.
        let [first, second] = unsafe {
            [Region::new((&raw mut LATE).cast(), len), Region::new((&raw mut AT_ONCE).cast(), len)]
        };
        let late: SmallArena<Single> = SmallArena::empty();
        assert_eq!(late.init(first), expected, "{len} bytes");
        let locked = SmallArena::small_with_lock(second, Exclusive::NEW);
        assert_eq!(locked.map(|_| ()), expected, "{len} bytes");
    }
}

#[test]
fn a_static_arena_reports_its_usage() {
    static HEAP: StaticArena<1024> = StaticArena::new();
    assert_eq!(HEAP.used(), 0);
    let block = HEAP.allocate(layout(100, 4)).expect("room enough");
    assert_eq!((HEAP.used(), HEAP.usage().block), (block.len(), block.len()));
    assert!(block.len() >= 100 && HEAP.free() < 1024 - 100);
    // SAFETY: the block is no longer used.
    unsafe { HEAP.deallocate(block.cast(), layout(100, 4)) };
    assert_eq!(HEAP.used(), 0);
}

/// The errors tell a program's user what is wrong with the region.
#[test]
fn errors_of_regions_are_told_apart() {
    static HEAP: SmallArena = SmallArena::empty();
    let few = Box::leak(Box::new([MaybeUninit::uninit(); LEAST - 1]));
    let told = |region| HEAP.init(region).expect_err("it is refused").to_string();
    assert!(told(Region::from_static(few)).contains("smaller"));
    let memory = Box::leak(Box::new([MaybeUninit::uninit(); 2 * LEAST]));
    let (first, second) = memory.split_at_mut(LEAST);
    HEAP.init(Region::from_static(first)).expect("it has none yet");
    assert!(told(Region::from_static(second)).contains("already"));
}
