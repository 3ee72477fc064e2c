//! The supply of a size class: its window, its current page, and the pages to choose from.
//!
//! ```text
//! window         0 1 1 0 1 …             free blocks of one word of the current page
//! current page   0 0 0 0 0 … | 1 1 0 …   its other words (the window's word: blocks freed since)
//! lists          φ ≤ c/4 | ≤ c/2 | ≤ 3c/4 | < c     all others that have free blocks
//! ```
//! A few bits of one word of the current page at a time are moved to the *window*, from which
//! blocks are allocated: a test, a count of trailing zeros and a multiplication. The lowest come
//! first, and only as many as cover about four kilobytes. So freed blocks are reused before blocks
//! that were untouched for longer, which are less likely to be in a cache. (Of a new page, the last
//! blocks come before the others, as their memory is touched in any case.)

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::error::AllocError;
use crate::meter::Meter;
use crate::pages::class::{Class, Classes};
use crate::pages::headers::page::{NEVER, NO_LIST, Page, WORD};
use crate::source::Source;

/// Every 2ⁱ-th bit of a word; no bit if words do not always begin with an aligned block.
const EVERY: [u64; 64] = {
    let mut every = [0; 64];
    let mut shift = 0;
    while shift <= WORD.trailing_zeros() {
        every[shift as usize] = if shift < 6 { !0 / ((1 << (1 << shift)) - 1) } else { 1 };
        shift += 1;
    }
    every
};

/// Bytes that the blocks of a window cover, about.
const REACH: u32 = 4096;

/// Lists by φ.
pub(in crate::pages) const LISTS: u32 = 4;

/// A class's supply. Invariants:
/// - the bits of `window` are blocks of word `word` of the current page, and clear there; `first`
///   is the address of the word's first block;
/// - the current page is on no list and has no trigger;
/// - a page on list l had at least c·l/4 free blocks when it was put there (and has no fewer now).
#[derive(Debug)]
pub(in crate::pages) struct Supply {
    /// The window: bit i is set if block i of the word can be allocated.
    pub(in crate::pages) window: u64,
    /// Where block 0 of the word starts.
    pub(in crate::pages) first: *mut u8,
    /// Block size, bytes.
    pub(in crate::pages) size: u32,
    /// Index of the word of the page's bits that the window comes from.
    pub(in crate::pages) word: u32,
    /// The current page.
    pub(in crate::pages) page: Option<Page>,
    /// c: blocks in a page.
    pub(in crate::pages) capacity: u32,
    /// Blocks moved to the window at a time, a power of two up to 64.
    width: u32,
    /// Number of requests that were refused a first page.
    refused: u16,
    /// φ of the current page when none of its blocks was aligned as requested.
    looked: u16,
    /// φ0: blocks that must be free in a page before it can become the current page.
    pub(in crate::pages) tolerance: u32,
    /// First page of each list, a ring.
    lists: [Option<Page>; LISTS as usize],
}

impl Supply {
    /// Makes the supply of a class of blocks of `size` bytes, `capacity` in a page, without pages
    /// yet.
    pub(in crate::pages) const fn new(size: u32, capacity: u32, tolerance: u32) -> Self {
        let blocks = (REACH / size).next_power_of_two();
        let width = if blocks < 4 {
            4
        } else if blocks > WORD {
            WORD
        } else {
            blocks
        };
        Self {
            refused: 0,
            looked: 0,
            width,
            window: 0,
            first: core::ptr::null_mut(),
            size,
            word: 0,
            page: None,
            capacity,
            tolerance,
            lists: [None; LISTS as usize],
        }
    }

    /// Takes the lowest blocks of the window, which has some, to the end of `places`, the lowest
    /// last. Returns their number. Runs of blocks without gaps, as in a fresh page, cost three
    /// instructions a block.
    #[inline(always)]
    pub(in crate::pages) fn take_many(&mut self, places: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let mut room = places.len();
        while room > 0 && self.window != 0 {
            let from = self.window.trailing_zeros();
            let run = (self.window >> from).trailing_ones() as usize;
            let run = run.min(room);
            let mut block = self.at(from);
            let mut write = |place: &mut MaybeUninit<NonNull<u8>>| {
                // SAFETY: the block lies in the window's page, whose memory is not at address 0.
                place.write(unsafe { NonNull::new_unchecked(block) });
                block = block.wrapping_add(self.size as usize);
            };
            // Four at a time, which the compiler does not do by itself.
            let mut fours = places[room - run..room].rchunks_exact_mut(4);
            fours.by_ref().for_each(|four| four.iter_mut().rev().for_each(&mut write));
            fours.into_remainder().iter_mut().rev().for_each(write);
            self.window &= !(!0 >> (WORD as usize - run) << from);
            room -= run;
        }
        places.len() - room
    }

    /// Takes the lowest block of the window that is aligned to `align`, a power of two up to p, if
    /// there is one. Page bases are aligned to p, so block i is aligned iff i·size is a multiple of
    /// `align`: that is every block, every second, every fourth …, according to how many more
    /// trailing zeros `align` has than the size. (A branch for the common alignments would be
    /// mispredicted too often.)
    #[inline(always)]
    pub(in crate::pages) fn take_aligned(&mut self, align: usize) -> Option<NonNull<u8>> {
        let candidates = self.window & self.every(align);
        if candidates == 0 {
            return None;
        }
        let block = candidates.trailing_zeros();
        self.window ^= candidates & candidates.wrapping_neg();
        // SAFETY: as in `take_many`.
        Some(unsafe { NonNull::new_unchecked(self.at(block)) })
    }

    /// Returns the bits of a word whose blocks are aligned to `align`.
    #[inline(always)]
    fn every(&self, align: usize) -> u64 {
        let missing = align.trailing_zeros().saturating_sub(self.size.trailing_zeros());
        EVERY[missing as usize % EVERY.len()]
    }

    /// Returns a word of a page that has free blocks aligned to `align`. O(words).
    fn word_aligned(&self, page: Page, align: usize) -> Option<u32> {
        let every = self.every(align);
        (0..self.words()).find(|&word| page.word(word).get() & every != 0)
    }

    /// Exchanges the window, none of whose blocks is aligned to `align`, for a word of the current
    /// page that has such blocks. Returns whether there is one. O(words).
    pub(in crate::pages) fn turn_to_aligned(&mut self, align: usize) -> bool {
        let Some(page) = self.page else { return false };
        let Some(word) = self.word_aligned(page, align) else {
            self.looked = page.free() as u16;
            return false;
        };
        let bits = page.empty_word(word);
        if self.window != 0 {
            page.add(self.word, self.window, self.window.count_ones());
        }
        self.show(page, word, bits);
        true
    }

    /// Returns whether the current page has the same number of free blocks as when it was last
    /// [searched](Self::turn_to_aligned) in vain.
    pub(in crate::pages) fn looked_in_vain(&self) -> bool {
        self.page.is_some_and(|page| page.free() == u32::from(self.looked))
    }

    /// Returns where a block of the window's word starts.
    #[inline(always)]
    fn at(&self, block: u32) -> *mut u8 {
        self.first.wrapping_add(block as usize * self.size as usize)
    }

    /// Returns the number of words of a page's bits.
    pub(in crate::pages) fn words(&self) -> u32 {
        self.capacity.div_ceil(WORD)
    }

    /// Returns whether the class is requested often enough to be given a page.
    pub(in crate::pages) fn deserves_page(&mut self) -> bool {
        /// Number of requests below which a class gets no page.
        const RARE: u16 = 128;
        let deserves = self.refused >= RARE;
        self.refused += u16::from(!deserves);
        deserves
    }

    /// Makes the class count its requests anew, from 0, before it deserves a page.
    pub(in crate::pages) fn deserves_no_page(&mut self) {
        self.refused = 0;
    }

    /// Moves bits of the current page to the window, which is empty. Returns whether there were
    /// any.
    pub(in crate::pages) fn refill<M: Meter>(&mut self, meter: &M) -> bool {
        self.refill_with(self.width, meter)
    }

    /// Like [`refill`](Self::refill), but with all bits of a word.
    pub(in crate::pages) fn refill_with_word<M: Meter>(&mut self, meter: &M) -> bool {
        self.refill_with(WORD, meter)
    }

    /// Makes a page whose blocks are all free the current page, and moves its last blocks to the
    /// window: those in its last four kilobytes, or one. The header of what lies above the page is
    /// there too, so a class with few blocks touches one OS page, not two.
    pub(in crate::pages) fn begin(&mut self, page: Page) {
        self.make_current(page);
        let (word, bits) = page.harvest_last(self.words(), (REACH / self.size).max(1));
        self.show(page, word, bits);
    }

    /// Like [`refill`](Self::refill), with up to `width` bits, a power of two.
    #[inline(always)]
    fn refill_with<M: Meter>(&mut self, width: u32, meter: &M) -> bool {
        let Some(page) = self.page else { return false };
        meter.visit(page.header());
        if page.free() == 0 {
            return false;
        }
        let (word, bits) = page.harvest(self.words(), width);
        self.show(page, word, bits);
        true
    }

    /// Makes these bits of a word of the current page, cleared there, the window.
    #[inline(always)]
    fn show(&mut self, page: Page, word: u32, bits: u64) {
        let offset = word as usize * WORD as usize * self.size as usize;
        self.first = page.base.get().wrapping_add(offset);
        (self.window, self.word) = (bits, word);
    }

    /// Gives the window's blocks back to the current page, and makes no page current.
    pub(in crate::pages) fn close(&mut self) -> Option<Page> {
        let page = self.page.take()?;
        let blocks = core::mem::take(&mut self.window);
        if blocks != 0 {
            page.add(self.word, blocks, blocks.count_ones());
        }
        Some(page)
    }

    /// Makes a page on no list the current page; the one before has no free block left.
    pub(in crate::pages) fn make_current(&mut self, page: Page) {
        debug_assert!(self.window == 0, "the window is empty");
        if let Some(full) = self.page.replace(page) {
            full.set_trigger(self.tolerance);
        }
        page.set_trigger(NEVER);
    }

    /// Returns the list of a page's φ.
    #[inline]
    pub(in crate::pages) fn list_for(&self, page: Page) -> u32 {
        // A page whose blocks are all free is on a list only if it is pinned to its class.
        (LISTS * page.free() / self.capacity).min(LISTS - 1)
    }

    /// Puts a page on the list of its φ, as the last.
    pub(in crate::pages) fn put<M: Meter>(&mut self, page: Page, meter: &M) {
        let list = self.list_for(page);
        meter.link_double(page.header());
        page.set_list(list);
        page.set_trigger(self.capacity);
        let first = &mut self.lists[list as usize];
        match *first {
            None => {
                *first = Some(page);
                page.next.set(Some(page));
                page.prev.set(Some(page));
            }
            Some(first) => {
                let last = first.prev.replace(Some(page));
                page.next.set(Some(first));
                page.prev.set(last);
                if let Some(last) = last {
                    last.next.set(Some(page));
                }
            }
        }
    }

    /// Takes a page off its list.
    pub(in crate::pages) fn remove(&mut self, page: Page) {
        let first = &mut self.lists[page.list() as usize];
        page.set_list(NO_LIST);
        let (next, prev) = (page.next.get(), page.prev.get());
        if next == Some(page) {
            *first = None;
            return;
        }
        if *first == Some(page) {
            *first = next;
        }
        if let (Some(next), Some(prev)) = (next, prev) {
            next.prev.set(Some(prev));
            prev.next.set(Some(next));
        }
    }

    /// Takes the page with the fewest free blocks, to a quarter of c, off its list; among equals
    /// the one that has been there longest. A page that has outgrown its list moves on: φ only
    /// rises while a page is on a list, so the order need not be kept until it is used.
    pub(in crate::pages) fn choose<M: Meter>(&mut self, meter: &M) -> Option<Page> {
        for list in 0..LISTS {
            while let Some(page) = self.lists[list as usize] {
                meter.visit(page.header());
                self.remove(page);
                if self.list_for(page) == list {
                    return Some(page);
                }
                self.put(page, meter);
            }
        }
        None
    }

    /// Takes a page that has a free block aligned to `align` off its list. O(pages · words).
    pub(in crate::pages) fn choose_aligned(&mut self, align: usize) -> Option<Page> {
        let mut chosen = None;
        self.for_each(|page, _| {
            if chosen.is_none() && self.word_aligned(page, align).is_some() {
                chosen = Some(page);
            }
        });
        chosen.inspect(|&page| self.remove(page))
    }

    /// Calls `visit` for every page on a list, with the list.
    pub(in crate::pages) fn for_each(&self, mut visit: impl FnMut(Page, u32)) {
        for (list, first) in (0..).zip(self.lists) {
            let mut page = first;
            while let Some(at) = page {
                visit(at, list);
                page = at.next.get().filter(|&next| Some(next) != first);
            }
        }
    }
}

/// The supplies of all classes, in dedicated memory. Invariant: there are `count` of them.
#[derive(Debug)]
pub(in crate::pages) struct Supplies {
    /// An array of `count` supplies, one for each class.
    supplies: NonNull<Supply>,
    /// Number of classes.
    count: usize,
}

// SAFETY: the supplies belong to the heap, wherever it goes.
unsafe impl Send for Supplies {}

impl Supplies {
    /// Makes an empty set of supplies.
    pub(in crate::pages) const fn new() -> Self {
        Self { supplies: NonNull::dangling(), count: 0 }
    }

    /// Makes a supply for each class; there was none yet.
    pub(in crate::pages) fn open<S: Source>(
        &mut self,
        classes: &Classes,
        source: &mut S,
    ) -> Result<(), AllocError> {
        let count = classes.count();
        let layout = Layout::array::<Supply>(count).map_err(|_| AllocError::Exhausted)?;
        self.supplies = source.dedicate(layout)?.cast();
        for class in 0..count {
            let Class { size, capacity, tolerance, .. } = *classes.get(class as u32);
            // SAFETY: the layout has room for a supply of each class.
            unsafe { self.supplies.add(class).write(Supply::new(size, capacity, tolerance)) };
        }
        self.count = count;
        Ok(())
    }

    /// Returns a class's supply.
    #[inline(always)]
    pub(in crate::pages) fn get(&self, class: u32) -> &Supply {
        debug_assert!((class as usize) < self.count, "there is such a class");
        // SAFETY: a class has a supply; `&self` excludes writers.
        unsafe { self.supplies.add(class as usize).as_ref() }
    }

    /// Returns a class's supply, mutably.
    #[inline(always)]
    pub(in crate::pages) fn get_mut(&mut self, class: u32) -> &mut Supply {
        debug_assert!((class as usize) < self.count, "there is such a class");
        // SAFETY: a class has a supply; `&mut self` is exclusive.
        unsafe { self.supplies.add(class as usize).as_mut() }
    }

    /// Returns all supplies, in the order of the classes.
    pub(in crate::pages) fn all(&self) -> &[Supply] {
        // SAFETY: there are `count` initialised supplies; `&self` excludes writers.
        unsafe { core::slice::from_raw_parts(self.supplies.as_ptr(), self.count) }
    }
}
