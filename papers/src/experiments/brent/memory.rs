//! The memory of a simulated program: equal blocks from a strategy, read and written word by word.
//!
//! The programs of Brent §3 are written for a machine with pointers of 32 bits. Here a pointer is
//! the distance of a block from the heap's first page, so a node is as large as on that machine.
//! Every word read or written is a reference to the page it lies in; a strategy's bookkeeping is
//! disregarded, as in the paper (§3).
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

/// A block in use: its distance in bytes from [`Memory::base`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(NonZeroU32);

impl Block {
    /// Returns a pointer to the block as it is stored in a word; 0 is no block.
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
    /// The most blocks in use at one time.
    pub(crate) peak: u64,
}

impl Counts {
    pub(crate) fn live(&self) -> u64 {
        self.allocations - self.frees
    }
}

/// Whatever serves a program that asks for blocks of one size.
pub(crate) trait Blocks {
    /// Returns a block.
    ///
    /// # Errors
    /// If there is no memory.
    fn allocate(&mut self) -> anyhow::Result<NonNull<u8>>;

    /// Frees a block.
    ///
    /// # Safety
    /// [`allocate`](Self::allocate) gave it, and it was not freed since.
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
        // SAFETY: the caller's block, which was allocated with this layout.
        unsafe { self.strategy.deallocate(block, self.layout) };
    }
}

/// Blocks of one size from a strategy, with pages of a given size; `paging` hears of every page
/// referenced, but not twice in succession of the same one, which faults under no paging strategy.
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

    /// Of blocks of `block_size` bytes, aligned to 4, in pages that the first one lies in the first of.
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

    /// Returns the pages ever referenced: the paper's "virtual size".
    pub(crate) fn virtual_size(&self) -> u64 {
        self.seen.iter().filter(|&&seen| seen).count() as u64
    }

    /// Returns the simulated paging, for instance to have it begin to count.
    pub(crate) fn paging(&mut self) -> &mut P {
        &mut self.paging
    }

    /// Returns the simulated paging, when the program has ended.
    pub(crate) fn into_paging(self) -> P {
        self.paging
    }

    /// Pascal's `new`. Referenced is the block only when it is written.
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
        // SAFETY: a `Block` comes from `allocate`; the programs of this module free each once, having
        // unlinked it.
        unsafe { self.blocks.free(address) };
    }

    /// Reads a word of a block.
    #[inline]
    pub(crate) fn get(&mut self, block: Block, word: usize) -> u32 {
        let word = self.word(block, word);
        // SAFETY: the word lies in a block in use, which is aligned to 4 bytes.
        unsafe { word.read() }
    }

    /// Writes a word of a block.
    #[inline]
    pub(crate) fn set(&mut self, block: Block, word: usize, value: u32) {
        let word = self.word(block, word);
        // SAFETY: as in `get`.
        unsafe { word.write(value) };
    }

    /// References a word's page, and gives the word's address.
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
