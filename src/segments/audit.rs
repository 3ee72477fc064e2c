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
        if self.granules > 0 {
            self.audit_leaf(segment, largest)?;
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

    fn audit_leaf(&self, segment: usize, largest: u32) -> Result<(), Fault> {
        let at = self.address(self.range(segment).0).addr().get();
        let known = self.tree.largest(segment);
        Fault::unless(known == largest, "a segment knows its largest free block", at)
    }
}
