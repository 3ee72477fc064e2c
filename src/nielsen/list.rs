//! A free list: its links through the free blocks, and the orders it may be kept in (Nielsen 1977,
//! Table III).
//!
//! ```text
//!  head ─▶ [S|→|←|…] ⇄ [S|→|←|…] ⇄ … ⇄ [S|→|←|…] ◀─ tail
//! ```
//! With forward pointers only, the block before another is found by a walk from the head. The meter
//! counts every block walked over.

use core::marker::PhantomData;

use super::fields::Fields;
use super::words::{Block, Link, NIL, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// The order of a free list.
pub trait Order: Sized {
    /// Whether the rest of a split block can stay in that block's place.
    const REST_STAYS: bool = true;
    /// Whether a block that grew can stay in its place: the order is that of memory.
    const GROWN_STAYS: bool = false;

    /// Returns the block behind which a freed block belongs; [`NIL`] for the front.
    fn seat<F: Fields, M: Meter>(
        list: &List<Self, F>,
        block: Block,
        words: &Words,
        meter: &M,
    ) -> u32;
}

/// LIFO: the block freed last is the first one searched.
#[derive(Debug)]
pub struct Lifo;

/// FIFO: the block freed first is the first one searched.
#[derive(Debug)]
pub struct Fifo;

/// Memory order.
#[derive(Debug)]
pub struct MemoryOrder;

/// Block size order, the smallest first.
#[derive(Debug)]
pub struct SizeOrder;

/// The list of the free blocks of at least `least` words.
///
/// Invariants: forward pointers lead from `head` to `tail`, pointers back lead back; the blocks are
/// free and in the list's order.
#[derive(Debug)]
pub struct List<O, F> {
    /// The first block; [`NIL`] if the list is empty.
    head: u32,
    /// The last block; [`NIL`] if the list is empty.
    tail: u32,
    /// Words of the smallest block that may be on the list.
    least: u32,
    kind: PhantomData<(O, F)>,
}

impl<O, F> Clone for List<O, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O, F> Copy for List<O, F> {}

impl<O: Order, F: Fields> List<O, F> {
    /// Makes an empty list for blocks of at least `least` words.
    pub(super) const fn new(least: u32) -> Self {
        Self { head: NIL, tail: NIL, least, kind: PhantomData }
    }

    /// Empties the list, without writing to its blocks.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.least);
    }

    /// Returns the block behind `before`, or the front if `before` is [`NIL`].
    #[inline(always)]
    pub(super) fn after(&self, before: u32, words: &Words) -> u32 {
        if before == NIL { self.head } else { words.link::<F>(before, Link::Forward) }
    }

    /// Returns the block before this one on the list; `None` if this one is not on it. O(n). With
    /// pointers back O(1), but then the block must be on the list.
    pub(super) fn before<M: Meter>(&self, start: u32, words: &Words, meter: &M) -> Option<u32> {
        if F::LINKS == 2 {
            return Some(words.link::<F>(start, Link::Back));
        }
        let (mut before, mut node) = (NIL, self.head);
        while node != start {
            if node == NIL {
                return None;
            }
            meter.visit(words.pointer(node));
            before = node;
            node = self.after(node, words);
        }
        Some(before)
    }

    /// Puts a free block behind another.
    pub(super) fn put_behind<M: Meter>(
        &mut self,
        before: u32,
        start: u32,
        words: &mut Words,
        meter: &M,
    ) {
        if F::LINKS == 2 {
            meter.link_double(words.pointer(start));
        } else {
            meter.link(words.pointer(start));
        }
        let after = self.after(before, words);
        words.set_link::<F>(start, Link::Forward, after);
        words.set_link::<F>(start, Link::Back, before);
        self.set_after(before, start, words);
        self.set_before(after, start, words);
    }

    /// Inserts a free block at its place in the order.
    pub(super) fn insert<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        let seat = O::seat(self, block, words, meter);
        self.put_behind(seat, block.start, words, meter);
    }

    /// Returns the seat of a free block that is behind all others in memory.
    pub(super) fn seat_of_highest<M: Meter>(&self, block: Block, words: &Words, meter: &M) -> u32 {
        if O::GROWN_STAYS { self.tail } else { O::seat(self, block, words, meter) }
    }

    /// Takes the block behind `before` off the list.
    pub(super) fn take_behind(&mut self, before: u32, words: &mut Words) {
        let start = self.after(before, words);
        let after = self.after(start, words);
        self.set_after(before, after, words);
        self.set_before(after, before, words);
    }

    /// Makes `to` the block behind `before`, or the head if `before` is [`NIL`]. Writes no pointer
    /// back.
    fn set_after(&mut self, before: u32, to: u32, words: &mut Words) {
        if before == NIL {
            self.head = to;
        } else {
            words.set_link::<F>(before, Link::Forward, to);
        }
    }

    /// Makes `to` the block before `after`, or the tail if `after` is [`NIL`]. Writes no pointer
    /// forward.
    fn set_before(&mut self, after: u32, to: u32, words: &mut Words) {
        if after == NIL {
            self.tail = to;
        } else {
            words.set_link::<F>(after, Link::Back, to);
        }
    }

    /// Checks the pointers, and that `visit` accepts every block on the list.
    pub(super) fn audit(
        &self,
        words: &Words,
        visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (mut before, mut node) = (NIL, self.head);
        // A list that is longer than memory goes round in circles.
        for _ in 0..=words.end() {
            if node == NIL {
                break;
            }
            let at = words.address(node);
            Fault::unless(node < words.end(), "a pointer leads to a block", at)?;
            Fault::unless(words.is_free(node), "a block on a list is free", at)?;
            let linked = F::LINKS < 2 || words.link::<F>(node, Link::Back) == before;
            Fault::unless(linked, "pointers forward and back agree", at)?;
            let block = words.block(node);
            let ordered = !O::GROWN_STAYS || before == NIL || before < node;
            Fault::unless(ordered, "the list is in memory order", at)?;
            let ordered = O::REST_STAYS || before == NIL || words.block(before).len <= block.len;
            Fault::unless(ordered, "the list is in size order", at)?;
            Fault::unless(block.len >= self.least, "a block is on the list of its size", at)?;
            visit(block)?;
            before = node;
            node = self.after(node, words);
        }
        let at = words.address(0);
        Fault::unless(node == NIL && self.tail == before, "a list ends at its tail", at)
    }
}

impl Order for Lifo {
    fn seat<F: Fields, M: Meter>(_: &List<Self, F>, _: Block, _: &Words, _: &M) -> u32 {
        NIL
    }
}

impl Order for Fifo {
    fn seat<F: Fields, M: Meter>(list: &List<Self, F>, _: Block, _: &Words, _: &M) -> u32 {
        list.tail
    }
}

impl Order for MemoryOrder {
    const GROWN_STAYS: bool = true;

    /// On a list of all free blocks with pointers back, the next free block in memory shows the
    /// place: it is found from this block on, by the lengths of the blocks in between. Otherwise
    /// the list is walked.
    fn seat<F: Fields, M: Meter>(
        list: &List<Self, F>,
        block: Block,
        words: &Words,
        meter: &M,
    ) -> u32 {
        if F::LINKS == 2 && list.least == 0 {
            let mut node = block.end();
            while node < words.end() {
                meter.visit(words.pointer(node));
                if words.is_free(node) {
                    return words.link::<F>(node, Link::Back);
                }
                node = words.block(node).end();
            }
            return list.tail;
        }
        seat_before(list, words, meter, |next| next.start > block.start)
    }
}

impl Order for SizeOrder {
    const REST_STAYS: bool = false;

    fn seat<F: Fields, M: Meter>(
        list: &List<Self, F>,
        block: Block,
        words: &Words,
        meter: &M,
    ) -> u32 {
        seat_before(list, words, meter, |next| next.len >= block.len)
    }
}

/// Returns the block before the first one for which `is_behind` holds.
fn seat_before<O: Order, F: Fields, M: Meter>(
    list: &List<O, F>,
    words: &Words,
    meter: &M,
    is_behind: impl Fn(Block) -> bool,
) -> u32 {
    let (mut before, mut node) = (NIL, list.head);
    while node != NIL {
        meter.visit(words.pointer(node));
        if is_behind(words.block(node)) {
            break;
        }
        before = node;
        node = list.after(node, words);
    }
    before
}
