//! A page known by the address of its header, which is followed by one bit for each block of the
//! page, set while the block is free.
//!
//! The *summary* tells where to look for a set bit: its bit w mod 64 is set if word w is not 0 (and
//! may be set if it is 0).

use core::cell::Cell;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::pages::class::Class;

/// Bits of a word.
pub(crate) const WORD: u32 = u64::BITS;

/// The list number of a page that is on no list.
pub(crate) const NO_LIST: u32 = u8::MAX as u32;

/// The trigger of a page that waits for nothing.
pub(crate) const NEVER: u32 = u16::MAX as u32;

/// The most blocks that a page may have.
pub(crate) const MOST_BLOCKS: u32 = NEVER - 1;

/// A page, named by its header. Headers stay in place as long as the heap's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Page(NonNull<Header>);

// SAFETY: a header belongs to its heap, wherever that goes.
unsafe impl Send for Page {}

/// H(P).
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// The page behind this one on its ring, or below it on its stack.
    pub(crate) next: Cell<Option<Page>>,
    /// The page before this one on its ring.
    pub(crate) prev: Cell<Option<Page>>,
    /// Where the page starts.
    pub(crate) base: Cell<*mut u8>,
    /// Where to look for a set bit in the words behind the header (see above).
    pub(crate) summary: Cell<u64>,
    /// As in [`Class`], to compute a block's number without reading the class.
    pub(crate) reciprocal: Cell<u64>,
    /// Block size, bytes.
    pub(crate) size: Cell<u32>,
    /// φ: number of bits set in those words.
    free: Cell<u16>,
    /// The φ at which the placement must act on the page, or [`NEVER`].
    trigger: Cell<u16>,
    /// Number of the size class.
    class: Cell<u16>,
    /// The list that the page is on, or [`NO_LIST`].
    list: Cell<u8>,
    /// The kind of the header, which gives the number of words behind it: see `chunks.rs`.
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
    /// Makes a header of this kind in memory that is all zero.
    ///
    /// # Safety
    /// The memory is aligned for a header and large enough for one of this kind. Only the heap uses
    /// it as long as the heap is in use.
    pub(crate) unsafe fn new(header: NonNull<Header>, kind: usize) -> Self {
        let page = Self(header);
        page.kind.set(kind as u8);
        page
    }

    /// Returns the kind of header.
    pub(crate) fn kind(self) -> usize {
        self.kind.get().into()
    }

    /// Returns word `index` behind the header.
    #[inline(always)]
    pub(crate) fn word(&self, index: u32) -> &Cell<u64> {
        debug_assert!(index < words_of(self.kind()), "the header has that word");
        // SAFETY: the header is followed by that many initialised words, among them this one.
        unsafe { self.0.add(1).cast::<Cell<u64>>().add(index as usize).as_ref() }
    }

    /// Returns φ, the number of set bits: the free blocks except those in the class's window.
    #[inline(always)]
    pub(crate) fn free(self) -> u32 {
        u32::from(self.free.get())
    }

    /// Returns the φ at which the placement must act on the page.
    #[inline(always)]
    pub(crate) fn trigger(self) -> u32 {
        u32::from(self.trigger.get())
    }

    /// Makes the placement act on the page when φ reaches `free`, or [`NEVER`].
    pub(crate) fn set_trigger(self, free: u32) {
        self.trigger.set(free as u16);
    }

    /// Returns the size class.
    #[inline(always)]
    pub(crate) fn class(self) -> u32 {
        u32::from(self.class.get())
    }

    /// Puts the page to use for a class, on no list, with all its blocks free.
    pub(crate) fn assign(self, number: u32, class: &Class) {
        self.class.set(number as u16);
        self.size.set(class.size);
        self.reciprocal.set(class.reciprocal);
        self.set_list(NO_LIST);
        self.format(class.capacity);
    }

    /// Returns the list the page is on, or [`NO_LIST`].
    pub(crate) fn list(self) -> u32 {
        u32::from(self.list.get())
    }

    /// Records which list the page is on, or [`NO_LIST`].
    pub(crate) fn set_list(self, list: u32) {
        self.list.set(list as u8);
    }

    /// Returns the address of the header, for a meter.
    #[inline(always)]
    pub(crate) fn header(self) -> *const Header {
        self.0.as_ptr()
    }

    /// Returns whether the bit of a block is set.
    pub(crate) fn is_free(self, block: u32) -> bool {
        self.word(block / WORD).get() >> (block % WORD) & 1 == 1
    }

    /// Makes the `capacity` blocks of a page free.
    fn format(self, capacity: u32) {
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
    pub(crate) fn set_free(self, block: u32) {
        self.add(block / WORD, 1 << (block % WORD), 1);
    }

    /// Sets the `count` bits of `blocks` in a word.
    #[inline(always)]
    pub(crate) fn add(self, index: u32, blocks: u64, count: u32) {
        let word = self.word(index);
        debug_assert!(word.get() & blocks == 0, "the blocks are in use");
        word.set(word.get() | blocks);
        self.summary.set(self.summary.get() | 1u64.wrapping_shl(index));
        self.free.set(self.free.get() + count as u16);
    }

    /// Clears a word and returns its bits.
    pub(crate) fn empty_word(self, index: u32) -> u64 {
        let bits = self.word(index).get();
        self.remove(index, bits);
        bits
    }

    /// Clears these bits of a word, which are set there.
    #[inline(always)]
    fn remove(self, index: u32, blocks: u64) {
        let word = self.word(index);
        debug_assert!(word.get() & blocks == blocks, "the blocks are free");
        word.set(word.get() ^ blocks);
        self.free.set(self.free.get() - blocks.count_ones() as u16);
    }

    /// Takes the highest free blocks of a page's last word, which has some, at most `count`.
    /// Returns the index of the word, and their bits. `words` is the number of the page's words.
    pub(crate) fn harvest_last(self, words: u32, count: u32) -> (u32, u64) {
        let index = words - 1;
        let word = self.word(index).get();
        let bits = word & (!0 << (WORD - word.leading_zeros()).saturating_sub(count));
        self.remove(index, bits);
        (index, bits)
    }

    /// Takes the lowest free blocks of a page that has some, at most `width`. Returns the index of
    /// their word, and their bits. `width` is a power of two, and `words` the number of the page's
    /// words.
    pub(crate) fn harvest(self, words: u32, width: u32) -> (u32, u64) {
        loop {
            let first = self.summary.get().trailing_zeros();
            let mut index = first;
            while index < words {
                let word = self.word(index).get();
                if word != 0 {
                    let from = word.trailing_zeros() & !(width - 1);
                    let bits = word & (!0 >> (WORD - width) << from);
                    self.remove(index, bits);
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

/// Number of header kinds: with 1 to 16 words, and with powers of two above, up to the blocks of
/// the largest page.
pub(crate) const KINDS: usize = 16 + 6;

/// Returns the kind of header for this many blocks.
pub(crate) fn kind_for(capacity: u32) -> usize {
    let words = capacity.div_ceil(WORD);
    let kind = if words <= 16 { words - 1 } else { 11 + words.next_power_of_two().ilog2() };
    kind as usize
}

/// Returns the words behind a header of a kind.
pub(crate) fn words_of(kind: usize) -> u32 {
    if kind < 16 { kind as u32 + 1 } else { 1 << (kind - 11) }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;

    /// Harvests a page with all of `capacity` blocks free and frees every `nth` harvested block
    /// again, by whole words or one by one, until no block is free.
    fn harvest_all(capacity: u32, width: u32, nth: u32) {
        let words = capacity.div_ceil(WORD);
        let len = size_of::<Header>() / size_of::<u64>() + words_of(kind_for(capacity)) as usize;
        let mut memory = vec![MaybeUninit::<u64>::zeroed(); len];
        let header = NonNull::new(memory.as_mut_ptr().cast()).expect("a vector has an address");
        // SAFETY: the memory is zero, aligned, long enough, and outlives the page.
        let page = unsafe { Page::new(header, kind_for(capacity)) };
        page.format(capacity);
        assert_eq!(page.free(), capacity);
        let mut harvested = vec![0; capacity as usize];
        while page.free() > 0 {
            let (before, (word, bits)) = (page.free(), page.harvest(words, width));
            assert!(bits != 0 && page.word(word).get() & bits == 0);
            assert_eq!(page.free(), before - bits.count_ones());
            assert!(bits.leading_zeros() + bits.trailing_zeros() >= WORD - width, "{width} wide");
            for bit in (0..WORD).filter(|bit| bits >> bit & 1 == 1) {
                let block = word * WORD + bit;
                harvested[block as usize] += 1;
                if block.is_multiple_of(nth) && harvested[block as usize] == 1 {
                    page.set_free(block);
                    assert!(page.is_free(block));
                }
            }
        }
        let expected = |block: usize| if (block as u32).is_multiple_of(nth) { 2 } else { 1 };
        let all = harvested.iter().enumerate().all(|(block, &times)| times == expected(block));
        assert!(all, "{capacity} blocks, {width} wide");
    }

    /// No free block is lost, whether it was free from the start or freed later, in pages of one
    /// word and in pages of more words than the summary has bits.
    #[test]
    fn all_free_blocks_are_harvested_once() {
        const CAPACITIES: [u32; 9] = [1, 63, 64, 65, 300, 4096, 4097, 12_000, MOST_BLOCKS];
        for &capacity in &CAPACITIES[..if cfg!(miri) { 5 } else { 9 }] {
            for width in [4, 16, WORD] {
                for nth in if cfg!(miri) { 1000..1001 } else { 2..5 } {
                    harvest_all(capacity, width, nth);
                }
            }
        }
    }

    /// Clearing a word makes its blocks no longer free, and leaves the others free.
    #[test]
    fn a_word_is_emptied_at_once() {
        let mut memory = vec![MaybeUninit::<u64>::zeroed(); 20];
        let header = NonNull::new(memory.as_mut_ptr().cast()).expect("a vector has an address");
        // SAFETY: as above.
        let page = unsafe { Page::new(header, kind_for(100)) };
        page.format(100);
        assert_eq!((page.empty_word(1), page.free()), ((1 << 36) - 1, 64));
        assert!(page.is_free(63) && !page.is_free(64));
        page.add(1, 0b11, 2);
        assert_eq!((page.empty_word(0), page.free()), (!0, 2));
        assert_eq!(page.harvest(2, WORD), (1, 0b11));
    }

    /// A header has a bit for each block. With up to 16 words it has no more than it needs, beyond
    /// that less than twice as many.
    #[test]
    fn every_kind_has_the_words_it_needs() {
        for capacity in 1..=MOST_BLOCKS {
            let (words, kind) = (capacity.div_ceil(WORD), kind_for(capacity));
            let had = words_of(kind);
            assert!(kind < KINDS && had >= words, "{capacity} blocks: kind {kind}");
            assert!(if words <= 16 { had == words } else { had < 2 * words }, "{capacity} blocks");
        }
    }
}
