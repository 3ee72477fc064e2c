//! A heap under exploration: the strategy in its room, an interval map of the live blocks, and the
//! checks of every state.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use pagewise::walk::{Span, SpanKind};
use pagewise::{AllocError, FreeResult, Usage};

use crate::room::{Bounds, Room};

/// The requested sizes and alignments. A block keeps its alignment when it is resized.
pub(crate) type Sizes = [(usize, usize); 4];

/// One step of a sequence. Blocks are numbered in address order among the live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Allocate { size: u8 },
    Free { block: u8 },
    Resize { block: u8, size: u8 },
}

/// A live block without its start: its request, and its usable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) layout: Layout,
    pub(crate) len: usize,
}

/// The live blocks by offset in the room, and the counts that the heap must report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) live: BTreeMap<usize, Block>,
    allocations: u64,
    frees: u64,
    peak_requested: usize,
}

pub(crate) struct Heap {
    pub(crate) room: Room,
    pub(crate) model: Model,
    pub(crate) sizes: Sizes,
}

/// Returns the fill byte at this offset of the room. It depends on the place, not on the block, so
/// that stale bytes in free memory do not make states differ.
fn content(offset: usize) -> u8 {
    (offset as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0] | 1
}

impl Heap {
    pub(crate) fn new(room: Room, sizes: Sizes) -> Self {
        Self { room, model: Model::default(), sizes }
    }

    fn address(&self, offset: usize) -> NonNull<u8> {
        Bounds::current().at(offset)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        self.room.strategy().walk(&mut |span| spans.push(span));
        spans
    }

    /// Performs an operation; returns the offset of an allocation, or the error.
    pub(crate) fn perform(&mut self, operation: Operation) -> Result<usize, AllocError> {
        match operation {
            Operation::Allocate { size } => self.allocate(size),
            Operation::Free { block } => Ok(self.free(block)),
            Operation::Resize { block, size } => self.resize(block, size),
        }
    }

    fn layout(&self, size: u8) -> Layout {
        let (size, align) = self.sizes[size as usize];
        Layout::from_size_align(size, align).expect("a valid layout")
    }

    /// Returns the live block with this number, and its offset.
    pub(crate) fn nth(&self, block: u8) -> (usize, Block) {
        let (&offset, &block) = self.model.live.iter().nth(block.into()).expect("a live block");
        (offset, block)
    }

    fn allocate(&mut self, size: u8) -> Result<usize, AllocError> {
        let layout = self.layout(size);
        let before = self.room.strategy().usage();
        match self.room.strategy_mut().allocate(layout) {
            Ok(memory) => {
                self.model.allocations += 1;
                Ok(self.enter(memory, layout))
            }
            Err(error) => {
                self.check_unchanged(before, error);
                Err(error)
            }
        }
    }

    fn check_unchanged(&self, before: Usage, error: AllocError) {
        assert_eq!(error, AllocError::Exhausted);
        let after = self.room.strategy().usage();
        let in_use = |usage: Usage| (usage.requested, usage.block, usage.blocks, usage.allocations);
        assert_eq!(in_use(after), in_use(before), "a request that fails changes nothing");
    }

    /// Records and fills a new live block.
    fn enter(&mut self, memory: NonNull<[u8]>, layout: Layout) -> usize {
        let bounds = Bounds::current();
        let offset = memory.cast::<u8>().addr().get().wrapping_sub(bounds.base());
        let (len, end) = (memory.len(), offset.wrapping_add(memory.len()));
        assert!(bounds.start <= offset && end <= bounds.end, "a block lies in the extent");
        assert!(len >= layout.size(), "a block is as long as asked");
        assert!(offset.is_multiple_of(layout.align()), "a block is aligned as asked");
        let below = self.model.live.range(..end).next_back();
        assert!(below.is_none_or(|(at, block)| at + block.len <= offset), "blocks are disjoint");
        self.model.live.insert(offset, Block { layout, len });
        let requested = self.model.live.values().map(|block| block.layout.size()).sum();
        self.model.peak_requested = self.model.peak_requested.max(requested);
        for index in 0..len {
            // SAFETY: the block is this long.
            unsafe { memory.cast::<u8>().add(index).write(content(offset + index)) };
        }
        offset
    }

    fn free(&mut self, block: u8) -> usize {
        let (offset, block) = self.nth(block);
        self.model.live.remove(&offset);
        self.model.frees += 1;
        let address = self.address(offset);
        let strategy = self.room.strategy_mut();
        // SAFETY: the model has forgotten the block; the second call must be refused.
        let freed = unsafe {
            let first = strategy.try_free(address, block.layout);
            let before = strategy.usage();
            let second = strategy.try_free(address, block.layout);
            assert_eq!(strategy.usage(), before, "a free that is refused changes nothing");
            [first, second]
        };
        assert_eq!(freed, [FreeResult::Freed, FreeResult::Unallocated], "a block is freed once");
        offset
    }

    fn resize(&mut self, block: u8, size: u8) -> Result<usize, AllocError> {
        let (offset, block) = self.nth(block);
        let (new_size, _) = self.sizes[size as usize];
        let address = self.address(offset);
        let before = self.room.strategy().usage();
        let tint = |index: usize| (index as u8).wrapping_mul(31) ^ 0x5a;
        let kept = block.layout.size();
        for index in 0..kept {
            // SAFETY: the block is in use and this long.
            unsafe { address.add(index).write(tint(index)) };
        }
        // SAFETY: the block is in use with this layout.
        let resized =
            unsafe { self.room.strategy_mut().reallocate(address, block.layout, new_size) };
        let holds = |start: NonNull<u8>, len: usize| {
            // SAFETY: the block is in use, this long, and was written.
            let intact = (0..len).all(|index| unsafe { start.add(index).read() } == tint(index));
            assert!(intact, "a block that is resized keeps its contents");
        };
        match resized {
            Ok(memory) => {
                holds(memory.cast(), kept.min(new_size));
                let layout = Layout::from_size_align(new_size, block.layout.align());
                self.model.live.remove(&offset);
                // A move allocates before it frees, so both blocks are in use for a moment.
                let after = self.room.strategy().usage();
                let moves = after.allocations - before.allocations;
                assert!(moves <= 1 && after.frees - before.frees == moves);
                self.model.allocations += moves;
                self.model.frees += moves;
                let both = if moves == 1 { before.requested + new_size } else { 0 };
                self.model.peak_requested = self.model.peak_requested.max(both);
                Ok(self.enter(memory, layout.expect("a valid layout")))
            }
            Err(error) => {
                assert!(new_size > kept, "a block that shrinks never fails");
                self.check_unchanged(before, error);
                holds(address, kept);
                for index in 0..block.len {
                    // SAFETY: the block is in use and this long.
                    unsafe { address.add(index).write(content(offset + index)) };
                }
                Err(error)
            }
        }
    }

    /// Checks every property that must hold in each state.
    pub(crate) fn check(&self) {
        let strategy = self.room.strategy();
        strategy.audit().expect("every invariant holds");
        self.check_usage();
        self.check_tiling();
        for (&offset, block) in &self.model.live {
            let start = self.address(offset);
            // SAFETY: the block is in use, this long, and was filled.
            let byte = |index| unsafe { start.add(index).read() };
            let intact = (0..block.len).all(|index| byte(index) == content(offset + index));
            assert!(intact, "the block at {offset} is intact");
            assert!(strategy.is_in_use(start, block.layout), "the block at {offset} is in use");
        }
    }

    fn check_usage(&self) {
        let Model { live, allocations, frees, peak_requested } = &self.model;
        let usage = self.room.strategy().usage();
        let requested: usize = live.values().map(|block| block.layout.size()).sum();
        assert_eq!((usage.blocks, usage.requested), (live.len(), requested));
        assert_eq!((usage.allocations, usage.frees), (*allocations, *frees));
        assert_eq!(usage.peak_requested, *peak_requested);
        assert!(usage.peak_held >= usage.held);
    }

    /// The walk covers extent and dedicated memory without a gap, and each live block is a span of
    /// its own.
    fn check_tiling(&self) {
        let bounds = Bounds::current();
        let mut live = self.model.live.iter();
        let mut end = bounds.base() + bounds.start;
        let extent_ends = bounds.base() + bounds.end;
        self.room.strategy().walk(&mut |span| {
            if end == extent_ends && span.start != end {
                end = bounds.base() + bounds.low;
            }
            assert_eq!(span.start, end, "spans lie side by side");
            end = span.end();
            if span.kind == SpanKind::Block {
                let (offset, block) = live.next().expect("no more blocks than live ones");
                let start = bounds.base() + offset;
                assert!(
                    span.start <= start && start + block.len <= end,
                    "the block at {offset} lies in {span:x?}"
                );
            }
        });
        assert_eq!(live.next(), None, "every live block is walked");
        let all = if bounds.low < bounds.high { bounds.base() + bounds.high } else { extent_ends };
        assert_eq!(end, all, "the walk reaches the end");
    }

    /// A checked free refuses any address that is not a live block, whatever the layout.
    pub(crate) fn check_refusals(&self) {
        let bounds = Bounds::current();
        let strategy = self.room.strategy();
        for offset in (0..bounds.end).step_by(4) {
            if self.model.live.contains_key(&offset) {
                continue;
            }
            for size in 0..4 {
                let layout = Layout::from_size_align(self.sizes[size as usize].0, 1);
                let answer =
                    strategy.is_in_use(self.address(offset), layout.expect("a valid layout"));
                assert!(!answer, "no block starts at {offset}");
            }
        }
    }
}
