//! The memory of a simulated program: equal blocks from a strategy, read and written word by word.
//!
//! The programs of Brent §3 are written for a machine with 32-bit pointers. Here a pointer is the
//! offset of a block from the heap's first page, so nodes are as large as on that machine. Every
//! word read or written is a reference to its page; the strategy's bookkeeping does not count, as
//! in the paper (§3).
//!
//! ```text
//!   base          page 1           page 2
//!    | (no block) | block 0 | …    | …            Block = distance from base, never 0
//! ```

use std::alloc::Layout;
use std::num::NonZeroU32;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise_replay::paging::Paging;

/// A block in use: its offset in bytes from [`Memory::base`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(NonZeroU32);

impl Block {
    /// Encodes a pointer to a block as a word; 0 means none.
    pub(crate) fn word(block: Option<Block>) -> u32 {
        block.map_or(0, |block| block.0.get())
    }

    /// Returns the block that a word points to.
    pub(crate) fn of_word(word: u32) -> Option<Block> {
        NonZeroU32::new(word).map(Block)
    }
}

/// The counts of a program's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    /// Peak number of blocks in use.
    pub(crate) peak: u64,
}

impl Counts {
    pub(crate) fn live(&self) -> u64 {
        self.allocations - self.frees
    }
}

/// An allocator for a program that requests blocks of one size.
pub(crate) trait Blocks {
    /// Returns a block.
    ///
    /// # Errors
    /// If it runs out of memory.
    fn allocate(&mut self) -> anyhow::Result<NonNull<u8>>;

    /// Frees a block.
    ///
    /// # Safety
    /// [`allocate`](Self::allocate) returned it, and it was not freed since.
    unsafe fn free(&mut self, block: NonNull<u8>);
}

/// A strategy that serves blocks of one layout.
struct Served<'s> {
    strategy: Box<dyn Strategy + 's>,
    layout: Layout,
}

impl Blocks for Served<'_> {
    fn allocate(&mut self) -> anyhow::Result<NonNull<u8>> {
        Ok(self.strategy.allocate(self.layout)?.cast())
    }

    unsafe fn free(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's block was allocated with this layout.
        unsafe { self.strategy.deallocate(block, self.layout) };
    }
}

/// Blocks of one size from a strategy, with pages of a given size. `paging` is told every page
/// reference, except repetitions of the last page, which fault under no paging strategy.
pub(crate) struct Memory<'s, P> {
    blocks: Box<dyn Blocks + 's>,
    block_size: usize,
    page_shift: u32,
    paging: P,
    /// One page below the heap's first; null before the first allocation.
    base: *mut u8,
    last: usize,
    /// Which pages were ever referenced.
    seen: Vec<bool>,
    counts: Counts,
}

impl<'s, P: Paging> Memory<'s, P> {
    pub(crate) fn new(
        strategy: Box<dyn Strategy + 's>,
        block_size: usize,
        page_size: usize,
        paging: P,
    ) -> Self {
        let layout = Layout::from_size_align(block_size, 4).expect("a small block");
        Self::over(Box::new(Served { strategy, layout }), block_size, page_size, paging)
    }

    /// Makes memory of blocks of `block_size` bytes, aligned to 4. The first block is in the first
    /// page.
    pub(crate) fn over(
        blocks: Box<dyn Blocks + 's>,
        block_size: usize,
        page_size: usize,
        paging: P,
    ) -> Self {
        Self {
            blocks,
            block_size,
            page_shift: page_size.trailing_zeros(),
            paging,
            base: std::ptr::null_mut(),
            last: 0,
            seen: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of pages ever referenced: the paper's "virtual size".
    pub(crate) fn virtual_size(&self) -> u64 {
        self.seen.iter().filter(|&&seen| seen).count() as u64
    }

    /// Returns the simulated paging, for example to start its counting.
    pub(crate) fn paging(&mut self) -> &mut P {
        &mut self.paging
    }

    /// Returns the simulated paging after the program has ended.
    pub(crate) fn into_paging(self) -> P {
        self.paging
    }

    /// Pascal's `new`. The block is referenced only when it is written.
    pub(crate) fn allocate(&mut self) -> anyhow::Result<Block> {
        let block = self.blocks.allocate()?.as_ptr();
        if self.base.is_null() {
            // The first block is in the first page, but paged strategies may choose any block of
            // the page; heaps begin at a multiple of the page size.
            let page_size = 1 << self.page_shift;
            let within = block.addr() & (page_size - 1);
            self.base = block.wrapping_sub(within + page_size);
        }
        self.counts.allocations += 1;
        self.counts.peak = self.counts.peak.max(self.counts.live());
        let distance = u32::try_from(block.addr() - self.base.addr())?;
        Ok(Block(NonZeroU32::new(distance).expect("blocks lie above the base")))
    }

    /// Pascal's `dispose`.
    pub(crate) fn free(&mut self, block: Block) {
        self.counts.frees += 1;
        let address = self.base.wrapping_add(block.0.get() as usize);
        let address = NonNull::new(address).expect("a block lies above the base");
        // SAFETY: a `Block` comes from `allocate`; the programs of this module free each once,
        // after unlinking it.
        unsafe { self.blocks.free(address) };
    }

    /// Reads a word of a block.
    #[inline]
    pub(crate) fn get(&mut self, block: Block, word: usize) -> u32 {
        let word = self.word(block, word);
        // SAFETY: the word is within a block in use, which is aligned to 4 bytes.
        unsafe { word.read() }
    }

    /// Writes a word of a block.
    #[inline]
    pub(crate) fn set(&mut self, block: Block, word: usize, value: u32) {
        let word = self.word(block, word);
        // SAFETY: as in `get`.
        unsafe { word.write(value) };
    }

    /// References a word's page, and returns the word's address.
    #[inline]
    fn word(&mut self, block: Block, word: usize) -> *mut u32 {
        debug_assert!(4 * (word + 1) <= self.block_size);
        let offset = block.0.get() as usize + 4 * word;
        let page = offset >> self.page_shift;
        if page != self.last {
            self.last = page;
            if page >= self.seen.len() {
                self.seen.resize(page + 1, false);
            }
            self.seen[page] = true;
            self.paging.reference(page as u64);
        }
        self.base.wrapping_add(offset).cast()
    }
}
