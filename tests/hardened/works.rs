//! Correct programs are not affected.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeSet;
use std::thread;

use crate::child::memory::resident;
use crate::child::passes_when;
use crate::random::Random;
use crate::{ALLOCATOR, SIZES};

const PARTS: [&str; 9] = [
    "1",
    "checks",
    "canaries",
    "random",
    "quarantine",
    "zero",
    "pinned",
    "guards",
    "canaries,random,quarantine,zero,pinned,guards",
];

fn works(test: &str) {
    for parts in PARTS {
        passes_when(test, |command| {
            command.env("PAGEWISE_HARDENED", parts);
        });
    }
}

#[test]
fn threads_that_exchange_blocks_work() {
    works("works::threads");
}

/// A block with all its bytes written.
struct Block {
    place: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: the block is owned.
unsafe impl Send for Block {}

impl Block {
    fn new(random: &mut Random) -> Self {
        let size = 1 + match random.below(40) {
            0 => random.below(700_000),
            1..=4 => random.below(60_000),
            _ => random.below(600),
        };
        let largest = if random.below(8) == 0 { 15 } else { 5 };
        let align = 1 << random.below(largest);
        let layout = Layout::from_size_align(size, align).expect("a valid layout");
        let zeroed = random.below(4) == 0;
        // SAFETY: the size is not 0.
        let place = unsafe {
            if zeroed { ALLOCATOR.alloc_zeroed(layout) } else { ALLOCATOR.alloc(layout) }
        };
        assert!(!place.is_null() && place.addr().is_multiple_of(align));
        let mut block = Self { place, layout, mark: 0 };
        assert!(!zeroed || block.holds(0), "zeros");
        block.fill(random.below(256) as u8);
        block
    }

    fn fill(&mut self, mark: u8) {
        self.mark = mark;
        // SAFETY: the block has this many bytes.
        unsafe { self.place.write_bytes(mark, self.layout.size()) };
    }

    fn holds(&self, mark: u8) -> bool {
        // SAFETY: the block has this many bytes, all of them written or zeroed.
        let bytes = unsafe { std::slice::from_raw_parts(self.place, self.layout.size()) };
        bytes.iter().all(|&byte| byte == mark)
    }

    fn resize(&mut self, size: usize) {
        let kept = size.min(self.layout.size());
        // SAFETY: the block is in use, the size is not 0.
        unsafe {
            let place = ALLOCATOR.realloc(self.place, self.layout, size);
            assert!(!place.is_null());
            self.place = place;
            self.layout = Layout::from_size_align(kept, self.layout.align()).expect("valid");
            assert!(self.holds(self.mark), "what was there stays");
            self.layout = Layout::from_size_align(size, self.layout.align()).expect("valid");
            assert!(self.place.addr().is_multiple_of(self.layout.align()));
        }
        self.fill(self.mark);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        assert!(self.holds(self.mark), "nobody else wrote there");
        // SAFETY: the block is in use, and freed once.
        unsafe { ALLOCATOR.dealloc(self.place, self.layout) };
    }
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn threads() {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<Block>>(4);
    let receiver = thread::spawn(move || receiver.into_iter().for_each(drop));
    let threads = (1..4).map(|seed| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut random = Random(seed);
            let mut blocks: Vec<Block> = Vec::new();
            for _ in 0..4_000 {
                match random.below(10) {
                    0..=4 => blocks.push(Block::new(&mut random)),
                    5 | 6 if !blocks.is_empty() => {
                        drop(blocks.swap_remove(random.below(blocks.len())))
                    }
                    7 | 8 if !blocks.is_empty() => {
                        let at = random.below(blocks.len());
                        let size = blocks[at].layout.size();
                        let size = if random.below(2) == 0 {
                            size + 1
                        } else {
                            1 + random.below(2 * size)
                        };
                        blocks[at].resize(size);
                    }
                    _ => {}
                }
                if blocks.len() > 200 {
                    sender.send(blocks.split_off(100)).expect("the other thread receives");
                }
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    drop(sender);
    receiver.join().expect("it ends");
    ALLOCATOR.purge();
}

#[test]
fn the_usable_size_is_the_requested_size() {
    passes_when("works::sizes", |command| {
        command.env("PAGEWISE_HARDENED", "1");
    });
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn sizes() {
    for size in SIZES.into_iter().chain((1..20_000).step_by(37)) {
        let block = ALLOCATOR.allocate(size);
        // SAFETY: the block is in use, and freed once.
        unsafe {
            assert_eq!(ALLOCATOR.usable_size(block), size);
            let block = ALLOCATOR.reallocate(block, size + 5);
            assert_eq!(ALLOCATOR.usable_size(block), size + 5);
            block.write_bytes(0xab, size + 5);
            ALLOCATOR.free(block);
        }
    }
}

/// A block that grows in place has zeros where its canary was: a program cannot find out by its own
/// memory what canaries look like. (Regression: it held whole words of them.)
#[test]
fn a_block_that_grows_in_place_holds_no_canary() {
    for parts in ["1", "canaries", "checks", "zero"] {
        passes_when("works::gained", |command| {
            command.env("PAGEWISE_HARDENED", parts);
        });
    }
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn gained() {
    let mut stayed = 0;
    for size in [33, 49, 100, 700, 3_000, 20_000, 100_000] {
        for more in (1..16).chain([50, 300]) {
            let block = ALLOCATOR.allocate_zeroed(size);
            // SAFETY: the block is in use with the size that it was last given, and freed once.
            unsafe {
                for new_size in [size + more, size, size + more / 2] {
                    let grown = ALLOCATOR.reallocate(block, new_size);
                    if grown != block {
                        stayed -= 1;
                        ALLOCATOR.free(grown);
                        break;
                    }
                    // Beyond the canary there may be words of the heap.
                    let bytes = std::slice::from_raw_parts(grown, new_size.min(size + 8));
                    assert!(bytes.iter().all(|&byte| byte == 0), "{size} to {new_size}");
                }
                stayed += 1;
            }
        }
    }
    assert!(stayed > 50, "{stayed}");
}

/// `malloc(SIZE_MAX)` returned a block of 16 bytes: adding the canary's byte wrapped the size to 0.
#[test]
fn impossible_requests_are_refused() {
    works("works::hostile");
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn hostile() {
    /// Half of all addresses: the largest power of two.
    const HALF: usize = 1 << (usize::BITS - 1);
    for less in [0, 1, 7, 15, 16, 4096, usize::MAX / 2] {
        let size = usize::MAX - less;
        for align in [1, 16, 4096, HALF >> 23, HALF >> 1, HALF] {
            assert!(ALLOCATOR.allocate_aligned(size, align).is_null(), "{size:#x} {align:#x}");
        }
        assert!(ALLOCATOR.allocate_zeroed(size).is_null(), "{size:#x}");
        for old in [1, 100, 20_000, 2_000_000] {
            let block = ALLOCATOR.allocate(old);
            // SAFETY: the block is in use, and freed once.
            unsafe {
                assert!(ALLOCATOR.reallocate(block, size).is_null(), "{old} to {size:#x}");
                ALLOCATOR.free(block);
            }
        }
    }
    assert!(ALLOCATOR.allocate_aligned(1, HALF).is_null());
}

#[cfg(unix)]
#[test]
fn the_child_of_a_fork_works() {
    works("works::forks");
}

#[cfg(unix)]
#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn forks() {
    let begun = std::sync::Barrier::new(3);
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..3 {
            let (begun, stop) = (&begun, &stop);
            scope.spawn(move || {
                begun.wait();
                let mut random = Random(seed);
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let blocks: Vec<Block> = (0..100).map(|_| Block::new(&mut random)).collect();
                    drop(blocks);
                }
            });
        }
        begun.wait();
        for round in 0..25 {
            crate::child::fork::in_child(|| {
                let mut random = Random(round + 9);
                let use_memory = |seed| {
                    let mut random = Random(seed);
                    drop((0..300).map(|_| Block::new(&mut random)).collect::<Vec<_>>());
                };
                use_memory(random.below(1000) as u64 + 1);
                thread::spawn(move || use_memory(round + 77)).join().expect("it ends");
            });
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The first blocks of a class may be any of its page's. Without the random choice, they are the
/// lowest.
#[test]
fn a_class_begins_anywhere_in_its_page() {
    for (test, parts) in [("works::begin_anywhere", "random"), ("works::begin_below", "checks")] {
        passes_when(test, |command| {
            command.env("PAGEWISE_HARDENED", parts);
        });
    }
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn begin_anywhere() {
    let begun = begun_above();
    assert!(begun > 15, "{begun} of 64");
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn begin_below() {
    let begun = begun_above();
    assert!(begun < 10, "{begun} of 64");
}

/// Returns for how many of 64 sizes one of the first blocks is lower than the first one, by more
/// blocks than the random choice is among.
fn begun_above() -> usize {
    let is_above = |size: &usize| {
        let blocks = [(); 24].map(|()| ALLOCATOR.allocate(*size).addr());
        let lower = blocks.map(|block| blocks[0].saturating_sub(block) / size);
        lower.iter().any(|blocks| (9..100).contains(blocks))
    };
    (2..66).map(|n| 16 * n).filter(is_above).count()
}

/// Blocks of many kilobytes are in heaps, and take little more memory than their bytes.
#[test]
fn large_blocks_take_little_more_than_their_size() {
    passes_when("works::large", |command| {
        command.env("PAGEWISE_HARDENED", "checks");
    });
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn large() {
    const SIZE: usize = 200_000;
    let before = ALLOCATOR.stats();
    let blocks: [*mut u8; 60] = [(); 60].map(|()| ALLOCATOR.allocate(SIZE));
    let after = ALLOCATOR.stats();
    assert!(after.held - before.held < blocks.len() * SIZE / 2 * 3, "{before}{after}");
    assert_eq!(after.mappings, before.mappings, "they are in heaps");
    // SAFETY: each is in use, and freed once.
    blocks.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
}

/// Blocks in quarantine are not in use.
#[test]
fn statistics_exclude_the_quarantine() {
    passes_when("works::counted", |command| {
        command.env("PAGEWISE_HARDENED", "quarantine");
    });
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn counted() {
    let before = ALLOCATOR.stats();
    for size in [500, 20_000] {
        let blocks: [*mut u8; 10] = [(); 10].map(|()| ALLOCATOR.allocate(size));
        assert!(ALLOCATOR.stats().blocks >= before.blocks + 10);
        // SAFETY: each is in use, and freed once.
        blocks.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
    }
    let after = ALLOCATOR.stats();
    assert!(after.blocks <= before.blocks + 2, "{before}{after}");
    assert!(after.quick >= before.quick + 10 * 20_000, "{before}{after}");
}

/// With guard pages the allocator's settings are read-only, and heaps can still be opened.
#[cfg(target_os = "linux")]
#[test]
fn settings_are_read_only() {
    passes_when("works::sealed", |command| {
        command.env("PAGEWISE_HARDENED", "guards");
    });
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn sealed() {
    /// Statics are within this distance of each other.
    const NEAR: usize = 1 << 20;
    // A static of this program, as the allocator's own are.
    static HERE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let here = (&raw const HERE).addr();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for seed in 1..9 {
                scope.spawn(move || {
                    let mut random = Random(seed);
                    drop((0..300).map(|_| Block::new(&mut random)).collect::<Vec<_>>());
                });
            }
        });
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the system tells");
        let read_only = maps.lines().filter(|line| {
            let address = |text: &str| usize::from_str_radix(text, 16).expect("an address");
            let (start, rest) = line.split_once('-').expect("a range");
            line.contains(" r--p 00000000 00:00 0") && {
                let end = rest.split(' ').next().expect("its end");
                address(start).abs_diff(here) < NEAR && address(end).abs_diff(here) < NEAR
            }
        });
        // The mode, the tables and the address space have one each, unless adjacent ones merge.
        assert!(read_only.count() >= 1, "{maps}");
        assert!(ALLOCATOR.stats().heaps > 1, "{}", ALLOCATOR.stats());
    }
}

/// Blocks are allocated neither in address order nor in LIFO order, and not from the start of a
/// page.
#[test]
fn blocks_are_allocated_in_random_order() {
    passes_when("works::at_random", |command| {
        command.env("PAGEWISE_HARDENED", "random");
    });
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn at_random() {
    /// Pages are no shorter than this.
    const PAGE: usize = 1 << 14;
    // Sizes that no other code requests.
    let first = [208, 272, 336, 400, 464, 528, 592, 656].map(|size| {
        let block = ALLOCATOR.allocate(size - 1).addr();
        block % PAGE / size
    });
    assert!(first.iter().any(|&place| place >= 8), "not always from the start: {first:?}");
    let blocks: Vec<*mut u8> = (0..1000).map(|_| ALLOCATOR.allocate(64)).collect();
    let neighbours = blocks.windows(2).filter(|pair| pair[0].addr().abs_diff(pair[1].addr()) == 64);
    assert!(neighbours.count() < 500, "most are not side by side");
    // SAFETY: each is in use, and freed once.
    blocks.iter().for_each(|&block| unsafe { ALLOCATOR.free(block) });
    let again = (0..200).filter(|_| {
        // SAFETY: as above.
        unsafe {
            let block = ALLOCATOR.allocate(64);
            ALLOCATOR.free(block);
            let next = ALLOCATOR.allocate(64);
            ALLOCATOR.free(next);
            block == next
        }
    });
    // The chance is 15/64.
    assert!(again.count() < 80, "seldom the one freed last");
    for _ in 0..50 {
        let blocks = [(); 24].map(|()| ALLOCATOR.allocate(64));
        // SAFETY: each is in use, and freed once.
        let next = unsafe {
            blocks.iter().for_each(|&block| ALLOCATOR.free(block));
            let next = ALLOCATOR.allocate(64);
            ALLOCATOR.free(next);
            next
        };
        assert!(blocks[16..].contains(&next), "one of the last eight");
    }
}

#[test]
fn checks_alone_leave_blocks_in_order() {
    passes_when("works::in_order", |command| {
        command.env("PAGEWISE_HARDENED", "checks");
    });
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn in_order() {
    // A size that no other code requests.
    let blocks: Vec<*mut u8> = (0..100).map(|_| ALLOCATOR.allocate(592)).collect();
    let upwards = blocks.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(upwards > 90, "{upwards} of 100 lie above the one before");
    // SAFETY: each is in use, and freed once.
    blocks.iter().for_each(|&block| unsafe { ALLOCATOR.free(block) });
}

#[test]
#[cfg_attr(
    any(windows, pagewise_portable_os),
    ignore = "memory that must read as zeros cannot go back there"
)]
fn the_state_of_free_memory_is_given_back_with_it() {
    passes_when("works::states", |command| {
        command.env("PAGEWISE_HARDENED", "checks").env("PAGEWISE_PURGE_DELAY", "1000000");
    });
}

#[test]
fn memory_of_one_size_serves_others() {
    works("works::other_sizes");
}

/// All blocks of a size are freed, and their pages returned, before the next size is allocated.
#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn other_sizes() {
    for size in [64, 30_000, 1_000, 50_000, 64, 5_000, 100_000, 200] {
        let blocks: Vec<*mut u8> =
            (0..(3 << 20) / size).map(|_| ALLOCATOR.allocate(size)).collect();
        // SAFETY: each has as many bytes, is in use, and freed once.
        unsafe {
            blocks.iter().for_each(|block| block.write_bytes(0xa5, size));
            blocks.into_iter().for_each(|block| ALLOCATOR.free(block));
        }
        ALLOCATOR.thread_idle();
        ALLOCATOR.purge();
    }
}

/// With `pinned`, a page never serves another class; otherwise it does.
#[test]
fn pinned_pages_keep_their_class() {
    for (parts, shared) in [("checks", true), ("pinned", false)] {
        passes_when("works::classes", |command| {
            command.env("PAGEWISE_HARDENED", parts).env("PAGEWISE_TEST_SHARED", shared.to_string());
        });
    }
}

#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn classes() {
    let shared = std::env::var("PAGEWISE_TEST_SHARED").expect("it is run by a test") == "true";
    // Sizes that no other code requests.
    let pages = [592, 1136, 1648].map(|size| {
        let blocks: Vec<*mut u8> =
            (0..(4 << 20) / size).map(|_| ALLOCATOR.allocate(size)).collect();
        let pages: BTreeSet<usize> = blocks.iter().map(|block| block.addr() >> 12).collect();
        // SAFETY: each is in use, and freed once.
        blocks.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
        ALLOCATOR.thread_idle();
        ALLOCATOR.purge();
        pages
    });
    for [first, second] in [[0, 1], [0, 2], [1, 2]] {
        let common = pages[first].intersection(&pages[second]).count();
        assert_eq!(common > 100, shared, "{common} OS pages");
        assert!(shared || common == 0, "{common} OS pages");
    }
}

/// One byte of state is kept per 16 bytes.
#[test]
#[ignore = "in a process of its own, in hardened mode"]
fn states() {
    const BYTES: usize = 96 << 20;
    let before = resident();
    let mut blocks = Vec::with_capacity(BYTES / 48);
    blocks.extend((0..BYTES / 48).map(|_| ALLOCATOR.allocate(48)));
    // SAFETY: each is in use, and freed once.
    blocks.drain(..).for_each(|block| unsafe { ALLOCATOR.free(block) });
    drop(blocks);
    ALLOCATOR.purge();
    let more = resident().saturating_sub(before);
    assert!(more < BYTES / 16 / 2, "{} KiB more than before", more >> 10);
}
