//! STACK, QUEUE and RANDOM: each class has one pool of free blocks from all its pages (Brent
//! §2.1–2.3). When the pool is empty, a new page is divided into c blocks.
//!
//! The blocks of a new page are not put on the pool one by one but bumped off the page; for STACK
//! and QUEUE that is the order in which the paper's pool would give them out. Pages never become
//! free for other classes. Each page's free-block bits are kept only for the walk and for checked
//! frees.

use core::ptr::NonNull;

use super::blocks::Put;
use super::paper::PaperPlacement;
use super::random::Random;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::headers::Headers;
use crate::pages::headers::in_page::Bitmap;
use crate::pages::headers::numbered::Numbered;
use crate::pages::store::Pages;
use crate::source::Source;
use crate::words::{Plain, Pools, Table};

/// The pages of these placements.
type Bits<B> = Pages<Numbered<Bitmap>, B>;

/// Free blocks of a class, linked through their first eight bytes. Links are offsets from the
/// heap's origin (bytes) plus 1; 0 ends the chain.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The link to the block that is taken next.
    first: u64,
    /// The link to the block at the end of the chain.
    last: u64,
    /// The page from which new blocks are bumped, plus 1, or 0.
    fresh_page: u32,
    /// Number of blocks on the chain.
    len: u32,
}

// SAFETY: every bit pattern is a value of its integers.
unsafe impl Plain for Ends {}

/// STACK, last in, first out (Brent §2.1); with `QUEUE` first in, first out (§2.2). Invariant: a
/// class's chain has `len` blocks, all free, of pages of that class.
#[derive(Debug)]
pub struct Chain<const QUEUE: bool> {
    /// For each class, the ends of its chain.
    chains: Table<Ends>,
}

/// Returns where a free block has its link.
fn link<B>(offset: u64, pages: &Bits<B>) -> *mut u64 {
    pages.headers.origin().wrapping_add(offset as usize - 1).cast()
}

/// Returns the bytes between the origin and a block.
fn offset<B>(block: NonNull<u8>, pages: &Bits<B>) -> u64 {
    block.addr().get().wrapping_sub(pages.headers.origin().addr()) as u64
}

impl<const QUEUE: bool> Chain<QUEUE> {
    /// Takes a block that was never used from the page that is bumped, if it has one.
    fn bump<B: Below, M: Meter>(
        &self,
        class: u32,
        pages: &mut Bits<B>,
        meter: &M,
    ) -> Option<NonNull<u8>> {
        let page = self.chains.get(class as usize).fresh_page.checked_sub(1)?;
        (pages.headers.header(page).fresh < pages.class(class).capacity).then(|| {
            pages.visit(page, meter);
            pages.take_fresh(page)
        })
    }

    /// Takes the first block of the chain, if there is one.
    fn pop<B: Below, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Bits<B>,
        meter: &M,
    ) -> Option<NonNull<u8>> {
        let ends = self.chains.get_mut(class as usize);
        if ends.first == 0 {
            return None;
        }
        let link = link(ends.first, pages);
        meter.visit(link);
        // SAFETY: the block is free, so its first bytes hold its link.
        ends.first = unsafe { link.read_unaligned() };
        ends.len -= 1;
        let address = NonNull::new(link.cast())?;
        pages.claim_at(address);
        Some(address)
    }
}

impl<const QUEUE: bool> PaperPlacement for Chain<QUEUE> {
    type InPage = Bitmap;
    const INITIAL: Self = Self { chains: Table::new() };
    const LEAST_BLOCK: usize = size_of::<u64>();

    fn open<S: Source>(
        &mut self,
        _seed: u64,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.chains.ensure(classes, source)
    }

    #[inline(always)]
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Bits<B>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        let meter = &backing.meter;
        // In a queue, the blocks of the new page are the oldest; in a stack, the freed blocks are
        // the youngest.
        let found = if QUEUE {
            self.bump(class, pages, meter).or_else(|| self.pop(class, pages, meter))
        } else {
            self.pop(class, pages, meter).or_else(|| self.bump(class, pages, meter))
        };
        if let Some(block) = found {
            return Ok(block);
        }
        let page = pages.acquire(class, backing)?;
        self.chains.get_mut(class as usize).fresh_page = page + 1;
        Ok(pages.take_fresh(page))
    }

    #[inline(always)]
    fn freed<B: Below, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        put: Put,
        pages: &mut Bits<B>,
        meter: &M,
    ) -> bool {
        let offset = offset(block, pages) + 1;
        let ends = self.chains.get_mut(put.class as usize);
        let own = block.as_ptr().cast::<u64>();
        meter.link(own);
        let mut next = 0;
        if ends.first == 0 {
            (ends.first, ends.last) = (offset, offset);
        } else if QUEUE {
            // SAFETY: the last block of the chain is free and has at least eight bytes.
            unsafe { link(ends.last, pages).write_unaligned(offset) };
            ends.last = offset;
        } else {
            next = core::mem::replace(&mut ends.first, offset);
        }
        // SAFETY: the block was just freed, so its bytes, at least eight, are ours.
        unsafe { own.write_unaligned(next) };
        ends.len += 1;
        false
    }

    fn audit<B: Below>(&self, pages: &Bits<B>) -> Result<usize, Fault> {
        for class in 0..pages.classes.count() as u32 {
            let ends = self.chains.get(class as usize);
            let at = self.chains.record(class as usize).addr();
            let (mut offset, mut last) = (ends.first, ends.last);
            for _ in 0..ends.len {
                last = offset;
                Fault::unless(offset != 0, "a chain is as long as its count", at)?;
                let link = link(offset, pages);
                let right =
                    NonNull::new(link.cast()).is_some_and(|link| pages.is_free_at(link, class));
                Fault::unless(right, "a chain has free blocks of its class", link.addr())?;
                // SAFETY: the block is free, as just verified, so it holds its link.
                offset = unsafe { link.read_unaligned() };
            }
            Fault::unless(offset == 0, "a chain is as long as its count", at)?;
            Fault::unless(last == ends.last, "a chain ends with its last block", at)?;
        }
        audit_counts(pages, |class| self.chains.get(class as usize).len)
    }
}

/// RANDOM: any block of the pool, each with equal probability (Brent §2.3). The pool is an array
/// of offsets from the heap's origin, bytes, in dedicated memory.
#[derive(Debug)]
pub struct AtRandom {
    pools: Pools<u64>,
    /// For each class, its number of pages.
    pages: Table<u32>,
    random: Random,
}

impl AtRandom {
    /// Divides a new page into blocks, and puts them into the pool. O(c).
    fn divide_new_page<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Bits<B>,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        let count = *self.pages.get(class as usize) + 1;
        let capacity = pages.class(class).capacity;
        self.pools.reserve(class, (count * capacity) as usize, &mut backing.source)?;
        let page = pages.acquire(class, backing)?;
        *self.pages.get_mut(class as usize) = count;
        pages.headers.header_mut(page).fresh = capacity;
        for block in 0..capacity {
            let address = pages.block_address(page, block);
            let place = self.pools.push(class, offset(address, pages));
            backing.meter.link(self.pools.address(class, place));
        }
        Ok(())
    }
}

impl PaperPlacement for AtRandom {
    type InPage = Bitmap;
    const INITIAL: Self = Self { pools: Pools::new(), pages: Table::new(), random: Random::new() };

    fn open<S: Source>(
        &mut self,
        seed: u64,
        classes: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.random.seed(seed);
        self.pages.ensure(classes, source)?;
        self.pools.open(classes, source)
    }

    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Bits<B>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        if self.pools.len(class) == 0 {
            self.divide_new_page(class, pages, backing)?;
        }
        let place = self.random.below(u64::from(self.pools.len(class))) as u32;
        backing.meter.visit(self.pools.address(class, place));
        let offset = self.pools.swap_remove(class, place) as usize;
        // SAFETY: the pool has offsets of blocks in the heap, which is not at address 0.
        let block = unsafe { NonNull::new_unchecked(pages.headers.origin().add(offset)) };
        pages.claim_at(block);
        Ok(block)
    }

    fn freed<B: Below, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        put: Put,
        pages: &mut Bits<B>,
        meter: &M,
    ) -> bool {
        let place = self.pools.push(put.class, offset(block, pages));
        meter.link(self.pools.address(put.class, place));
        false
    }

    fn audit<B: Below>(&self, pages: &Bits<B>) -> Result<usize, Fault> {
        for class in 0..pages.classes.count() as u32 {
            for place in 0..self.pools.len(class) {
                let offset = self.pools.get(class, place) as usize;
                let block = pages.headers.origin().wrapping_add(offset);
                let free = NonNull::new(block).is_some_and(|block| pages.is_free_at(block, class));
                Fault::unless(free, "a pool has free blocks of its class", block.addr())?;
            }
        }
        audit_counts(pages, |class| self.pools.len(class))
    }
}

/// Checks that each class's pool has as many blocks as its pages have free ones that were used
/// before; returns the number of pages.
fn audit_counts<B: Below>(pages: &Bits<B>, pooled: impl Fn(u32) -> u32) -> Result<usize, Fault> {
    let (mut free, mut kept) = (0, 0);
    pages.headers.for_each(&mut |page| {
        let header = pages.headers.header(page);
        free += header.free_count - (pages.class(header.class).capacity - header.fresh);
        kept += 1;
    });
    let in_pools = (0..pages.classes.count() as u32).map(pooled).sum::<u32>();
    let origin = pages.headers.origin().addr();
    Fault::unless(in_pools == free, "free blocks are in their class's pool", origin)?;
    Ok(kept)
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use core::alloc::Layout;

    use super::*;
    use crate::pages::Config;
    use crate::pages::brent::Paged;
    use crate::source::Reserved;
    use crate::strategy::Strategy;

    type Heap<P> = Paged<P, Reserved>;

    /// Makes a heap with six blocks of 32 bytes, the second and the fourth free, and two of 64, the
    /// first free.
    fn heap<P: PaperPlacement<InPage = Bitmap>>() -> (Heap<P>, [NonNull<u8>; 6], NonNull<u8>) {
        let mut heap = Heap::<P>::new(Config::with_page_size(4096), Reserved::new(1 << 20), ());
        let layout = |size| Layout::from_size_align(size, 8).expect("a valid layout");
        let mut take = |size| heap.allocate(layout(size)).expect("there is memory").cast();
        let (blocks, [other, _]) = ([(); 6].map(|()| take(32)), [(); 2].map(|()| take(64)));
        for (block, size) in [(blocks[1], 32), (blocks[3], 32), (other, 64)] {
            // SAFETY: the block is in use, and freed once.
            unsafe { heap.deallocate(block, layout(size)) };
        }
        assert_eq!(heap.engine.audit_pages(), Ok(()));
        (heap, blocks, other)
    }

    /// Returns the audit's answer if the link of a free block leads elsewhere.
    fn linked(
        from: usize,
        to: impl Fn(&dyn Fn(NonNull<u8>) -> u64, [NonNull<u8>; 6], NonNull<u8>) -> u64,
    ) -> &'static str {
        let (heap, blocks, other) = heap::<Chain<false>>();
        let link = to(&|block| offset(block, &heap.engine.pages) + 1, blocks, other);
        // SAFETY: the block is free, its bytes are the chain's.
        unsafe { blocks[from].cast::<u64>().write_unaligned(link) };
        heap.engine.audit_pages().map_or_else(|fault| fault.invariant, |()| "nothing")
    }

    #[test]
    fn a_damaged_chain_is_told() {
        let (free, long) =
            ("a chain has free blocks of its class", "a chain is as long as its count");
        // The last freed is the first.
        assert_eq!(linked(3, |link, blocks, _| link(blocks[1])), "nothing");
        assert_eq!(linked(3, |link, blocks, _| link(blocks[2])), free, "in use");
        assert_eq!(linked(3, |link, blocks, _| link(blocks[1]) + 8), free, "within a block");
        assert_eq!(linked(3, |link, _, other| link(other)), free, "of another class");
        assert_eq!(linked(3, |_, _, _| 1 << (usize::BITS / 2 + 8)), free, "in no page");
        assert_eq!(linked(3, |_, _, _| 0), long, "too short");
        assert_eq!(linked(1, |link, blocks, _| link(blocks[3])), long, "too long");
    }

    /// A queue adds the next block behind its last. (Regression: the audit did not look at that.)
    #[test]
    fn a_wrong_end_of_a_queue_is_told() {
        let (mut heap, _, _) = heap::<Chain<true>>();
        assert!(heap.engine.audit_pages().is_ok());
        let class = heap.engine.pages.classes.of_size(32).expect("pages serve it");
        let ends = heap.engine.placement.chains.get_mut(class as usize);
        assert!(ends.len > 1);
        ends.last = ends.first;
        let fault = heap.engine.audit_pages().expect_err("the last block is another");
        assert_eq!(fault.invariant, "a chain ends with its last block");
    }

    /// Links are distances from the origin, so that they do not depend on where the heap lies.
    #[test]
    fn links_are_distances_from_the_origin() {
        let (heap, blocks, _) = heap::<Chain<false>>();
        let class = heap.engine.pages.classes.of_size(32).expect("pages serve it");
        let page = heap.engine.pages.headers.at(blocks[0].addr().get()).expect("it is in a page");
        let frame = u64::from(heap.engine.pages.headers.header(page).frame);
        // The last freed is the fourth of the page.
        let first = heap.engine.placement.chains.get(class as usize).first;
        assert_eq!(first, 4096 * frame + 3 * 32 + 1);
    }

    /// (Regression: the distance from the origin was given as the address.)
    #[test]
    fn a_fault_has_the_address_of_the_block() {
        let (heap, blocks, other) = heap::<Chain<false>>();
        let link = offset(other, &heap.engine.pages) + 1;
        // SAFETY: the block is free, its bytes are the chain's.
        unsafe { blocks[3].cast::<u64>().write_unaligned(link) };
        let fault = heap.engine.audit_pages().expect_err("a block of another class");
        assert_eq!(fault.address, other.addr().get());
        let (mut heap, blocks, _) = self::heap::<AtRandom>();
        let class = heap.engine.pages.classes.of_size(32).expect("pages serve it");
        let in_use = offset(blocks[2], &heap.engine.pages);
        heap.engine.placement.pools.push(class, in_use);
        let fault = heap.engine.audit_pages().expect_err("a block in use");
        assert_eq!(fault.address, blocks[2].addr().get());
    }

    #[test]
    fn a_damaged_pool_is_told() {
        let told = |damage: fn(&mut AtRandom, u32, u64)| {
            let (mut heap, blocks, _) = heap::<AtRandom>();
            let class = heap.engine.pages.classes.of_size(32).expect("pages serve it");
            let in_use = offset(blocks[2], &heap.engine.pages);
            damage(&mut heap.engine.placement, class, in_use);
            heap.engine.audit_pages().map_or_else(|fault| fault.invariant, |()| "nothing")
        };
        let said = told(|placement, class, in_use| {
            placement.pools.swap_remove(class, 0);
            placement.pools.push(class, in_use);
        });
        assert_eq!(said, "a pool has free blocks of its class");
        let said = told(|placement, class, _| _ = placement.pools.swap_remove(class, 0));
        assert_eq!(said, "free blocks are in their class's pool");
    }
}
