//! When memory goes back, and how much in one step. Each test has a heap of its own, and its own
//! `Purge` over it.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::walk::{STEP_BLOCKS, STEP_BYTES};
use super::*;
use crate::global::Pagewise;
use crate::global::native::base::sizes;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::state::State;
use crate::global::native::memory::huge::HUGE;
use crate::global::native::on_a_heap::on_a_heap;

const MIB: usize = 1 << 20;

/// A purge delay that does not end within a test.
const LONG: u32 = 1 << 24;

/// Allocates a block of `size` bytes, and writes all of it if `written`.
fn block(state: &mut State, size: usize, written: bool) -> NonNull<u8> {
    let layout = Layout::from_size_align(size, 16).expect("it is one");
    let block = state.allocate(layout).expect("there is memory");
    if written {
        // SAFETY: the block has as many bytes.
        unsafe { block.write_bytes(0xa5, size) };
    }
    block
}

fn free(state: &mut State, block: NonNull<u8>) {
    // SAFETY: tests free a block once.
    assert!(unsafe { state.deallocate(block) }.is_some());
}

/// Allocates `count` written blocks of `size` bytes, each followed by a smaller one, which keeps
/// them from coalescing.
fn apart(state: &mut State, count: usize, size: usize) -> [Vec<NonNull<u8>>; 2] {
    let two = |_| (block(state, size, true), block(state, 20 << 10, true));
    let (blocks, between) = (0..count).map(two).unzip();
    [blocks, between]
}

fn used(state: &State) -> usize {
    state.usage().block
}

/// Returns the resident bytes of a block, or of its memory after a free, without the OS pages that
/// hold a free block's tags.
fn resident(block: NonNull<u8>, size: usize) -> usize {
    let page = os::page_size();
    let start = block.as_ptr().wrapping_add(TAGS);
    let start = start.wrapping_add(start.align_offset(page));
    let end = (block.addr().get() + size - 2 * TAGS) & !(page - 1);
    let mut bytes = 0;
    os::for_each_resident(start, end - start.addr(), &mut |_, len| bytes += len);
    bytes
}

/// Does all steps of the walk under way; returns the bytes given back, and the steps.
fn walk(state: &mut State, purge: &mut Purge) -> (usize, usize) {
    let (before, mut steps) = (purge.purged(), 0);
    loop {
        let (engine, zeros) = state.split();
        let bytes = purge.purged();
        let more = purge.step(engine, zeros, &mut Visit::unbounded());
        steps += 1;
        assert!(purge.purged() - bytes <= HUGE.max(STEP_BYTES) as u64, "a step is short");
        if !more {
            return ((purge.purged() - before) as usize, steps);
        }
    }
}

/// Memory is due once an eighth less than the most is in use, and a mebibyte less; not before, and
/// not after it is in use again.
#[test]
fn memory_is_due_once_an_eighth_is_free() {
    on_a_heap(|state| {
        for size in [4 << 10 << 5, 1 << 20] {
            let mut purge = Purge::new(LONG);
            let mut blocks: Vec<_> = (0..32).map(|_| block(state, size, false)).collect();
            purge.note_usage(state.split().0);
            let most = used(state);
            assert_eq!(purge.most_resident(used(state)), most);
            let mut plans = Vec::new();
            while let Some(block) = blocks.pop() {
                free(state, block);
                let is_due = most - used(state) >= (most / 8).max(SURPLUS);
                let plan = purge.plan(state.split().0);
                assert_eq!(plan, if is_due { Plan::Due } else { Plan::Nothing });
                assert_eq!(purge.due_in().is_some(), is_due);
                if let Some(left) = purge.due_in() {
                    assert!(left <= LONG.into() && left > u64::from(LONG) / 2, "{left}");
                }
                plans.push(plan);
            }
            assert!(plans.contains(&Plan::Nothing) && plans.contains(&Plan::Due), "{plans:?}");
            let again: Vec<_> = (0..31).map(|_| block(state, size, false)).collect();
            assert_eq!(purge.plan(state.split().0), Plan::Nothing);
            assert_eq!(purge.due_in(), None);
            again.into_iter().for_each(|block| free(state, block));
        }
    });
}

/// Free memory that does not serve what the heap grows for may be resident beside it. (Regression:
/// what a program had freed of one size after the other, but for a few blocks, counted only as far
/// as the most bytes ever in use exceeded those in use: 1 GiB stayed where glibc takes 240 MiB.)
#[test]
fn free_memory_that_does_not_serve_counts() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        purge.note_usage(state.split().0);
        let mut freed = 0;
        for size in [100 << 10, 200 << 10, 300 << 10, 400 << 10] {
            let blocks: Vec<_> = (0..8 * MIB / size).map(|_| block(state, size, true)).collect();
            purge.note_usage(state.split().0);
            let before = used(state);
            // The others stay, so no longer block fits where these were.
            blocks.iter().step_by(2).for_each(|&block| free(state, block));
            freed += before - used(state);
            purge.note_usage(state.split().0);
            let known = purge.most_resident(used(state)) - used(state);
            assert!(known >= freed / 8 * 7, "{known} bytes are known of, {freed} were written");
        }
        assert!(freed > 12 * MIB);
        assert!(purge.take_growth().is_some_and(|growth| growth >= freed / 8 * 7));
        purge.begin(state.split().0);
        let (given, _) = walk(state, &mut purge);
        assert!(given > freed / 4 * 3, "{given} of {freed} bytes go back");
        let left = purge.most_resident(used(state)) - used(state);
        assert!(left < MIB, "{left} bytes are known of once all went back");
    });
}

/// The delay begins when memory becomes due, and each look leaves it running.
#[test]
fn the_delay_begins_once() {
    on_a_heap(|state| {
        let mut purge = Purge::new(50);
        let block = block(state, 4 * MIB, false);
        purge.note_usage(state.split().0);
        free(state, block);
        let end = os::now() + 50;
        while os::now() < end {
            let before = os::now();
            let plan = purge.plan(state.split().0);
            assert!(
                plan == Plan::Due || plan == Plan::Begin && os::now() >= end,
                "{before}, {end}"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(purge.due_in(), Some(0));
        assert_eq!(purge.plan(state.split().0), Plan::Begin);
    });
}

/// With the largest delay nothing ever goes back by itself.
#[test]
fn nothing_goes_back_with_the_largest_delay() {
    on_a_heap(|state| {
        let mut purge = Purge::new(u32::MAX);
        let block = block(state, 96 * MIB, false);
        // SAFETY: the block has as many bytes.
        unsafe { block.write_bytes(1, 4 * MIB) };
        purge.note_usage(state.split().0);
        free(state, block);
        let (engine, zeros) = state.split();
        assert_eq!(purge.plan(engine), Plan::Nothing);
        assert_eq!(purge.due_in(), None);
        assert_eq!(
            purge.step_partial(engine, zeros, &mut Visit::unbounded(), Granularity::OsPages),
            (0, false)
        );
        assert_eq!(purge.note_freed(engine, 96 * MIB), 0);
        purge.give_back_large(engine, zeros, 96 * MIB);
        assert!(resident(block, 4 * MIB) > 3 * MIB);
        assert_eq!(purge.purged(), 0);
    });
}

/// A walk gives all free memory back that takes some, a mebibyte at a time, and leaves the rest
/// alone.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn a_walk_gives_back_what_is_free_and_nothing_else() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let size = 3 * MIB / 2;
        let [mut blocks, between] = apart(state, 12, size);
        let kept = blocks.split_off(8);
        purge.note_usage(state.split().0);
        blocks.iter().for_each(|&block| free(state, block));
        assert_eq!(purge.plan(state.split().0), Plan::Begin);
        purge.begin(state.split().0);
        assert_eq!((purge.plan(state.split().0), purge.due_in()), (Plan::Continue, Some(0)));
        assert!(purge.tick(state.split().0), "who comes by next goes on");

        let (purged, steps) = walk(state, &mut purge);
        let pages = size - 4 * os::page_size();
        assert!((8 * pages..=8 * size).contains(&purged), "{purged}");
        assert!(
            (purged.div_ceil(STEP_BYTES)..=purged / STEP_BYTES + 8).contains(&steps),
            "{steps}"
        );
        assert!(blocks.iter().all(|&block| resident(block, size) == 0));
        for (blocks, size) in [(&kept, size), (&between, 20 << 10)] {
            for block in blocks {
                // SAFETY: the block is in use.
                let bytes = unsafe { core::slice::from_raw_parts(block.as_ptr(), size) };
                assert!(bytes.iter().all(|&byte| byte == 0xa5));
            }
        }
        // What went back is known to be zeros, so nobody asks about it again.
        for &block in blocks.iter().filter(|_| os::DISCARDED_ARE_ZEROS) {
            let page = os::page_size();
            let from = (block.addr().get() + TAGS).next_multiple_of(page);
            let end = (block.addr().get() + size - 2 * TAGS) & !(page - 1);
            assert_eq!(state.split().1.skip(from..end), end);
        }
        assert_eq!(purge.most_resident(used(state)), used(state));
        assert_eq!((purge.plan(state.split().0), purge.due_in()), (Plan::Nothing, None));
        let (engine, zeros) = state.split();
        assert!(!purge.step(engine, zeros, &mut Visit::unbounded()), "there is no walk any more");
        purge.begin(engine);
        assert_eq!(walk(state, &mut purge).0, 0, "it is all gone");
        kept.into_iter().chain(between).for_each(|block| free(state, block));
    });
}

/// The next walk passes over memory that went back before in few steps. That memory counts as free
/// OS pages, and the stuck bytes beside it stay the same.
#[test]
#[cfg_attr(
    any(windows, pagewise_portable_os),
    ignore = "of memory that went back nothing is known there"
)]
fn a_walk_passes_over_what_went_back_before() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let [blocks, between] = apart(state, 12, 3 * MIB / 2);
        purge.note_usage(state.split().0);
        blocks.iter().for_each(|&block| free(state, block));
        purge.begin(state.split().0);
        let (purged, steps) = walk(state, &mut purge);
        let usage = state.usage();
        // The ends of free blocks fill no OS page.
        let stuck = purge.stuck.bytes;
        assert!((1..=usage.held - usage.block - purged).contains(&stuck), "{stuck}");
        purge.begin(state.split().0);
        let (again, few) = walk(state, &mut purge);
        assert_eq!((again, purge.stuck.bytes), (0, stuck));
        assert!(few < steps / 4, "{few} of {steps}");
        between.into_iter().for_each(|block| free(state, block));
    });
}

/// When small blocks take a page of free memory, only that page is no longer known to be zeros.
#[test]
#[cfg_attr(
    any(windows, pagewise_portable_os),
    ignore = "of memory that went back nothing is known there"
)]
fn a_page_of_small_blocks_forgets_nothing_else() {
    on_a_heap(|state| {
        let page = os::page_size();
        let size = 4 * MIB;
        let free_block = block(state, size, true);
        let behind = block(state, size, true);
        free(state, free_block);
        let mut purge = Purge::new(0);
        purge.note_usage(state.split().0);
        purge.begin(state.split().0);
        walk(state, &mut purge);
        let from = (free_block.addr().get() + TAGS).next_multiple_of(page);
        let known = |state: &mut State| {
            let pages = (from..from + size - 2 * page).step_by(page);
            pages.filter(|&at| state.split().1.skip(at..at + page) > at).count()
        };
        let before = known(state);
        assert_eq!(before, size / page - 2);
        let mut small = [const { MaybeUninit::uninit() }; 8];
        let list = sizes::offset(64);
        assert_eq!(state.take(sizes::class(list), list, &mut small), small.len());
        let forgotten = before - known(state);
        assert!((1..=(64 << 10) / page + 2).contains(&forgotten), "{forgotten}");
        // SAFETY: they were all taken, and are put back once.
        unsafe {
            let small = small.map(|block| block.assume_init());
            assert_eq!(state.put(&small), Ok(()));
        }
        free(state, behind);
    });
}

/// A walk learns that untouched free memory is not resident, so none is due for it. Blocks freed
/// behind the walk are due.
#[test]
fn a_walk_learns_that_untouched_memory_is_not_resident() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let low = block(state, 2 * MIB, true);
        let [high, between] = apart(state, 4, 2 * MIB);
        let untouched = block(state, 8 * MIB, false);
        purge.note_usage(state.split().0);
        high.iter().for_each(|&block| free(state, block));
        free(state, untouched);
        purge.begin(state.split().0);
        let (engine, zeros) = state.split();
        assert!(purge.step(engine, zeros, &mut Visit::unbounded()));
        let len = used(state);
        free(state, low);
        let len = len - used(state);
        let (purged, _) = walk(state, &mut purge);
        // With huge pages everywhere, one may reach into the untouched block.
        assert!(purged < 12 * MIB, "{purged}");
        assert_eq!(purge.most_resident(used(state)) - used(state), len, "the walk had been there");
        assert!(resident(low, 2 * MIB) > MIB);
        assert_eq!(purge.plan(state.split().0), Plan::Begin);
        between.into_iter().for_each(|block| free(state, block));
    });
}

/// Returns written small blocks, one in each OS page of 32 MiB, in address order. The rest of each
/// page is free, and a walk has found it stuck.
fn stuck(state: &mut State, purge: &mut Purge) -> Vec<NonNull<u8>> {
    let list = sizes::offset(os::page_size() / 8);
    let size = sizes::class_size(list);
    let mut blocks = vec![MaybeUninit::uninit(); 32 * MIB / size];
    assert_eq!(state.take(sizes::class(list), list, &mut blocks), blocks.len());
    // SAFETY: `take` filled all of them.
    let mut blocks: Vec<_> = blocks.iter().map(|block| unsafe { block.assume_init() }).collect();
    // SAFETY: the blocks have as many bytes.
    blocks.iter().for_each(|block| unsafe { block.write_bytes(0xa5, size) });
    blocks.sort();
    purge.note_usage(state.split().0);

    let mut page = 0;
    let (kept, others): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| {
        core::mem::replace(&mut page, block.addr().get() / os::page_size()) != page
    });
    put(state, &others);
    purge.begin(state.split().0);
    assert!(walk(state, purge).0 < MIB, "all OS pages are in use");
    assert_eq!(purge.plan(state.split().0), Plan::Nothing, "so there is nothing to do");
    kept
}

fn put(state: &mut State, blocks: &[NonNull<u8>]) {
    // SAFETY: tests take blocks, and put each back once.
    assert_eq!(unsafe { state.put(blocks) }, Ok(()));
}

/// Does all steps of a walk that is due. Afterwards at most `pages` OS pages between the first and
/// the last of these blocks are resident.
fn frees_all_between(state: &mut State, purge: &mut Purge, blocks: &[NonNull<u8>], pages: usize) {
    assert_eq!(purge.plan(state.split().0), Plan::Begin);
    purge.begin(state.split().0);
    walk(state, purge);
    let (first, last) = (blocks[0], blocks[blocks.len() - 1]);
    let resident = resident(first, last.addr().get() - first.addr().get());
    assert!(resident <= pages * os::page_size(), "{resident}");
}

/// Blocks are freed behind a walk, which then gives back memory that was stuck before. The next
/// walk still gives back theirs.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn memory_loosened_behind_a_walk_goes_back_with_the_next() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let blocks = stuck(state, &mut purge);
        let (low, high) = blocks.split_at(blocks.len() / 2);
        put(state, high);
        assert_eq!(purge.plan(state.split().0), Plan::Begin);
        purge.begin(state.split().0);
        let before = purge.purged();
        while purge.purged() < before + MIB as u64 {
            let (engine, zeros) = state.split();
            assert!(purge.step(engine, zeros, &mut Visit::unbounded()));
        }
        put(state, low);
        assert!(walk(state, &mut purge).0 > 10 * MIB);
        frees_all_between(state, &mut purge, low, 0);
    });
}

/// A few blocks are freed, which may have loosened much memory: a walk tries after a delay, which
/// doubles each time in vain.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn memory_that_may_be_loose_is_tried_again() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let blocks = stuck(state, &mut purge);
        let (few, others) = blocks.split_at(blocks.len() / 8);
        purge.stuck.next_try_at = os::now() + 100_000;
        put(state, few);
        assert!(purge.most_resident(used(state)) - used(state) < SURPLUS);
        assert_eq!(purge.plan(state.split().0), Plan::Due);
        assert!(purge.due_in().is_some_and(|waits| waits > 50_000));
        purge.due = 1;
        assert_eq!(purge.plan(state.split().0), Plan::Due, "what was due is not any more");
        (purge.stuck.next_try_at, purge.due) = (0, 0);
        // A walk skips the page that blocks are taken from at present.
        frees_all_between(state, &mut purge, few, 16);
        assert_eq!(
            purge.plan(state.split().0),
            Plan::Begin,
            "others may have come loose meanwhile"
        );
        purge.delay = 1_000;
        for in_vain in [1, 2, 3] {
            let now = os::now();
            purge.begin(state.split().0);
            walk(state, &mut purge);
            let waits = purge.stuck.next_try_at - now;
            let least = 1_000 << in_vain;
            assert!((least..least + 60_000).contains(&waits), "{waits}");
            assert_eq!(purge.plan(state.split().0), Plan::Nothing, "nothing was freed since");
        }
        put(state, others);
        assert_eq!(purge.plan(state.split().0), Plan::Due);
        assert!(purge.due_in().is_some_and(|waits| waits <= 1_000), "so much is looked at anyway");
    });
}

/// If more goes back than was known to be resident, as with huge pages, a walk through all free
/// memory follows, even while a partial walk is under way.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn memory_that_was_not_known_of_goes_back() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let [blocks, between] = apart(state, 8, 2 * MIB);
        blocks.iter().for_each(|&block| free(state, block));
        purge.note_usage(state.split().0);
        assert_eq!(purge.plan(state.split().0), Plan::Nothing, "it knows of none");
        let (engine, zeros) = state.split();
        assert!(
            purge.step_partial(engine, zeros, &mut Visit::unbounded(), Granularity::OsPages).0 > 0
        );
        assert_eq!(purge.plan(state.split().0), Plan::Begin);
        purge.begin(state.split().0);
        walk(state, &mut purge);
        assert!(blocks.iter().all(|&block| resident(block, 2 * MIB) == 0));
        between.into_iter().for_each(|block| free(state, block));
    });
}

/// The same when a growth of the heap gives part of it back.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn loose_memory_given_back_in_part_goes_back_whole() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let blocks = stuck(state, &mut purge);
        // Eight blocks stay in use, so no free block is larger than an eighth.
        let some = blocks.len() / 8;
        blocks.chunks(some).for_each(|blocks| put(state, &blocks[1..]));
        state.collect();
        let (engine, zeros) = state.split();
        assert!(purge.give_back_large(engine, zeros, 8 * MIB));
        assert_eq!(purge.most_resident(used(state)), used(state), "more than was freed");
        // The OS pages of the blocks in use, and of the tags on both sides of each.
        frees_all_between(state, &mut purge, &blocks, 4 * 8);
        blocks.iter().step_by(some).for_each(|&block| put(state, &[block]));
    });
}

/// A step visits a bounded number of blocks, whether or not they give memory back.
#[test]
fn a_step_meets_few_blocks() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let blocks: Vec<_> = (0..1024).map(|_| block(state, 20 << 10, false)).collect();
        purge.note_usage(state.split().0);
        blocks.iter().step_by(2).for_each(|&block| free(state, block));
        purge.begin(state.split().0);
        let (_, steps) = walk(state, &mut purge);
        assert!((1024 / STEP_BLOCKS..=2 + 1024 / STEP_BLOCKS).contains(&steps), "{steps}");
        blocks.iter().skip(1).step_by(2).for_each(|&block| free(state, block));
    });
}

/// A partial walk gives back a step's worth at a time, and need not be finished.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn some_memory_goes_back_by_steps() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let [blocks, between] = apart(state, 4, 2 * MIB);
        purge.note_usage(state.split().0);
        blocks.iter().for_each(|&block| free(state, block));
        let mut all = 0;
        for _ in 0..3 {
            let most = purge.most_resident(used(state));
            let (engine, zeros) = state.split();
            let (bytes, more) =
                purge.step_partial(engine, zeros, &mut Visit::unbounded(), Granularity::OsPages);
            assert!(more && (STEP_BYTES / 2..=STEP_BYTES).contains(&bytes), "{bytes}");
            assert_eq!(most - purge.most_resident(used(state)), bytes);
            assert_eq!(purge.due_in(), None, "it need not go on");
            all += bytes;
        }
        let kept: usize = blocks.iter().map(|&block| resident(block, 2 * MIB)).sum();
        assert!((8 * MIB - all - 8 * os::page_size()..=8 * MIB - all).contains(&kept), "{kept}");
        between.into_iter().for_each(|block| free(state, block));
    });
}

/// About as many bytes go back as wanted, of large free blocks; smaller ones give nothing back.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn large_free_blocks_go_back_as_far_as_is_wanted() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        let [large, mut between] = apart(state, 6, 2 * MIB);
        let [small, more] = apart(state, 6, MIB / 2);
        between.extend(more);
        purge.note_usage(state.split().0);
        large.iter().chain(&small).for_each(|&block| free(state, block));
        let gone = |blocks: &[NonNull<u8>]| {
            blocks.iter().filter(|&&block| resident(block, 2 * MIB) == 0).count()
        };
        for (wanted, blocks) in [(MIB, 1), (3 * MIB, 3), (20 * MIB, 6)] {
            let before = (purge.purged(), purge.most_resident(used(state)));
            let (engine, zeros) = state.split();
            purge.give_back_large(engine, zeros, wanted);
            assert_eq!(gone(&large), blocks, "{wanted}");
            let purged = (purge.purged() - before.0) as usize;
            assert!(purged > 0 && purged <= 6 * MIB);
            assert_eq!(before.1 - purge.most_resident(used(state)), purged);
        }
        assert!(small.iter().all(|&block| resident(block, MIB / 2) > MIB / 4));
        between.into_iter().for_each(|block| free(state, block));
    });
}

/// Every sixteenth use looks at the clock, and every 128th trims.
#[test]
fn every_sixteenth_use_reads_the_clock() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        let looks: Vec<_> = (1..=64).filter(|_| purge.tick(state.split().0)).collect();
        assert_eq!(looks, [16, 32, 48, 64]);
        assert!(!purge.start_trim_if_due());
        let trims: Vec<_> = (65..=400)
            .filter(|_| {
                purge.tick(state.split().0);
                purge.start_trim_if_due()
            })
            .collect();
        assert_eq!(trims, [128, 256, 384]);
    });
}

/// `growth` returns the bytes that the heap grew by once, when they are a mebibyte.
#[test]
fn growth_is_returned_once() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        purge.note_usage(state.split().0);
        let _ = purge.take_growth();
        let before = used(state);
        let mut blocks = vec![block(state, MIB / 2, false)];
        purge.note_usage(state.split().0);
        assert_eq!(purge.take_growth(), None);
        blocks.push(block(state, MIB, false));
        purge.note_usage(state.split().0);
        // Whole pages are added to the heap.
        let growth = purge.take_growth().expect("it grew by more than a mebibyte");
        assert!((used(state) - before..=used(state) - before + MIB / 4).contains(&growth));
        assert_eq!(purge.take_growth(), None);
        // Staying below the most is no growth.
        free(state, blocks.remove(1));
        blocks.push(block(state, MIB, false));
        purge.note_usage(state.split().0);
        assert_eq!(purge.take_growth(), None);
        blocks.into_iter().for_each(|block| free(state, block));
    });
}

/// Wholly free huge pages go back at once; a whole walk gives back the rest.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn huge_pages_go_back_as_a_whole() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        state.split().0.source().huge().pretend_not_all_huge();
        let large = block(state, 9 * MIB, true);
        purge.note_usage(state.split().0);
        free(state, large);
        let start = large.addr().get();
        let (first, end) = (start.next_multiple_of(HUGE), (start + 9 * MIB) & !(HUGE - 1));
        let at = |address: usize| NonNull::new(large.as_ptr().with_addr(address));
        let at = |address: usize| at(address).expect("it is no null");
        let (engine, zeros) = state.split();
        let (mut given, mut more) = (0, true);
        while more {
            let step =
                purge.step_partial(engine, zeros, &mut Visit::unbounded(), Granularity::HugePages);
            assert!(
                step.0 <= STEP_BYTES,
                "{} bytes in a step, where no huge page is split",
                step.0
            );
            (given, more) = (given + step.0, step.1);
        }
        assert_eq!((given, resident(at(first), end - first)), (end - first, 0));
        // The rest still counts as resident, and goes back after the delay.
        let rest = 9 * MIB - given;
        assert!(resident(large, 9 * MIB) + 2 * os::page_size() >= rest);
        assert!(purge.most_resident - engine.usage().block >= rest);
        assert_eq!(purge.plan(engine), Plan::Due);
        purge.begin(engine);
        walk(state, &mut purge);
        assert_eq!(resident(large, 9 * MIB), 0);
    });
}

/// Free huge pages go back one by one, without a walk, and only those with resident memory. The
/// rest of their block stays.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn free_huge_pages_are_found_without_a_walk() {
    if !os::DISCARDED_ARE_ZEROS {
        // Here heaps cannot tell which memory went back, and only walk.
        return;
    }
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        let [large, between] = apart(state, 2, 9 * MIB);
        let untouched = block(state, 9 * MIB, false);
        purge.note_usage(state.split().0);
        large.iter().chain([&untouched]).for_each(|&block| free(state, block));
        let mut pages = 0;
        loop {
            let (engine, zeros) = state.split();
            let before = purge.most_resident - engine.usage().block;
            let given = purge.give_back_huge_page(engine, zeros, &mut Visit::unbounded());
            assert_eq!(before - (purge.most_resident - engine.usage().block), given);
            if given == 0 {
                break;
            }
            pages += 1;
        }
        assert!(pages <= 8 && purge.walk.is_none(), "{pages}");
        for block in large {
            let start = block.addr().get();
            let whole = ((start + 9 * MIB) & !(HUGE - 1)) - start.next_multiple_of(HUGE);
            let rest = 9 * MIB - whole;
            let left = resident(block, 9 * MIB);
            assert!((rest - 2 * os::page_size()..=rest).contains(&left), "{left} of {rest}");
        }
        between.into_iter().for_each(|block| free(state, block));
    });
}

/// No huge page goes back with the largest delay, or once the visit is over.
#[test]
fn free_huge_pages_stay_if_they_are_to() {
    on_a_heap(|state| {
        let large = block(state, 9 * MIB, true);
        free(state, large);
        let (engine, zeros) = state.split();
        let mut visit = Visit::unbounded();
        assert_eq!(Purge::new(u32::MAX).give_back_huge_page(engine, zeros, &mut visit), 0);
        let mut visit = Visit::in_passing();
        while !visit.is_over() {}
        assert_eq!(Purge::new(LONG).give_back_huge_page(engine, zeros, &mut visit), 0);
    });
}

/// Huge pages that the system refuses to take back are passed over; the eighth ends the search.
#[cfg(all(target_os = "linux", not(pagewise_portable_os)))]
#[test]
fn few_refused_huge_pages_are_passed_over() {
    crate::os::alone::passes("global::native::memory::purge::tests::refused");
}

#[cfg(all(target_os = "linux", not(pagewise_portable_os)))]
#[test]
#[ignore = "in a process of its own"]
fn refused() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        let large = block(state, 40 * MIB, true);
        purge.note_usage(state.split().0);
        free(state, large);
        let first = large.addr().get().next_multiple_of(HUGE);
        // A huge page with a hole is refused.
        let punch = |page: usize| {
            let hole = large.as_ptr().with_addr(first + page * HUGE + HUGE / 2);
            // SAFETY: the memory is free, and the heap is not used for anything else.
            assert_eq!(unsafe { libc::munmap(hole.cast(), os::page_size()) }, 0);
        };
        let mut given = || {
            let (engine, zeros) = state.split();
            purge.give_back_huge_page(engine, zeros, &mut Visit::unbounded())
        };
        (0..7).for_each(punch);
        assert_eq!(given(), HUGE);
        punch(8);
        assert_eq!(given(), 0);
    });
}

/// What goes back beside a walk is not taken for memory that was not resident: a block that is
/// freed behind the walk is still known of.
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn memory_that_goes_back_beside_a_walk_counts_once() {
    on_a_heap(|state| {
        let mut purge = Purge::new(LONG);
        let first = block(state, 6 * MIB, true);
        let between = [(); 2 * STEP_BLOCKS].map(|()| block(state, 20 << 10, true));
        let last = block(state, 8 * MIB, true);
        let end = block(state, 20 << 10, true);
        purge.note_usage(state.split().0);
        free(state, last);
        let (engine, zeros) = state.split();
        purge.begin(engine);
        assert!(purge.step(engine, zeros, &mut Visit::unbounded()), "a step ends between");
        assert!(purge.give_back_large(engine, zeros, 8 * MIB) && purge.purged() > 7 << 20);
        free(state, first);
        let (given, _) = walk(state, &mut purge);
        assert!(given < MIB && resident(first, 6 * MIB) > 5 * MIB);
        let known = purge.most_resident(used(state)) - used(state);
        assert!(known > 5 * MIB, "{known} bytes are known of");
        between.into_iter().chain([end]).for_each(|block| free(state, block));
    });
}

/// Stuck memory stays stuck for a walk that goes only as far as memory is wanted, on its way and at
/// its end. (Regression: it counted as free, so a walk through the whole heap followed.)
#[test]
#[cfg_attr(pagewise_portable_os, ignore = "memory that went back counts as resident there")]
fn memory_stays_stuck_beside_a_partial_walk() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        let blocks = stuck(state, &mut purge);
        let before = purge.stuck.bytes;
        assert!(before > 16 * MIB);
        let mut more = true;
        while more {
            let (engine, zeros) = state.split();
            let granularity = Granularity::HugePages;
            more = purge.step_partial(engine, zeros, &mut Visit::unbounded(), granularity).1;
            assert_eq!(purge.plan(state.split().0), Plan::Nothing);
        }
        assert_eq!(purge.stuck.bytes, before);
        put(state, &blocks);
    });
}

/// Four steps, and eight for each [`STEP_BYTES`] wanted.
#[test]
fn steps_are_enough_for_bytes() {
    let bytes = [0, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 10 * STEP_BYTES];
    assert_eq!(bytes.map(steps_for), [4, 11, 12, 12, 84]);
    assert_eq!(steps_for(usize::MAX), 4 + usize::MAX / (STEP_BYTES / 8), "whatever is wanted");
}

/// Returns the calling thread's processor time, microseconds.
fn processor_time() -> f64 {
    os::thread_time() as f64 / 1e3
}

/// Measures how long a step holds the lock in a heap of 1 GiB of blocks of 48 to 143 bytes: after
/// all but one in 50 are freed, then after all are. `cargo test --release --lib steps_of_a_purge --
/// --ignored --nocapture` prints the figures that `benches/records/2026-11-21-global.md` quotes.
#[test]
#[ignore = "a measurement"]
fn steps_of_a_purge() {
    const PAGEWISE: Pagewise = Pagewise::new();
    let blocks: Vec<*mut u8> = (0..11_000_000_usize)
        .map(|at| {
            let block = PAGEWISE.allocate(48 + at % 96);
            // SAFETY: the block has this byte.
            unsafe { block.write(1) };
            block
        })
        .collect();
    let heap = Heap::of(blocks[0]);
    for freed in [true, false] {
        for (at, &block) in blocks.iter().enumerate() {
            if (at * 7 % 50 > 0) == freed {
                // SAFETY: each is freed once.
                unsafe { PAGEWISE.free(block) };
            }
        }
        let before = heap.begin_purge();
        let (mut steps, mut total, mut longest) = (0, 0.0, 0.0_f64);
        loop {
            let start = processor_time();
            let more = heap.step(&mut Visit::unbounded()).more;
            let took = processor_time() - start;
            (steps, total, longest) = (steps + 1, total + took, longest.max(took));
            if !more {
                break;
            }
        }
        let purged = heap.with(|state| state.purged()).unwrap_or(0) - before;
        println!(
            "{} MiB in {steps} steps, {:.0} ms in all, {:.0} us the longest",
            purged >> 20,
            total / 1e3,
            longest
        );
    }
}

/// When a few of many small blocks stay, their memory loses its huge pages: otherwise the kernel
/// would fill it up again. It gets them back once no block is left.
#[test]
fn regions_given_back_in_part_lose_their_huge_pages() {
    on_a_heap(|state| {
        let list = sizes::offset(64);
        let mut blocks = vec![MaybeUninit::uninit(); 1 << 19];
        for batch in blocks.chunks_mut(256) {
            assert_eq!(state.take(sizes::class(list), list, batch), batch.len());
        }
        // SAFETY: `take` filled all of them.
        let blocks: Vec<_> = blocks.iter().map(|block| unsafe { block.assume_init() }).collect();
        let advised = |state: &mut State| state.split().0.source().huge().advised();
        state.split().0.source().huge().pretend_not_all_huge();
        let before = advised(state);
        assert!(before >= 4 * HUGE, "{before}");
        let mut purge = Purge::new(LONG);
        purge.note_usage(state.split().0);
        let (stay, go): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block.addr().get().is_multiple_of(128 << 10));
        assert!(stay.len() > 100);
        // SAFETY: they were taken, and are put back once.
        unsafe { state.put(&go) }.expect("they are in use");
        purge.begin(state.split().0);
        walk(state, &mut purge);
        // All but the two regions at the ends, which few of the blocks are in.
        assert!(advised(state) <= 2 * HUGE, "{}", advised(state));
        // SAFETY: as above.
        unsafe { state.put(&stay) }.expect("they are in use");
        state.collect();
        purge.begin(state.split().0);
        walk(state, &mut purge);
        assert!(advised(state) >= before - 2 * HUGE, "{} of {before}", advised(state));
    });
}

/// A purge can be put off by 63 visits, and so can the next purge.
#[test]
fn a_purge_is_put_off_for_a_while() {
    on_a_heap(|state| {
        let mut purge = Purge::new(0);
        for _ in 0..2 {
            for visit in 1..PUT_OFF {
                assert!(purge.try_put_off(), "{visit}");
                assert!(purge.tick(state.split().0), "who comes by next asks again");
            }
            assert!(!purge.try_put_off());
            purge.begin(state.split().0);
            walk(state, &mut purge);
        }
        // One that is not due any more takes none from the next.
        assert!(purge.try_put_off());
        assert_eq!(purge.plan(state.split().0), Plan::Nothing);
        assert!((1..PUT_OFF).all(|_| purge.try_put_off()));
    });
}
