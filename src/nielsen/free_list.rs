//! Categories 2, 3 and 6: one list of the free blocks, in memory order, LIFO, FIFO or by size.
//!
//! Invariant: `rover`, the block behind which a rotating search starts, is on the list, or [`NIL`]
//! for the front. On a list in memory order it is the last block before `point`, where the last
//! allocation ended.

use core::marker::PhantomData;

use super::fields::Fields;
use super::heap::{Index, absorb};
use super::list::{List, Order};
use super::search::{Choice, Found, Search};
use super::words::{Block, NIL, Request, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// The free blocks on one list.
#[derive(Debug)]
pub struct OneList<O, Q, F> {
    list: List<O, F>,
    /// The block behind which a rotating search starts; [`NIL`] for the front.
    rover: u32,
    /// The word where the last allocation ended.
    point: u32,
    search: PhantomData<Q>,
}

impl<O: Order, Q: Search, F: Fields> OneList<O, Q, F> {
    /// Returns the list of the free blocks of at least `least` words.
    pub(super) const fn of_at_least(least: u32) -> Self {
        Self { list: List::new(least), rover: NIL, point: 0, search: PhantomData }
    }

    /// Inserts a block behind another. If it is before the point, the next search starts behind it.
    fn put_behind<M: Meter>(&mut self, before: u32, start: u32, words: &mut Words, meter: &M) {
        self.list.put_behind(before, start, words, meter);
        if Q::ROTATES && before == self.rover && start < self.point {
            self.rover = start;
        }
    }

    /// Takes the block behind `before` off the list. If the rover is there, moves it to `before`.
    fn take_behind(&mut self, before: u32, words: &mut Words) {
        if self.rover == self.list.after(before, words) {
            self.rover = before;
        }
        self.list.take_behind(before, words);
    }
}

impl<O: Order, Q: Search, F: Fields> Index for OneList<O, Q, F> {
    type Fields = F;
    const EMPTY: Self = Self::of_at_least(0);

    fn seat<M: Meter>(&self, block: Block, words: &Words, meter: &M) -> u32 {
        O::seat(&self.list, block, words, meter)
    }

    fn below(&self, seat: u32, block: Block, words: &Words) -> Option<Block> {
        words.free_block(seat).filter(|below| below.end() == block.start)
    }

    fn insert<M: Meter>(&mut self, block: Block, seat: Option<u32>, words: &mut Words, meter: &M) {
        let seat = seat.unwrap_or_else(|| O::seat(&self.list, block, words, meter));
        self.put_behind(seat, block.start, words, meter);
    }

    fn insert_highest<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        let seat = self.list.seat_of_highest(block, words, meter);
        self.put_behind(seat, block.start, words, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        if let Some(before) = self.list.before(block.start, words, meter) {
            self.take_behind(before, words);
        }
    }

    fn replace<M: Meter>(&mut self, old: Block, new: Block, words: &mut Words, meter: &M) {
        if O::GROWN_STAYS && old.start == new.start {
            return;
        }
        let seat = self.list.before(old.start, words, meter);
        self.remove(old, words, meter);
        self.insert(new, seat.filter(|_| O::GROWN_STAYS), words, meter);
    }

    fn clear(&mut self) {
        self.list.clear();
        self.rover = NIL;
    }

    fn find<M: Meter>(
        &mut self,
        request: Request,
        joins: bool,
        _: bool,
        words: &mut Words,
        meter: &M,
    ) -> Option<Found> {
        let mut choice = Choice(None);
        let mut before = if Q::ROTATES { self.rover } else { NIL };
        let mut wrapped = before == NIL;
        loop {
            let node = self.list.after(before, words);
            if node == NIL {
                if wrapped {
                    break;
                }
                (before, wrapped) = (NIL, true);
                continue;
            }
            meter.visit(words.pointer(node));
            let mut block = words.block(node);
            if joins {
                block = absorb::<F, M>(block, words, meter, |next, words| {
                    choice.absorbed(next.start);
                    self.remove(next, words, meter);
                });
                before = self.list.before(node, words, meter).unwrap_or(NIL);
            }
            if choice.consider::<Q, F>(before, block, request, words) {
                break;
            }
            before = node;
            if wrapped && before == self.rover {
                break;
            }
        }
        let mut found = choice.0?;
        if joins {
            // Blocks before it may have become part of others.
            found.before = self.list.before(found.block.start, words, meter)?;
        }
        Some(found)
    }

    fn carved<M: Meter>(
        &mut self,
        found: Found,
        rests: [Option<Block>; 2],
        words: &mut Words,
        meter: &M,
    ) {
        let mut before = found.before;
        self.take_behind(before, words);
        if Q::ROTATES {
            self.rover = before;
            self.point = rests[1].map_or(found.block.end(), |behind| behind.start);
        }
        for rest in rests.into_iter().flatten() {
            let seat = O::REST_STAYS.then_some(before);
            self.insert(rest, seat, words, meter);
            before = rest.start;
        }
    }

    fn audit(
        &self,
        words: &Words,
        visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut roves = self.rover == NIL;
        self.list.audit(words, &mut |block| {
            roves |= block.start == self.rover;
            visit(block)
        })?;
        Fault::unless(roves, "the rover is on the list", words.address(0))
    }
}
