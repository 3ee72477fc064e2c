//! Which OS pages of a heap's free memory are known to be zeros, so that zeroed blocks need not be
//! written there: memory that came fresh from the system, and memory that was given back to it.
//!
//! ```text
//! extent | in use  | free                          | in use | untouched            ▶
//! words    header H| links …                footer |H
//! zeros     .   .   .    .   1   1   1   1   .   .   .   .   1   1   1   1   1
//! ```
//! The bit of an OS page is cleared when a block or a page of small blocks gets some of it, and set
//! only when the system gave the page, or took it back, while it was free. What a freed block leaves
//! is never zeros.
//!
//! The heap writes into its free memory, too: headers, footers and links, all of them less than
//! [`EDGE`] bytes from where a block begins or ends. Such a place comes into being only when a block
//! gets memory, is resized, or the heap is extended, and the OS pages around it lose their bits then;
//! joining blocks makes none. A walk gives back no OS page that has such a word.
//!
//! Whether an OS page takes memory tells nothing: it may be one that the system has swapped out.
//!
//! Invariant: an OS page whose bit is set holds zeros, lies in free memory of the heap below the small
//! blocks' pages, and more than `EDGE` bytes from any place where a block begins or ends.

use core::ops::Range;
use core::ptr::{self, NonNull};

use super::refused;
use super::tuning::UNIT;
use crate::os;

/// Bytes on either side of where a block begins or ends that may hold words of the heap.
const EDGE: usize = 16;

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// Words of bits that are copied for a block: enough for 32 MiB in OS pages of 4 KiB, the largest block
/// that is no mapping if nothing else is tuned.
const KNOWN: usize = 129;

/// The bits. They lie in a mapping of their own, which is made when the first is set, and grows.
#[derive(Debug)]
pub(super) struct Zeros {
    /// Address of the OS page of the first bit.
    origin: usize,
    /// Up to where the extent is known.
    reached: usize,
    words: *mut u64,
    /// Words there are.
    len: usize,
    page: usize,
}

// SAFETY: the words belong to the heap, wherever it goes.
unsafe impl Send for Zeros {}

impl Zeros {
    /// Knows nothing of an extent that begins at this address.
    pub(super) fn new(start: usize) -> Self {
        let page = os::page_size();
        let origin = start & !(page - 1);
        Self { origin, reached: start, words: ptr::null_mut(), len: 0, page }
    }

    /// The extent, whose first block begins at `first` or above, ends here now: what it has gained is
    /// zeros, but for its ends.
    pub(super) fn extended(&mut self, first: usize, end: usize) {
        if end > self.reached {
            let from = self.reached.max(first) + EDGE;
            self.reached = end;
            self.gained(from..end - EDGE);
        }
    }

    /// The extent ends here, and nothing is known of what it has gained.
    pub(super) fn extended_unknown(&mut self, end: usize) {
        self.reached = self.reached.max(end);
    }

    /// Free memory of the heap below, without any word of the heap, went back to the system.
    pub(super) fn went_back(&mut self, memory: Range<usize>) {
        if os::DISCARDED_ARE_ZEROS {
            self.gained(memory);
        }
    }

    /// Free memory of the heap below, without any word of the heap, was given by the system.
    fn gained(&mut self, memory: Range<usize>) {
        let (start, end) =
            (memory.start.next_multiple_of(self.page), memory.end & !(self.page - 1));
        if start < end && self.make_room(end) {
            self.change(start, end, |word, mask| word | mask);
        }
    }

    /// Blocks begin and end, and are written, in this memory.
    #[inline]
    pub(super) fn used(&mut self, memory: Range<usize>) {
        let end = (memory.end + EDGE).min(self.origin + self.len * BITS * self.page);
        let start = (memory.start - EDGE).max(self.origin);
        if start < end {
            self.change(start, end, |word, mask| word & !mask);
        }
    }

    /// Knows nothing any more of an extent that ends here.
    #[cold]
    pub(super) fn forget(&mut self, end: usize) {
        self.extended_unknown(end);
        // SAFETY: there are `len` words.
        unsafe { self.words.write_bytes(0, self.len) };
    }

    /// Tells one that knows nothing of this memory: of the first 32 MiB or more.
    pub(super) fn tell(&self, memory: Range<usize>, known: &mut Known) {
        let first = (memory.start - self.origin) / self.page;
        let pages = (memory.end - self.origin).div_ceil(self.page) - first;
        let words = (first % BITS + pages).div_ceil(BITS).min(KNOWN);
        let from = (first / BITS).min(self.len);
        let there = words.min(self.len - from);
        // SAFETY: as many words are there, and as many of the copy.
        unsafe {
            let bits = known.bits.as_mut_ptr();
            bits.copy_from_nonoverlapping(self.words.wrapping_add(from), there);
        }
        (known.first, known.page) = (first % BITS, self.page);
    }

    /// Where the first OS page of this memory, which begins with one, lies that is not known to be zeros;
    /// its end if none does.
    pub(super) fn skip(&self, memory: Range<usize>) -> usize {
        let mut at = (memory.start - self.origin) / self.page;
        let end = (memory.end - self.origin) / self.page;
        while at < end && at / BITS < self.len {
            // SAFETY: there is that word.
            let word = unsafe { self.words.add(at / BITS).read() } >> (at % BITS);
            let known = word.trailing_ones() as usize;
            at += known;
            if known == 0 || !at.is_multiple_of(BITS) {
                break;
            }
        }
        memory.end.min(self.origin + at * self.page)
    }

    /// Changes the bits of the OS pages from that at `start` up to `end`, for which there are words.
    #[inline]
    fn change(&mut self, start: usize, end: usize, with: impl Fn(u64, u64) -> u64) {
        let mut at = (start - self.origin) / self.page;
        let end = (end - self.origin).div_ceil(self.page);
        while at < end {
            let bits = (BITS - at % BITS).min(end - at);
            let mask = !0 >> (BITS - bits) << (at % BITS);
            debug_assert!(at / BITS < self.len, "there is that word");
            // SAFETY: the caller gives OS pages for which there are words.
            unsafe {
                let word = self.words.add(at / BITS);
                word.write(with(word.read(), mask));
            }
            at += bits;
        }
    }

    /// Sees to it that there are words for all OS pages below `end`.
    fn make_room(&mut self, end: usize) -> bool {
        let needed = (end - self.origin).div_ceil(self.page).div_ceil(BITS);
        if needed <= self.len {
            return true;
        }
        let bytes = (needed.max(2 * self.len) * size_of::<u64>()).next_multiple_of(self.page);
        let Some(words) = os::allocate(bytes) else { return false };
        let words = words.cast::<u64>();
        // SAFETY: the old words are copied to fresh ones, which are more, and zeros; then nobody knows
        // the old ones.
        unsafe {
            words.copy_from_nonoverlapping(self.words, self.len);
            refused::release(self.words.cast(), self.len * size_of::<u64>());
        }
        (self.words, self.len) = (words, bytes / size_of::<u64>());
        true
    }
}

/// Knowledge of a block's memory: a copy, to be used without the heap's lock. It is long, and is written where it lies: each
/// move of it would take as much of the stack again.
pub(super) struct Known {
    bits: [u64; KNOWN],
    /// The bit of the OS page in which the block begins.
    first: usize,
    page: usize,
}

/// The least number of bytes for which it is worth asking what of them takes memory.
const ASK: usize = 1 << 20;

impl Known {
    /// Knows nothing, and is of no block.
    pub(super) const fn nothing() -> Self {
        Self { bits: [0; KNOWN], first: 0, page: 1 }
    }

    /// Makes all of a block zeros.
    ///
    /// # Safety
    /// The block of `len` bytes is the caller's alone, and what this was asked about.
    pub(super) unsafe fn clear(&self, block: *mut u8, len: usize) {
        let (mut at, end) = (block.addr(), block.addr() + len);
        let mut bit = self.first;
        // Where the bytes begin that are not known to be zeros.
        let mut from = at;
        while at < end {
            let next = ((at | (self.page - 1)) + 1).min(end);
            let word = self.bits.get(bit / BITS).unwrap_or(&0);
            if word >> (bit % BITS) & 1 == 1 {
                // SAFETY: passed on.
                unsafe { clear(block.with_addr(from), at - from) };
                from = next;
            }
            (at, bit) = (next, bit + 1);
        }
        // SAFETY: passed on.
        unsafe { clear(block.with_addr(from), end - from) };
    }
}

/// Makes memory zeros. What of it takes no memory, though it is not known to be zeros, is given back
/// rather than written: so a table that stays mostly untouched, again and again, takes no more than it
/// uses.
///
/// # Safety
/// The memory is the caller's alone.
unsafe fn clear(start: *mut u8, len: usize) {
    let page = os::page_size();
    let first = start.wrapping_add(start.align_offset(page));
    let last = start.with_addr((start.addr() + len) & !(page - 1));
    // SAFETY: passed on; OS pages between `first` and `last` lie in the memory.
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

/// Gives whole OS pages back, which then are zeros; where that is refused, writes them.
///
/// # Safety
/// They are the caller's alone.
unsafe fn give_back(start: *mut u8, len: usize) {
    // SAFETY: passed on.
    unsafe {
        if len > 0 && !os::discard_to_zeros(start, len) {
            start.write_bytes(0, len);
        }
    }
}

/// A piece of memory that is looked at as a whole.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Piece([u64; 8]);

/// The least that a class's size is a multiple of.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Unit([u64; 2]);

/// Whether a block holds nothing but zeros.
///
/// # Safety
/// It begins at a multiple of 16, and has this many bytes, which may be read.
#[inline(always)]
pub(super) unsafe fn is_zero(block: NonNull<u8>, size: usize) -> bool {
    const PIECE: usize = size_of::<Piece>();
    const { assert!(size_of::<Unit>() == UNIT) };
    // SAFETY: the caller's promise.
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
