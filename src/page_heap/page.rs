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

use crate::error::AllocError;
use crate::source::Source;
use crate::tags::TAG;

/// Bits of a word.
pub(super) const WORD: u32 = u64::BITS;

/// The list a page is on: none.
pub(super) const NO_LIST: u32 = u8::MAX as u32;

/// The trigger of a page that waits for nothing.
pub(super) const NEVER: u32 = u16::MAX as u32;

/// Blocks a page may have.
pub(super) const MOST_BLOCKS: u32 = NEVER - 1;

/// Bytes of a page that its blocks can use: the heap below keeps a tag at its end.
pub(super) const fn usable(page_size: usize) -> usize {
    page_size - TAG
}

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
    /// As in [`Class`](crate::paged::class::Class): to find a block's number without a look there.
    pub(super) reciprocal: Cell<u64>,
    /// Block size, bytes.
    pub(super) size: Cell<u32>,
    free: Cell<u16>,
    trigger: Cell<u16>,
    class: Cell<u16>,
    list: Cell<u8>,
    /// Which [kind](Headers) the header is of.
    kind: Cell<u8>,
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
        debug_assert!(
            index < Headers::words_of(self.kind.get().into()),
            "the header has that word"
        );
        // SAFETY: the header is followed by that many initialised words, among them this one.
        unsafe { self.0.add(1).cast::<Cell<u64>>().add(index as usize).as_ref() }
    }

    /// φ: set bits, the free blocks but those in its class's window.
    #[inline(always)]
    pub(super) fn free(self) -> u32 {
        u32::from(self.free.get())
    }

    /// The φ at which something is to be done about the page.
    #[inline(always)]
    pub(super) fn trigger(self) -> u32 {
        u32::from(self.trigger.get())
    }

    pub(super) fn set_trigger(self, free: u32) {
        self.trigger.set(free as u16);
    }

    /// The size class.
    #[inline(always)]
    pub(super) fn class(self) -> u32 {
        u32::from(self.class.get())
    }

    pub(super) fn set_class(self, class: u32) {
        self.class.set(class as u16);
    }

    /// The list the page is on, or [`NO_LIST`].
    pub(super) fn list(self) -> u32 {
        u32::from(self.list.get())
    }

    pub(super) fn set_list(self, list: u32) {
        self.list.set(list as u8);
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
        self.free.set(capacity as u16);
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
        self.free.set(self.free.get() + count as u16);
    }

    /// Clears a set bit of a word.
    pub(super) fn remove(self, index: u32, bit: u32) {
        let word = self.word(index);
        word.set(word.get() & !(1 << bit));
        self.free.set(self.free.get() - 1);
    }

    /// Takes the lowest free blocks away, `width` at most, and says of which word they are bits;
    /// there is one. `width` is a power of two and `words` how many words the page has.
    pub(super) fn harvest(self, words: u32, width: u32) -> (u32, u64) {
        loop {
            let first = self.summary.get().trailing_zeros();
            let mut index = first;
            while index < words {
                let word = self.word(index).get();
                if word != 0 {
                    let from = word.trailing_zeros() & !(width - 1);
                    let bits = word & (!0 >> (WORD - width) << from);
                    self.word(index).set(word ^ bits);
                    self.free.set(self.free.get() - bits.count_ones() as u16);
                    if word == bits && index + WORD >= words {
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

/// Kinds of headers: of 1 to 16 words, and of powers of two above, up to what the blocks of the
/// largest page may need.
const KINDS: usize = 16 + 6;

/// Bytes of dedicated memory taken at a time.
const CHUNK: usize = 2048;

/// Where headers come from. Invariant: the `left` bytes from `chunk` on are zero, aligned to a
/// header's alignment, and used by nobody; the spare headers are linked through `next`.
#[derive(Debug)]
pub(super) struct Headers {
    spare: [Option<Page>; KINDS],
    chunk: *mut u8,
    left: usize,
}

impl Headers {
    pub(super) const fn new() -> Self {
        Self { spare: [None; KINDS], chunk: core::ptr::null_mut(), left: 0 }
    }

    /// A header with words for this many blocks.
    pub(super) fn make<S: Source>(
        &mut self,
        capacity: u32,
        source: &mut S,
    ) -> Result<Page, AllocError> {
        let kind = Self::kind(capacity);
        let spare = &mut self.spare[kind];
        if let Some(page) = *spare {
            *spare = page.next.take();
            return Ok(page);
        }
        let bytes = size_of::<Header>() + size_of::<u64>() * Self::words_of(kind) as usize;
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
        page.kind.set(kind as u8);
        Ok(page)
    }

    /// Takes back a header no page has.
    pub(super) fn recycle(&mut self, page: Page) {
        let top = &mut self.spare[usize::from(page.kind.get())];
        page.next.set(top.replace(page));
    }

    /// Whether a header is of the kind that a page of this many blocks needs.
    pub(super) fn suits(page: Page, capacity: u32) -> bool {
        usize::from(page.kind.get()) == Self::kind(capacity)
    }

    /// Takes memory that nobody uses any more, aligned as a header, for headers.
    pub(super) fn donate(&mut self, memory: *mut u8, bytes: usize) {
        if bytes > self.left {
            // SAFETY: the caller gives these bytes up.
            unsafe { memory.write_bytes(0, bytes) };
            (self.chunk, self.left) = (memory, bytes);
        }
    }

    /// The kind of header for this many blocks.
    fn kind(capacity: u32) -> usize {
        let words = capacity.div_ceil(WORD);
        let kind = if words <= 16 { words - 1 } else { 11 + words.next_power_of_two().ilog2() };
        kind as usize
    }

    /// Words behind a header of a kind.
    fn words_of(kind: usize) -> u32 {
        if kind < 16 { kind as u32 + 1 } else { 1 << (kind - 11) }
    }
}
