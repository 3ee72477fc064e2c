//! H(P): what is known of a page, out of the page; and the memory such headers are made of.
//!
//! ```text
//! dedicated memory:  | H(P) | word 0 | word 1 | … | H(P′) | word 0 | …
//! ```
//! A header is followed by one bit for each block of its page, set while the block is free. It
//! has as many words as its page's class needs, rounded up to a power of two: a spare header
//! serves the next page that needs as many. The *summary* tells where to look for a set bit: its
//! bit w mod 64 is set if word w is not 0 (and perhaps if it is).

use core::alloc::Layout;
use core::cell::Cell;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::source::Source;
use crate::strategy::AllocError;

/// Bits of a word.
pub(super) const WORD: u32 = u64::BITS;

/// The list a page is on: none.
pub(super) const NO_LIST: u32 = u32::MAX;

/// The trigger of a page that waits for nothing.
pub(super) const NEVER: u32 = u32::MAX;

/// A page, known by its header. Headers stay where they are as long as the heap's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Page(NonNull<Header>);

/// H(P).
#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    /// Neighbours on the ring the page is on; `next` alone on a stack.
    pub(super) next: Cell<Option<Page>>,
    pub(super) prev: Cell<Option<Page>>,
    /// Where the page starts.
    pub(super) base: Cell<*mut u8>,
    pub(super) summary: Cell<u64>,
    /// φ: set bits, the free blocks but those in its class's window.
    pub(super) free: Cell<u32>,
    /// The φ at which something is to be done about the page.
    pub(super) trigger: Cell<u32>,
    /// As in [`Class`](crate::paged::class::Class): to find a block's number without a look there.
    pub(super) reciprocal: Cell<u64>,
    /// Block size, bytes.
    pub(super) size: Cell<u32>,
    /// The size class.
    pub(super) class: Cell<u32>,
    /// The list the page is on, or [`NO_LIST`].
    pub(super) list: Cell<u32>,
    /// log₂ of the words behind the header.
    order: Cell<u32>,
}

impl Deref for Page {
    type Target = Header;

    #[inline(always)]
    fn deref(&self) -> &Header {
        // SAFETY: a page's header is initialised and stays in place while the heap is in use; it
        // is changed through its cells alone, by one thread at a time.
        unsafe { self.0.as_ref() }
    }
}

impl Page {
    /// Word `index` behind the header.
    #[inline(always)]
    pub(super) fn word(&self, index: u32) -> &Cell<u64> {
        debug_assert!(index < 1 << self.order.get(), "the header has that word");
        // SAFETY: the header is followed by 2^order initialised words, among them this one.
        unsafe { self.0.add(1).cast::<Cell<u64>>().add(index as usize).as_ref() }
    }

    /// Address of the header, for a meter.
    #[inline(always)]
    pub(super) fn header(self) -> *const Header {
        self.0.as_ptr()
    }

    /// Whether the bit of a block is set.
    pub(super) fn is_free(self, block: u32) -> bool {
        self.word(block / WORD).get() >> (block % WORD) & 1 == 1
    }

    /// Makes the `capacity` blocks of a page free.
    pub(super) fn format(self, capacity: u32) {
        for index in 0..capacity.div_ceil(WORD) {
            let rest = capacity - index * WORD;
            self.word(index).set(if rest >= WORD { !0 } else { (1 << rest) - 1 });
        }
        let words = capacity.div_ceil(WORD);
        self.summary.set(if words >= WORD { !0 } else { (1 << words) - 1 });
        self.free.set(capacity);
    }

    /// Sets the bit of a block that was in use.
    #[inline(always)]
    pub(super) fn set_free(self, block: u32) {
        self.add(block / WORD, 1 << (block % WORD), 1);
    }

    /// Sets the `count` bits of `blocks` in a word.
    #[inline(always)]
    pub(super) fn add(self, index: u32, blocks: u64, count: u32) {
        let word = self.word(index);
        debug_assert!(word.get() & blocks == 0, "the blocks are in use");
        word.set(word.get() | blocks);
        self.summary.set(self.summary.get() | 1u64.wrapping_shl(index));
        self.free.set(self.free.get() + count);
    }

    /// Takes a word's bits away, and says which word's; there is a set bit. `words` is how many
    /// words the page has.
    pub(super) fn harvest(self, words: u32) -> (u32, u64) {
        loop {
            let first = self.summary.get().trailing_zeros();
            let mut index = first;
            while index < words {
                let bits = self.word(index).replace(0);
                if bits != 0 {
                    self.free.set(self.free.get() - bits.count_ones());
                    if index + WORD >= words {
                        self.summary.set(self.summary.get() & !(1 << first));
                    }
                    return (index, bits);
                }
                index += WORD;
            }
            self.summary.set(self.summary.get() & !(1 << first));
        }
    }
}

/// Orders of headers: as many words as the blocks of the largest page may need.
const ORDERS: usize = 16;

/// Bytes of dedicated memory taken at a time.
const CHUNK: usize = 2048;

/// Where headers come from. Invariant: the `left` bytes from `chunk` on are zero, aligned to a
/// header's alignment, and used by nobody; the spare headers are linked through `next`.
#[derive(Debug)]
pub(super) struct Headers {
    spare: [Option<Page>; ORDERS],
    chunk: *mut u8,
    left: usize,
}

impl Headers {
    pub(super) const fn new() -> Self {
        Self { spare: [None; ORDERS], chunk: core::ptr::null_mut(), left: 0 }
    }

    /// A header with words for this many blocks.
    pub(super) fn make<S: Source>(
        &mut self,
        capacity: u32,
        source: &mut S,
    ) -> Result<Page, AllocError> {
        let order = Self::order(capacity);
        if let Some(page) = self.spare[order as usize] {
            self.spare[order as usize] = page.next.take();
            return Ok(page);
        }
        let bytes = size_of::<Header>() + (size_of::<u64>() << order);
        if bytes > self.left {
            let align = align_of::<Header>();
            // A chunk if there is one, else only what is needed now.
            let take = |bytes, source: &mut S| {
                let layout = Layout::from_size_align(bytes, align);
                source.dedicate(layout.map_err(|_| AllocError::Exhausted)?).map(|at| (at, bytes))
            };
            let taken = take(bytes.max(CHUNK), source).or_else(|_| take(bytes, source));
            let (chunk, left) = taken?;
            // Chunks often adjoin: the next lies below the one before.
            let adjoins = chunk.as_ptr().wrapping_add(left) == self.chunk;
            self.left = if adjoins { left + self.left } else { left };
            self.chunk = chunk.as_ptr();
        }
        self.left -= bytes;
        // SAFETY: by the invariant these bytes are ours; dedicated memory is not at address 0.
        let header = unsafe { NonNull::new_unchecked(self.chunk.wrapping_add(self.left).cast()) };
        let page = Page(header);
        page.order.set(order);
        Ok(page)
    }

    /// Takes back a header no page has.
    pub(super) fn recycle(&mut self, page: Page) {
        let top = &mut self.spare[page.order.get() as usize];
        page.next.set(top.replace(page));
    }

    /// Whether a header has words for exactly this many blocks, rounded up as usual.
    pub(super) fn suits(page: Page, capacity: u32) -> bool {
        page.order.get() == Self::order(capacity)
    }

    fn order(capacity: u32) -> u32 {
        capacity.div_ceil(WORD).next_power_of_two().ilog2()
    }
}
