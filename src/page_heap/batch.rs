//! Many blocks at once: what quick lists in front of a heap are filled from and emptied into.
//!
//! A block allocated here counts as a request for all of its size. Taken or freed one by one, each
//! block costs its page's header and word; at once, a header and a word are read and written once
//! for each run of blocks that lie in them.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::PageHeap;
use super::page::{Page, WORD};
use crate::meter::{Meter, Part};
use crate::paged::class::Class;
use crate::source::Source;

impl<S: Source, M: Meter> PageHeap<S, M> {
    /// Number of size classes; 0 before the heap was [opened](Self::open).
    #[inline(always)]
    pub fn classes(&self) -> u32 {
        self.pages.classes.count() as u32
    }

    /// Block size of a class, bytes.
    ///
    /// # Panics
    /// If there is no such class.
    #[inline(always)]
    pub fn class_size(&self, class: u32) -> usize {
        self.pages.classes.get(class).size as usize
    }

    /// The least class whose blocks all serve this layout; `None` if it is not served by pages, or
    /// the heap was not [opened](Self::open). O(1) up to the unit's alignment, else O(classes).
    #[inline(always)]
    pub fn class_of(&self, layout: Layout) -> Option<u32> {
        self.pages.classes.of(layout)
    }

    /// The class of the page this address lies in; `None` if it lies in no page of this heap.
    #[inline(always)]
    pub fn class_at(&self, address: NonNull<u8>) -> Option<u32> {
        self.pages.page_at(address).map(|page| page.class())
    }

    /// Takes blocks of a class, as many as `blocks` has room for, or fewer if memory is exhausted;
    /// returns how many. They may be freed one by one with [`Layout`]s of the class's size, or at
    /// once with [`free_batch`](Self::free_batch). O(blocks).
    ///
    /// # Panics
    /// If there is no such class.
    pub fn take_batch(&mut self, class: u32, blocks: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let size = self.class_size(class);
        let mut taken = 0;
        while taken < blocks.len() {
            let supply = self.pages.supplies.get_mut(class);
            let filled = supply.window != 0 || supply.refill_with_word(&self.pages.meter);
            if !filled && self.pages.fill_window(class).is_err() {
                break;
            }
            let supply = self.pages.supplies.get_mut(class);
            while let Some(place) = blocks.get_mut(taken)
                && let Some(block) = supply.take()
            {
                place.write(block);
                taken += 1;
            }
            self.pages.meter.served(Part::Pages);
        }
        self.pages.tally.allocated_many(taken, size);
        taken
    }

    /// Frees blocks of pages at once. O(blocks); blocks of one page side by side are cheapest.
    ///
    /// # Errors
    /// A block near one that was free already, if that is noticed, which costs next to nothing
    /// here. The blocks before it may have been freed; the heap is intact.
    ///
    /// # Safety
    /// Each was taken by [`take_batch`](Self::take_batch) (or allocated with the size of its
    /// class), lies in a page, and was not freed since.
    pub unsafe fn free_batch(&mut self, blocks: &[NonNull<u8>]) -> Result<(), NonNull<u8>> {
        let mut rest = blocks;
        let (mut freed, mut bytes) = (0, 0);
        while let Some((&first, others)) = rest.split_first() {
            let Some(page) = self.pages.page_at(first) else { break };
            let (run, in_use) = self.free_run(page, first, others);
            freed += run;
            bytes += run * page.size.get() as usize;
            self.pages.meter.touch(page.header());
            self.pages.meter.served(Part::Pages);
            if page.free() >= page.trigger() {
                self.pages.triggered(page);
            }
            if !in_use {
                break;
            }
            rest = &rest[run..];
        }
        self.pages.tally.freed_many(freed, bytes);
        rest.first().map_or(Ok(()), |&block| Err(block))
    }

    /// Frees a block of this page, and those at the head of `others` that lie in it, too. Returns
    /// how many, and whether all were in use.
    #[inline(always)]
    fn free_run(
        &mut self,
        page: Page,
        first: NonNull<u8>,
        others: &[NonNull<u8>],
    ) -> (usize, bool) {
        let (base, reciprocal) = (page.base.get().addr(), page.reciprocal.get());
        // Pages are aligned to their size, so this is not below it for any other address.
        let offset = |block: NonNull<u8>| block.addr().get() ^ base;
        let index = Class::index_by(reciprocal, offset(first));
        let (mut word, mut bits, mut count) = (index / WORD, 1 << (index % WORD), 1);
        // Bits of this word that were to be set twice.
        let mut twice = 0;
        let mut freed = 0;
        for &block in others {
            let offset = offset(block);
            if offset >= self.pages.page_size() {
                break;
            }
            let index = Class::index_by(reciprocal, offset);
            if index / WORD != word {
                if (page.word(word).get() & bits) | twice != 0 {
                    return (freed, false);
                }
                page.add(word, bits, count);
                freed += count as usize;
                (word, bits, count) = (index / WORD, 0, 0);
            }
            let bit = 1u64 << (index % WORD);
            twice |= bits & bit;
            bits |= bit;
            count += 1;
        }
        if (page.word(word).get() & bits) | twice != 0 {
            return (freed, false);
        }
        page.add(word, bits, count);
        (freed + count as usize, true)
    }
}
