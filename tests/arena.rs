//! Arenas: shared by threads, used as a program's allocator, spread over several regions.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewise::arena::Claims;
use pagewise::arena::lock::{Single, Unshared};
use pagewise::catalogue::{BestFit, FirstFit, LeastFree};
use pagewise::pages::Config;
use pagewise::walk::{Span, SpanKind};
use pagewise::{
    AllocError, Arena, Fault, PageHeap, Region, Reserved, SmallHeap, StaticArena, Strategy, Usage,
};

const LEN: usize = 1 << 16;
static mut MEMORY: [u64; LEN / 8] = [0; LEN / 8];

/// Made at compile time, unshared: only one test uses it.
// SAFETY: only the arena uses the memory, and only one test uses the arena.
static FIXED: Arena<PageHeap<Region>, Unshared> = unsafe {
    let region = Region::new((&raw mut MEMORY).cast(), LEN);
    Arena::with_lock(PageHeap::new(Config::arena(), region, ()), Unshared::new())
};

static SHARED: Arena<PageHeap<Reserved>> = Arena::growing(1 << 30);
static LEAST_FREE: Arena<LeastFree<Reserved>> =
    Arena::new(LeastFree::new(Config::new(), Reserved::new(1 << 28), ()));
static BEST_FIT: Arena<BestFit<Reserved>> =
    Arena::new(BestFit::new(4096, Reserved::new(1 << 28), ()));
static FIRST_FIT: Arena<FirstFit<Reserved>> =
    Arena::new(FirstFit::new(16, 4096, Reserved::new(1 << 28), ()));

/// Allocates, grows, shrinks and frees through `GlobalAlloc`.
fn use_as_allocator(arena: &impl GlobalAlloc, seed: usize) {
    for step in 0..if cfg!(miri) { 40 } else { 2_000 } {
        let size = 1 + (step * 7919 + seed) % 3_000;
        let layout = Layout::from_size_align(size, 1 << (step % 7)).expect("a valid layout");
        let larger = Layout::from_size_align(2 * size, layout.align()).expect("a valid layout");
        // SAFETY: blocks are used within their layouts, and freed once.
        unsafe {
            let block = arena.alloc_zeroed(layout);
            assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
            assert_eq!((block.read(), block.add(size - 1).read()), (0, 0));
            block.write_bytes(seed as u8 + 1, size);
            let block = arena.realloc(block, layout, larger.size());
            assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
            assert_eq!(
                (block.read(), block.add(size - 1).read()),
                (seed as u8 + 1, seed as u8 + 1)
            );
            let block = arena.realloc(block, larger, size);
            block.write_bytes(0xff, size);
            arena.dealloc(block, layout);
        }
    }
}

#[test]
fn a_static_arena_serves_without_a_lock() {
    use_as_allocator(&FIXED, 1);
    let usage = FIXED.usage();
    assert_eq!((usage.blocks, usage.requested), (0, 0));
    assert!(usage.held <= LEN);
    let all = Layout::from_size_align(LEN, 8).expect("a valid layout");
    assert_eq!(FIXED.allocate(all), Err(AllocError::Exhausted));
    FIXED.audit().expect("every invariant holds");
}

#[test]
fn threads_share_an_arena() {
    let threads = (0..4).map(|seed| std::thread::spawn(move || use_as_allocator(&SHARED, seed)));
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("it ran"));
    assert_eq!(SHARED.usage().blocks, 0);
    SHARED.audit().expect("every invariant holds");
}

#[test]
fn any_strategy_can_back_an_arena() {
    use_as_allocator(&LEAST_FREE, 1);
    use_as_allocator(&BEST_FIT, 2);
    use_as_allocator(&FIRST_FIT, 3);
}

#[test]
fn a_visitor_that_uses_its_arena_panics() {
    let arena: Arena<PageHeap<Reserved>, Single> = Arena::growing(1 << 20);
    arena.allocate(Layout::new::<u64>()).expect("room enough");
    let seen = AtomicUsize::new(0);
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        arena.walk(&mut |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            let _ = arena.usage();
        });
    }));
    assert!(used.is_err() && seen.load(Ordering::Relaxed) == 1);
    // The panic released the lock.
    arena.audit().expect("every invariant holds");
}

/// Pages of few and of many blocks need headers of different lengths. The headers of returned pages
/// are reused: alternating between the two, the arena holds as many bytes each time.
#[test]
fn headers_of_returned_pages_are_reused() {
    static mut MEMORY: [u64; 32 << 10] = [0; 32 << 10];
    // SAFETY: the memory lives for ever, and is the region's alone.
    let region = unsafe { Region::new((&raw mut MEMORY).cast(), 8 * (32 << 10)) };
    let arena: Arena = Arena::fixed(region);
    const BYTES: usize = if cfg!(miri) { 40 << 10 } else { 96 << 10 };
    for turn in 0..if cfg!(miri) { 2 } else { 300 } {
        for size in [16, 700, 64] {
            let layout = Layout::from_size_align(size, 8).expect("a valid layout");
            let allocate = |_| arena.allocate(layout).expect("as much room as in the first turn");
            let blocks: Vec<_> = (0..BYTES / size).map(allocate).collect();
            for block in blocks {
                // SAFETY: the block is in use with this layout, and freed once.
                unsafe { arena.deallocate(block.cast(), layout) };
            }
            assert_eq!(arena.audit(), Ok(()), "turn {turn}");
        }
    }
}

/// A strategy without memory; a test sets its answers.
#[derive(Default)]
struct Scripted {
    fault: Option<Fault>,
    spans: Vec<Span>,
    held: usize,
}

// SAFETY: it has no blocks.
unsafe impl Strategy for Scripted {
    fn allocate(&mut self, _: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError::Exhausted)
    }

    unsafe fn deallocate(&mut self, _: NonNull<u8>, _: Layout) {
        unreachable!("it has no blocks");
    }

    unsafe fn resize_in_place(
        &mut self,
        _: NonNull<u8>,
        _: Layout,
        _: usize,
    ) -> Option<NonNull<[u8]>> {
        unreachable!("it has no blocks");
    }

    fn has_block(&self, _: NonNull<u8>, _: Layout) -> bool {
        false
    }

    fn serves_around(&self, _: NonNull<u8>) -> Option<usize> {
        None
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        usage.held = self.held;
        usage
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.spans.iter().for_each(|&span| visit(span));
    }

    fn audit(&self) -> Result<(), Fault> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// Returns an arena of two claims with these answers.
fn arena_of(claims: [Scripted; 2]) -> Arena<Claims<Scripted, 2>> {
    let arena = Arena::new(Claims::new());
    claims.into_iter().for_each(|claim| assert!(arena.claim(claim).is_ok(), "room for two"));
    arena
}

#[test]
fn an_audit_reports_faults_of_each_claim() {
    let fault = Fault { invariant: "what a test says", address: 0x1000 };
    for faulty in 0..2 {
        let mut claims = [Scripted::default(), Scripted::default()];
        claims[faulty].fault = Some(fault);
        assert_eq!(arena_of(claims).audit(), Err(fault));
    }
    assert_eq!(arena_of([Scripted::default(), Scripted::default()]).audit(), Ok(()));
}

#[test]
fn a_claim_beyond_capacity_is_returned() {
    let arena = arena_of([Scripted::default(), Scripted::default()]);
    let refused =
        arena.claim(Scripted { held: 7, ..Scripted::default() }).expect_err("there are two");
    assert!(
        format!("{refused}").contains("no room") && format!("{refused:?}").contains("ClaimError")
    );
    assert_eq!(refused.0.held, 7);
}

/// A strategy is given back only without blocks; then its place is free for another.
#[test]
fn a_claim_without_blocks_is_released() {
    static mut MEMORY: [[u64; 512]; 2] = [[0; 512]; 2];
    let starts = [0, 1].map(|part| (&raw const MEMORY).addr() + part * 4096);
    // SAFETY: the memory lives for ever, and each part is one heap's alone at any time.
    let heap = |part: usize| unsafe {
        SmallHeap::new(Region::new((&raw mut MEMORY[part]).cast(), 4096), ())
    };
    let arena: Arena<Claims<SmallHeap<Region>, 2>> = Arena::new(Claims::new());
    for part in [0, 1] {
        arena.claim(heap(part)).expect("room for two");
    }
    let release = |part| arena.release(|heap| heap.source().addresses().start == starts[part]);

    let layout = Layout::new::<[u8; 3000]>();
    let blocks = [0, 1].map(|_| arena.allocate(layout).expect("each holds one").cast::<u8>());
    assert!(release(0).is_none() && release(1).is_none());
    assert!(arena.release(|_| false).is_none());
    // SAFETY: the block is in use, and not used any more.
    unsafe { arena.deallocate(blocks[0], layout) };
    let peak = arena.usage().peak_requested;
    assert_eq!(release(0).expect("it has no blocks").usage().allocations, 1);
    assert!(release(0).is_none(), "it is no claim any more");
    assert_eq!(arena.audit(), Ok(()));
    assert_eq!((arena.usage().requested, arena.usage().peak_requested), (3000, peak));
    assert!(arena.is_in_use(blocks[1], layout) && !arena.is_in_use(blocks[0], layout));
    assert_eq!(arena.allocate(layout), Err(AllocError::Exhausted));

    arena.claim(heap(0)).expect("there is room again");
    assert_eq!(arena.allocate(layout).map(|block| block.cast()), Ok(blocks[0]));
}

/// A block is resized where it is, or not at all.
#[test]
fn an_arena_resizes_in_place() {
    static ARENA: StaticArena<4096> = StaticArena::new();
    let layout = |size| Layout::from_size_align(size, 8).expect("a valid layout");
    let blocks = [64, 64].map(|size| ARENA.allocate(layout(size)).expect("room").cast::<u8>());
    // SAFETY: the blocks are in use, with the layouts that are given.
    unsafe {
        assert_eq!(ARENA.resize_in_place(blocks[0], layout(64), 128), None, "another is above it");
        assert_eq!(ARENA.arena().resize_in_place(blocks[0], layout(64), 128), None);
        assert!(ARENA.is_in_use(blocks[0], layout(64)) && !ARENA.is_in_use(blocks[0], layout(128)));
        let grown = ARENA.resize_in_place(blocks[1], layout(64), 640).expect("free memory above");
        assert_eq!((grown.cast(), grown.len()), (blocks[1], 640));
        let shrunk = ARENA.arena().resize_in_place(blocks[1], layout(640), 32).expect("it shrinks");
        assert_eq!((shrunk.cast(), shrunk.len()), (blocks[1], 32));
    }
    assert_eq!((ARENA.usage().requested, ARENA.audit()), (96, Ok(())));
}

#[test]
fn an_audit_detects_overlapping_and_lost_memory() {
    let free = |start, len| Span { start, len, kind: SpanKind::Free };
    let of = |span: Span| Scripted { spans: vec![span], held: span.len, ..Scripted::default() };
    assert_eq!(arena_of([of(free(0x2000, 0x1000)), of(free(0x1000, 0x1000))]).audit(), Ok(()));
    assert!(arena_of([of(free(0x1000, 0x1001)), of(free(0x2000, 0x1000))]).audit().is_err());
    let lost = Scripted { held: 0x1001, ..of(free(0x2000, 0x1000)) };
    assert!(arena_of([lost, of(free(0x1000, 0x1000))]).audit().is_err());
    assert!(arena_of([of(free(0x2000, 0)), Scripted::default()]).audit().is_err());
    // Two claims of the same memory.
    for (first, second) in [(0x1000, 0x1000), (0x800, 0x1000), (0x1000, 0x800)] {
        let same = arena_of([of(free(0x1000, first)), of(free(0x1000, second))]);
        assert!(same.audit().is_err(), "{first:#x} and {second:#x} bytes");
    }
}

/// Claims may be claimed themselves: each block goes back to the region that it is of.
#[test]
fn claims_of_claims_find_the_owner_of_a_block() {
    static mut MEMORY: [[u64; 512]; 4] = [[0; 512]; 4];
    // SAFETY: the memory lives for ever, and each part is one region's alone.
    let region = |part: usize| unsafe { Region::new((&raw mut MEMORY[part]).cast(), 4096) };
    let pair = |parts: [usize; 2]| {
        let mut claims = Claims::<_, 2>::new();
        for part in parts {
            let heap = SmallHeap::new(region(part), ());
            claims.claim(heap).expect("room for two claims");
        }
        claims
    };
    let arena: Arena<Claims<Claims<SmallHeap<Region>, 2>, 2>> = Arena::new(Claims::new());
    for parts in [[3, 1], [0, 2]] {
        arena.claim(pair(parts)).expect("room for two claims");
    }
    let layout = Layout::new::<[u64; 100]>();
    let blocks: Vec<_> = std::iter::from_fn(|| arena.allocate(layout).ok()).collect();
    assert!(blocks.len() > 3 * (4096 / 800), "blocks of each region: {}", blocks.len());
    assert_eq!(arena.audit(), Ok(()));
    for (freed, &block) in blocks.iter().enumerate().rev() {
        // SAFETY: the block is no longer used.
        unsafe { arena.deallocate(block.cast(), layout) };
        assert_eq!((arena.usage().blocks, arena.audit()), (freed, Ok(())));
    }
}

#[test]
fn an_arena_recognises_blocks_in_use() {
    let arena: Arena<PageHeap<Reserved>> = Arena::growing(1 << 20);
    let layout = Layout::new::<[u64; 5]>();
    let block = arena.allocate(layout).expect("room enough").cast::<u8>();
    assert!(arena.is_in_use(block, layout));
    assert!(arena.used() >= layout.size() && arena.used() == arena.usage().block);
    let (mut blocks, mut bytes) = (0, 0);
    arena.walk(&mut |span| {
        blocks += usize::from(span.kind == SpanKind::Block);
        bytes += span.len;
    });
    assert_eq!((blocks, bytes), (1, arena.usage().held));
    // SAFETY: the block is no longer used.
    unsafe { arena.deallocate(block, layout) };
    assert!(!arena.is_in_use(block, layout));
    assert_eq!(arena.used(), 0);
}

/// A freed large block serves the next request of its size, whatever alignment all blocks share.
#[test]
fn a_freed_large_block_serves_requests_of_its_size() {
    for align in [1, 8, 16] {
        let arena: Arena<PageHeap<Reserved>> = Arena::growing(1 << 20);
        let of = |size| Layout::from_size_align(size, align).expect("a valid layout");
        let [freed, _, larger, _] = [20_000, 2_000, 60_000, 2_000].map(|size| {
            let block = arena.allocate(of(size)).expect("room enough").cast::<u8>();
            (block, of(size))
        });
        for (block, layout) in [freed, larger] {
            // SAFETY: the block is no longer used.
            unsafe { arena.deallocate(block, layout) };
        }
        let again = arena.allocate(freed.1).expect("room enough").cast::<u8>();
        assert_eq!(again, freed.0, "aligned to {align}");
        arena.audit().expect("every invariant holds");
    }
}

/// Among free blocks of about one size, the smallest that fits is taken, wherever it is in the
/// list.
#[test]
fn the_best_fitting_large_block_is_taken() {
    for (freed, asked, taken) in [
        ([20_000, 20_400, 60_000], 19_990, 0),
        ([20_400, 20_000, 60_000], 19_990, 1),
        ([20_400, 20_000, 60_000], 20_300, 0),
        ([20_000, 20_400, 60_000], 20_300, 1),
        ([20_000, 20_400, 60_000], 20_420, 2),
        ([20_000, 60_000, 20_000], 20_000, 2),
    ] {
        let arena: Arena<PageHeap<Reserved>> = Arena::growing(1 << 20);
        let of = |size| Layout::from_size_align(size, 8).expect("a valid layout");
        let take = |size| arena.allocate(of(size)).expect("room enough").cast::<u8>();
        let blocks = freed.map(|size| {
            let block = take(size);
            take(2_000);
            block
        });
        for (block, size) in blocks.into_iter().zip(freed) {
            // SAFETY: the block is no longer used.
            unsafe { arena.deallocate(block, of(size)) };
        }
        let again = take(asked);
        let found = blocks.into_iter().position(|block| block == again);
        assert_eq!(found, Some(taken), "{asked} of {freed:?}");
        arena.audit().expect("every invariant holds");
    }
}

/// The lock of the feature `critical-section`, over an implementation that counts.
#[cfg(feature = "critical-section")]
mod critical {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicI32;
    use std::sync::atomic::Ordering::Relaxed;

    use critical_section::{Impl, RawRestoreState, set_impl};
    use pagewise::arena::lock::CriticalSection;

    use super::*;

    /// The number of sections entered and not left, and of all that were entered.
    static WITHIN: AtomicI32 = AtomicI32::new(0);
    static ENTERED: AtomicI32 = AtomicI32::new(0);

    struct Counting;
    set_impl!(Counting);
    // SAFETY: only this test has critical sections, in one thread.
    unsafe impl Impl for Counting {
        unsafe fn acquire() -> RawRestoreState {
            WITHIN.fetch_add(1, Relaxed);
            ENTERED.fetch_add(1, Relaxed);
        }

        unsafe fn release((): RawRestoreState) {
            WITHIN.fetch_sub(1, Relaxed);
        }
    }

    /// Each operation enters the section once and leaves it, also if it panics.
    #[test]
    fn each_operation_is_in_a_critical_section() {
        let arena: Arena<PageHeap<Reserved>, CriticalSection> = Arena::growing(1 << 20);
        let counts = || (WITHIN.load(Relaxed), ENTERED.load(Relaxed));
        let layout = Layout::new::<u64>();
        let block = arena.allocate(layout).expect("room enough");
        assert_eq!(counts(), (0, 1));
        arena.walk(&mut |_| assert_eq!(counts(), (1, 2)));
        assert_eq!(counts(), (0, 2));
        let reentered = catch_unwind(AssertUnwindSafe(|| {
            arena.walk(&mut |_| {
                arena.usage();
            });
        }));
        assert!(reentered.is_err());
        assert_eq!(counts(), (0, 4), "a section that cannot have the arena is left");
        // SAFETY: the block is no longer used.
        unsafe { arena.deallocate(block.cast(), layout) };
        assert_eq!((arena.used(), arena.audit(), counts()), (0, Ok(()), (0, 7)));
    }
}
