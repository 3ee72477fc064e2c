//! FIRST-FIT below the pages (Brent §5.3).

use core::alloc::Layout;
use core::ptr::NonNull;

use super::Below;
use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::segments::SegmentHeap;
use crate::source::Source;
use crate::strategy::Span;
use crate::tally::Change;

impl Below for SegmentHeap {
    const KEPT: usize = 0;

    fn origin(&self) -> usize {
        self.origin().addr()
    }

    fn take_page<S: Source, M: Meter>(
        &mut self,
        page_size: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<NonNull<u8>, AllocError> {
        let len = self.granules_for(page_size).ok_or(AllocError::Exhausted)?;
        let block = self.allocate(len, page_size, source, meter)?;
        Ok(self.address(block.start))
    }

    fn release_page<M: Meter>(&mut self, base: NonNull<u8>, meter: &M) {
        self.release(self.granule_of(base), meter);
    }

    fn holds_page(&self, base: usize, page_size: usize) -> bool {
        let block = self.granule_at(base).and_then(|start| self.block_in_use(start));
        block.is_some_and(|block| self.bytes(block.len()) == page_size)
    }

    fn take<M: Meter>(&mut self, layout: Layout, meter: &M) -> Option<(NonNull<u8>, usize)> {
        self.take_known(layout, meter)
    }

    fn take_more<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        source: &mut S,
        meter: &M,
    ) -> Result<(NonNull<u8>, usize), AllocError> {
        self.take_more(layout, source, meter)
    }

    fn free<M: Meter>(&mut self, block: NonNull<u8>, requested: usize, meter: &M) -> usize {
        self.free(block, requested, meter)
    }

    fn len_for(&self, requested: usize) -> usize {
        requested.next_multiple_of(self.bytes(1))
    }

    fn resize<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        _: &mut S,
        meter: &M,
    ) -> bool {
        self.resize(block, sizes, meter).is_some()
    }

    fn keep<M: Meter>(&mut self, block: NonNull<u8>, sizes: Change, meter: &M) -> Option<Change> {
        self.resize(block, sizes, meter)
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.has_block(block, layout)
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.walk_blocks(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_blocks()
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use core::alloc::Layout;

    use crate::pages::placement::{CurrentPage, Least, LeftHeaders};
    use crate::pages::{Config, Paged};
    use crate::source::Reserved;
    use crate::strategy::Strategy;

    /// The audit of a paged heap includes that of the heap below.
    #[test]
    fn damage_below_the_pages_is_told() {
        type Heap = Paged<CurrentPage<LeftHeaders<Least>>, Reserved>;
        let mut heap = Heap::new(Config::with_page_size(4096), Reserved::new(1 << 24), ());
        let layout = Layout::from_size_align(100_000, 8).expect("a valid layout");
        let [low, _] = [(); 2].map(|()| heap.allocate(layout).expect("there is memory").cast());
        // SAFETY: the block is in use, and freed once.
        unsafe { heap.deallocate(low, layout) };
        assert_eq!(heap.audit(), Ok(()));
        let below = &mut heap.engine.pages.below;
        below.forget_largest(below.granule_of(low));
        let said = heap.audit().map_err(|fault| fault.invariant);
        assert_eq!(said, Err("a segment knows its largest free block"));
    }
}
