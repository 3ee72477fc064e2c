//! Category 4: a LIFO list for each block size, and a residual queue, searched first fit, for
//! longer blocks. At first all memory is on the residual queue.
//!
//! ```text
//!  size  2   3   4   5  …  128 │ residual queue
//!        │       │   │         │   │
//!        ▼       ▼   ▼         │   ▼
//!       [2]     [4] [5]            [800] ─▶ [230] ─▶ …
//!        ▼           ▼
//!       [2]         [5]
//! ```
//! A request takes a block off the list of its size. If that is empty, it takes a part of a block
//! of the residual queue. The paper does not say what happens when both fail and compaction does
//! not help; ours then splits a block of a larger size, or takes a block of its list that is not
//! the first. (Without that, IV-2, IV-4 and IV-5 fail the base load at 80 %, which the paper's
//! algorithms serve.) The paper's lists are "subject to a maximum size limit", which it does not
//! give; ours is [`LISTED`]. Both are parameters of [`ManyLists`].
//!
//! To join a block with a neighbour on a singly linked list, the list must be walked to take the
//! neighbour off. So IV-3, with S + FP + B, joins a freed block only with blocks of the residual
//! queue. This agrees with the paper: its IV-3 allocates as fast as IV-1, which joins nothing,
//! while IV-5, with DP, takes twice as long, since joined blocks have to be split again (Table IV).

use super::fields::Fields;
use super::free_list::OneList;
use super::heap::Index;
use super::list::{Lifo, List, Order};
use super::search::{FirstFit, Found};
use super::words::{Block, NIL, Request, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// Words of the largest block that has a list of its size.
const LISTED: u32 = 128;

/// The block sizes used.
pub trait Sizes {
    /// Words that block lengths are multiples of.
    const UNIT: u32;
}

/// Actual: the requested size and the overhead.
#[derive(Debug)]
pub struct Actual;

/// Round Up: as [`Actual`], rounded up to a multiple of five words.
#[derive(Debug)]
pub struct RoundUp;

impl Sizes for Actual {
    const UNIT: u32 = 1;
}

impl Sizes for RoundUp {
    const UNIT: u32 = 5;
}

/// The free blocks on lists by size, up to `MOST` words, at most [`LISTED`]. With `LARGER`, a block
/// of a larger size serves if all else fails.
///
/// Without `LARGER`, a block between two sizes may not serve although it is large enough. So memory
/// should be fixed, as the paper's is, or grow by more than `MOST` words at a time.
#[derive(Debug)]
pub struct ManyLists<Z, R, F, const MOST: u32 = LISTED, const LARGER: bool = true> {
    /// List n has the free blocks of n words. It stays empty if n is above `MOST`.
    lists: [List<Lifo, F>; LISTED as usize + 1],
    /// The residual queue: the longer blocks.
    residual: OneList<R, FirstFit, F>,
    sizes: core::marker::PhantomData<Z>,
}

impl<Z, R: Order, F: Fields, const MOST: u32, const LARGER: bool> ManyLists<Z, R, F, MOST, LARGER> {
    /// Returns the list of the blocks of this length; `None` for the residual queue.
    fn list_of(&mut self, len: u32) -> Option<&mut List<Lifo, F>> {
        if len > MOST { None } else { self.lists.get_mut(len as usize) }
    }

    /// Returns the first block on the list of its size that is large enough, among the first `most`
    /// blocks.
    fn find_listed<M: Meter>(
        &self,
        len: u32,
        most: usize,
        request: Request,
        words: &Words,
        meter: &M,
    ) -> Option<Found> {
        let list = self.lists.get(len as usize).filter(|_| len <= MOST)?;
        let mut before = NIL;
        for _ in 0..most {
            let node = list.after(before, words);
            if node == NIL {
                break;
            }
            meter.visit(words.pointer(node));
            let block = Block { start: node, len };
            if let Some(start) = request.place::<F>(block, words) {
                return Some(Found { before, block, start });
            }
            before = node;
        }
        None
    }
}

impl<Z: Sizes, R: Order, F: Fields, const MOST: u32, const LARGER: bool> Index
    for ManyLists<Z, R, F, MOST, LARGER>
{
    type Fields = F;
    const EMPTY: Self = {
        assert!(MOST <= LISTED, "there are no more lists");
        Self {
            lists: [List::new(0); LISTED as usize + 1],
            residual: OneList::of_at_least(MOST + 1),
            sizes: core::marker::PhantomData,
        }
    };

    fn rounded(len: u32) -> Option<u32> {
        len.checked_next_multiple_of(Z::UNIT)
    }

    fn seat<M: Meter>(&self, _: Block, _: &Words, _: &M) -> u32 {
        NIL
    }

    /// A seat on a list of one size tells nothing about the neighbours.
    fn below(&self, _: u32, _: Block, _: &Words) -> Option<Block> {
        None
    }

    fn can_join(block: Block) -> bool {
        F::LINKS == 2 || block.len > MOST
    }

    fn insert<M: Meter>(&mut self, block: Block, _: Option<u32>, words: &mut Words, meter: &M) {
        match self.list_of(block.len) {
            Some(list) => list.insert(block, words, meter),
            None => self.residual.insert(block, None, words, meter),
        }
    }

    fn remove<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        match self.list_of(block.len) {
            Some(list) => {
                if let Some(before) = list.before(block.start, words, meter) {
                    list.take_behind(before, words);
                }
            }
            None => self.residual.remove(block, words, meter),
        }
    }

    fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    fn find<M: Meter>(
        &mut self,
        request: Request,
        _: bool,
        last: bool,
        words: &mut Words,
        meter: &M,
    ) -> Option<Found> {
        let listed = |len, most| self.find_listed(len, most, request, words, meter);
        if let Some(found) = listed(request.len, 1) {
            return Some(found);
        }
        if let Some(found) = self.residual.find(request, false, last, words, meter) {
            return Some(found);
        }
        let listed = |len| self.find_listed(len, usize::MAX, request, words, meter);
        if LARGER && last { (request.len..=MOST).find_map(listed) } else { None }
    }

    fn carved<M: Meter>(
        &mut self,
        found: Found,
        rests: [Option<Block>; 2],
        words: &mut Words,
        meter: &M,
    ) {
        let is_long = |rest: &Option<Block>| rest.is_none_or(|rest| rest.len > MOST);
        if found.block.len > MOST && rests.iter().all(is_long) {
            // The rest stays on the residual queue, in the block's place.
            self.residual.carved(found, rests, words, meter);
            return;
        }
        match self.list_of(found.block.len) {
            Some(list) => list.take_behind(found.before, words),
            None => self.residual.carved(found, [None; 2], words, meter),
        }
        for rest in rests.into_iter().flatten() {
            self.insert(rest, None, words, meter);
        }
    }

    fn audit(
        &self,
        words: &Words,
        visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for (list, len) in self.lists.iter().zip(0..) {
            list.audit(words, &mut |block| {
                let at = words.address(block.start);
                Fault::unless(block.len == len, "a block is on the list of its size", at)?;
                visit(block)
            })?;
        }
        self.residual.audit(words, visit)
    }
}
