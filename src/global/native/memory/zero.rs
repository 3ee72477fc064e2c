//! Tracks which OS pages of a heap's free memory are known to be zeros, and need not be written for
//! zeroed blocks: fresh memory from the system, and memory that went back to it.
//!
//! ```text
//! extent | in use  | free                          | in use | untouched            ▶
//! words    header H| links …                footer |H
//! zeros     .   .   .    .   1   1   1   1   .   .   .   .   1   1   1   1   1
//! ```
//! The bit of an OS page is set only when the system supplied the page, or took it back, while it
//! was free. It is cleared when a block or a page of small blocks gets a part of it. A freed block
//! leaves no zeros.
//!
//! The heap writes into its free memory as well: headers, footers and links, all less than [`EDGE`]
//! bytes from where a block begins or ends. Such a place arises only when a block gets memory or is
//! resized, or the heap is extended; the OS pages around it lose their bits then. Joining blocks
//! makes none. A walk gives back no OS page with such a word.
//!
//! Residency tells nothing: an OS page that takes no memory may be swapped out.
//!
//! Invariant: an OS page whose bit is set holds zeros, is in free memory of the heap below the
//! pages of small blocks, and more than `EDGE` bytes from where any block begins or ends.

use core::ops::Range;
use core::ptr::{self, NonNull};

use super::refused;
use crate::global::tuning::UNIT;
use crate::os;

/// Bytes on either side of the start or the end of a block that may hold words of the heap.
const EDGE: usize = 16;

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// Words of bits that are copied for a block: enough for 16 MiB in OS pages of 4 KiB, by default
/// the largest block that is not a mapping.
const KNOWN: usize = 65;

/// The bits, in a mapping of their own that is made for the first bit, and grows.
#[derive(Debug)]
pub(in crate::global::native) struct Zeros {
    /// Address of the OS page that the first bit stands for.
    origin: usize,
    /// Address up to which the extent is known.
    reached: usize,
    /// The bits.
    words: *mut u64,
    /// Number of words.
    len: usize,
    /// Bytes of an OS page.
    page: usize,
}

// SAFETY: the words belong to the heap, and move with it.
unsafe impl Send for Zeros {}

impl Zeros {
    /// Returns the state for an extent that begins at `start`; nothing is known of it yet.
    pub(in crate::global::native) fn new(start: usize) -> Self {
        let page = os::page_size();
        let origin = start & !(page - 1);
        Self { origin, reached: start, words: ptr::null_mut(), len: 0, page }
    }

    /// Notes that the extent ends at `end`, and that its new part holds zeros except at both ends.
    /// The extent's first block begins at `first` or above.
    pub(in crate::global::native) fn note_extended(&mut self, first: usize, end: usize) {
        if end > self.reached {
            let from = self.reached.max(first) + EDGE;
            self.reached = end;
            self.set_known(from..end - EDGE);
        }
    }

    /// Notes that the extent ends at `end`, with its new part unknown.
    pub(in crate::global::native) fn note_extended_unknown(&mut self, end: usize) {
        self.reached = self.reached.max(end);
    }

    /// Notes that free memory below the pages, in which the heap keeps no words, went back.
    pub(super) fn note_given_back(&mut self, memory: Range<usize>) {
        if os::DISCARDED_ARE_ZEROS {
            self.set_known(memory);
        }
    }

    /// Sets the bits of free memory that the system supplied or took back, and in which the heap
    /// keeps no words.
    fn set_known(&mut self, memory: Range<usize>) {
        let (start, end) =
            (memory.start.next_multiple_of(self.page), memory.end & !(self.page - 1));
        if start < end && self.make_room(end) {
            self.change(start, end, |word, mask| word | mask);
        }
    }

    /// Clears the bits of memory in which blocks begin, end, or are written.
    #[inline]
    pub(in crate::global::native) fn note_used(&mut self, memory: Range<usize>) {
        let end = (memory.end + EDGE).min(self.origin + self.len * BITS * self.page);
        let start = (memory.start - EDGE).max(self.origin);
        if start < end {
            self.change(start, end, |word, mask| word & !mask);
        }
    }

    /// Clears all bits, and notes that the extent ends at `end`.
    #[cold]
    pub(in crate::global::native) fn forget(&mut self, end: usize) {
        self.note_extended_unknown(end);
        // SAFETY: there are `len` words.
        unsafe { self.words.write_bytes(0, self.len) };
    }

    /// Copies the bits of a block's memory, at least of its first 16 MiB, to `known`, in which no
    /// bit is set yet.
    pub(in crate::global::native) fn copy_known(
        &self,
        memory: Range<usize>,
        known: &mut KnownZeros,
    ) {
        let first = self.number_of(memory.start);
        let pages = self.number_of(memory.end - 1) + 1 - first;
        let words = (first % BITS + pages).div_ceil(BITS).min(KNOWN);
        let from = (first / BITS).min(self.len);
        let there = words.min(self.len - from);
        // SAFETY: `there` words follow from `from` on, and the copy has at least as many.
        unsafe {
            let bits = known.bits.as_mut_ptr();
            bits.copy_from_nonoverlapping(self.words.wrapping_add(from), there);
        }
        (known.first, known.page) = (first % BITS, self.page);
    }

    /// Returns where the first OS page of `memory` begins that is not known to be zeros, or the
    /// end. `memory` begins with an OS page.
    pub(in crate::global::native) fn skip(&self, memory: Range<usize>) -> usize {
        let (mut at, end) = (self.number_of(memory.start), self.number_of(memory.end));
        while at < end && at / BITS < self.len {
            // SAFETY: the loop stops at the last word.
            let word = unsafe { self.words.add(at / BITS).read() } >> (at % BITS);
            let known = word.trailing_ones() as usize;
            at += known;
            if known == 0 || !at.is_multiple_of(BITS) {
                break;
            }
        }
        memory.end.min(self.origin + at * self.page)
    }

    /// Returns the number of the OS page with this address, from the origin on. Shifts, since a
    /// division by a size that is not a constant takes several times as long.
    #[inline]
    fn number_of(&self, address: usize) -> usize {
        (address - self.origin) >> self.page.trailing_zeros()
    }

    /// Changes the bits of the OS pages from `start` to `end`, above `start`, which all have words.
    #[inline]
    fn change(&mut self, start: usize, end: usize, with: impl Fn(u64, u64) -> u64) {
        let (mut at, end) = (self.number_of(start), self.number_of(end - 1) + 1);
        while at < end {
            let bits = (BITS - at % BITS).min(end - at);
            let mask = !0 >> (BITS - bits) << (at % BITS);
            debug_assert!(at / BITS < self.len, "there is that word");
            // SAFETY: the callers pass OS pages that have words.
            unsafe {
                let word = self.words.add(at / BITS);
                word.write(with(word.read(), mask));
            }
            at += bits;
        }
    }

    /// Makes sure that all OS pages below `end` have words. Returns whether they do.
    fn make_room(&mut self, end: usize) -> bool {
        let needed = (self.number_of(end - 1) + 1).div_ceil(BITS);
        if needed <= self.len {
            return true;
        }
        let bytes = (needed.max(2 * self.len) * size_of::<u64>()).next_multiple_of(self.page);
        let Some(words) = os::allocate(bytes) else { return false };
        let words = words.cast::<u64>();
        // SAFETY: the old words are copied to fresh ones, which are more, and zeros; then nobody
        // uses the old.
        unsafe {
            words.copy_from_nonoverlapping(self.words, self.len);
            refused::release(self.words.cast(), self.len * size_of::<u64>());
        }
        (self.words, self.len) = (words, bytes / size_of::<u64>());
        true
    }
}

/// A copy of the bits of a block's memory, for use without the heap's lock. It is written in place:
/// each move of it would take as much stack again.
pub(in crate::global::native) struct KnownZeros {
    /// The words that have the bits of the block's OS pages.
    bits: [u64; KNOWN],
    /// The bit of the OS page in which the block begins.
    first: usize,
    page: usize,
}

/// Fewest bytes for which it is worth asking which of them are resident.
const ASK: usize = 1 << 20;

impl KnownZeros {
    /// Returns a copy in which no memory is known to be zeros.
    pub(in crate::global::native) const fn nothing() -> Self {
        Self { bits: [0; KNOWN], first: 0, page: 1 }
    }

    /// Zeroes a block where it is not known to be zeros.
    ///
    /// # Safety
    /// The block of `len` bytes is the caller's alone, and the one that this was asked about.
    pub(in crate::global::native) unsafe fn clear(&self, block: *mut u8, len: usize) {
        let (mut at, end) = (block.addr(), block.addr() + len);
        let mut bit = self.first;
        // Start of the bytes that are not known to be zeros.
        let mut from = at;
        while at < end {
            let next = ((at | (self.page - 1)) + 1).min(end);
            let word = self.bits.get(bit / BITS).unwrap_or(&0);
            if word >> (bit % BITS) & 1 == 1 {
                // SAFETY: the caller guarantees that the block is its own.
                unsafe { clear(block.with_addr(from), at - from) };
                from = next;
            }
            (at, bit) = (next, bit + 1);
        }
        // SAFETY: the caller guarantees that the block is its own.
        unsafe { clear(block.with_addr(from), end - from) };
    }
}

/// Zeroes memory. Parts that are not resident are given back rather than written: so a table that
/// stays mostly untouched, however often it is allocated, takes only the memory it uses.
///
/// # Safety
/// The memory is the caller's alone.
unsafe fn clear(start: *mut u8, len: usize) {
    let page = os::page_size();
    let first = start.wrapping_add(start.align_offset(page));
    let last = start.with_addr((start.addr() + len) & !(page - 1));
    // SAFETY: the caller guarantees that the memory is its own; `first` to `last` is in it.
    unsafe {
        if len < ASK {
            return start.write_bytes(0, len);
        }
        start.write_bytes(0, first.addr() - start.addr());
        last.write_bytes(0, start.addr() + len - last.addr());
        let mut cleared = first;
        os::for_each_resident(first, last.addr() - first.addr(), &mut |run, len| {
            give_back(cleared, run.addr() - cleared.addr());
            run.write_bytes(0, len);
            cleared = run.wrapping_add(len);
        });
        give_back(cleared, last.addr() - cleared.addr());
    }
}

/// Gives whole OS pages back, which makes them zeros; writes them if that is refused.
///
/// # Safety
/// The pages are the caller's alone.
unsafe fn give_back(start: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that the pages are its own.
    unsafe {
        if len != 0 && !os::discard_to_zeros(start, len) {
            start.write_bytes(0, len);
        }
    }
}

/// A piece of memory that is tested as a whole.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Piece([u64; 8]);

/// What the rest is tested by.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Unit([u64; 2]);

/// Returns whether a block of `size` bytes holds only zeros.
///
/// # Safety
/// The block begins at a multiple of 16, and its `size` bytes may be read.
#[inline(always)]
pub(in crate::global::native) unsafe fn is_zero(block: NonNull<u8>, size: usize) -> bool {
    /// Bytes that are tested together.
    const PIECE: usize = size_of::<Piece>();
    const { assert!(size_of::<Unit>() == UNIT) };
    // SAFETY: the caller guarantees that all these bytes may be read.
    unsafe {
        let pieces = core::slice::from_raw_parts(block.cast::<Piece>().as_ptr(), size / PIECE);
        let mut all = [0; 8];
        for piece in pieces {
            for (all, word) in all.iter_mut().zip(piece.0) {
                *all |= word;
            }
        }
        let rest = block.add(size / PIECE * PIECE);
        let units = core::slice::from_raw_parts(rest.cast::<Unit>().as_ptr(), size % PIECE / UNIT);
        let mut any = 0;
        for Unit([low, high]) in units {
            any |= low | high;
        }
        for at in size & !(UNIT - 1)..size {
            any |= u64::from(block.add(at).read());
        }
        all.iter().fold(any, |any, word| any | word) == 0
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
