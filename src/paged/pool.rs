//! STACK, QUEUE and RANDOM: one pool of free blocks for each class, whatever pages they lie in
//! (Brent §2.1–2.3). When it is empty, a new page is divided into c blocks.
//!
//! The blocks of a new page are not put on the pool one by one but bumped off the page; for STACK
//! and QUEUE that is the order in which the paper's pool would give them out. Pages never become
//! free for other classes. Each page's free-block bits are kept only for the walk and for checked
//! frees.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::in_page::Bitmap;
use super::pages::Pages;
use super::placement::Placement;
use super::random::Random;
use crate::engine::Backing;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::sealed::Sealed;
use crate::source::Source;
use crate::strategy::SpanKind;
use crate::words::{Plain, Pools, Table};

/// STACK: last in, first out (Brent §2.1).
pub type Stack = Chain<Lifo>;

/// QUEUE: first in, first out (Brent §2.2).
pub type Queue = Chain<Fifo>;

/// The order of a chain.
pub trait ChainOrder: Sealed {
    /// Whether a freed block goes to the chain's end rather than its beginning.
    #[doc(hidden)]
    const AT_END: bool;
}

/// Last in, first out.
#[derive(Debug)]
pub struct Lifo;

/// First in, first out.
#[derive(Debug)]
pub struct Fifo;

impl Sealed for Lifo {}
impl Sealed for Fifo {}

impl ChainOrder for Lifo {
    const AT_END: bool = false;
}

impl ChainOrder for Fifo {
    const AT_END: bool = true;
}

/// Free blocks of a class, linked through their first eight bytes. Links are offsets from the
/// heap's origin (bytes) plus 1; 0 ends the chain.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u64,
    last: u64,
    /// The page new blocks are bumped off, plus 1, or 0.
    fresh_page: u32,
    len: u32,
}

// SAFETY: every bit pattern is a value of its integers.
unsafe impl Plain for Ends {}

/// STACK and QUEUE. Invariant: a class's chain has `len` blocks, all free, of pages of that class.
#[derive(Debug)]
pub struct Chain<O> {
    chains: Table<Ends>,
    order: PhantomData<O>,
}

impl<O: ChainOrder> Chain<O> {
    fn link(offset: u64, pages: &Pages<Bitmap>) -> *mut u64 {
        let origin = pages.heap.address(0).as_ptr();
        origin.wrapping_add(offset as usize - 1).cast()
    }

    fn bump<M: Meter>(
        &self,
        class: u32,
        pages: &mut Pages<Bitmap>,
        meter: &M,
    ) -> Option<NonNull<u8>> {
        let page = self.chains.get(class as usize).fresh_page.checked_sub(1)?;
        (pages.header(page).fresh < pages.class(class).capacity).then(|| {
            pages.visit(page, meter);
            pages.take_fresh(page)
        })
    }

    fn pop<M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Bitmap>,
        meter: &M,
    ) -> Option<NonNull<u8>> {
        let ends = self.chains.get_mut(class as usize);
        if ends.first == 0 {
            return None;
        }
        let link = Self::link(ends.first, pages);
        meter.visit(link);
        // SAFETY: the block is free, so its first bytes hold its link.
        ends.first = unsafe { link.read_unaligned() };
        ends.len -= 1;
        let address = NonNull::new(link.cast())?;
        let (page, block) = pages.locate(address);
        pages.claim(page, block);
        Some(address)
    }
}

impl<O: ChainOrder> Sealed for Chain<O> {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl<O: ChainOrder> Placement for Chain<O> {
    type InPage = Bitmap;
    const INITIAL: Self = Self { chains: Table::new(), order: PhantomData };
    const LEAST_BLOCK: usize = size_of::<u64>();
    const UNUSED: SpanKind = SpanKind::Free;

    fn open<S: Source>(
        &mut self,
        _seed: u64,
        pages: &Pages<Bitmap>,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.chains.ensure(pages.classes.count(), source)
    }

    #[inline(always)]
    fn allocate<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Bitmap>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        let meter = &backing.meter;
        // A queue's oldest blocks are those of the new page, a stack's youngest the freed ones.
        let found = if O::AT_END {
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
    fn free<M: Meter>(&mut self, address: NonNull<u8>, pages: &mut Pages<Bitmap>, meter: &M) {
        let class = pages.put(address, meter).class;
        let offset = pages.heap.offset(address) as u64 + 1;
        let ends = self.chains.get_mut(class as usize);
        let link = address.as_ptr().cast::<u64>();
        meter.link(link);
        let mut next = 0;
        if ends.first == 0 {
            (ends.first, ends.last) = (offset, offset);
        } else if O::AT_END {
            // SAFETY: the last block of the chain is free and has at least eight bytes.
            unsafe { Self::link(ends.last, pages).write_unaligned(offset) };
            ends.last = offset;
        } else {
            next = core::mem::replace(&mut ends.first, offset);
        }
        // SAFETY: the block was just freed, so its bytes, at least eight, are ours.
        unsafe { link.write_unaligned(next) };
        ends.len += 1;
    }

    fn audit(&self, pages: &Pages<Bitmap>) -> Result<usize, Fault> {
        for class in 0..pages.classes.count() as u32 {
            let ends = self.chains.get(class as usize);
            let mut offset = ends.first;
            for _ in 0..ends.len {
                let at = offset as usize;
                Fault::unless(offset != 0, "a chain is as long as its count", at)?;
                let link = Self::link(offset, pages);
                let found = NonNull::new(link.cast()).and_then(|link| pages.find(link));
                let right = found.is_some_and(|(page, block)| {
                    pages.header(page).class == class && pages.is_free(page, block)
                });
                Fault::unless(right, "a chain has free blocks of its class", at)?;
                // SAFETY: the block is free, as just verified, so it holds its link.
                offset = unsafe { link.read_unaligned() };
            }
            Fault::unless(offset == 0, "a chain is as long as its count", offset as usize)?;
        }
        audit_counts(pages, |class| self.chains.get(class as usize).len)
    }
}

/// RANDOM: any block of the pool, each with equal probability (Brent §2.3). The pool is an array
/// of offsets from the heap's origin, bytes, in dedicated memory.
#[derive(Debug)]
pub struct AtRandom {
    pools: Pools<u64>,
    /// For each class, how many pages it has.
    pages: Table<u32>,
    random: Random,
}

impl AtRandom {
    fn divide_new_page<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Bitmap>,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        let count = *self.pages.get(class as usize) + 1;
        let capacity = pages.class(class).capacity;
        self.pools.reserve(class, (count * capacity) as usize, &mut backing.source)?;
        let page = pages.acquire(class, backing)?;
        *self.pages.get_mut(class as usize) = count;
        pages.header_mut(page).fresh = capacity;
        for block in 0..capacity {
            let address = pages.block_address(page, block);
            let place = self.pools.push(class, pages.heap.offset(address) as u64);
            backing.meter.link(self.pools.address(class, place));
        }
        Ok(())
    }
}

impl Sealed for AtRandom {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl Placement for AtRandom {
    type InPage = Bitmap;
    const INITIAL: Self = Self { pools: Pools::new(), pages: Table::new(), random: Random::new() };
    const LEAST_BLOCK: usize = 1;
    const UNUSED: SpanKind = SpanKind::Free;

    fn open<S: Source>(
        &mut self,
        seed: u64,
        pages: &Pages<Bitmap>,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.random.seed(seed);
        self.pages.ensure(pages.classes.count(), source)?;
        self.pools.open(pages.classes.count(), source)
    }

    fn allocate<S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Bitmap>,
        backing: &mut Backing<S, M>,
    ) -> Result<NonNull<u8>, AllocError> {
        if self.pools.len(class) == 0 {
            self.divide_new_page(class, pages, backing)?;
        }
        let place = self.random.below(u64::from(self.pools.len(class))) as u32;
        backing.meter.visit(self.pools.address(class, place));
        let offset = self.pools.swap_remove(class, place) as usize;
        // SAFETY: the pool has offsets of blocks in the heap.
        let address = unsafe { pages.heap.address(0).add(offset) };
        let (page, block) = pages.locate(address);
        pages.claim(page, block);
        Ok(address)
    }

    fn free<M: Meter>(&mut self, address: NonNull<u8>, pages: &mut Pages<Bitmap>, meter: &M) {
        let class = pages.put(address, meter).class;
        let offset = pages.heap.offset(address) as u64;
        let place = self.pools.push(class, offset);
        meter.link(self.pools.address(class, place));
    }

    fn audit(&self, pages: &Pages<Bitmap>) -> Result<usize, Fault> {
        for class in 0..pages.classes.count() as u32 {
            for place in 0..self.pools.len(class) {
                let offset = self.pools.get(class, place) as usize;
                // SAFETY: the pool has offsets of blocks in the heap.
                let found = pages.find(unsafe { pages.heap.address(0).add(offset) });
                let free = found.is_some_and(|(page, block)| pages.is_free(page, block));
                Fault::unless(free, "a pool has free blocks", offset)?;
            }
        }
        audit_counts(pages, |class| self.pools.len(class))
    }
}

/// Checks that each class's pool has as many blocks as its pages have free ones that were used
/// before; returns the number of pages.
fn audit_counts(pages: &Pages<Bitmap>, pooled: impl Fn(u32) -> u32) -> Result<usize, Fault> {
    let (mut free, mut kept) = (0, 0);
    pages.for_each_page(|_, header| {
        free += header.free_count - (pages.class(header.class).capacity - header.fresh);
        kept += 1;
    });
    let in_pools = (0..pages.classes.count() as u32).map(pooled).sum::<u32>();
    let origin = pages.heap.origin().addr();
    Fault::unless(in_pools == free, "free blocks are in their class's pool", origin)?;
    Ok(kept)
}
