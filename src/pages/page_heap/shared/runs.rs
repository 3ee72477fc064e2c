//! Runs: adjacent blocks of one size, too large for pages, that are taken and freed as one.
//!
//! ```text
//!  | free                                     |    one block, at its start
//!  | in use  |                                |    as long as it can be, up to all of them
//!  | in use                         | free    |    divided
//!  | in use  | in use    | in use   | free    |
//! ```
//! To find a free block and to join a freed one with its neighbours takes much longer than to write
//! a tag.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::{Backing, Heap, Served};
use crate::meter::{Meter, Part};
use crate::pages::below::Below;
use crate::pages::below::tagged::Tagged;
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;
use crate::tags::TAG;

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Returns the bytes of a block that can be [divided](Self::divide_tagged) into `parts` blocks
    /// of `size` bytes.
    pub(crate) fn tagged_size_of_run(size: usize, parts: usize) -> usize {
        parts * (Self::tagged_size_for(size) + TAG) - TAG
    }

    /// Allocates a block that no page serves, from free memory that the heap has below its
    /// wilderness; `None` if there is none.
    pub(crate) fn allocate_tagged(&mut self, layout: Layout) -> Option<NonNull<[u8]>> {
        let Backing { meter, .. } = &self.backing;
        let (block, bytes) = self.engine.pages.below.take(layout, meter)?;
        Some(self.backing.served(layout, Served::whole(block, bytes, Part::Fit)))
    }

    /// As [`allocate_tagged`](Self::allocate_tagged), but also from the wilderness; `None` if the
    /// heap would have to grow.
    pub(crate) fn allocate_held(&mut self, layout: Layout) -> Option<NonNull<[u8]>> {
        let (block, bytes) = self.engine.pages.below.take_held(layout, &self.backing.meter)?;
        Some(self.backing.served(layout, Served::whole(block, bytes, Part::Fit)))
    }

    /// Divides a block into `parts` blocks of `size` bytes each, as if each had been requested, and
    /// calls `visit` for each but the first, which is the lowest. O(parts).
    ///
    /// # Safety
    /// The block is in use, is in no page, and has the bytes of [such a
    /// run](Self::tagged_size_of_run).
    pub(crate) unsafe fn divide_tagged(
        &mut self,
        block: NonNull<u8>,
        size: usize,
        parts: usize,
        mut visit: impl FnMut(NonNull<u8>),
    ) {
        let each = Self::tagged_size_for(size);
        let whole = Self::tagged_size_of_run(size, parts);
        debug_assert_eq!(self.engine.pages.below.len_of(block), whole);
        self.engine.pages.below.divide(block, each);
        self.backing.tally.divided(whole, parts, each);
        for part in 1..parts {
            // SAFETY: the caller guarantees that the block has this many bytes.
            visit(unsafe { block.byte_add(part * (each + TAG)) });
        }
    }

    /// Frees the first of these blocks, and those after it that each adjoin the ones before, as if
    /// all bytes of each had been requested. Returns their number. O(blocks).
    ///
    /// # Errors
    /// The first block, if it [is not in use](Self::is_tagged_in_use), or one beside the run is
    /// [damaged](Self::damaged); nothing is changed.
    ///
    /// # Safety
    /// The blocks were allocated here and, as far as that is not detected, have not been freed.
    pub(crate) unsafe fn free_tagged_run(
        &mut self,
        blocks: &[NonNull<u8>],
    ) -> Result<usize, Option<NonNull<u8>>> {
        let pages = &mut self.engine.pages;
        let Backing { meter, tally, .. } = &mut self.backing;
        let is_in_page = |block: NonNull<u8>| pages.headers.at(block.addr().get()).is_some();
        let freed = pages.below.free_known_run(blocks, is_in_page, meter);
        let (count, bytes) = freed.ok_or(blocks.first().copied())?;
        meter.served(Part::Fit);
        tally.freed_many(count, bytes);
        Ok(count)
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use core::mem::MaybeUninit;

    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::pages::{Config, PageHeap};
    use crate::source::Reserved;
    use crate::strategy::Strategy;

    fn heap() -> PageHeap<Reserved> {
        // Tests that run before leave little of a 32-bit address space.
        let mut heap = PageHeap::new(Config::with_page_size(1 << 16), Reserved::new(1 << 26), ());
        heap.open().expect("there is memory for the classes");
        heap
    }

    /// Takes a run of `parts` blocks of `size` bytes.
    fn take(heap: &mut PageHeap<Reserved>, size: usize, parts: usize) -> Vec<NonNull<u8>> {
        let whole = PageHeap::<Reserved>::tagged_size_of_run(size, parts);
        let layout = Layout::from_size_align(whole, 1).expect("a valid layout");
        let block = heap.allocate(layout).expect("there is memory").cast();
        let mut blocks = vec![block];
        // SAFETY: the block was just allocated, with these bytes.
        unsafe { heap.divide_tagged(block, size, parts, |part| blocks.push(part)) };
        blocks
    }

    /// Frees blocks in runs; returns the number of runs.
    fn free(heap: &mut PageHeap<Reserved>, mut blocks: &[NonNull<u8>]) -> usize {
        let mut runs = 0;
        while !blocks.is_empty() {
            // SAFETY: the blocks are in use, and freed once.
            let count = unsafe { heap.free_tagged_run(blocks) }.expect("it is in use");
            blocks = &blocks[count..];
            runs += 1;
        }
        runs
    }

    /// A block that is divided counts as its parts, and these hold what they should.
    #[test]
    fn parts_are_blocks() {
        let mut heap = heap();
        for (size, parts) in [(20_000, 8), (16_400, 1), (131_072, 2), (40_001, 7)] {
            let before = heap.usage();
            let blocks = take(&mut heap, size, parts);
            heap.audit().expect("every invariant holds");
            let each = PageHeap::<Reserved>::tagged_size_for(size);
            let usage = heap.usage();
            assert_eq!(usage.blocks - before.blocks, parts);
            assert_eq!(usage.block - before.block, parts * each);
            assert_eq!(usage.requested - before.requested, parts * each);
            for (number, block) in (1..).zip(&blocks) {
                // SAFETY: the block is in use.
                unsafe {
                    assert_eq!(heap.block_size(*block), each);
                    block.write_bytes(number, each);
                }
            }
            for (number, block) in (1..).zip(&blocks) {
                // SAFETY: the block has these bytes, which were written.
                let contents = unsafe { core::slice::from_raw_parts(block.as_ptr(), each) };
                let step = if cfg!(miri) { 1_009 } else { 1 };
                assert!(contents.iter().step_by(step).all(|&byte| byte == number));
            }
            assert_eq!(free(&mut heap, &blocks), 1);
            assert_eq!(heap.usage().block, before.block);
        }
    }

    /// Blocks that come and go in runs and one by one leave the heap whole, and each block that is
    /// freed is found to be free.
    #[test]
    fn runs_in_any_order_leave_the_heap_whole() {
        let mut random = StdRng::seed_from_u64(3);
        let mut heap = heap();
        let mut live = Vec::new();
        for round in 0..if cfg!(miri) { 10 } else { 1000 } {
            let size = [20_000, 40_000, 72_000][random.random_range(0..3)];
            let parts = random.random_range(1..9);
            live.extend(take(&mut heap, size, parts));
            match round % 3 {
                0 => live.shuffle(&mut random),
                1 => live.sort_unstable(),
                _ => live.reverse(),
            }
            let freed = live.split_off(live.len() - random.random_range(0..=live.len().min(12)));
            free(&mut heap, &freed);
            // SAFETY: the blocks were allocated here; nothing is done.
            assert!(freed.iter().all(|&block| unsafe {
                !heap.is_tagged_in_use(block) && heap.free_tagged_run(&[block]) == Err(Some(block))
            }));
            heap.audit().expect("every invariant holds");
            assert_eq!(heap.usage().blocks, live.len());
        }
        free(&mut heap, &live);
        assert_eq!(heap.usage().block, 0);
    }

    /// Up or down, adjoining blocks are freed at once; a run ends before a block that does not
    /// adjoin it, is not in use, is given twice, or is in a page.
    #[test]
    fn a_run_ends_where_blocks_do_not_adjoin() {
        let mut heap = heap();
        let mut blocks = take(&mut heap, 20_000, 8);
        let mut place = [MaybeUninit::uninit()];
        assert_eq!(heap.take_batch(0, &mut place, |_, _| {}), 1);
        // SAFETY: it was written.
        let small = unsafe { place[0].assume_init() };
        blocks.reverse();
        assert_eq!(free(&mut heap, &blocks), 1, "down");

        let blocks = take(&mut heap, 20_000, 8);
        let [a, b, c, d, e, f, g, h] = blocks[..] else { unreachable!("there are eight") };
        // SAFETY: each block is freed once; the frees that fail do nothing.
        unsafe {
            assert_eq!(heap.free_tagged_run(&[c, b, d, f]), Ok(3), "not beside it");
            assert_eq!(heap.free_tagged_run(&[a, b]), Ok(1), "not in use");
            assert_eq!(heap.free_tagged_run(&[e, f, e]), Ok(2), "given twice");
            assert_eq!(heap.free_tagged_run(&[e]), Err(Some(e)));
            assert_eq!(heap.free_tagged_run(&[h, small]), Ok(1), "in a page");
            assert_eq!(heap.free_tagged_run(&[small]), Err(Some(small)));
            assert_eq!(heap.free_tagged_run(&[]), Err(None));
            assert_eq!(heap.free_tagged_run(&[g]), Ok(1));
            heap.free_batch(&[small]).expect("it is in use");
        }
        heap.audit().expect("every invariant holds");
        assert_eq!(heap.usage().block, 0);
    }

    /// A free block whose words were overwritten is not taken, whatever is requested. (Regression:
    /// where small pages serve little, plain requests took it.)
    #[test]
    fn damage_is_not_handed_out() {
        for size in [1_000, 20_000] {
            let config = Config::with_page_size(1 << 16).ffcrossover(512);
            let mut heap = PageHeap::new(config, Reserved::new(1 << 26), ());
            heap.open().expect("there is memory for the classes");
            heap.vet_all();
            let layout = Layout::from_size_align(size, 1).expect("a valid layout");
            let [_low, between, _high] =
                [(); 3].map(|()| heap.allocate(layout).expect("there is memory").cast::<u8>());
            // SAFETY: the block is freed once. The program has no right to the free block, and
            // writes to it nevertheless.
            unsafe {
                heap.free_tagged_run(&[between]).expect("it is in use");
                between.write_bytes(0x41, 8);
            }
            let next = heap.allocate(layout).map(|block| block.cast::<u8>());
            assert!(next != Ok(between) && heap.damaged() == Some(between.as_ptr()), "{size}");
        }
    }

    /// Beside a free block whose words were overwritten no run is freed: the heap would follow
    /// them.
    #[test]
    fn a_run_beside_damage_stays_in_use() {
        let mut heap = heap();
        heap.vet_all();
        let blocks = take(&mut heap, 20_000, 4);
        let [a, b, c, _] = blocks[..] else { unreachable!("there are four") };
        // SAFETY: each block is freed once; the free that fails does nothing. The program has no
        // right to the free block, and writes to it nevertheless.
        unsafe {
            assert_eq!(heap.free_tagged_run(&[c]), Ok(1));
            c.write_bytes(0x41, 8);
            assert_eq!((heap.damaged(), heap.usage().blocks), (None, 3));
            assert_eq!(heap.free_tagged_run(&[b, a]), Err(Some(b)));
            assert!(heap.is_tagged_in_use(a) && heap.is_tagged_in_use(b));
        }
        assert!(heap.damaged().is_some() && heap.usage().blocks == 3);
    }
}
