//! The limits of a tuning: the minimum and maximum of each parameter except the pages', and no
//! value beyond; every tuning within the limits works.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::Mutex;
use std::thread;

use pagewise::global::{Tuning, TuningError};
use pagewise::sizemap::SizeMap;

use crate::child::passes_when;
use crate::{ALLOCATOR, Random};

#[test]
fn parameters_have_their_bounds() {
    let usual = Tuning::new();
    assert_eq!(usual.check(), Ok(()));
    assert_eq!(usual.pages(usual.pages.unit(32)).check(), Err(TuningError::Unit));
    for (page_size, is_allowed) in [(8 << 10, false), (16 << 10, true), (32 << 10, true)] {
        let pages = usual.pages.page_size(page_size).ffcrossover(4096).sizemap(SizeMap::Linear);
        let error = if is_allowed { Ok(()) } else { Err(TuningError::PageSize) };
        assert_eq!(usual.pages(pages).check(), error, "{page_size}");
    }
    let bounds = [(16 << 10, true), (32 << 10, true), ((32 << 10) + 16, false)];
    for (ffcrossover, is_allowed) in bounds {
        let pages = usual.pages.page_size(128 << 10).ffcrossover(ffcrossover);
        let error = if is_allowed { Ok(()) } else { Err(TuningError::Crossover) };
        assert_eq!(usual.pages(pages.sizemap(SizeMap::Linear)).check(), error, "{ffcrossover}");
    }
    // The last class is rounded up to 65,536 bytes. (Regression: it was accepted.)
    let bounds: [(&[u32], bool); 5] = [
        (&[16, 1024, 65_520], true),
        (&[16, 1024, 65_521], false),
        (&[16, 1024, 65_536], false),
        (&[16, 1024, 70_016], false),
        (&[16, 16 << 10, 70_016], true),
    ];
    for (classes, is_allowed) in bounds {
        let pages = usual.pages.page_size(128 << 10).sizemap(SizeMap::Classes(classes));
        let error = if is_allowed { Ok(()) } else { Err(TuningError::Class) };
        assert_eq!(usual.pages(pages).check(), error, "{classes:?}");
    }
    for (blocks, is_allowed) in [(0, false), (1, false), (2, true), (1024, true), (1025, false)] {
        let error = if is_allowed { Ok(()) } else { Err(TuningError::QuickBlocks) };
        assert_eq!(usual.quick_blocks(blocks).check(), error, "{blocks}");
    }
    for (heaps, is_allowed) in [(0, false), (1, true), (2, true), (16, true), (17, false)] {
        let error = if is_allowed { Ok(()) } else { Err(TuningError::HeapsPerCpu) };
        assert_eq!(usual.heaps_per_cpu(heaps).check(), error, "{heaps}");
    }
    let bounds =
        [((64 << 10) - 1, false), (64 << 10, true), (1 << 30, true), ((1 << 30) + 1, false)];
    for (bytes, is_allowed) in bounds {
        let error = if is_allowed { Ok(()) } else { Err(TuningError::MappingFrom) };
        assert_eq!(usual.mapping_from(bytes).check(), error, "{bytes}");
    }
}

/// Random settings: whatever the environment accepts must work.
#[test]
fn random_settings_work() {
    let rounds = std::env::var("TUNINGS").ok().and_then(|rounds| rounds.parse().ok());
    for seed in 1..=rounds.unwrap_or(16_u64) {
        let settings = settings(&mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let told = settings.iter().map(|(name, value)| format!("PAGEWISE_{name}={value} "));
        println!("SEED={seed} {}", told.collect::<String>());
        passes_when("tunings::mixed", |command| {
            let named = settings.iter().map(|(name, value)| (format!("PAGEWISE_{name}"), value));
            command.envs(named).env("SEED", seed.to_string());
        });
    }
}

/// A class that serves FFCROSSOVER and has 64 KiB or more is refused, and the usual classes serve.
/// (Regression: its size was cut to 16 bits. The first request stopped the process, or never
/// ended.)
#[test]
fn a_class_of_64_kib_is_refused() {
    for classes in ["16,64,256,1024,65536", "16,64,256,1024,70016"] {
        passes_when("tunings::mixed", |command| {
            command.env("PAGEWISE_PAGE_SIZE", "128K").env("PAGEWISE_SIZEMAP", classes);
        });
    }
}

/// Pages too large for blocks of 8 or 16 bytes have no class between whole units: one of 24 bytes,
/// for want of one of 16, would serve what is aligned to 16. (Regression: it did.)
#[test]
fn pages_too_large_for_the_smallest_blocks_keep_alignment() {
    for page_size in ["512K", "1M"] {
        passes_when("tunings::mixed", |command| {
            command.env("PAGEWISE_PAGE_SIZE", page_size);
        });
    }
}

/// Returns random settings, each present with probability one half.
fn settings(random: &mut Random) -> Vec<(&'static str, String)> {
    let kib = |from: usize, doublings: usize, random: &mut Random| {
        format!("{}K", from << random.below(doublings + 1))
    };
    let sizemap = ["linear", "page-fitting", "geometric=1.05", "geometric=1.5", "geometric=4"];
    let large = ["8192", "16K", "20000", "24K", "32K", "32752"];
    let any = |values: &[&str], random: &mut Random| values[random.below(values.len())].to_owned();
    // A page for each of 2,048 classes: in a small address space, only small pages fit.
    let largest = if usize::BITS == 64 { 6 } else { 2 };
    let mut all = vec![
        ("PAGE_SIZE", kib(16, largest, random)),
        ("SIZEMAP", any(&sizemap, random)),
        ("FREETOL", (1 + random.below(9_000)).to_string()),
        ("FFCROSSOVER", any(&large, random)),
        ("QUICK_BLOCKS", (2 + random.below(600)).to_string()),
        ("QUICK_BYTES", kib(1, 10, random)),
        ("HEAPS_PER_CPU", (1 + random.below(4)).to_string()),
        ("MAPPING_FROM", kib(64, 9, random)),
        ("PURGE_DELAY", any(&["0", "1", "50"], random)),
        ("HUGE_PAGES", any(&["0", "1", "64K", "system"], random)),
        ("BACKGROUND", "1".to_owned()),
        // Has no effect without the feature.
        ("GUARDED", (1 + random.below(100)).to_string()),
        ("HARDENED", any(&["1", "checks", "canaries,random", "quarantine,zero", "guards"], random)),
    ];
    all.retain(|(name, _)| random.below(if *name == "HARDENED" { 6 } else { 2 }) == 0);
    all
}

/// A block filled with its mark.
struct Block {
    at: *mut u8,
    layout: Layout,
    mark: u8,
    /// Whether the block is resized without its size. Then it is freed without its size too, since
    /// a shrinking block may stay in place.
    is_unsized: bool,
}

// SAFETY: only the owner of the value uses the block.
unsafe impl Send for Block {}

impl Block {
    fn new(random: &mut Random, mark: u8) -> Self {
        let aligned = random.below(8) == 0;
        let align = if aligned { 1 << random.below(15) } else { 1 };
        let layout = Layout::from_size_align(size(random), align).expect("a valid layout");
        let is_unsized = random.below(2) == 0;
        let is_zeroed = random.below(3) == 0;
        // SAFETY: the layout has a size.
        let at = unsafe {
            match (is_unsized, is_zeroed) {
                (true, true) if align == 1 => ALLOCATOR.allocate_zeroed(layout.size()),
                (true, _) => ALLOCATOR.allocate_aligned(layout.size(), align),
                (false, true) => ALLOCATOR.alloc_zeroed(layout),
                (false, false) => ALLOCATOR.alloc(layout),
            }
        };
        let least = if is_unsized { align.max(16) } else { align };
        assert!(!at.is_null() && at.addr().is_multiple_of(least), "{layout:?}");
        if is_zeroed && (align == 1 || !is_unsized) {
            // SAFETY: the block has this many bytes.
            assert!((0..layout.size()).all(|byte| unsafe { at.add(byte).read() } == 0));
        }
        Self { at, layout, mark, is_unsized }.written()
    }

    fn written(self) -> Self {
        // SAFETY: the block has this many bytes.
        unsafe {
            assert!(ALLOCATOR.usable_size(self.at) >= self.layout.size(), "{:?}", self.layout);
            self.at.write_bytes(self.mark, self.layout.size());
        }
        self
    }

    /// Panics unless the first bytes of the block are as written.
    fn check(&self, len: usize) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.at, len) };
        assert!(bytes.iter().all(|&byte| byte == self.mark), "{:?}", self.layout);
    }

    fn resized(mut self, random: &mut Random) -> Self {
        let (old, new) = (self.layout, size(random));
        self.is_unsized |= old.align() <= 16 && random.below(4) == 0;
        self.check(old.size());
        // SAFETY: the block is in use with this layout; without a layout, no alignment beyond 16 is
        // expected.
        self.at = unsafe {
            match self.is_unsized {
                true => ALLOCATOR.reallocate(self.at, new),
                false => ALLOCATOR.realloc(self.at, old, new),
            }
        };
        let (align, least) = match self.is_unsized {
            true => (old.align().min(16), 16),
            false => (old.align(), old.align()),
        };
        assert!(!self.at.is_null() && self.at.addr().is_multiple_of(least), "{old:?} to {new}");
        self.layout = Layout::from_size_align(new, align).expect("a valid layout");
        self.check(old.size().min(new));
        self.written()
    }

    fn free(self, random: &mut Random) {
        self.check(self.layout.size());
        // SAFETY: the block is in use with this layout.
        unsafe {
            match (self.is_unsized, random.below(3)) {
                (true, 0) => ALLOCATOR.free_sized(self.at, self.layout.size()),
                (true, _) | (false, 0) => ALLOCATOR.free(self.at),
                (false, _) => ALLOCATOR.dealloc(self.at, self.layout),
            }
        }
    }
}

/// Returns a size near the boundaries between paths half of the time.
fn size(random: &mut Random) -> usize {
    match random.below(100) {
        0 => 1 + random.below(2 << 20),
        1..10 => 1 + random.below(140_000),
        10..40 => 12_000 + random.below(24_000),
        40..60 => 1 + random.below(5_000),
        60..80 => 1 + random.below(64),
        _ => 1 + random.below(300),
    }
}

#[test]
#[ignore = "in a process of its own"]
fn mixed() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let shared: Mutex<Vec<Block>> = Mutex::default();
    thread::scope(|scope| {
        for own in 1..4 {
            let shared = &shared;
            scope.spawn(move || exchange(&mut Random(seed << 8 | own), shared));
        }
    });
    let random = &mut Random(seed);
    shared
        .into_inner()
        .expect("no thread panicked")
        .into_iter()
        .for_each(|block| block.free(random));
    ALLOCATOR.purge();
}

/// Allocates, resizes and frees blocks, and exchanges some with other threads.
fn exchange(random: &mut Random, shared: &Mutex<Vec<Block>>) {
    let mut blocks = Vec::new();
    for round in 0..6_000 {
        if blocks.len() < 150 {
            blocks.push(Block::new(random, round as u8));
            continue;
        }
        let block = blocks.swap_remove(random.below(blocks.len()));
        match random.below(6) {
            0..3 => block.free(random),
            3..5 => blocks.push(block.resized(random)),
            _ => {
                let mut shared = shared.lock().expect("no thread panicked");
                shared.push(block);
                if shared.len() > 40 {
                    let at = random.below(shared.len());
                    blocks.push(shared.swap_remove(at));
                }
            }
        }
        match random.below(2_000) {
            0 => ALLOCATOR.thread_idle(),
            1 => drop(ALLOCATOR.purge()),
            2 => drop(ALLOCATOR.maintain()),
            _ => {}
        }
    }
    blocks.into_iter().for_each(|block| block.free(random));
}
