//! Checks the properties of every strategy with random sequences of requests.
//!
//! A strategy joins with one line in `properties/`. The harness keeps a model of the blocks in use,
//! as an independent oracle, and checks after each step:
//! - a block is aligned, as long as requested, and overlaps no other;
//! - contents survive resizing, and everything that happens to other blocks;
//! - a checked free refuses an address that is not a block in use, and a block in use with an
//!   alignment that it does not have, and changes nothing;
//! - shrinking never fails, and does not move a block that must stay;
//! - a strategy owns its blocks, and no other memory;
//! - after exhaustion, and at any time, `audit` finds no fault and `usage` agrees with the model;
//! - bookkeeping (page headers, left headers, tables) is apart from all pages and blocks, except
//!   for strategies with boundary tags.

pub(crate) mod source;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use pagewise::walk::SpanKind;
use pagewise::{AllocError, FreeResult, Strategy, Usage};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, TestRng};

/// A request. `which` selects one of the blocks in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Allocate {
        size: usize,
        align: usize,
    },
    Resize {
        which: usize,
        size: usize,
    },
    Free {
        which: usize,
    },
    CheckedFree {
        which: usize,
    },
    /// Gives a block another layout in place, if possible.
    Keep {
        which: usize,
        size: usize,
        align: usize,
    },
    /// Frees an address that is not a block.
    WrongFree {
        which: usize,
        offset: isize,
        size: usize,
        align: usize,
    },
    /// Frees a block with an alignment of `1 << shift` times that of its address.
    Misaligned {
        which: usize,
        shift: u32,
    },
}

/// Upper bounds of the two largest ranges of sizes. Every byte of a block is written and read,
/// which costs a microsecond each under Miri.
const LARGER: usize = if cfg!(miri) { 6_000 } else { 40_000 };
const LARGEST: usize = if cfg!(miri) { 100_001 } else { 3_000_000 };

/// Sizes as programs request them: mostly small, some a few pages long, sometimes 0.
fn size() -> impl Strategy_<Value = usize> {
    prop_oneof![
        1 => Just(0usize),
        40 => 1..=64usize,
        30 => 65..=600usize,
        20 => 601..=5_000usize,
        5 => 5_001..=LARGER,
        1 => 100_000..=LARGEST,
    ]
}

use proptest::strategy::Strategy as Strategy_;

fn align() -> impl Strategy_<Value = usize> {
    prop_oneof![
        20 => (0..=4u32).prop_map(|shift| 1usize << shift),
        3 => (5..=9u32).prop_map(|shift| 1usize << shift),
        1 => (10..=17u32).prop_map(|shift| 1usize << shift),
    ]
}

/// Cases per property, and where the seeds of failed ones are saved: beside the test, to be tried
/// first in later runs. `PROPTEST_CASES` overrides the number.
pub(crate) fn config() -> ProptestConfig {
    if cfg!(miri) {
        // Under an emulator each case takes seconds, and there are no files.
        return ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2) };
    }
    // The default includes the environment's settings.
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 48 };
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(persistence)), ..default }
}

/// Returns a sequence of requests, long enough to fill and empty many pages.
pub(crate) fn requests() -> impl Strategy_<Value = Vec<Request>> {
    let request = prop_oneof![
        10 => (size(), align()).prop_map(|(size, align)| Request::Allocate { size, align }),
        3 => (any::<usize>(), size()).prop_map(|(which, size)| Request::Resize { which, size }),
        6 => any::<usize>().prop_map(|which| Request::Free { which }),
        1 => any::<usize>().prop_map(|which| Request::CheckedFree { which }),
        1 => (any::<usize>(), size(), align())
            .prop_map(|(which, size, align)| Request::Keep { which, size, align }),
        1 => (any::<usize>(), -70_000..70_000isize, size(), align()).prop_map(
            |(which, offset, size, align)| Request::WrongFree { which, offset, size, align }
        ),
        1 => (any::<usize>(), 1..6u32)
            .prop_map(|(which, shift)| Request::Misaligned { which, shift }),
    ];
    prop::collection::vec(request, 1..if cfg!(miri) { 80 } else { 600 })
}

/// 0 to 255, twice.
static RAMP: [u8; 512] = {
    let mut ramp = [0; 512];
    let mut index = 0;
    while index < ramp.len() {
        ramp[index] = index as u8;
        index += 1;
    }
    ramp
};

/// A block in use, as the model knows it.
#[derive(Clone, Copy, Debug)]
struct Block {
    address: NonNull<u8>,
    layout: Layout,
    /// The start of the block's fill pattern.
    tint: u8,
}

impl Block {
    fn start(&self) -> usize {
        self.address.addr().get()
    }

    /// Returns the pattern that the block repeats every 256 bytes.
    fn pattern(&self) -> &'static [u8; 256] {
        RAMP[self.tint.into()..].first_chunk().expect("it goes up twice")
    }

    fn fill(&self) {
        let pattern = self.pattern();
        for start in (0..self.layout.size()).step_by(pattern.len()) {
            let len = pattern.len().min(self.layout.size() - start);
            // SAFETY: the block is in use and this long.
            unsafe { self.address.add(start).copy_from(NonNull::from(pattern).cast(), len) };
        }
    }

    fn verify(&self, len: usize) {
        // SAFETY: the block is in use, at least this long, and was filled; no other code accesses
        // it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(self.address.as_ptr(), len) };
        let pattern = self.pattern();
        for (index, found) in bytes.chunks(pattern.len()).enumerate() {
            assert_eq!(found, &pattern[..found.len()], "from byte {} of {self:?}", 256 * index);
        }
    }
}

/// Where a strategy keeps its bookkeeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bookkeeping {
    /// Apart from all pages and blocks.
    Apart,
    /// Beside the blocks, as with boundary tags.
    InBand,
}

/// The strategy under test, and the model.
struct Bench<'s> {
    strategy: &'s mut dyn Strategy,
    bookkeeping: Bookkeeping,
    blocks: Vec<Block>,
    /// Start and end of the blocks that have bytes.
    extents: BTreeMap<usize, usize>,
    tint: u8,
}

impl Bench<'_> {
    fn pick(&self, which: usize) -> Option<usize> {
        which.checked_rem(self.blocks.len())
    }

    fn perform(&mut self, request: Request) {
        match request {
            Request::Allocate { size, align } => self.allocate(size, align),
            Request::Resize { which, size } => {
                if let Some(index) = self.pick(which) {
                    self.resize(index, size);
                }
            }
            Request::Free { which } => {
                if let Some(index) = self.pick(which) {
                    self.free(index);
                }
            }
            Request::CheckedFree { which } => {
                if let Some(index) = self.pick(which) {
                    self.checked_free(index);
                }
            }
            Request::Keep { which, size, align } => {
                if let Some(index) = self.pick(which) {
                    self.keep(index, size, align);
                }
            }
            Request::WrongFree { which, offset, size, align } => {
                self.wrong_free(which, offset, size, align);
            }
            Request::Misaligned { which, shift } => self.misaligned(which, shift),
        }
    }

    fn allocate(&mut self, size: usize, align: usize) {
        let layout = Layout::from_size_align(size, align).expect("a valid layout");
        let before = self.strategy.usage();
        match self.strategy.allocate(layout) {
            Ok(memory) => {
                assert!(memory.len() >= size);
                self.enter(memory.cast(), layout);
            }
            Err(error) => self.check_unchanged(before, error),
        }
    }

    /// A failed request returned the documented error and changed nothing.
    fn check_unchanged(&self, before: Usage, error: AllocError) {
        assert_eq!(error, AllocError::Exhausted);
        // A strategy keeps the memory that it got before the refusal.
        let mut after = self.strategy.usage();
        assert!(after.held >= before.held && after.peak_held >= before.peak_held);
        (after.held, after.peak_held) = (before.held, before.peak_held);
        assert_eq!(after, before);
        self.strategy.audit().expect("exhaustion loses nothing");
        let mut ends = BTreeMap::new();
        self.strategy.walk(&mut |span| {
            if span.kind == SpanKind::Block {
                ends.insert(span.start, span.end());
            }
        });
        assert_eq!(ends.len(), self.extents.len(), "the walk has the blocks in use");
        for (&start, &end) in &self.extents {
            let below = ends.range(..=start).next_back();
            assert!(below.is_some_and(|(_, &walked)| end <= walked), "the walk has {start:#x}");
        }
    }

    fn enter(&mut self, address: NonNull<u8>, layout: Layout) {
        assert!(address.addr().get().is_multiple_of(layout.align()), "{layout:?} at {address:?}");
        self.tint = self.tint.wrapping_add(37);
        let block = Block { address, layout, tint: self.tint };
        assert_eq!(self.strategy.owns(address), layout.size() > 0, "{block:?}");
        if layout.size() > 0 {
            let (start, end) = (block.start(), block.start() + layout.size());
            let below = self.extents.range(..end).next_back();
            assert!(below.is_none_or(|(_, &below)| below <= start), "{block:?} overlaps");
            self.extents.insert(start, end);
        }
        block.fill();
        self.blocks.push(block);
    }

    fn leave(&mut self, index: usize) -> Block {
        let block = self.blocks.swap_remove(index);
        if block.layout.size() > 0 {
            self.extents.remove(&block.start());
        }
        block.verify(block.layout.size());
        block
    }

    fn resize(&mut self, index: usize, size: usize) {
        let old = self.blocks[index];
        old.verify(old.layout.size());
        let before = self.strategy.usage();
        // SAFETY: the block is in use with this layout; sizes are far below isize::MAX.
        match unsafe { self.strategy.reallocate(old.address, old.layout, size) } {
            Ok(memory) => {
                assert!(memory.len() >= size);
                self.blocks.swap_remove(index);
                self.extents.remove(&old.start());
                let layout = Layout::from_size_align(size, old.layout.align()).expect("valid");
                let moved = Block { address: memory.cast(), layout, tint: old.tint };
                moved.verify(old.layout.size().min(size));
                self.enter(moved.address, layout);
            }
            Err(error) => {
                assert!(size > old.layout.size(), "{old:?} does not shrink to {size} bytes");
                self.check_unchanged(before, error);
            }
        }
    }

    fn keep(&mut self, index: usize, size: usize, align: usize) {
        let old = self.blocks[index];
        let layout = Layout::from_size_align(size, align).expect("a valid layout");
        // SAFETY: the block is in use with this layout.
        let Some(memory) = (unsafe { self.strategy.keep(old.address, old.layout, layout) }) else {
            let shrinks = 0 < size && size <= old.layout.size() && align == old.layout.align();
            assert!(!shrinks, "{old:?} is not kept with {size} bytes");
            old.verify(old.layout.size());
            return;
        };
        assert_eq!(memory.cast(), old.address);
        assert!(memory.len() >= size);
        self.blocks.swap_remove(index);
        self.extents.remove(&old.start());
        old.verify(old.layout.size().min(size));
        self.enter(old.address, layout);
        assert!(self.strategy.is_in_use(old.address, layout), "{old:?} is known by {layout:?}");
    }

    fn free(&mut self, index: usize) {
        let block = self.leave(index);
        // SAFETY: the block is in use with this layout, and the model has forgotten it.
        unsafe { self.strategy.deallocate(block.address, block.layout) };
    }

    fn checked_free(&mut self, index: usize) {
        let block = self.leave(index);
        let expected =
            if block.layout.size() > 0 { FreeResult::Freed } else { FreeResult::Unallocated };
        let Block { address, layout, .. } = block;
        assert_eq!(self.strategy.is_in_use(address, layout), expected == FreeResult::Freed);
        assert_eq!(self.try_free(address, layout), expected, "{block:?}");
        assert_eq!(self.try_free(address, layout), FreeResult::Unallocated, "{block:?}");
        assert!(!self.strategy.is_in_use(address, layout));
    }

    /// Tries to free an address that is not in the model.
    fn try_free(&mut self, address: NonNull<u8>, layout: Layout) -> FreeResult {
        // SAFETY: if the address is a block, it is no longer used.
        unsafe { self.strategy.try_free(address, layout) }
    }

    /// Checks that a checked free is refused.
    fn refused(&mut self, address: NonNull<u8>, layout: Layout) {
        let before = self.strategy.usage();
        assert!(!self.strategy.is_in_use(address, layout), "{address:?} as {layout:?}");
        assert_eq!(self.try_free(address, layout), FreeResult::Unallocated);
        assert_eq!(self.strategy.usage(), before);
    }

    /// Frees a pointer that is not the start of a block in use: must be refused.
    fn wrong_free(&mut self, which: usize, offset: isize, size: usize, align: usize) {
        let Some(index) = self.pick(which) else { return };
        let address = self.blocks[index].start().wrapping_add_signed(offset).max(1);
        if self.blocks.iter().any(|block| block.start() == address) {
            return;
        }
        let wrong = NonNull::new(std::ptr::without_provenance_mut(address)).expect("not null");
        self.refused(wrong, Layout::from_size_align(size, align).expect("a valid layout"));
    }

    /// Frees a block in use with an alignment that its address does not have: must be refused.
    fn misaligned(&mut self, which: usize, shift: u32) {
        let Some(index) = self.pick(which) else { return };
        let Block { address, layout, .. } = self.blocks[index];
        let align = (1 << address.addr().trailing_zeros()) << shift;
        if let Ok(layout) = Layout::from_size_align(layout.size(), align) {
            self.refused(address, layout);
        }
    }

    fn check(&self) {
        self.strategy.audit().expect("every invariant holds");
        let usage = self.strategy.usage();
        let in_use = self.blocks.iter().filter(|block| block.layout.size() > 0);
        assert_eq!(usage.blocks, in_use.clone().count());
        assert_eq!(usage.requested, in_use.map(|block| block.layout.size()).sum::<usize>());
        assert!(usage.peak_held >= usage.held && usage.peak_requested >= usage.requested);
        if self.bookkeeping == Bookkeeping::Apart {
            pagewise::walk::check_apart(self.strategy).expect("no header lies in a page");
        }
    }
}

/// Performs the requests on a strategy; checks it after each and at the end.
pub(crate) fn drive(strategy: &mut dyn Strategy, bookkeeping: Bookkeeping, requests: &[Request]) {
    let (blocks, extents) = (Vec::new(), BTreeMap::new());
    let mut bench = Bench { strategy, bookkeeping, blocks, extents, tint: 0 };
    for (index, &request) in requests.iter().enumerate() {
        bench.perform(request);
        if index % 32 == 0 {
            bench.check();
        }
    }
    bench.check();
    while !bench.blocks.is_empty() {
        bench.free(bench.blocks.len() / 2);
    }
    bench.check();
    assert_eq!(bench.strategy.usage().block, 0, "everything was freed");
}

/// Allocates blocks of one size until memory is exhausted, frees every other one, and refills the
/// gaps: as many blocks as were freed must fit, if the strategy reuses single blocks.
pub(crate) fn exhaust_and_refill(strategy: &mut dyn Strategy, size: usize, reuses: bool) {
    let layout = Layout::from_size_align(size, 1).expect("a valid layout");
    let mut blocks = Vec::new();
    while let Ok(block) = strategy.allocate(layout) {
        blocks.push(block.cast::<u8>());
    }
    assert!(!blocks.is_empty(), "the region holds at least one block");
    strategy.audit().expect("exhaustion loses nothing");
    let mut kept = Vec::new();
    let mut freed = 0;
    for (index, &block) in blocks.iter().enumerate() {
        if index % 2 == 0 {
            // SAFETY: the block is in use with this layout, and is freed once.
            unsafe { strategy.deallocate(block, layout) };
            freed += 1;
        } else {
            kept.push(block);
        }
    }
    strategy.audit().expect("every invariant holds");
    let mut refilled = 0;
    while let Ok(block) = strategy.allocate(layout) {
        kept.push(block.cast());
        refilled += 1;
    }
    assert!(!reuses || refilled >= freed, "{refilled} of {freed} blocks of {size} B fit again");
    for block in kept {
        // SAFETY: as above.
        unsafe { strategy.deallocate(block, layout) };
    }
    strategy.audit().expect("every invariant holds");
    assert_eq!(strategy.usage().blocks, 0);
}

/// Returns `count` requests of every kind, always the same except for the largest size.
pub(crate) fn fixed_requests(count: usize, largest: usize) -> Vec<Request> {
    let sizes = [1, 8, 24, 60, 100, 200, 500, 900, 1500, 4000, 9000, largest];
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut next = |below: usize| random.next_u32() as usize % below;
    let request = |_| {
        let (which, size, align) = (next(1 << 16), sizes[next(sizes.len())], 1 << next(9));
        match next(10) {
            0..5 => Request::Allocate { size, align: if align > 16 { 1 } else { align } },
            5 => Request::Allocate { size, align },
            6 => Request::Resize { which, size },
            7 => Request::Keep { which, size, align },
            8 => Request::Free { which },
            _ => Request::CheckedFree { which },
        }
    };
    (0..count).map(request).collect()
}
