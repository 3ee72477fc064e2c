//! Category 1: all blocks, free and in use, are one list in memory order. There is no free list.
//!
//! ```text
//!  0 ─▶ [used][free][used][used][free][used] … ─▶ 0
//!                    ▲ rover: where the last allocation was made
//! ```
//! A block's length leads to the next block. Invariant: `rover` is the start of a block, or 0.

use core::marker::PhantomData;

use super::fields::Fields;
use super::heap::{Index, absorb};
use super::search::{Choice, Found, Search};
use super::words::{Block, NIL, Request, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// All blocks, in memory order.
#[derive(Debug)]
pub struct AllBlocks<Q, F> {
    /// The block where the next search starts, if searches rotate; else 0.
    rover: u32,
    kind: PhantomData<(Q, F)>,
}

impl<Q: Search, F: Fields> Index for AllBlocks<Q, F> {
    type Fields = F;
    const EMPTY: Self = Self { rover: 0, kind: PhantomData };

    /// Returns the block before this one, found by a walk from the start of memory.
    fn seat<M: Meter>(&self, block: Block, words: &Words, meter: &M) -> u32 {
        let (mut before, mut node) = (NIL, 0);
        while node < block.start {
            meter.visit(words.pointer(node));
            before = node;
            node = words.block(node).end();
        }
        before
    }

    fn below(&self, seat: u32, _: Block, words: &Words) -> Option<Block> {
        words.free_block(seat)
    }

    fn insert<M: Meter>(&mut self, _: Block, _: Option<u32>, _: &mut Words, _: &M) {}

    fn remove<M: Meter>(&mut self, _: Block, _: &mut Words, _: &M) {}

    fn clear(&mut self) {}

    fn joined(&mut self, block: Block) {
        if (block.start..block.end()).contains(&self.rover) {
            self.rover = block.start;
        }
    }

    fn find<M: Meter>(
        &mut self,
        request: Request,
        joins: bool,
        _: bool,
        words: &mut Words,
        meter: &M,
    ) -> Option<Found> {
        let first = if Q::ROTATES { self.rover } else { 0 };
        let mut choice = Choice(None);
        'search: for (from, to) in [(first, words.end()), (0, first)] {
            let mut node = from;
            while node < to {
                meter.visit(words.pointer(node));
                let mut block = words.block(node);
                if words.is_free(node) {
                    if joins {
                        let absorbed = |next: Block, _: &mut Words| choice.absorbed(next.start);
                        block = absorb::<F, M>(block, words, meter, absorbed);
                        self.joined(block);
                    }
                    if choice.consider::<Q, F>(NIL, block, request, words) {
                        break 'search;
                    }
                }
                node = block.end();
            }
        }
        choice.0
    }

    fn carved<M: Meter>(
        &mut self,
        found: Found,
        [_, behind]: [Option<Block>; 2],
        words: &mut Words,
        _: &M,
    ) {
        let next = behind.map_or(found.block.end(), |behind| behind.start);
        self.rover = if Q::ROTATES && next < words.end() { next } else { 0 };
    }

    fn audit(
        &self,
        words: &Words,
        visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut roves = self.rover == 0;
        for (block, is_free) in words.blocks() {
            roves |= block.start == self.rover;
            if is_free {
                visit(block)?;
            }
        }
        Fault::unless(roves, "the rover is the start of a block", words.address(0))
    }
}
