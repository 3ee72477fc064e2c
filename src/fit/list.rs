//! FIRST-FIT and NEXT-FIT over a list of the free blocks in address order, as in the literature
//! (Knuth 1973, §2.5, algorithm A and exercise 6): O(n) to search, and to find a freed block's
//! place if no free neighbour shows it.
//!
//! ```text
//! first ─▶ [16] ⇄ [40] ⇄ [72] ⇄ … ⇄ [900]
//!                    ▲ rover
//! ```
//! The search for a freed block's place starts at the place of the last one and goes downwards or
//! upwards, since programs free neighbours together. The meter counts every block looked at. For a
//! first fit in O(log n) see [`FirstFit`](crate::segments::FirstFit).

use core::marker::PhantomData;

use super::index::{Index, IndexPolicy};
use super::links::Links;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, NONE};

/// Where a search of the list starts.
pub trait Start {
    /// Whether a search starts where the last one ended, and goes on from the list's end to its
    /// start.
    const ROVES: bool;
}

/// Searches start from the lowest block.
#[derive(Debug)]
pub struct Lowest;

/// Searches start from the block that the last one took, or from the one above it.
#[derive(Debug)]
pub struct Rover;

/// Free blocks on one list in address order, searched from [`Lowest`] or [`Rover`] on. Invariants:
/// `rover` is a block of the list, or `NONE` for its start; `recent` is the block that was inserted
/// or replaced last, or one beside it, and `NONE` iff the list is empty.
#[derive(Debug)]
pub struct List<T> {
    links: Links,
    rover: u32,
    recent: u32,
    start: PhantomData<T>,
}

/// FIRST-FIT: the lowest block that fits.
pub type First = List<Lowest>;

/// NEXT-FIT: the next block that fits, from where the last search ended.
pub type Next = List<Rover>;

impl<T: Start> Index for List<T> {}

impl<T: Start> IndexPolicy for List<T> {
    const EMPTY: Self = Self { links: Links::EMPTY, rover: NONE, recent: NONE, start: PhantomData };

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let (mut below, mut above) = match self.recent {
            NONE => (NONE, NONE),
            recent if recent < block.start => (recent, Links::behind(recent, cells)),
            recent => (Links::before(recent, cells), recent),
        };
        while above != NONE && above < block.start {
            meter.visit(cells.header(above));
            below = above;
            above = Links::behind(above, cells);
        }
        while below != NONE && below > block.start {
            meter.visit(cells.header(below));
            above = below;
            below = Links::before(below, cells);
        }
        self.recent = block.start;
        self.links.put(block.start, (below, above), cells, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, _: &M) {
        let below = Links::before(block.start, cells);
        let above = Links::behind(block.start, cells);
        self.links.take(block.start, cells);
        if self.rover == block.start {
            self.rover = above;
        }
        if self.recent == block.start {
            self.recent = if below == NONE { above } else { below };
        }
    }

    fn replace<M: Meter>(&mut self, old: Block, new: Block, cells: &mut Cells, meter: &M) {
        if new.start != old.start {
            let below = Links::before(old.start, cells);
            let above = Links::behind(old.start, cells);
            self.links.put(new.start, (below, above), cells, meter);
            if self.rover == old.start {
                self.rover = new.start;
            }
        }
        self.recent = new.start;
    }

    /// If the rover's block is joined with the one below, searches go on at the joined block.
    fn remove_but_one<M: Meter>(
        &mut self,
        (below, above): (Option<Block>, Option<Block>),
        cells: &mut Cells,
        meter: &M,
    ) -> Option<Block> {
        if let (Some(below), Some(above)) = (below, above) {
            let roves = self.rover == above.start;
            self.remove(above, cells, meter);
            if roves {
                self.rover = below.start;
            }
        }
        below.or(above)
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let request = (len, align);
        let first = self.links.first;
        if !T::ROVES || self.rover == NONE {
            let found = Links::search(first, NONE, request, cells, meter)?;
            if T::ROVES {
                self.rover = found.0.start;
            }
            return Some(found);
        }
        let found = Links::search(self.rover, NONE, request, cells, meter)
            .or_else(|| Links::search(first, self.rover, request, cells, meter))?;
        self.rover = found.0.start;
        Some(found)
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let mut below = NONE;
        let (mut roves, mut recent) = (self.rover == NONE, self.links.first == NONE);
        self.links.audit(cells, &mut |block| {
            let at = cells.contents(block.start).addr();
            Fault::unless(block.start > below, "the list is in address order", at)?;
            roves |= self.rover == block.start;
            recent |= self.recent == block.start;
            below = block.start;
            visit(block);
            Ok(())
        })?;
        let at = cells.origin().addr();
        Fault::unless(roves, "the rover is on the list", at)?;
        Fault::unless(recent, "the recent block is on the list", at)
    }
}

impl Start for Lowest {
    const ROVES: bool = false;
}

impl Start for Rover {
    const ROVES: bool = true;
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;
    use crate::fit::heap::TagHeap;
    use crate::source::Region;
    use crate::tags::{CELL, Link};

    /// Returns the audit's answer for a heap with three free blocks on its list, after `damage`,
    /// which gets their starts.
    fn told(damage: impl FnOnce(&mut TagHeap<Next>, [u32; 3])) -> &'static str {
        let mut memory = vec![MaybeUninit::<u64>::uninit(); 4096];
        // SAFETY: only the region uses the memory, which outlives it.
        let mut region = unsafe { Region::new(memory.as_mut_ptr().cast(), size_of_val(&*memory)) };
        let mut heap = TagHeap::<Next>::growing_by(1 << 14);
        let mut take = || heap.allocate_block(6, CELL, &mut region, &()).expect("there is room");
        let starts = [take(), take(), take(), take(), take(), take(), take()];
        let free = [starts[1], starts[3], starts[5]];
        free.into_iter().for_each(|start| heap.release(Block { start, len: 6 }, &()));
        assert_eq!(heap.audit_blocks(), Ok(()));
        damage(&mut heap, free);
        heap.audit_blocks().map_or_else(|fault| fault.invariant, |()| "nothing")
    }

    #[test]
    fn a_list_in_another_order_is_told() {
        let said = told(|heap, [low, middle, high]| {
            for (block, before, behind) in [(middle, 0, high), (high, middle, low), (low, high, 0)]
            {
                heap.cells.set_link(block, Link::First, before);
                heap.cells.set_link(block, Link::Second, behind);
            }
            (heap.index.links.first, heap.index.links.last) = (middle, low);
        });
        assert_eq!(said, "the list is in address order");
    }

    #[test]
    fn a_list_knows_where_it_goes_on() {
        assert_eq!(told(|heap, [_, middle, _]| heap.index.rover = middle), "nothing");
        assert_eq!(told(|heap, [low, ..]| heap.index.rover = low - 6), "the rover is on the list");
        let recent = "the recent block is on the list";
        assert_eq!(told(|heap, [.., high]| heap.index.recent = high + 6), recent);
        assert_eq!(told(|heap, _| heap.index.recent = NONE), recent);
        let said = told(|heap, [_, middle, _]| heap.index.links.last = middle);
        assert_eq!(said, "a list knows its last block");
    }

    /// A block is put between its neighbours wherever the one before was put.
    #[test]
    fn blocks_are_put_in_order_from_anywhere() {
        let mut orders: Vec<Vec<usize>> = vec![vec![]];
        for _ in 0..4 {
            let longer = |order: Vec<usize>| {
                let rest = (0..4).filter(|next| !order.contains(next)).collect::<Vec<_>>();
                rest.into_iter().map(move |next| [&*order, &[next]].concat())
            };
            orders = orders.into_iter().flat_map(longer).collect();
        }
        assert_eq!(orders.len(), 24);
        for order in orders {
            let mut memory = vec![MaybeUninit::<u64>::uninit(); 4096];
            // SAFETY: as above.
            let mut region =
                unsafe { Region::new(memory.as_mut_ptr().cast(), size_of_val(&*memory)) };
            let mut heap = TagHeap::<First>::growing_by(1 << 14);
            let mut take = || heap.allocate_block(2, CELL, &mut region, &()).expect("room");
            let starts: Vec<u32> = (0..9).map(|_| take()).collect();
            for &next in &order {
                heap.release(Block { start: starts[2 * next + 1], len: 2 }, &());
                assert_eq!(heap.audit_blocks(), Ok(()), "{order:?}");
            }
            let taken = [1, 3, 5, 7].map(|at| {
                assert_eq!(heap.allocate_known(2, CELL, &()), Some(starts[at]), "{order:?}");
                assert_eq!(heap.audit_blocks(), Ok(()));
                starts[at]
            });
            assert_eq!(taken.len(), 4);
        }
    }
}
