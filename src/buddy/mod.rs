//! Binary buddies (Knowlton 1965; Knuth §2.5, Algorithms R and S; "with tag bits" in Brent's Table
//! 7.2).
//!
//! Blocks are 2^k granules long and start at a multiple of their length from the heap's origin. A
//! block that is too large is split in two *buddies*; two free buddies are joined at once. A
//! block's buddy differs from it in one bit of its address, so nothing is searched: there is a list
//! of free blocks for each order k, and a bit for each list that is not empty.
//!
//! ```text
//! granule   0       4       8      12      16      20
//!           [ k = 2 | k = 2 |     k = 3    | k = 2 ]      the heap need not be a power of two
//! starts    1       1       1              1
//! free      0       1       0              1              blocks 4 and 16 are not buddies
//! ```
//! The tag bits are in dedicated memory, so that no block has to hold a header. Links and order are
//! in the free block itself, as in Knuth. The heap grows at its end until a block of the request's
//! length fits there.
//!
//! `contents` places requests within their blocks; `inspect` walks the blocks and checks the
//! invariants.

mod contents;
mod inspect;

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::{Span, SpanKind};
use crate::tally::Change;
use crate::words::{Plain, Table};

/// No block: the end of a list.
const NIL: u32 = u32::MAX;
/// Number of orders: no heap has 2³¹ granules.
const ORDERS: usize = 31;

/// Tag bits of 64 granules.
#[derive(Clone, Copy, Debug)]
struct Tags {
    /// A block starts here.
    starts: u64,
    /// Where `starts` is set: the block is free. Elsewhere: contents start here behind a gap; the
    /// bit of the block's second granule records that there is a gap.
    free: u64,
}

// SAFETY: every bit pattern is a value of its integers.
unsafe impl Plain for Tags {}

/// The contents of a free block.
#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    prev: u32,
    order: u32,
}

/// Binary buddies over a source.
///
/// Internal fragmentation: a block is less than twice its request. Time: O(log n) in the worst
/// case, a split or a join for each order between the request's and the block's; O(1) otherwise.
pub type Buddy<S, M = ()> = Heap<BinaryBuddies, S, M>;

/// The engine of [`Buddy`]. Invariants:
/// - blocks tile the heap, each 2^k granules long and at a multiple of 2^k granules;
/// - no two buddies are both free;
/// - a free block is on the list of its order, and holds that order;
/// - bit k of `orders` is set iff list k is not empty.
#[derive(Debug)]
pub struct BinaryBuddies {
    /// Where granule 0 starts; null while there is no memory.
    origin: *mut u8,
    /// Number of granules of the heap.
    granules: u32,
    /// log₂ of the bytes of a granule.
    granule_shift: u32,
    /// The heap grows by multiples of this many granules, a power of two. Its origin is aligned to
    /// that many.
    growth: u32,
    tags: Table<Tags>,
    /// First free block of each order.
    lists: [u32; ORDERS],
    /// One bit for each order: whether it has free blocks.
    orders: u32,
}

// SAFETY: the heap's memory belongs to the source, which goes where the engine goes.
unsafe impl Send for BinaryBuddies {}

impl<S: Source, M: Meter> Heap<BinaryBuddies, S, M> {
    /// Makes a buddy heap over `source`. Its smallest blocks have `granule` bytes, and it grows by
    /// multiples of `growth` bytes.
    ///
    /// # Panics
    /// Unless both are powers of two, `granule` at least 16 and `growth` at least 64 granules; in a
    /// `const`, at compile time.
    #[must_use]
    pub const fn new(granule: usize, growth: usize, source: S, meter: M) -> Self {
        assert!(granule.is_power_of_two() && granule >= 16);
        assert!(growth.is_power_of_two() && granule <= growth / 64 && growth <= 1 << 30);
        let engine = BinaryBuddies {
            origin: core::ptr::null_mut(),
            granules: 0,
            granule_shift: granule.trailing_zeros(),
            growth: (growth / granule) as u32,
            tags: Table::new(),
            lists: [NIL; ORDERS],
            orders: 0,
        };
        Self::over(engine, source, meter)
    }
}

impl BinaryBuddies {
    /// Returns the alignment of the origin in bytes. Alignments up to this one need no gap.
    fn origin_align(&self) -> usize {
        (self.growth as usize) << self.granule_shift
    }

    /// Returns the order of the blocks that serve a layout. Beyond the origin's alignment, the
    /// block is long enough to hold the request wherever it must start.
    fn order_of(&self, layout: Layout) -> Option<u32> {
        let bytes = if layout.align() <= self.origin_align() {
            layout.size().max(layout.align())
        } else {
            layout.size().checked_add(layout.align())?
        };
        let granules = bytes.checked_next_power_of_two()?.max(1 << self.granule_shift);
        let order = (granules >> self.granule_shift).trailing_zeros();
        ((order as usize) < ORDERS).then_some(order)
    }

    /// Returns the bytes of a block of this order.
    fn bytes(&self, order: u32) -> usize {
        1 << (order + self.granule_shift)
    }

    /// Returns the address of a granule.
    fn address(&self, granule: u32) -> NonNull<u8> {
        debug_assert!(granule <= self.granules);
        let offset = (granule as usize) << self.granule_shift;
        // SAFETY: the granule lies in the heap, whose memory starts at `origin`.
        unsafe { NonNull::new_unchecked(self.origin.add(offset)) }
    }

    /// Returns the block of this order that an address lies in, if the heap reaches that far.
    fn block_at(&self, address: NonNull<u8>, order: u32) -> Option<u32> {
        let offset = address.addr().get().checked_sub(self.origin.addr())?;
        let start = u32::try_from(offset >> self.granule_shift).ok()? >> order << order;
        (start.checked_add(1 << order)? <= self.granules).then_some(start)
    }

    /// Returns whether a granule's bit is set in the `bits` chosen.
    fn is(&self, bits: impl Fn(&Tags) -> u64, granule: u32) -> bool {
        bits(self.tags.get(granule as usize / 64)) >> (granule % 64) & 1 == 1
    }

    /// Returns whether a block starts at a granule.
    fn is_start(&self, granule: u32) -> bool {
        self.is(|tags| tags.starts, granule)
    }

    /// Returns whether the block that starts at a granule is free.
    fn is_free(&self, granule: u32) -> bool {
        self.is(|tags| tags.free, granule)
    }

    /// Changes the tag bits of a granule; `change` gets the word and the granule's bit.
    fn tag(&mut self, granule: u32, change: impl Fn(&mut Tags, u64)) {
        change(self.tags.get_mut(granule as usize / 64), 1 << (granule % 64));
    }

    /// Returns where a free block keeps its links and its order.
    fn node(&self, block: u32) -> *mut Node {
        self.address(block).as_ptr().cast()
    }

    /// Returns the contents of a free block.
    fn read(&self, block: u32) -> Node {
        // SAFETY: the block is free, so it holds the node written when it was put on its list; it
        // is at least 16 bytes long and aligned to as many.
        unsafe { self.node(block).read() }
    }

    /// Changes the contents of a free block.
    fn change(&mut self, block: u32, change: impl Fn(&mut Node)) {
        // SAFETY: as `read`; `&mut self` excludes other references.
        change(unsafe { &mut *self.node(block) });
    }

    /// Puts a block on the list of its order.
    fn link<M: Meter>(&mut self, block: u32, order: u32, meter: &M) {
        self.tag(block, |tags, bit| {
            tags.starts |= bit;
            tags.free |= bit;
        });
        let next = core::mem::replace(&mut self.lists[order as usize], block);
        let node = self.node(block);
        // SAFETY: the block is free, so its bytes, at least 16 and aligned to as many, are ours.
        unsafe { node.write(Node { next, prev: NIL, order }) };
        meter.link_double(node);
        if next != NIL {
            self.change(next, |node| node.prev = block);
        }
        self.orders |= 1 << order;
    }

    /// Takes a free block off its list and returns its order. Its start bit stays.
    fn unlink(&mut self, block: u32) -> u32 {
        let Node { next, prev, order } = self.read(block);
        if next != NIL {
            self.change(next, |node| node.prev = prev);
        }
        if prev != NIL {
            self.change(prev, |node| node.next = next);
        } else {
            self.lists[order as usize] = next;
            if next == NIL {
                self.orders &= !(1 << order);
            }
        }
        self.tag(block, |tags, bit| tags.free &= !bit);
        order
    }

    /// Takes a block of this order (Algorithm R).
    fn take_block<S: Source, M: Meter>(
        &mut self,
        order: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<u32, AllocError> {
        if self.orders >> order == 0 {
            self.grow(order, backing)?;
        }
        let meter = &backing.meter;
        let found = order + (self.orders >> order).trailing_zeros();
        let block = self.lists[found as usize];
        meter.visit(self.node(block));
        self.unlink(block);
        self.split(block, found, order, meter);
        Ok(block)
    }

    /// Splits a block in use down to order `to` and frees the parts split off.
    fn split<M: Meter>(&mut self, block: u32, from: u32, to: u32, meter: &M) {
        for order in (to..from).rev() {
            self.link(block + (1 << order), order, meter);
        }
    }

    /// Frees a block, joining it with its buddy for as long as the buddy is free (Algorithm S).
    fn release<M: Meter>(&mut self, mut block: u32, mut order: u32, meter: &M) {
        while let Some(buddy) = self.free_buddy(block, order, meter) {
            self.unlink(buddy);
            self.tag(block | buddy, |tags, bit| tags.starts &= !bit);
            block &= buddy;
            order += 1;
        }
        self.link(block, order, meter);
    }

    /// Returns the buddy of a block, if it is free and whole.
    fn free_buddy<M: Meter>(&self, block: u32, order: u32, meter: &M) -> Option<u32> {
        let buddy = block ^ (1 << order);
        let whole = buddy + (1 << order) <= self.granules && self.is_free(buddy);
        if !whole {
            return None;
        }
        meter.touch(self.node(buddy));
        (self.read(buddy).order == order).then_some(buddy)
    }

    /// Takes memory from the source so that there is a free block of this order: in the new memory
    /// alone, or, if the source has too little for that, together with the free blocks at the end.
    #[cold]
    fn grow<S: Source, M: Meter>(
        &mut self,
        order: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        let len = 1u32 << order;
        let apart = self.granules.checked_next_multiple_of(len).ok_or(AllocError::Exhausted);
        let grown = apart.and_then(|start| self.grow_from(start, len, backing));
        grown.or_else(|exhausted| {
            let start = self.granules >> order << order;
            if !self.is_free_from(start) {
                return Err(exhausted);
            }
            self.grow_from(start, len, backing)
        })
    }

    /// Returns whether all granules from `start` on are free. `start` is a multiple of some 2^k
    /// with `start` + 2^k beyond the heap's end. O(log n).
    fn is_free_from(&self, mut start: u32) -> bool {
        // Free blocks are joined, so each is as long as can be.
        while start < self.granules {
            let order = (self.granules - start).ilog2();
            if !self.is_start(start) || !self.is_free(start) || self.read(start).order != order {
                return false;
            }
            start += 1 << order;
        }
        true
    }

    /// Takes memory from the source, so that the heap has `len` granules at `start` or more.
    fn grow_from<S: Source, M: Meter>(
        &mut self,
        start: u32,
        len: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        let end = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(self.growth))
            .filter(|&end| end < 1 << ORDERS && end > self.granules)
            .ok_or(AllocError::Exhausted)?;
        let bytes = ((end - self.granules) as usize) << self.granule_shift;
        let memory = backing.source.extend(bytes, self.origin_align())?;
        if let Err(error) = self.tags.ensure(end as usize / 64, &mut backing.source) {
            // SAFETY: these bytes were taken just now and nothing uses them.
            unsafe { backing.source.retract(bytes) };
            return Err(error);
        }
        if self.granules == 0 {
            self.origin = memory.as_ptr();
        }
        let mut start = core::mem::replace(&mut self.granules, end);
        while start < end {
            // The largest block that may start here and does not leave the heap.
            let order = start.trailing_zeros().min((end - start).ilog2());
            self.release(start, order, &backing.meter);
            start += 1 << order;
        }
        Ok(())
    }
}

// SAFETY: blocks tile the source's extent; tags lie in the dedicated memory, nodes in free blocks.
// Both stay in place when the engine moves.
unsafe impl<S: Source, M: Meter> Engine<S, M> for BinaryBuddies {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let order = self.order_of(layout).ok_or(AllocError::Exhausted)?;
        let block = self.take_block(order, backing)?;
        self.tag_contents(block, self.place(block, layout), true);
        let contents = self.memory(block, order, layout);
        Ok(Served { contents, bytes: self.bytes(order), part: Part::Fit })
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let found =
            engine.order_of(layout).and_then(|order| Some((engine.block_at(block, order)?, order)));
        debug_assert!(engine.block_in_use(block, layout).is_some(), "a freed block is in use");
        let Some((start, order)) = found else { return };
        engine.tag_contents(start, block, false);
        engine.release(start, order, &backing.meter);
        backing.freed(layout.size(), engine.bytes(order), Part::Fit);
    }

    /// A block may stay if it could also have been allocated for the new layout.
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let meter = &backing.meter;
        let (order, new_order) = (self.order_of(layout)?, self.order_of(new_layout)?);
        let start = self.block_at(block, order)?;
        if self.place(start, new_layout) != block {
            return None;
        }
        // To grow in place, each buddy on the way must follow the block and be free.
        let free_above =
            |order| self.free_buddy(start, order, meter).is_some_and(|buddy| buddy > start);
        if !(order..new_order).all(free_above) {
            return None;
        }
        for order in order..new_order {
            let buddy = start + (1 << order);
            self.unlink(buddy);
            self.tag(buddy, |tags, bit| tags.starts &= !bit);
        }
        self.split(start, order, new_order, meter);
        meter.served(Part::Fit);
        let contents = self.memory(start, new_order, new_layout);
        let bytes = Change { old: self.bytes(order), new: self.bytes(new_order) };
        Some(Resized { contents, bytes })
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        self.block_in_use(block, layout).is_some()
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        for (start, order, free) in self.blocks() {
            let kind = if free { SpanKind::Free } else { SpanKind::Block };
            visit(Span { start: self.address(start).addr().get(), len: self.bytes(order), kind });
        }
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_blocks(&())
    }
}
