//! Tests which free memory a walk meets, and when.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::FreeKind;
use crate::pages::{Config, PageHeap};
use crate::source::Region;
use crate::strategy::{SpanKind, Strategy};

const LEAST: usize = 256;

/// The number of requests before the walks, and of steps among requests.
const CHANGES: usize = if cfg!(miri) { 200 } else { 4000 };

type Live = Vec<(NonNull<u8>, Layout)>;

/// Makes a heap with blocks of many sizes, those in use, and the memory, which must outlive both.
fn used(random: &mut impl FnMut(usize) -> usize) -> (Vec<MaybeUninit<u8>>, PageHeap<Region>, Live) {
    // Pages begin at the same place of the memory in every run, so that the tests count the same.
    const ALIGN: usize = 1 << 16;
    const LEN: usize = 4 << 20;
    let mut memory = Box::<[u8]>::new_uninit_slice(LEN + ALIGN).into_vec();
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: only the region uses the memory, and the callers drop the memory last.
    let region = unsafe { Region::new(start.add(start.align_offset(ALIGN)), LEN) };
    let mut heap = PageHeap::new(PageHeap::<Region>::CONFIG, region, ());
    let mut live = Live::new();
    for _ in 0..CHANGES {
        change(&mut heap, &mut live, random);
    }
    (memory, heap, live)
}

fn change(heap: &mut PageHeap<Region>, live: &mut Live, random: &mut impl FnMut(usize) -> usize) {
    if !live.is_empty() && random(5) < 2 {
        let (block, layout) = live.swap_remove(random(live.len()));
        // SAFETY: the block is in use.
        unsafe { heap.deallocate(block, layout) };
    } else if !live.is_empty() && random(8) == 0 {
        let at = random(live.len());
        let (block, layout) = live[at];
        let new_size = 1 + random(9000);
        // SAFETY: the block is in use; from then on only the returned pointer is used.
        if let Ok(block) = unsafe { heap.reallocate(block, layout, new_size) } {
            let layout = Layout::from_size_align(new_size, 8).expect("a valid layout");
            live[at] = (block.cast(), layout);
        }
    } else {
        let size = 1 + if random(3) == 0 { random(12_000) } else { random(300) };
        let layout = Layout::from_size_align(size, 8).expect("a valid layout");
        if let Ok(block) = heap.allocate(layout) {
            live.push((block.cast(), layout));
        }
    }
}

fn random() -> impl FnMut(usize) -> usize {
    let mut state = 88_172_645_463_325_252_u64;
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((u128::from(state) * bound as u128) >> 64) as usize
    }
}

/// The steps meet all free memory that the walk reports, except links and sizes.
#[test]
fn steps_meet_what_the_walk_does() {
    let mut random = random();
    let (_memory, mut heap, _live) = used(&mut random);
    let mut met: Vec<Range<usize>> = Vec::new();
    while heap.walk_free(LEAST, 3, &mut |_, free, _| {
        let goes_on = random(10) > 0;
        // The refused run, and the runs before it in its page, are met again.
        if goes_on && met.last().is_none_or(|last| last.end <= free.start) {
            met.push(free);
        }
        goes_on
    }) {}
    assert!(met.is_sorted_by(|a, b| a.end <= b.start));
    let mut spans: Vec<Range<usize>> = Vec::new();
    heap.walk(&mut |span| match (span.kind, spans.last_mut()) {
        (SpanKind::Free, Some(last)) if last.end == span.start => last.end = span.end(),
        (SpanKind::Free, _) => spans.push(span.start..span.end()),
        _ => {}
    });
    for span in spans.iter().filter(|span| span.len() >= LEAST + 24) {
        let found = met.iter().any(|m| m.start <= span.start + 16 && m.end + 8 >= span.end);
        assert!(found, "{span:?} is not met");
    }
}

/// While blocks are allocated and freed, steps meet nothing that is in use, and every pass ends.
#[test]
fn steps_never_meet_blocks_in_use() {
    let mut random = random();
    let (_memory, mut heap, mut live) = used(&mut random);
    let mut passes = 0;
    for _ in 0..CHANGES {
        let more = heap.walk_free(LEAST, 1 + random(8), &mut |_, free, _| {
            let apart = |&(block, layout): &(NonNull<u8>, Layout)| {
                let start = block.addr().get();
                free.end <= start || start + layout.size() <= free.start
            };
            assert!(live.iter().all(apart), "{free:?} is in use");
            // SAFETY: the memory is free, and holds nothing.
            unsafe {
                let origin = heap_origin(&live);
                origin.with_addr(free.start).write_bytes(0xee, free.len());
            }
            random(4) > 0
        });
        passes += usize::from(!more);
        // A step that starts within a block would read bytes that are not a tag, and report damage.
        assert!(heap.engine.pages.below.heap.damaged().is_none());
        for _ in 0..random(6) {
            change(&mut heap, &mut live, &mut random);
        }
    }
    heap.audit().expect("every invariant holds");
    assert!(passes > CHANGES / 300, "{passes} passes");
}

/// Returns a pointer that may reach all of the heap's memory.
fn heap_origin(live: &Live) -> *mut u8 {
    live[0].0.as_ptr()
}

/// Makes a heap of pages of 64 KiB over memory that must outlive it.
fn large_pages(memory: &mut [MaybeUninit<u8>]) -> PageHeap<Region> {
    const PAGE: usize = 1 << 16;
    // All begin alike in a page, so their wildernesses are alike.
    let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE;
    let memory = &mut memory[skipped..];
    // SAFETY: only the region uses the memory.
    let region = unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len()) };
    PageHeap::new(Config::new().page_size(PAGE).unit(8).ffcrossover(1024), region, ())
}

fn take(heap: &mut PageHeap<Region>, size: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(size, 8).expect("a valid layout");
    heap.allocate(layout).expect("there is memory").cast()
}

fn give(heap: &mut PageHeap<Region>, block: NonNull<u8>, size: usize) {
    let layout = Layout::from_size_align(size, 8).expect("a valid layout");
    // SAFETY: the tests free blocks in use, once.
    unsafe { heap.deallocate(block, layout) };
}

/// Returns everything that a whole pass meets.
fn met(heap: &mut PageHeap<Region>, least: usize) -> Vec<(Range<usize>, FreeKind)> {
    let mut met = Vec::new();
    while heap.walk_free(least, 1, &mut |_, free, kind| {
        met.push((free, kind));
        true
    }) {}
    met
}

/// A stretch of exactly `least` bytes is met; one that is a byte shorter is not.
#[test]
fn stretches_are_met_from_the_least_on() {
    let mut memory = Box::<[u8]>::new_uninit_slice(1 << 20).into_vec();
    let mut heap = large_pages(&mut memory);
    let blocks: Vec<_> = (0..5).map(|_| take(&mut heap, 20_000)).collect();
    give(&mut heap, blocks[1], 20_000);
    let start = blocks[1].addr().get();
    let len = (20_000 + 4_usize).next_multiple_of(16) - 24;
    let free = start + 16..start + 16 + len;
    let is_met = |heap: &mut _, least| met(heap, least).contains(&(free.clone(), FreeKind::Block));
    assert!(is_met(&mut heap, 1) && is_met(&mut heap, len) && !is_met(&mut heap, len + 1));
}

/// Runs in a page, the last of which ends at the page's tag; 64 blocks are exactly one word.
#[test]
fn runs_in_a_page_are_met_from_the_least_on() {
    const SIZE: usize = 1016;
    let mut memory = Box::<[u8]>::new_uninit_slice(1 << 20).into_vec();
    let mut heap = large_pages(&mut memory);
    heap.open().expect("there is memory");
    let class = heap.engine.pages.classes.of_size(SIZE).expect("a class serves it");
    let mut places = vec![MaybeUninit::uninit(); 3 * 64];
    assert_eq!(heap.take_batch(class, &mut places, |_, _| {}), 3 * 64, "three pages");
    // SAFETY: all were written.
    let mut blocks: Vec<NonNull<u8>> =
        places.iter().map(|place| unsafe { place.assume_init() }).collect();
    blocks.sort_unstable();
    let page = blocks[0].addr().get();
    assert_eq!(blocks[63].addr().get() - page, 63 * SIZE, "64 in a page");
    for freed in [0, 1, 10, 61, 62, 63].into_iter().chain(130..192) {
        give(&mut heap, blocks[freed], SIZE);
    }
    let run = |from: usize, to: usize| (page + from..page + to, FreeKind::InPage);
    let (first, second) = (run(0, 2 * SIZE), run(10 * SIZE, 11 * SIZE));
    let last = run(61 * SIZE, (1 << 16) - 4);
    // All but two blocks of the current page.
    let current = blocks[128].addr().get();
    let rest = (current + 2 * SIZE..current + (1 << 16) - 4, FreeKind::InPage);
    let in_page = |heap: &mut _, least| -> Vec<_> {
        let mut met = met(heap, least);
        met.retain(|(_, kind)| *kind == FreeKind::InPage);
        assert_eq!(met.pop(), Some(rest.clone()));
        met
    };
    let all = [first.clone(), second, last.clone()];
    assert_eq!(in_page(&mut heap, SIZE), all);
    assert_eq!(in_page(&mut heap, SIZE + 1), [first.clone(), last.clone()]);
    assert_eq!(in_page(&mut heap, 2 * SIZE), [first, last.clone()]);
    assert_eq!(in_page(&mut heap, 2 * SIZE + 1), all[2..]);
    assert_eq!(in_page(&mut heap, last.0.len()), all[2..]);
    assert_eq!(in_page(&mut heap, last.0.len() + 1), []);
    // 62 blocks are free there.
    assert_eq!(in_page(&mut heap, 62 * SIZE), []);
    // A visitor that stops is given the same run again.
    let mut times = 0;
    let mut stopping = |_: &Region, _, kind| {
        times += usize::from(kind == FreeKind::InPage);
        kind != FreeKind::InPage || times > 1
    };
    while heap.walk_free(62 * SIZE, 100, &mut stopping) {}
    assert_eq!(times, 2);
}

/// A walk does not meet free memory twice unless it was told to begin again, or has met everything.
#[test]
fn a_walk_begins_again_where_it_is_told_to() {
    let mut memory = Box::<[u8]>::new_uninit_slice(1 << 20).into_vec();
    let mut heap = large_pages(&mut memory);
    let blocks: Vec<_> = (0..6).map(|_| take(&mut heap, 20_000)).collect();
    give(&mut heap, blocks[0], 20_000);
    give(&mut heap, blocks[2], 20_000);
    let step = |heap: &mut PageHeap<Region>| {
        let mut met = Vec::new();
        let more = heap.walk_free(LEAST, 1, &mut |_, free, _| {
            met.push(free.start - 16);
            true
        });
        (more, met)
    };
    let at = |block: usize| vec![blocks[block].addr().get()];
    assert_eq!(step(&mut heap), (true, at(0)));
    assert_eq!(step(&mut heap), (true, vec![]));
    assert_eq!(step(&mut heap), (true, at(2)));
    heap.walk_free_again();
    assert_eq!(step(&mut heap), (true, at(0)));
    // A block freed just below the place where the walk goes on joins nothing there, so the walk
    // goes on.
    assert_eq!(step(&mut heap), (true, vec![]));
    assert_eq!(step(&mut heap), (true, at(2)));
    assert_eq!(step(&mut heap), (true, vec![]));
    give(&mut heap, blocks[3], 20_000);
    assert_eq!(step(&mut heap), (true, vec![]), "the fifth is in use");
    // A block that is joined with one already met is met again, as a whole.
    give(&mut heap, blocks[4], 20_000);
    assert_eq!(step(&mut heap), (true, vec![]), "the sixth");
    heap.walk_free_again();
    while heap.walk_free(LEAST, 1, &mut |_, _, _| true) {}
    assert_eq!(step(&mut heap), (true, at(0)), "all was met");
}

/// If a block is freed at the place where a walk goes on, and is joined with its neighbours, the
/// walk goes on from the start of the joined block. It does not go back for a block freed further
/// up.
#[test]
fn a_walk_goes_back_to_what_was_joined() {
    for (freed, goes_back) in [(2, true), (3, false), (4, false)] {
        let mut memory = Box::<[u8]>::new_uninit_slice(1 << 20).into_vec();
        let mut heap = large_pages(&mut memory);
        let blocks: Vec<_> = (0..8).map(|_| take(&mut heap, 20_000)).collect();
        give(&mut heap, blocks[1], 20_000);
        // Two blocks are met, the mark is at the third.
        assert!(heap.walk_free(LEAST, 2, &mut |_, _, _| true));
        give(&mut heap, blocks[freed], 20_000);
        let mut first = None;
        while heap.walk_free(LEAST, 1, &mut |_, free, _| {
            first.get_or_insert(free);
            true
        }) {}
        let free = first.expect("something is free");
        let lowest = if goes_back { blocks[1] } else { blocks[freed] };
        assert_eq!(free.start - 16, lowest.addr().get(), "{freed}");
        assert_eq!(free.len() > 30_000, goes_back, "joined");
        assert!(heap.engine.pages.below.heap.damaged().is_none());
    }
}

/// All free memory of at least this length below the pages is reported, including the wilderness;
/// nothing in an empty heap.
#[test]
fn large_free_blocks_are_told() {
    let mut memory = Box::<[u8]>::new_uninit_slice(1 << 20).into_vec();
    let mut heap = large_pages(&mut memory);
    let told = |heap: &PageHeap<Region>, least| {
        let mut told: Vec<_> = heap.large_free_blocks(least).collect();
        told.sort_by_key(|span| span.start);
        told
    };
    assert_eq!(told(&heap, 1), []);
    heap.open().expect("there is memory");
    assert_eq!(told(&heap, 1), [], "nothing is held yet");
    let blocks: Vec<_> = (0..4).map(|_| take(&mut heap, 20_000)).collect();
    give(&mut heap, blocks[1], 20_000);
    let free = |heap: &PageHeap<Region>| {
        let mut free = Vec::new();
        heap.walk(&mut |span| free.extend((span.kind == SpanKind::Free).then_some(span)));
        free
    };
    let all = free(&heap);
    assert_eq!(all.len(), 2, "the hole and the wilderness");
    assert_eq!(told(&heap, 12), all);
    let longest = all.iter().map(|span| span.len).max().expect("there are two");
    let longer = |least| all.iter().filter(|span| span.len >= least).copied().collect::<Vec<_>>();
    assert_eq!(told(&heap, longest), longer(longest));
    assert_eq!(told(&heap, longest + 1), []);
}
