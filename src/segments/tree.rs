//! A tournament tree over segments: for every power-of-two run of segments, the largest free block
//! that starts in it.
//!
//! The tree is stored in order, so it grows at its end and no node ever moves. Leaves have even
//! places; the node above 2^l leaves is between its halves:
//!
//! ```text
//! level 2             3
//! level 1       1           5
//! level 0    0     2     4     6
//! segment    0     1     2     3
//! ```
//! The level of the node at place x is the number of trailing ones of x. If the number of segments
//! is not a power of two, nodes on the right edge may be missing; their left child then takes their
//! place.

use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;
use crate::words::Table;

/// The tree. Invariant: every existing node contains the maximum of the leaves below it; sizes are
/// in granules.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Table<u32>,
    segments: usize,
    /// Level of the root: log₂ of the number of segments, rounded up.
    root_level: u32,
}

impl Tree {
    pub(super) const fn new() -> Self {
        Self { nodes: Table::new(), segments: 0, root_level: 0 }
    }

    /// Returns the number of places: one for each leaf, and one between any two neighbours.
    fn places(&self) -> usize {
        (2 * self.segments).saturating_sub(1)
    }

    /// Takes memory for the nodes of `segments` segments.
    pub(super) fn ensure<S: Source>(
        &mut self,
        segments: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.nodes.ensure((2 * segments).saturating_sub(1), source)
    }

    /// Appends a segment without a free block. [`ensure`](Self::ensure) must have taken memory for
    /// it.
    pub(super) fn push(&mut self) {
        let segment = self.segments;
        self.segments += 1;
        self.root_level = self.segments.next_power_of_two().trailing_zeros();
        // New nodes on the way up are 0, and must take the maximum of the existing nodes below
        // them.
        for level in 1..=self.root_level {
            if let Some(place) = self.ancestor(segment, level) {
                *self.nodes.get_mut(place) = self.children_maximum(place, level);
            }
        }
    }

    /// Returns the length of the largest free block that starts in a segment.
    pub(super) fn largest(&self, segment: usize) -> u32 {
        *self.nodes.get(2 * segment)
    }

    /// Sets the length of the largest free block that starts in a segment. O(log segments).
    pub(super) fn set<M: Meter>(&mut self, segment: usize, largest: u32, meter: &M) {
        let leaf = self.nodes.get_mut(2 * segment);
        if *leaf != largest {
            *leaf = largest;
            self.climb(segment, meter);
        }
    }

    /// Restores the invariant from a leaf towards the root, as far as nodes change.
    fn climb<M: Meter>(&mut self, segment: usize, meter: &M) {
        for level in 1..=self.root_level {
            let Some(place) = self.ancestor(segment, level) else { continue };
            let maximum = self.children_maximum(place, level);
            let node = self.nodes.get_mut(place);
            meter.visit(node);
            if *node == maximum {
                break;
            }
            *node = maximum;
        }
    }

    /// Returns the place of the node at `level` above a leaf, if it exists.
    fn ancestor(&self, segment: usize, level: u32) -> Option<usize> {
        let place = (2 * segment) >> (level + 1) << (level + 1) | ((1 << level) - 1);
        (place < self.places()).then_some(place)
    }

    fn children_maximum(&self, place: usize, level: u32) -> u32 {
        let half = 1 << (level - 1);
        let left = *self.nodes.get(place - half);
        let right = self.present(place + half, level - 1).map_or(0, |right| *self.nodes.get(right));
        left.max(right)
    }

    /// Returns the place of the node that stands for `place`: itself, or the first existing node
    /// down its left edge.
    fn present(&self, mut place: usize, mut level: u32) -> Option<usize> {
        while place >= self.places() {
            level = level.checked_sub(1)?;
            place -= 1 << level;
        }
        Some(place)
    }

    /// Returns the lowest segment from `from` on in which a free block of at least `size` granules
    /// starts. O(log segments).
    pub(super) fn find<M: Meter>(&self, size: u32, from: usize, meter: &M) -> Option<usize> {
        if self.segments == 0 {
            return None;
        }
        self.descend((1 << self.root_level) - 1, self.root_level, size, from, meter)
    }

    fn descend<M: Meter>(
        &self,
        place: usize,
        level: u32,
        size: u32,
        from: usize,
        meter: &M,
    ) -> Option<usize> {
        let place = self.present(place, level)?;
        let level = place.trailing_ones();
        let first_leaf = place >> (level + 1) << level;
        if first_leaf >= from {
            let node = self.nodes.get(place);
            meter.visit(node);
            return (*node >= size).then(|| self.leftmost(place, size, meter));
        }
        if first_leaf + (1 << level) <= from {
            return None;
        }
        let below = level - 1;
        self.descend(place - (1 << below), below, size, from, meter)
            .or_else(|| self.descend(place + (1 << below), below, size, from, meter))
    }

    /// Returns the lowest segment below a node that has a block of `size` granules. The node itself
    /// is at least `size`.
    fn leftmost<M: Meter>(&self, mut place: usize, size: u32, meter: &M) -> usize {
        while let Some(below) = place.trailing_ones().checked_sub(1) {
            let left = place - (1 << below);
            let node = self.nodes.get(left);
            meter.visit(node);
            // If the left child is too small, there is a right child.
            let right = || self.present(place + (1 << below), below).unwrap_or(left);
            place = if *node >= size { left } else { right() };
        }
        place / 2
    }

    /// Checks that every node is the maximum of its children. Returns the address of the first node
    /// that is not.
    pub(super) fn audit(&self) -> Result<(), usize> {
        for place in (0..self.places()).filter(|place| place % 2 == 1) {
            let node = self.nodes.get(place);
            if *node != self.children_maximum(place, place.trailing_ones()) {
                return Err(core::ptr::from_ref(node).addr());
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::source::Reserved;

    #[test]
    fn finds_what_a_linear_search_finds_at_every_number_of_segments() {
        let mut source = Reserved::new(1 << 24);
        let mut tree = Tree::new();
        let mut sizes: Vec<u32> = Vec::new();
        for segments in 1..200 {
            tree.ensure(segments, &mut source).unwrap();
            tree.push();
            sizes.push(0);
            let at = 7919 % segments;
            for (segment, size) in [(segments - 1, segments as u32 % 13), (at, 5)] {
                sizes[segment] = size;
                tree.set(segment, size, &());
            }
            assert_eq!(tree.audit(), Ok(()));
            for size in 1..14 {
                for from in [0, segments / 3, segments - 1] {
                    let expected = (from..segments).find(|&s| sizes[s] >= size);
                    assert_eq!(tree.find(size, from, &()), expected, "{segments} {size} {from}");
                }
            }
        }
    }
}
