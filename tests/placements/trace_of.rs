//! The results of a sequence of requests: hashes of the placements, and figures.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

use pagewise::meter::{Counter, Meter, Part};
use pagewise::pages::Config;
use pagewise::walk::SpanKind;
use pagewise::{FreeResult, Strategy, Usage};

use crate::sequences::Sequence;
use crate::subject::Subject;

/// Alignment of the memory, more than any strategy needs.
const ALIGN: usize = 1 << 20;

/// A portable hash of numbers (FNV-1a over their bytes, lowest first).
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn add(&mut self, number: usize) {
        for byte in (number as u64).to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Returns half of the bits, which suffice.
    fn short(self) -> u32 {
        (self.0 >> 32) as u32 ^ self.0 as u32
    }
}

const EMPTY: Hash = Hash(0xcbf2_9ce4_8422_2325);

/// A meter that knows in which memory items must be.
pub(crate) struct Watched {
    counter: Counter,
    addresses: Range<usize>,
    /// Items outside it.
    strays: Cell<u64>,
}

// SAFETY: the counter keeps the contract, and the added arithmetic wraps instead of panicking.
unsafe impl Meter for Watched {
    fn item(&self, address: usize, weight: u32) {
        let strays = u64::from(!self.addresses.contains(&address));
        self.strays.set(self.strays.get().wrapping_add(strays));
        self.counter.item(address, weight);
    }

    fn served(&self, part: Part) {
        self.counter.served(part);
    }
}

/// Number of free stretches, and the largest one.
#[derive(Clone, Copy, Default)]
struct Free {
    stretches: usize,
    largest: usize,
}

/// A strategy under a sequence of requests.
pub(crate) struct Driver<'s> {
    strategy: Box<dyn Strategy + 's>,
    meter: &'s Watched,
    start: usize,
    blocks: Vec<(NonNull<u8>, Layout)>,
    results: Hash,
    walks: Hash,
}

impl Driver<'_> {
    /// Blocks in use.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a result to the hash: a block, or none.
    fn result(&mut self, block: Option<NonNull<[u8]>>) {
        let offset = block.map_or(usize::MAX, |block| block.cast::<u8>().addr().get() - self.start);
        self.results.add(offset);
        self.results.add(block.map_or(0, NonNull::len));
    }

    pub(crate) fn allocate(&mut self, size: usize, align: usize) {
        self.allocated(size, align);
    }

    /// Returns whether the allocation succeeded.
    pub(crate) fn allocated(&mut self, size: usize, align: usize) -> bool {
        let layout = Layout::from_size_align(size, align).expect("a valid layout");
        let block = self.strategy.allocate(layout).ok();
        self.result(block);
        self.blocks.extend(block.map(|block| (block.cast(), layout)));
        block.is_some()
    }

    /// Frees the block with this number, if there is one; the last block takes its number.
    pub(crate) fn free(&mut self, number: usize) {
        if number < self.blocks.len() {
            let (block, layout) = self.blocks.swap_remove(number);
            // SAFETY: the block is in use, and no reference to it remains.
            unsafe { self.strategy.deallocate(block, layout) };
        }
    }

    /// Frees the oldest block; the others keep their order.
    pub(crate) fn free_first(&mut self) {
        if !self.blocks.is_empty() {
            let (block, layout) = self.blocks.remove(0);
            // SAFETY: as above.
            let freed = unsafe { self.strategy.try_free(block, layout) };
            assert_eq!(freed, FreeResult::Freed);
        }
    }

    /// Resizes the block with this number by `how`, if there is one.
    fn change(
        &mut self,
        number: usize,
        layout: impl FnOnce(Layout) -> Layout,
        how: impl FnOnce(&mut dyn Strategy, NonNull<u8>, Layout, Layout) -> Option<NonNull<[u8]>>,
    ) {
        let Some(&(block, old)) = self.blocks.get(number) else { return };
        let new = layout(old);
        let changed = how(&mut *self.strategy, block, old, new);
        self.result(changed);
        if let Some(changed) = changed {
            self.blocks[number] = (changed.cast(), new);
        }
    }

    pub(crate) fn reallocate(&mut self, number: usize, size: usize) {
        self.change(
            number,
            |old| sized(old, size),
            |strategy, block, old, new| {
                // SAFETY: it is in use with this layout; the new size is small.
                unsafe { strategy.reallocate(block, old, new.size()) }.ok()
            },
        );
    }

    /// Reallocates a block to `bytes` more or less.
    pub(crate) fn nudge(&mut self, number: usize, bytes: usize, more: bool) {
        let Some(&(_, old)) = self.blocks.get(number) else { return };
        let less = old.size().saturating_sub(bytes).max(1);
        self.reallocate(number, if more { old.size() + bytes } else { less });
    }

    pub(crate) fn resize_in_place(&mut self, number: usize, size: usize) {
        self.change(
            number,
            |old| sized(old, size),
            |strategy, block, old, new| {
                // SAFETY: as above.
                unsafe { strategy.resize_in_place(block, old, new.size()) }
            },
        );
    }

    pub(crate) fn keep(&mut self, number: usize, size: usize, align: usize) {
        let layout = Layout::from_size_align(size, align).expect("a valid layout");
        self.change(
            number,
            |_| layout,
            |strategy, block, old, new| {
                // SAFETY: it is in use with this layout.
                unsafe { strategy.keep(block, old, new) }
            },
        );
    }

    /// Adds a walk and the current figures to the hash, and audits.
    pub(crate) fn snapshot(&mut self) {
        self.figures();
    }

    fn figures(&mut self) -> (Usage, Free) {
        self.strategy.audit().expect("every invariant holds");
        let (mut free, mut walks) = (Free::default(), self.walks);
        self.strategy.walk(&mut |span| {
            walks.add(span.start - self.start);
            walks.add(span.len);
            walks.add(match span.kind {
                SpanKind::Block => 0,
                SpanKind::Free => 1,
                SpanKind::Header => 2,
                _ => 3,
            });
            if span.kind == SpanKind::Free {
                free.stretches += 1;
                free.largest = free.largest.max(span.len);
            }
        });
        let usage = self.strategy.usage();
        let counts = [
            usage.allocations,
            usage.frees,
            self.meter.counter.items(),
            self.meter.counter.paged_items(),
        ];
        let bytes =
            [usage.requested, usage.block, usage.held, usage.peak_requested, usage.peak_held];
        counts.into_iter().for_each(|count| walks.add(count as usize));
        bytes.into_iter().for_each(|bytes| walks.add(bytes));
        self.walks = walks;
        (usage, free)
    }

    /// Hashes which addresses are accepted as blocks in use, by fitting layouts and others.
    fn probe(&mut self, memory: usize) {
        for offset in (0..memory).step_by(1048) {
            let block = NonNull::new((self.start + offset) as *mut u8).expect("not null");
            let layout = Layout::from_size_align(1 + offset % 97, 8).expect("a valid layout");
            self.results.add(usize::from(self.strategy.is_in_use(block, layout)));
            self.results.add(usize::from(self.strategy.owns(block)));
        }
        for &(block, layout) in self.blocks.iter().step_by(5) {
            for more in [0, 1, 8, 16, 100, 1000] {
                let layout = sized(layout, layout.size() + more);
                self.results.add(usize::from(self.strategy.is_in_use(block, layout)));
            }
        }
    }
}

fn sized(layout: Layout, size: usize) -> Layout {
    Layout::from_size_align(size, layout.align()).expect("a valid layout")
}

/// The results of a sequence.
pub(crate) struct Traced {
    results: Hash,
    walks: Hash,
    usage: Usage,
    free: Free,
    items: u64,
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (results, walks) = (self.results.short(), self.walks.short());
        let (Usage { block, held, .. }, Free { stretches, largest }) = (self.usage, self.free);
        write!(
            f,
            "{results:08x} {walks:08x} | {block} {held} {stretches} {largest} | {}",
            self.items
        )
    }
}

/// Runs a sequence under a strategy, in zeroed memory.
pub(crate) fn trace(subject: &Subject, config: Config, sequence: Sequence) -> Traced {
    let layout = Layout::from_size_align(sequence.memory, ALIGN).expect("a valid layout");
    // SAFETY: it has bytes.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("there is memory");
    let start = memory.addr().get();
    let addresses = start..start + sequence.memory;
    let meter = Watched { counter: Counter::new(), addresses, strays: Cell::new(0) };
    // SAFETY: only the strategy uses the memory, which is freed after the strategy was dropped.
    let strategy = unsafe { subject.over(config, memory, sequence.memory, &meter) };
    let mut driver =
        Driver { strategy, meter: &meter, start, blocks: Vec::new(), results: EMPTY, walks: EMPTY };
    (sequence.run)(&mut driver);
    driver.probe(sequence.memory);
    let (usage, free) = driver.figures();
    (0..driver.blocks()).for_each(|_| driver.free(0));
    // Where blocks are placed after everything was freed.
    driver.snapshot();
    [5000, 300, 24].into_iter().for_each(|size| driver.allocate(size, 8));
    driver.snapshot();
    let Driver { strategy, results, walks, .. } = driver;
    drop(strategy);
    assert_eq!(meter.strays.get(), 0, "a meter is told of items in the strategy's memory");
    // SAFETY: allocated above, with this layout.
    unsafe { dealloc(memory.as_ptr(), layout) };
    Traced { results, walks, usage, free, items: meter.counter.items() }
}
