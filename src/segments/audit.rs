//! Checks the heap's invariants.

use super::heap::{Kind, SegmentHeap};
use crate::error::Fault;
use crate::words::bits;

impl SegmentHeap {
    /// Checks the invariants. O(n).
    pub(crate) fn audit_blocks(&self) -> Result<(), Fault> {
        let mut expected_start = 0;
        let mut before_was_free = false;
        let mut largest = 0;
        let mut segment = 0;
        for (block, free) in self.blocks() {
            let at = self.address(block.start).addr().get();
            Fault::unless(
                block.start == expected_start && block.end > block.start,
                "blocks tile the heap",
                at,
            )?;
            Fault::unless(block.end <= self.granules, "no block leaves the heap", at)?;
            Fault::unless(self.is(Kind::Starts, block.start), "a block has a start", at)?;
            Fault::unless(!(free && before_was_free), "free neighbours are coalesced", at)?;
            let before = self.block_before(block.end);
            Fault::unless(before == Some(block), "a block is found from its end", at)?;
            while self.segment_of(block.start) > segment {
                self.audit_leaf(segment, largest)?;
                largest = 0;
                segment += 1;
            }
            if free {
                largest = largest.max(block.len());
            }
            expected_start = block.end;
            before_was_free = free;
        }
        // The last block may cover further segments, in which none starts.
        for segment in segment..self.granules as usize >> self.segment_shift {
            self.audit_leaf(segment, largest)?;
            largest = 0;
        }
        let (starts, free) = (self.blocks().count(), self.blocks().filter(|b| b.1).count());
        let count = |kind| {
            let segments = 0..self.granules as usize >> self.segment_shift;
            segments.map(|segment| bits::iter(self.bits(segment, kind)).count()).sum::<usize>()
        };
        let origin = self.origin.addr();
        Fault::unless(count(Kind::Starts) == starts, "only blocks have starts", origin)?;
        Fault::unless(count(Kind::Free) == free, "only free blocks have free bits", origin)?;
        self.tree
            .audit()
            .map_err(|address| Fault { invariant: "a node is its children's maximum", address })
    }

    /// Makes the segment of a granule forget its largest free block.
    #[cfg(test)]
    pub(crate) fn forget_largest(&mut self, granule: u32) {
        self.tree.set(self.segment_of(granule), 0, &());
    }

    fn audit_leaf(&self, segment: usize, largest: u32) -> Result<(), Fault> {
        let at = self.address(self.range(segment).0).addr().get();
        let known = self.tree.largest(segment);
        Fault::unless(known == largest, "a segment knows its largest free block", at)
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::source::Reserved;

    /// A segment in which no block starts has no free block, also behind the last block's start.
    #[test]
    fn segments_within_a_block_have_no_free_block() {
        let mut heap = SegmentHeap::new(16, 1 << 10, 1 << 14);
        let mut source = Reserved::new(1 << 20);
        heap.allocate(1 << 10, 1, &mut source, &()).expect("there is memory");
        assert_eq!((heap.blocks().count(), heap.audit_blocks()), (1, Ok(())));
        for segment in [1, 8, 15] {
            heap.tree.set(segment, 5, &());
            let said = heap.audit_blocks().map_err(|fault| fault.invariant);
            assert_eq!(said, Err("a segment knows its largest free block"), "{segment}");
            heap.tree.set(segment, 0, &());
        }
        assert_eq!(heap.audit_blocks(), Ok(()));
    }
}
