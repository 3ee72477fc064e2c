//! Takes and frees many blocks at once, to fill and empty the quick lists in front of a heap.
//!
//! A block allocated here counts as a request for its whole size. One by one, each block costs a
//! read and write of its page's header and of a word; in a batch, header and word are read and
//! written once for each run of blocks that share them.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::engine::Heap;
use crate::meter::{Meter, Part};
use crate::pages::below::Below;
use crate::pages::below::tagged::Tagged;
use crate::pages::class::Class;
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::headers::page::{Page, WORD};
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Returns the block size of a class in bytes.
    ///
    /// # Panics
    /// If there is no such class.
    #[inline(always)]
    pub(crate) fn class_size(&self, class: u32) -> usize {
        self.engine.pages.classes.get(class).size as usize
    }

    /// Returns the class of the page that contains this address; `None` if it is in no page of this
    /// heap.
    #[cfg(test)]
    fn class_at(&self, address: NonNull<u8>) -> Option<u32> {
        self.engine.pages.headers.at(address.addr().get()).map(|page| page.class())
    }

    /// Takes as many blocks of a class as `blocks` has room for, or fewer if memory is exhausted,
    /// and returns their number. They fill the head of `blocks`, mostly the lowest last, so that
    /// popping from the end yields the lowest first. They may be freed one by one with layouts of
    /// the class's size, or at once with [`free_batch`](Self::free_batch).
    ///
    /// Before it takes blocks from a page for the first time since the page joined the class, and
    /// perhaps more often, it calls `from_page` with the page's base and whether all its blocks are
    /// free. O(blocks).
    ///
    /// # Panics
    /// If there is no such class.
    pub(crate) fn take_batch(
        &mut self,
        class: u32,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
        mut from_page: impl FnMut(*mut u8, bool),
    ) -> usize {
        let size = self.class_size(class);
        let (PageEngine { placement, pages, .. }, backing) = (&mut self.engine, &mut self.backing);
        let mut room = blocks.len();
        while room > 0 {
            let supply = placement.supplies.get_mut(class);
            if supply.window == 0 && !supply.refill_with_word(&backing.meter) {
                if placement.fill_window(class, pages, backing).is_err() {
                    break;
                }
                let supply = placement.supplies.get(class);
                if let Some(page) = supply.page {
                    let free = page.free() + supply.window.count_ones();
                    from_page(page.base.get(), free == supply.capacity);
                }
            }
            let supply = placement.supplies.get_mut(class);
            room -= supply.take_many(&mut blocks[..room]);
            backing.meter.served(Part::Pages);
        }
        let taken = blocks.len() - room;
        if room > 0 {
            blocks.copy_within(room.., 0);
        }
        backing.tally.allocated_many(taken, size);
        taken
    }

    /// Frees blocks of pages at once. O(blocks); cheapest if blocks of the same word are adjacent.
    ///
    /// # Errors
    /// The first block that is already free, or is given twice, or is an address where no block of
    /// a page starts. Blocks before it may have been freed; the heap is intact.
    ///
    /// # Safety
    /// Each was taken by [`take_batch`](Self::take_batch) (or allocated with the size of its class)
    /// and, as far as that is not detected, has not been freed.
    pub(crate) unsafe fn free_batch(&mut self, blocks: &[NonNull<u8>]) -> Result<(), NonNull<u8>> {
        let (PageEngine { placement, pages, .. }, backing) = (&mut self.engine, &mut self.backing);
        let within = pages.page_size() - 1;
        let (mut freed, mut bytes) = (0, 0);
        while let Some(&first) = blocks.get(freed) {
            let Some(page) = pages.headers.at(first.addr().get()) else { break };
            // Blocks freed in no order are mostly in different pages, which shows at once.
            let next = blocks.get(freed + 1);
            let run = if next.is_some_and(|next| next.addr().get() ^ first.addr().get() <= within) {
                page.free_run(&blocks[freed..], within + 1)
            } else {
                page.free_one(first, within + 1)
            };
            if run == 0 {
                break;
            }
            freed += run;
            bytes += run * page.size.get() as usize;
            backing.meter.touch(page.header());
            backing.meter.served(Part::Pages);
            if page.free() >= page.trigger() {
                placement.triggered(page, pages, &backing.meter);
            }
        }
        backing.tally.freed_many(freed, bytes);
        if freed < blocks.len() { Err(self.first_refused(&blocks[freed..])) } else { Ok(()) }
    }

    /// Returns the first block that cannot be freed; there must be one.
    #[cold]
    fn first_refused(&self, blocks: &[NonNull<u8>]) -> NonNull<u8> {
        let pages = &self.engine.pages;
        let within = pages.page_size() - 1;
        let is_in_use = |block: NonNull<u8>| {
            let page = pages.headers.at(block.addr().get())?;
            let index = page.block_at(block.addr().get() & within, within + 1)?;
            (!page.is_free(index)).then_some(())
        };
        let refused =
            |&at: &usize| is_in_use(blocks[at]).is_none() || blocks[..at].contains(&blocks[at]);
        blocks[(0..blocks.len()).find(refused).unwrap_or(0)]
    }
}

impl Page {
    /// Returns the number of the block that starts at this offset (bytes) in a page of `page_size`
    /// bytes; `None` if none does.
    #[inline(always)]
    fn block_at(self, offset: usize, page_size: usize) -> Option<u32> {
        let divided = Class::divide(self.reciprocal.get(), offset);
        let fits = offset + self.size.get() as usize <= Tagged::usable(page_size);
        (fits && Class::are_multiples(divided)).then_some(Class::index_of(divided))
    }

    /// Frees a block of this page of `page_size` bytes. Returns 1; 0, with nothing changed, if it
    /// is free or does not start at a block.
    #[inline(always)]
    fn free_one(self, block: NonNull<u8>, page_size: usize) -> usize {
        match self.block_at(block.addr().get() & (page_size - 1), page_size) {
            Some(index) if !self.is_free(index) => {
                self.set_free(index);
                1
            }
            _ => 0,
        }
    }

    /// Frees a run of blocks of this page of `page_size` bytes: the first two of `blocks`, and the
    /// following ones as long as their bits are evidently in the same word. Returns their number;
    /// 0, with nothing changed, if one of them was free or does not start at a block.
    #[inline(always)]
    fn free_run(self, blocks: &[NonNull<u8>], page_size: usize) -> usize {
        let [first, second, ..] = *blocks else { return 0 };
        let (base, size) = (self.base.get().addr(), self.size.get() as usize);
        let offset = first.addr().get() - base;
        let index = Class::index_by(self.reciprocal.get(), offset);
        // Blocks that were allocated one after the other are mostly freed in that order, or in
        // reverse.
        let step = second.addr().get().wrapping_sub(first.addr().get());
        if step == size {
            return self.free_straight(index, WORD - index % WORD, step, blocks, page_size);
        }
        if step == size.wrapping_neg() {
            return self.free_straight(index, index % WORD + 1, step, blocks, page_size);
        }
        let start = base + (index / WORD) as usize * WORD as usize * size;
        if second.addr().get().wrapping_sub(start) < WORD as usize * size {
            self.free_of_word(index / WORD, blocks, page_size)
        } else {
            self.free_one(first, page_size)
        }
    }

    /// Frees at most `most` blocks, as [`free_run`](Self::free_run) does. The first is block
    /// `index`, and each is `step` bytes above the one before.
    #[inline(always)]
    fn free_straight(
        self,
        index: u32,
        most: u32,
        step: usize,
        blocks: &[NonNull<u8>],
        page_size: usize,
    ) -> usize {
        let Some(first) = blocks.first() else { return 0 };
        let most = blocks.len().min(most as usize);
        let (mut count, mut next) = (1, first.addr().get().wrapping_add(step));
        // Four at a time, which the compiler does not do by itself.
        while let Some(four) = blocks[..most].get(count..count + 4) {
            let ahead = (0..).map(|nth| next.wrapping_add(step.wrapping_mul(nth)));
            if !four.iter().zip(ahead).all(|(block, at)| block.addr().get() == at) {
                break;
            }
            count += 4;
            next = next.wrapping_add(step.wrapping_mul(4));
        }
        while count < most && blocks[count].addr().get() == next {
            count += 1;
            next = next.wrapping_add(step);
        }
        let count = count as u32;
        let lowest = if (step as isize) < 0 { index + 1 - count } else { index };
        let bits = !0 >> (WORD - count) << (lowest % WORD);
        let size = self.size.get() as usize;
        let starts = first.addr().get() - self.base.get().addr() == index as usize * size;
        let fits = (lowest + count) as usize * size <= Tagged::usable(page_size);
        if !starts || !fits || self.word(index / WORD).get() & bits != 0 {
            return 0;
        }
        self.add(index / WORD, bits, count);
        count as usize
    }

    /// Like [`free_run`](Self::free_run), for all blocks up to the first whose bit is in another
    /// word.
    #[inline(always)]
    fn free_of_word(self, word: u32, blocks: &[NonNull<u8>], page_size: usize) -> usize {
        let (base, reciprocal) = (self.base.get().addr(), self.reciprocal.get());
        let size = self.size.get() as usize;
        // The word's blocks start in these bytes; a block that would not fit the page does not
        // count.
        let start = word as usize * WORD as usize * size;
        let end = (Tagged::usable(page_size) - size + 1).min(start + WORD as usize * size);
        let (origin, len) = (base + start, end.saturating_sub(start));
        let (mut bits, mut count, mut all) = (0u64, 0, 0);
        for block in blocks {
            let offset = block.addr().get().wrapping_sub(origin);
            if offset >= len {
                break;
            }
            let divided = Class::divide(reciprocal, offset);
            all |= divided;
            bits |= 1 << (Class::index_of(divided) % WORD);
            count += 1;
        }
        let starts = count > 0 && Class::are_multiples(all);
        if !starts || self.word(word).get() & bits != 0 || bits.count_ones() != count {
            return 0;
        }
        self.add(word, bits, count);
        count as usize
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::pages::{Config, PageHeap};
    use crate::source::{Region, Reserved};
    use crate::strategy::Strategy;

    const PAGE: usize = 1 << 16;

    /// Returns the bytes of a page that its blocks can use.
    fn usable() -> usize {
        Tagged::usable(PAGE)
    }

    fn heap() -> PageHeap<Reserved> {
        let config = Config { unit: 16, ..Config::with_page_size(PAGE) };
        let mut heap = PageHeap::new(config, Reserved::new(1 << 26), ());
        heap.open().expect("there is memory for the classes");
        heap
    }

    /// Takes `count` blocks. All their pages were announced.
    fn take(heap: &mut PageHeap<Reserved>, class: u32, count: usize) -> Vec<NonNull<u8>> {
        let mut places = vec![MaybeUninit::uninit(); count];
        let taken = heap.take_batch(class, &mut places, |page, _| {
            assert!(page.addr().is_multiple_of(PAGE), "a page is aligned");
        });
        // SAFETY: the first `taken` places were written.
        places[..taken].iter().map(|place| unsafe { place.assume_init() }).collect()
    }

    #[test]
    fn batches_in_any_order_leave_the_heap_whole() {
        let mut random = StdRng::seed_from_u64(1);
        let mut heap = heap();
        let mut live: Vec<NonNull<u8>> = Vec::new();
        for round in 0..if cfg!(miri) { 4 } else { 400 } {
            let class = random.random_range(0..heap.classes());
            let count = random.random_range(1..200);
            let taken = take(&mut heap, class, count);
            assert_eq!(taken.len(), count);
            assert!(taken.iter().all(|&block| heap.class_at(block) == Some(class)));
            live.extend(taken);
            if round % 3 != 0 {
                live.shuffle(&mut random);
            }
            let mut freed =
                live.split_off(live.len() - live.len().min(random.random_range(0..300)));
            if round % 3 == 2 {
                freed.sort_unstable();
            }
            // SAFETY: these blocks were taken and are freed once.
            unsafe { heap.free_batch(&freed) }.expect("they were in use");
            heap.audit().expect("every invariant holds");
        }
        assert_eq!(heap.usage().blocks, live.len());
        let mut different = live.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), live.len(), "no block is handed out twice");
    }

    #[test]
    fn the_lowest_block_comes_last() {
        let mut heap = heap();
        let blocks = take(&mut heap, 3, 500);
        let pages = blocks.chunk_by(|a, b| a.addr().get() / PAGE == b.addr().get() / PAGE).count();
        // A new page begins with its last blocks.
        let runs = blocks.chunk_by(|higher, lower| higher > lower).count();
        assert!(runs > pages && runs <= 2 * pages, "{runs} runs in {pages} pages");
    }

    /// The header above a page lies in its last OS page, and so do its first blocks. A class with
    /// few blocks touches no other memory, wherever the heap begins.
    #[test]
    fn a_page_begins_with_its_last_blocks() {
        const OS_PAGE: usize = 4096;
        let mut memory = Box::<[u8]>::new_uninit_slice(1 << 20).into_vec();
        let base = memory.as_mut_ptr().cast::<u8>();
        let skipped = base.addr().wrapping_neg() % PAGE + OS_PAGE;
        // SAFETY: only the region uses the memory.
        let region = unsafe { Region::new(base.add(skipped), memory.len() - skipped) };
        let mut heap = PageHeap::new(Config::with_page_size(PAGE), region, ());
        heap.open().expect("there is memory for the classes");
        for class in [0, 3, 20, heap.classes() - 1] {
            let mut place = [MaybeUninit::uninit()];
            assert_eq!(heap.take_batch(class, &mut place, |_, _| {}), 1);
            // SAFETY: it was written.
            let within = unsafe { place[0].assume_init() }.addr().get() % PAGE;
            let size = heap.class_size(class);
            assert!(within + OS_PAGE.max(size) + size > PAGE, "{size} bytes at {within}");
            let end = heap.backing.source.extent().end;
            assert!(end.is_multiple_of(PAGE), "the last header lies in the last page: {end:x}");
        }
    }

    #[test]
    fn a_block_freed_twice_is_noticed() {
        let mut heap = heap();
        let mut blocks = take(&mut heap, 2, 10);
        blocks.sort_unstable();
        let (kept, freed) = blocks.split_at(5);
        // SAFETY: a free that fails changes nothing but the blocks before it; the others are freed
        // once.
        unsafe {
            assert!(heap.free_batch(&[kept[0], kept[2], kept[0]]).is_err(), "in one batch");
            heap.audit().expect("every invariant holds");
            assert_eq!(heap.usage().blocks, 10);
            heap.free_batch(freed).expect("they were in use");
            assert_eq!(heap.free_batch(&[kept[0], freed[0]]), Err(freed[0]), "in two");
            assert_eq!(heap.free_batch(freed), Err(freed[0]), "one after the other");
            assert_eq!(heap.free_batch(&freed[..1]), Err(freed[0]), "one alone");
            assert_eq!(
                heap.free_batch(&[freed[1], freed[0]]),
                Err(freed[1]),
                "the other way round"
            );
            heap.audit().expect("every invariant holds");
            let elsewhere = Box::new(0u8);
            assert!(heap.free_batch(&[NonNull::from(&*elsewhere)]).is_err(), "of nobody");
            heap.free_batch(kept).expect("they were in use");
        }
        assert_eq!(heap.usage().blocks, 0);
    }

    /// Tries every address of a page where no block of its class starts: within blocks, and behind
    /// the last.
    #[test]
    fn what_is_no_block_is_noticed() {
        let mut heap = heap();
        // Small blocks would take too long under Miri.
        let skipped = if cfg!(miri) { 2 } else { 0 };
        for class in [0, 2, heap.classes() - 1].into_iter().skip(skipped) {
            let size = heap.class_size(class);
            let in_page = usable() / size;
            let blocks = take(&mut heap, class, 3 * in_page);
            let page = blocks[0].as_ptr().map_addr(|address| address & !(PAGE - 1));
            let at = |offset| NonNull::new(page.wrapping_add(offset)).expect("not at address 0");
            // Each address takes long under Miri.
            for offset in (0..PAGE).step_by(if cfg!(miri) { 1021 } else { 1 }) {
                if offset % size == 0 && offset / size < in_page {
                    continue;
                }
                let beside = if offset == 0 { at(1) } else { at(offset - 1) };
                // SAFETY: nothing is freed if one of the addresses is not a block.
                unsafe {
                    assert!(heap.free_batch(&[at(offset)]).is_err(), "{offset} alone");
                    assert!(heap.free_batch(&[at(offset), beside]).is_err(), "{offset} in a run");
                    let straight = [at(offset + size), at(offset), at(offset + size)];
                    assert!(heap.free_batch(&straight[..2]).is_err(), "{offset} in a run down");
                    assert!(heap.free_batch(&straight[1..]).is_err(), "{offset} in a run up");
                    // A run ends behind the last start of a block, and that block is freed.
                    if offset + size <= usable() {
                        let run = [at(offset / size * size), at(offset)];
                        assert!(heap.free_batch(&run).is_err(), "{offset} behind its block");
                    }
                }
            }
            let behind = at(in_page * size);
            // SAFETY: as above.
            unsafe {
                assert!(
                    heap.free_batch(&[at((in_page - 1) * size), behind]).is_err(),
                    "a run beyond"
                );
                assert!(heap.free_batch(&[behind, at((in_page - 1) * size)]).is_err(), "and back");
            }
            heap.audit().expect("every invariant holds");
            // SAFETY: each was taken and is freed once.
            unsafe { heap.free_batch(&blocks) }.expect("they were in use");
        }
        assert_eq!(heap.usage().blocks, 0);
    }

    /// In a region that is exhausted, a batch gets as many blocks as there are.
    #[test]
    fn a_batch_is_cut_short_where_memory_ends() {
        let mut memory = Box::<[u8]>::new_uninit_slice(1 << 16).into_vec();
        // SAFETY: only the heap uses the memory, which outlives it.
        let region = unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len()) };
        let mut heap = PageHeap::new(Config::with_page_size(4096), region, ());
        heap.open().expect("there is memory");
        let mut places = vec![MaybeUninit::uninit(); 10_000];
        let taken = heap.take_batch(0, &mut places, |_, _| {});
        assert!(taken > 1000 && taken < 5000);
        // SAFETY: the first were written.
        let mut blocks: Vec<NonNull<u8>> =
            places[..taken].iter().map(|place| unsafe { place.assume_init() }).collect();
        assert_eq!(heap.take_batch(0, &mut places, |_, _| {}), 0);
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), taken);
        // SAFETY: they are in use, and freed once.
        unsafe { heap.free_batch(&blocks) }.expect("they were in use");
        assert_eq!(heap.usage().blocks, 0);
    }
}
