//! BEST-FIT and WORST-FIT: free blocks in bins by size, each bin a tree; O(log n).
//!
//! ```text
//! bin       1  2  3 …  63 | 64–71  72–79  80–87  88–95 … 120–127 | 128–143 …    cells
//! occupied  0  1  1     0 |   1      0      1      0        0    |    0          bits
//! root         ●  ●           ●             ●
//! ```
//! Below 64 cells (1 KiB) a bin has blocks of one size; above, there are eight bins for each
//! doubling. With two, programs with many large blocks (git) took a fifth more instructions, for
//! the trees; with sixteen, all other programs took more, for the bits. Bits tell which bins have
//! blocks. Within a bin the free blocks themselves are the nodes of a *treap* (Seidel & Aragon
//! 1996): a search tree by size, then address, and a heap by a priority that is a hash of the
//! address, so that it needs no memory and its expected depth is O(log n) whatever the order of
//! requests. A node's two links are the block's.
//!
//! The address is in the order because equal sizes are the common case, and the lowest of them
//! keeps the upper end of the heap free.

use core::marker::PhantomData;

use super::index::{Index, IndexPolicy, certain, fit};
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, CELL, Cells, Link, NONE};
use crate::words::bits;

/// Sizes in cells below which each has a bin.
const EXACT: u32 = 64;

/// log₂ of the bins for each doubling above.
const SUBDIVISION: u32 = 3;

/// Number of bins: for the exact sizes, and eight for each doubling above up to 2³⁰ cells.
const BINS: usize = EXACT as usize + ((30 - EXACT.ilog2() as usize) << SUBDIVISION);

/// Returns the bin of a size.
#[inline(always)]
fn bin_of(len: u32) -> usize {
    if len < EXACT {
        return len as usize;
    }
    let doubling = len.ilog2();
    let part = (len >> (doubling - SUBDIVISION)) % (1 << SUBDIVISION);
    (EXACT + ((doubling - EXACT.ilog2()) << SUBDIVISION) + part) as usize
}

/// Returns a node's priority in the heap order: a bijection of the start, so no two are equal
/// (Wellons, *lowbias32*).
#[inline(always)]
fn priority(start: u32) -> u32 {
    let mut hash = start;
    hash = (hash ^ hash >> 16).wrapping_mul(0x7feb_352d);
    hash = (hash ^ hash >> 15).wrapping_mul(0x846c_a68b);
    hash ^ hash >> 16
}

/// Which of the blocks that fit is taken.
pub trait Choice {
    /// Returns the block for `len` cells.
    fn choose<M: Meter>(bins: &Bins<Self>, len: u32, cells: &Cells, meter: &M) -> Option<Block>
    where
        Self: Sized;
}

/// The lowest of the smallest blocks that fit.
#[derive(Debug)]
pub struct Smallest;

/// The lowest of the largest blocks.
#[derive(Debug)]
pub struct Largest;

/// Free blocks in bins, searched for the [`Smallest`] that fits or the [`Largest`]. Invariants: a
/// bin's bit is set iff it has a root; each bin is a treap of the free blocks of its sizes.
///
/// For an alignment larger than a cell, the search first tries the block that is chosen for the
/// size alone, then one that holds the request wherever it starts. If there is no other memory, it
/// tries all others that may happen to hold the request: O(k log n) for k of them.
#[derive(Debug)]
pub struct Bins<C> {
    occupied: [u64; BINS.div_ceil(u64::BITS as usize)],
    roots: [u32; BINS],
    choice: PhantomData<C>,
}

/// BEST-FIT: the smallest block that fits; among equals the lowest.
pub type Best = Bins<Smallest>;

/// WORST-FIT: the largest block; among equals the lowest.
pub type Worst = Bins<Largest>;

/// What leads to a node: the bin's root, or a link of the node above.
#[derive(Clone, Copy)]
enum Edge {
    /// The root of this bin.
    Root(usize),
    /// This link of the node that starts here.
    Of(u32, Link),
}

impl<C> Bins<C> {
    /// Returns the node that the link leads to, or `NONE`.
    #[inline(always)]
    fn get(&self, edge: Edge, cells: &Cells) -> u32 {
        match edge {
            Edge::Root(bin) => self.roots[bin],
            Edge::Of(node, link) => cells.link(node, link),
        }
    }

    /// Makes the link lead to another node, or to `NONE`.
    #[inline(always)]
    fn set(&mut self, edge: Edge, to: u32, cells: &mut Cells) {
        match edge {
            Edge::Root(bin) => self.roots[bin] = to,
            Edge::Of(node, link) => cells.set_link(node, link, to),
        }
    }

    /// Returns whether a block comes before a node of its bin. In a bin of one size the node's size
    /// is not read.
    #[inline(always)]
    fn precedes(block: Block, node: u32, cells: &Cells) -> bool {
        if block.len < EXACT {
            block.start < node
        } else {
            (block.len, block.start) < (cells.block(node).len, node)
        }
    }

    /// Returns the lowest of the smallest blocks of at least `len` cells.
    fn smallest<M: Meter>(&self, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        let bin = bin_of(len);
        if len < EXACT {
            let bin = bits::first(&self.occupied, bin)?;
            return Some(self.first(bin, cells, meter));
        }
        if bin >= BINS {
            // `len` includes the cells needed for an alignment, so it may exceed every block.
            return None;
        }
        self.at_least(bin, len, cells, meter).or_else(|| {
            let bin = (bin + 1 < BINS).then(|| bits::first(&self.occupied, bin + 1))??;
            Some(self.first(bin, cells, meter))
        })
    }

    /// Returns the first block of an occupied bin.
    fn first<M: Meter>(&self, bin: usize, cells: &Cells, meter: &M) -> Block {
        cells.block(self.outermost(bin, Link::First, cells, meter))
    }

    /// Returns the node of an occupied bin that is reached by following this link to the end.
    fn outermost<M: Meter>(&self, bin: usize, link: Link, cells: &Cells, meter: &M) -> u32 {
        let mut node = self.roots[bin];
        loop {
            meter.visit(cells.header(node));
            match cells.link(node, link) {
                NONE => return node,
                next => node = next,
            }
        }
    }

    /// Returns the first block of a bin that has at least `len` cells.
    fn at_least<M: Meter>(&self, bin: usize, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        let mut found = None;
        let mut node = self.roots[bin];
        while node != NONE {
            meter.visit(cells.header(node));
            let block = cells.block(node);
            let fits = block.len >= len;
            if fits {
                found = Some(block);
            }
            node = cells.link(node, if fits { Link::First } else { Link::Second });
        }
        found
    }

    /// Returns the first block of a bin behind this size and start.
    fn behind<M: Meter>(
        &self,
        bin: usize,
        key: (u32, u32),
        cells: &Cells,
        meter: &M,
    ) -> Option<Block> {
        let mut found = None;
        let mut node = self.roots[bin];
        while node != NONE {
            meter.visit(cells.header(node));
            let block = cells.block(node);
            let is_behind = (block.len, node) > key;
            if is_behind {
                found = Some(block);
            }
            node = cells.link(node, if is_behind { Link::First } else { Link::Second });
        }
        found
    }

    /// Checks the tree from a node down. The sizes and addresses of its blocks must be between
    /// these two. Priorities fall on the way down, so the check cannot go round in a circle.
    fn audit_tree(
        &self,
        node: u32,
        between: [(u32, u32); 2],
        cells: &Cells,
        visit: &mut dyn FnMut(Block),
    ) -> Result<(), Fault> {
        let at = cells.contents(node).addr();
        Fault::unless(node < cells.end(), "a link leads to a block", at)?;
        Fault::unless(!cells.is_in_use(node), "a block in a bin is free", at)?;
        let block = cells.block(node);
        let key = (block.len, node);
        let ordered = between[0] < key && key < between[1];
        Fault::unless(ordered, "a bin is in order of size and address", at)?;
        visit(block);
        let sides = [(Link::First, [between[0], key]), (Link::Second, [key, between[1]])];
        for (link, between) in sides {
            let child = cells.link(node, link);
            if child != NONE {
                let falls = priority(child) < priority(node);
                Fault::unless(falls, "priorities fall from a node to its children", at)?;
                self.audit_tree(child, between, cells, visit)?;
            }
        }
        Ok(())
    }
}

impl<C: Choice> Index for Bins<C> {}

impl<C: Choice> IndexPolicy for Bins<C> {
    const EMPTY: Self = Self {
        occupied: [0; BINS.div_ceil(u64::BITS as usize)],
        roots: [NONE; BINS],
        choice: PhantomData,
    };

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let bin = bin_of(block.len);
        bits::set(&mut self.occupied, bin);
        let mut edge = Edge::Root(bin);
        let mut node = self.roots[bin];
        // The new node's place is above the first of lower priority …
        while node != NONE && priority(node) > priority(block.start) {
            meter.visit(cells.header(node));
            let link = if Self::precedes(block, node, cells) { Link::First } else { Link::Second };
            edge = Edge::Of(node, link);
            node = cells.link(node, link);
        }
        meter.link(cells.header(block.start));
        self.set(edge, block.start, cells);
        // … whose tree is split into the blocks before this one and those behind it.
        let mut before = (block.start, Link::First);
        let mut behind = (block.start, Link::Second);
        while node != NONE {
            meter.visit(cells.header(node));
            if Self::precedes(block, node, cells) {
                cells.set_link(behind.0, behind.1, node);
                behind = (node, Link::First);
                node = cells.link(node, Link::First);
            } else {
                cells.set_link(before.0, before.1, node);
                before = (node, Link::Second);
                node = cells.link(node, Link::Second);
            }
        }
        cells.set_link(before.0, before.1, NONE);
        cells.set_link(behind.0, behind.1, NONE);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let bin = bin_of(block.len);
        let mut edge = Edge::Root(bin);
        let mut node = self.roots[bin];
        while node != block.start {
            meter.visit(cells.header(node));
            let link = if Self::precedes(block, node, cells) { Link::First } else { Link::Second };
            edge = Edge::Of(node, link);
            node = cells.link(node, link);
        }
        // The trees below are merged into the block's place.
        let mut before = cells.link(block.start, Link::First);
        let mut behind = cells.link(block.start, Link::Second);
        while before != NONE && behind != NONE {
            if priority(before) > priority(behind) {
                meter.visit(cells.header(before));
                self.set(edge, before, cells);
                edge = Edge::Of(before, Link::Second);
                before = self.get(edge, cells);
            } else {
                meter.visit(cells.header(behind));
                self.set(edge, behind, cells);
                edge = Edge::Of(behind, Link::First);
                behind = self.get(edge, cells);
            }
        }
        self.set(edge, if before == NONE { behind } else { before }, cells);
        if self.roots[bin] == NONE {
            bits::clear(&mut self.occupied, bin);
        }
    }

    #[inline]
    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let chosen = C::choose(self, len, cells, meter)?;
        if let Some(start) = fit(chosen, len, align, cells) {
            return Some((chosen, start));
        }
        let chosen = C::choose(self, certain(len, align)?, cells, meter)?;
        Some((chosen, fit(chosen, len, align, cells)?))
    }

    /// Looks at all blocks that may happen to hold an aligned request, the smallest first.
    #[cold]
    fn take_last<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        if align <= CELL {
            return None;
        }
        let most = certain(len, align).map_or(BINS - 1, |most| bin_of(most).min(BINS - 1));
        let mut from = bin_of(len);
        while from <= most
            && let Some(bin) = bits::first(&self.occupied, from).filter(|&bin| bin <= most)
        {
            let mut key = (len - 1, u32::MAX);
            while let Some(block) = self.behind(bin, key, cells, meter) {
                if let Some(start) = fit(block, len, align, cells) {
                    self.remove(block, cells, meter);
                    return Some((block, start));
                }
                key = (block.len, block.start);
            }
            from = bin + 1;
        }
        None
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        for (bin, &root) in self.roots.iter().enumerate() {
            let at = cells.origin().addr();
            let known = bits::get(&self.occupied, bin) == (root != NONE);
            Fault::unless(known, "a bin's bit says whether it has blocks", at)?;
            if root != NONE {
                let mut binned = true;
                let all = [(0, 0), (u32::MAX, u32::MAX)];
                self.audit_tree(root, all, cells, &mut |block| {
                    binned &= bin_of(block.len) == bin;
                    visit(block);
                })?;
                Fault::unless(binned, "a block is in the bin of its size", at)?;
            }
        }
        Ok(())
    }
}

impl Choice for Smallest {
    #[inline]
    fn choose<M: Meter>(bins: &Bins<Self>, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        bins.smallest(len, cells, meter)
    }
}

impl Choice for Largest {
    fn choose<M: Meter>(bins: &Bins<Self>, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        let bin = bits::last(&bins.occupied, BINS - 1)?;
        let largest = cells.block(bins.outermost(bin, Link::Second, cells, meter));
        if largest.len < len {
            return None;
        }
        // Among equals the order's last is the highest.
        bins.at_least(bin, largest.len, cells, meter)
    }
}

#[cfg(all(test, feature = "std", unix, target_pointer_width = "64", not(miri)))]
mod tests {
    use super::*;
    use crate::fit::heap::TagHeap;
    use crate::source::Reserved;
    use crate::tags::MAX_CELLS;

    #[test]
    fn bins_are_in_the_order_of_sizes() {
        let mut last = 0;
        for len in 1..5000 {
            let bin = bin_of(len);
            assert!(bin == last || bin == last + 1, "{len}");
            assert!(len >= EXACT || bin == len as usize);
            last = bin;
        }
        for len in (12..30).flat_map(|log| [(1 << log) - 1, 1 << log, 5 << (log - 2)]) {
            assert!(bin_of(len) < BINS && bin_of(len + len / 8 + 1) > bin_of(len), "{len}");
        }
        assert_eq!(bin_of(MAX_CELLS - 1), BINS - 1);
    }

    /// Uses blocks for the uppermost bins. Only their tags are touched.
    #[test]
    fn the_largest_blocks_are_found() {
        const MIB: u32 = 1 << 16;
        let mut source = Reserved::new(1 << 30);
        let mut worst = TagHeap::<Worst>::growing_by(1 << 16);
        let mut take = |len| worst.allocate_block(len, CELL, &mut source, &()).expect("room");
        let starts = [80, 1, 200, 1, 130, 1].map(|mib| take(mib * MIB));
        for (block, mib) in [(0, 80), (2, 200), (4, 130)] {
            worst.release(Block { start: starts[block], len: mib * MIB }, &());
        }
        assert_eq!(worst.audit_blocks(), Ok(()));
        assert_eq!(worst.allocate_known(90 * MIB, CELL, &()), Some(starts[2]));
        // The rest of it is smaller than the third.
        assert_eq!(worst.allocate_known(10 * MIB, CELL, &()), Some(starts[4]));
        assert_eq!(worst.allocate_known(125 * MIB, CELL, &()), None);
        assert_eq!(worst.audit_blocks(), Ok(()));
    }
}
