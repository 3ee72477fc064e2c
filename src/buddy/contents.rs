//! Where the contents of a block start: at the block's start, or behind a gap if their alignment
//! exceeds the origin's. Tag bits record the gap for checked frees.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::BinaryBuddies;

impl BinaryBuddies {
    /// Returns where in its block a request of this alignment starts.
    pub(super) fn place(&self, block: u32, layout: Layout) -> NonNull<u8> {
        let address = self.address(block);
        let gap = address.addr().get().wrapping_neg() & (layout.align() - 1);
        // SAFETY: a block of the layout's order has room for the request behind the gap.
        unsafe { address.add(gap) }
    }

    /// Returns the memory from the start of a request to the end of its block.
    pub(super) fn memory(&self, block: u32, order: u32, layout: Layout) -> NonNull<[u8]> {
        let place = self.place(block, layout);
        let gap = place.addr().get() - self.address(block).addr().get();
        NonNull::slice_from_raw_parts(place, self.bytes(order) - gap)
    }

    /// Returns the block in use that was allocated at this address with this layout, if there is
    /// one.
    pub(super) fn block_in_use(&self, address: NonNull<u8>, layout: Layout) -> Option<(u32, u32)> {
        let order = self.order_of(layout)?;
        let block = self.block_at(address, order)?;
        let in_use = self.is_start(block) && !self.is_free(block);
        let placed = self.place(block, layout) == address && self.starts_contents(block, address);
        (in_use && self.order_at(block) == order && placed).then_some((block, order))
    }

    /// Returns the granule in which contents start.
    fn granule(&self, contents: NonNull<u8>) -> u32 {
        ((contents.addr().get() - self.origin.addr()) >> self.granule_shift) as u32
    }

    /// Returns whether the contents of a block in use start at this address within it.
    fn starts_contents(&self, block: u32, address: NonNull<u8>) -> bool {
        match self.granule(address) {
            // A block of one granule has no gap: its second granule is the start of another block.
            granule if granule == block => {
                let second = block + 1;
                second == self.granules || self.is_start(second) || !self.is_free(second)
            }
            granule => self.is_free(granule),
        }
    }

    /// Records that the contents of a block in use start there, or that they are gone.
    pub(super) fn tag_contents(&mut self, block: u32, contents: NonNull<u8>, there: bool) {
        let granule = self.granule(contents);
        if granule != block {
            for granule in [block + 1, granule] {
                self.tag(granule, |tags, bit| {
                    tags.free = if there { tags.free | bit } else { tags.free & !bit };
                });
            }
        }
    }
}
