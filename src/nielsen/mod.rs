//! Two engines for the 35 algorithms of Nielsen (1977), which the
//! [`catalogue`](crate::catalogue::nielsen) composes of search, list order, overhead fields and
//! compaction.
//!
//! An algorithm is a type expression that spells out its row of the paper's Table III.
//!
//! | category | type | parameters |
//! |---|---|---|
//! | I: memory order without free list | `InMemoryOrder<Q, F, C>` | search, fields, compaction |
//! | II, III, VI: one free list, in memory order, LIFO, FIFO, by size | `FreeList<O, Q, F, C>` | order, search, fields, compaction |
//! | IV: a free list for each size | `SizeLists<Z, R, F, C>` | sizes, order of the residual queue, fields, compaction |
//! | V: buddy blocks | `Buddies<O, F, C>` | order, fields, compaction |
//!
//! | parameter | values |
//! |---|---|
//! | search | `FirstFit`, `ExactOrBest`, either of them `Rotating` |
//! | order | `Lifo`, `Fifo`, `MemoryOrder`, `SizeOrder` |
//! | fields | tuples of `Size`, `Forward`, `Double`, `Preceding`: S, FP, DP, BP or B |
//! | sizes | `Actual`, `RoundUp` |
//! | compaction | `OnAllocation`, `OnDeallocation`, `GarbageCollection`, `Limbo`, `TwoStage`, `CompactionAndCollection` |
//!
//! The meter counts every block visited on a list or in memory (1), every block put on a list (1,
//! or 2 with pointers both ways), and every pointer to a preceding block that is written (1).

// Files, in the order they build on each other: `fields`, `words` (a memory tiled by blocks),
// `algorithm` (the trait), `search`, `compaction`, `list`, `heap` (the engine), its indexes
// `in_memory_order`, `free_list` and `size_lists`, and `buddies`, an engine of its own.

mod algorithm;
pub(crate) mod buddies;
pub(crate) mod compaction;
pub(crate) mod fields;
pub(crate) mod free_list;
pub(crate) mod heap;
pub(crate) mod in_memory_order;
pub(crate) mod list;
pub(crate) mod search;
pub(crate) mod size_lists;
#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests;
mod words;

use core::alloc::Layout;
use core::ptr::NonNull;

use self::algorithm::Algorithm;
use self::fields::Fields;
use self::words::{ALIGN, Block, MAX_WORDS, Request, WORD, Words};
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::{Span, SpanKind};
use crate::tally::Change;

/// A heap of words over a source, served by the algorithm `A`.
///
/// ```text
///  extent  | skipped | block | block | … | block |
///          origin − … ▲ word 0: the first contents are aligned to 16 bytes
/// ```
/// Blocks take 4 bytes more than requested, or 8 with a pointer to the preceding block. Their
/// lengths are multiples of 4 bytes, or of the requested alignment up to 16. For a greater
/// alignment, the gap below the block is split off. A heap has at most 4 GiB. Time: O(n) for n
/// blocks, unless the algorithm promises better.
pub(crate) type WordHeap<A, S, M = ()> = Heap<ByAlgorithm<A>, S, M>;

/// The engine of a [`WordHeap`].
#[derive(Debug)]
pub struct ByAlgorithm<A> {
    algorithm: A,
    /// The memory that the algorithm manages.
    words: Words,
    /// Words the memory grows by.
    growth: u32,
}

impl<A: Algorithm, S: Source, M: Meter> Heap<ByAlgorithm<A>, S, M> {
    /// Makes a heap over `source`. The heap grows by `growth` bytes, or by just the bytes needed if
    /// the source has no more. It takes no memory before the first allocation.
    ///
    /// # Panics
    /// Unless `growth` is at least 64 bytes and below 4 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(growth: usize, source: S, meter: M) -> Self {
        assert!(growth >= 64 && growth / WORD < MAX_WORDS as usize);
        let growth = (growth / WORD) as u32;
        let engine = ByAlgorithm { algorithm: A::EMPTY, words: Words::new(), growth };
        Self::over(engine, source, meter)
    }

    /// Returns how often all of memory was walked to make the lists of free blocks anew: the
    /// garbage collections, in the terms of Nielsen's Table III.
    #[must_use]
    pub fn collections(&self) -> u64 {
        self.engine.algorithm.collections()
    }

    /// Returns the size in bytes of a source that gives a memory of `words` words, all of it free
    /// at once if the heap grows by that much; `usize::MAX` if no source is that long.
    #[must_use]
    pub const fn region_for(words: usize) -> usize {
        words.saturating_mul(WORD).saturating_add(ByAlgorithm::<A>::SKIPPED)
    }
}

impl<A: Algorithm> ByAlgorithm<A> {
    /// Bytes before word 0, so that the contents of a block there are aligned.
    const SKIPPED: usize = ALIGN - A::Fields::HEADER as usize * WORD;

    /// Returns the bytes of a block's contents.
    fn bytes(block: Block) -> usize {
        (block.len - A::Fields::HEADER) as usize * WORD
    }

    /// Returns the words between a block's fields and contents of this alignment. They are 0 unless
    /// the algorithm, like the buddies, cannot place the block itself.
    fn gap(&self, block: Block, align: usize) -> u32 {
        let first = self.words.address(block.start + A::Fields::HEADER);
        ((first.wrapping_neg() & (align - 1)) / WORD) as u32
    }

    /// Returns the address of contents of this alignment in a block.
    fn address_of(&self, block: Block, align: usize) -> usize {
        let first = self.words.address(block.start + A::Fields::HEADER);
        first + self.gap(block, align) as usize * WORD
    }

    /// Places the contents of a block that was just taken at their alignment.
    fn place(&mut self, block: Block, align: usize) -> NonNull<[u8]> {
        self.words.set_gap::<A::Fields>(block.start, self.gap(block, align));
        self.contents(block, align)
    }

    /// Returns where the contents of a block that serves a request of this alignment start.
    fn contents(&self, block: Block, align: usize) -> NonNull<[u8]> {
        let first = block.start + A::Fields::HEADER;
        let gap = self.gap(block, align) as usize * WORD;
        debug_assert!(gap < Self::bytes(block));
        // SAFETY: a block of the request's length has room behind the gap; memory is not at
        // address 0.
        let contents = unsafe {
            NonNull::new_unchecked(self.words.pointer(first).cast::<u8>().wrapping_add(gap))
        };
        NonNull::slice_from_raw_parts(contents, Self::bytes(block) - gap)
    }

    /// Returns the block in use that has these contents. The caller vouches that there is one;
    /// debug builds check.
    fn block_of(&self, contents: NonNull<u8>, request: Request) -> Option<Block> {
        let word = self.words.word_at(contents.addr().get())?;
        let block = self.words.block(A::start_of(word, request)?);
        debug_assert!(A::serves(block, request) && !self.words.is_free(block.start));
        Some(block)
    }

    /// Takes memory from the source so that it can serve a request: in the new memory alone, or, if
    /// the source has too little for that, together with the free blocks at the end.
    #[cold]
    fn grow<S: Source, M: Meter>(
        &mut self,
        request: Request,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        if !self.words.is_open() {
            let memory = backing.source.extend(Self::SKIPPED, ALIGN)?;
            self.words.open(memory.as_ptr().wrapping_add(Self::SKIPPED).cast());
        }
        let (unit, end) = (A::UNIT, self.words.end());
        let usual = (end + self.growth) / unit * unit;
        let apart = self.reach(request, end);
        let grown = apart.and_then(|apart| self.extend(usual.max(apart), backing));
        let grown = grown.or_else(|_| self.extend(apart?, backing));
        grown.or_else(|exhausted| {
            let joined = self.reach(request, self.words.free_tail())?;
            // Otherwise the search would have found the blocks.
            if joined <= end {
                return Err(exhausted);
            }
            let least = (end + A::Fields::LEAST).next_multiple_of(unit);
            self.extend(joined.max(least), backing)
        })
    }

    /// Returns where memory must end to serve a request, if all words from `from` on are free.
    fn reach(&self, request: Request, from: u32) -> Result<u32, AllocError> {
        let reach = A::reach(request, from, &self.words);
        reach.and_then(|end| end.checked_next_multiple_of(A::UNIT)).ok_or(AllocError::Exhausted)
    }

    /// Takes memory from the source so that it ends at the word `end`.
    fn extend<S: Source, M: Meter>(
        &mut self,
        end: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        if end > MAX_WORDS {
            return Err(AllocError::Exhausted);
        }
        let bytes = (end - self.words.end()) as usize * WORD;
        backing.source.extend(bytes, ALIGN)?;
        // SAFETY: the source's extent is the heap's alone and grows where it ended.
        let block = unsafe { self.words.extend::<A::Fields>(end) };
        self.algorithm.add(block, &mut self.words, &backing.meter);
        Ok(())
    }
}

// SAFETY: blocks are disjoint parts of the source's extent; overhead fields lie before their
// contents, pointers of lists in free ones. They stay in place when the engine moves.
unsafe impl<A: Algorithm, S: Source, M: Meter> Engine<S, M> for ByAlgorithm<A> {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let request = A::request(layout).ok_or(AllocError::Exhausted)?;
        let block = match self.algorithm.take(request, &mut self.words, &backing.meter) {
            Some(block) => block,
            None => {
                self.grow(request, backing)?;
                let block = self.algorithm.take(request, &mut self.words, &backing.meter);
                block.ok_or(AllocError::Exhausted)?
            }
        };
        let contents = self.place(block, layout.align());
        Ok(Served { contents, bytes: Self::bytes(block), part: Part::Fit })
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let found = A::request(layout).and_then(|request| engine.block_of(block, request));
        let Some(found) = found else { return };
        engine.algorithm.release(found, &mut engine.words, &backing.meter);
        backing.freed(layout.size(), Self::bytes(found), Part::Fit);
    }

    /// A block may stay if it could also have been allocated for the new layout.
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let found = self.block_of(block, A::request(layout)?)?;
        let request = A::request(new_layout)?;
        if self.address_of(found, new_layout.align()) != block.addr().get() {
            return None;
        }
        let resized = self.algorithm.resize(found, request, &mut self.words, &backing.meter)?;
        backing.meter.served(Part::Fit);
        let bytes = Change { old: Self::bytes(found), new: Self::bytes(resized) };
        Some(Resized { contents: self.place(resized, new_layout.align()), bytes })
    }

    /// Walks the blocks below this address, since an address alone does not tell whether a block
    /// starts there: O(n).
    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        let wanted = || {
            let request = A::request(layout)?;
            let word = self.words.word_at(block.addr().get())?;
            Some((A::start_of(word, request)?, request))
        };
        let Some((start, request)) = wanted() else { return false };
        let found = self.words.blocks().find(|(block, _)| block.start >= start);
        found.is_some_and(|(found, is_free)| {
            let serves = found.start == start && !is_free && A::serves(found, request);
            let gap = self.gap(found, layout.align());
            serves
                && self.address_of(found, layout.align()) == block.addr().get()
                && self.words.gap::<A::Fields>(start) == gap
        })
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        if !self.words.is_open() {
            return;
        }
        let start = self.words.address(0) - Self::SKIPPED;
        visit(Span { start, len: Self::SKIPPED, kind: SpanKind::Slack });
        for (block, is_free) in self.words.blocks() {
            let start = self.words.address(block.start);
            let header = A::Fields::HEADER as usize * WORD;
            let kind = if is_free { SpanKind::Free } else { SpanKind::Block };
            visit(Span { start, len: header, kind: SpanKind::Header });
            visit(Span { start: start + header, len: Self::bytes(block), kind });
        }
    }

    fn audit(&self) -> Result<(), Fault> {
        self.words.audit::<A::Fields>()?;
        self.algorithm.audit(&self.words)
    }
}
