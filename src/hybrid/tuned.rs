//! The engine: chooses which of its parts serves a request, and counts the requests.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::heap::{Context, HybridHeap, Size};
use super::mapped;
use super::settings::HasSettings;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::Span;
use crate::tags::{Block, CELL, TAG, header};
use crate::tally::Change;

/// The engine of [`Hybrid`](super::Hybrid).
#[derive(Debug)]
pub struct Tuned<T> {
    pub(super) heap: HybridHeap,
    pub(super) parameters: T,
}

impl<T: HasSettings> Tuned<T> {
    /// Returns the heap, and the context it works with.
    pub(super) fn parts<'c, S: Source, M: Meter>(
        &'c mut self,
        backing: &'c mut Backing<S, M>,
    ) -> (&'c mut HybridHeap, Context<'c, Owned<S>, M>) {
        let context = Context {
            settings: self.parameters.settings(),
            in_use: backing.tally.block_bytes() + backing.tally.blocks() * TAG,
            frees: backing.tally.frees(),
            source: &mut backing.source,
            meter: &backing.meter,
        };
        (&mut self.heap, context)
    }

    /// Counts and returns a block that serves a request, one more than the `blocks` in use.
    #[inline(always)]
    fn served(
        &mut self,
        requested: usize,
        block: NonNull<u8>,
        bytes: usize,
        blocks: usize,
    ) -> Served {
        if self.parameters.settings().monitor {
            let monitor = &mut self.heap.monitor;
            monitor.requested += requested as u64;
            monitor.most_blocks = monitor.most_blocks.max(blocks + 1);
        }
        Served::whole(block, bytes, Part::Fit)
    }

    /// Returns where a block's contents start.
    #[inline(always)]
    fn contents(&self, start: u32) -> NonNull<u8> {
        // SAFETY: a block lies in the heap, which is valid memory, hence not at address 0.
        unsafe { NonNull::new_unchecked(self.heap.cells.contents(start)) }
    }

    /// Takes a block that no quick list has.
    #[inline(never)]
    fn take_slowly<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let blocks = backing.tally.blocks();
        if layout.size() > self.parameters.settings().mmap_threshold
            && let Ok(mapped) = mapped::map(&mut backing.source, layout)
        {
            return Ok(self.served(layout.size(), mapped.cast(), mapped.len(), blocks));
        }
        let len = Size::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let (heap, mut context) = self.parts(backing);
        let block = if layout.align() <= CELL {
            heap.allocate(len, &mut context)?
        } else {
            heap.allocate_aligned(len, layout.align(), &mut context)?
        };
        let contents = self.contents(block.start);
        Ok(self.served(layout.size(), contents, Size::bytes(block.len), blocks))
    }

    /// Frees a block that goes on no quick list.
    #[inline(never)]
    fn free_slowly<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        len: u32,
        backing: &mut Backing<S, M>,
    ) -> usize {
        if len == 0 {
            // SAFETY: a block in use of no cells is a mapped one.
            return unsafe {
                let bytes = mapped::len(block);
                backing.source.unmap(block);
                bytes
            };
        }
        let start = self.start_of(block);
        let prev_in_use = self.heap.cells.prev_is_in_use(start);
        backing.meter.touch(self.heap.cells.header(start));
        self.heap.release(Block { start, len }, prev_in_use, &backing.meter);
        Size::bytes(len)
    }

    /// Joins all free blocks if few blocks are in use and much memory is held (§3.11).
    #[inline(always)]
    fn coalesce_in_free<S: Source, M: Meter>(&mut self, backing: &mut Backing<S, M>) {
        let settings = self.parameters.settings();
        if settings.coalesce_in_free
            && backing.tally.blocks() < settings.few_blocks
            && backing.source.held() > settings.much_held
        {
            let (heap, mut context) = self.parts(backing);
            heap.join_all(&mut context);
        }
    }

    /// Returns the cell at which a block of the heap starts.
    #[inline(always)]
    fn start_of(&self, block: NonNull<u8>) -> u32 {
        let offset = block.addr().get() - self.heap.cells.origin().addr();
        (offset / CELL) as u32
    }

    /// Returns whether a block of the heap is in use, according to its own tag and the next one's;
    /// true for every mapped block.
    fn is_sound(&self, block: NonNull<u8>) -> bool {
        self.heap.cells.cell_at(block.addr().get()).is_none_or(|start| {
            let end = self.heap.cells.block(start).end();
            self.heap.cells.is_in_use(start) && self.heap.cells.prev_is_in_use(end)
        })
    }
}

// SAFETY: the heap's blocks are disjoint parts of the source's extent, and its tags and links lie
// between them and in those not in use; mapped blocks are disjoint mappings. All stay in place when
// the engine moves.
unsafe impl<T: HasSettings, S: Source, M: Meter> Engine<S, M> for Tuned<T> {
    #[inline]
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let (size, settings) = (layout.size(), self.parameters.settings());
        if size <= settings.ql_high.saturating_sub(TAG) && layout.align() <= CELL {
            let len = Size::cells_of(size);
            let HybridHeap { cells, quick, monitor, .. } = &mut self.heap;
            if let Some(start) = quick.pop(len as usize, cells, &backing.meter) {
                if settings.monitor {
                    monitor.quick += 1;
                }
                let (contents, blocks) = (self.contents(start), backing.tally.blocks());
                return Ok(self.served(size, contents, Size::bytes(len), blocks));
            }
        }
        self.take_slowly(layout, backing)
    }

    #[inline]
    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        debug_assert!(engine.heap.top == 0 || engine.is_sound(block), "a freed block is in use");
        // SAFETY: the caller's block is in use.
        let len = unsafe { header::len_at(block) };
        // The length of a mapped block, 0 cells, wraps round.
        let bytes = if len.wrapping_sub(1) < engine.parameters.settings().ql_cells() {
            let start = engine.start_of(block);
            let HybridHeap { cells, quick, .. } = &mut engine.heap;
            quick.push(start, len as usize, cells, &backing.meter);
            Size::bytes(len)
        } else {
            engine.free_slowly(block, len, backing)
        };
        backing.freed(layout.size(), bytes, Part::Fit);
        engine.coalesce_in_free(backing);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        _: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let new_size = new_layout.size();
        // SAFETY: the caller's block is in use.
        let bytes = match unsafe { header::len_at(block) } {
            // SAFETY: as above, and it is a mapped one.
            0 => match unsafe { mapped::len(block) } {
                // If shrinking would free at least half of it, the block should be moved instead.
                old if new_size <= old && new_size > old / 2 => Change::none(old),
                _ => return None,
            },
            len => {
                let old = Block { start: self.start_of(block), len };
                let wanted = Size::cells_for(new_size)?;
                // The block may stay unchanged if the request would get one of its length.
                if len - 1 > wanted || len < wanted {
                    let (heap, mut context) = self.parts(backing);
                    let new = heap.resize(old, wanted, &mut context)?;
                    Change { old: Size::bytes(len), new: Size::bytes(new.len) }
                } else {
                    Change::none(Size::bytes(len))
                }
            }
        };
        Some(Resized::whole(block, bytes))
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        // SAFETY: the caller's block is in use.
        if unsafe { header::len_at(block) } > 0 {
            // SAFETY: the caller gives the same guarantees.
            return unsafe { self.resize(block, layout, new_layout, backing) };
        }
        // SAFETY: a block of no cells is a mapped one.
        let len = unsafe { mapped::len(block) };
        (new_layout.size() <= len).then(|| Resized::whole(block, Change::none(len)))
    }

    /// Extends a block with the free memory below it, to which its contents move.
    unsafe fn slide(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        // SAFETY: the caller's block is in use.
        let len = unsafe { header::len_at(block) };
        if len == 0 || layout.align() > CELL {
            return None;
        }
        let old = Block { start: self.start_of(block), len };
        let wanted = Size::cells_for(new_layout.size())?;
        let all = self.heap.extend_downwards(old, wanted, &backing.meter)?;
        let moved = self.contents(all.start);
        // SAFETY: the extended block has the old one in it, whose contents are untouched, and is
        // long enough for the new size; the two places may overlap.
        unsafe { moved.copy_from(block, layout.size().min(new_layout.size())) };
        let new = self.heap.trim(all, Block { start: all.start, len: wanted }, &backing.meter);
        let bytes = Change { old: Size::bytes(len), new: Size::bytes(new.len) };
        Some(Resized::whole(moved, bytes))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, backing: &Backing<S, M>) -> bool {
        let address = block.addr().get();
        match self.heap.find_in_use(address) {
            Some(found) => Size::cells_for(layout.size())
                .is_some_and(|cells| cells == found.len || cells + 1 == found.len),
            None => mapped::find(&backing.source, address).is_some_and(|len| layout.size() <= len),
        }
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heap.walk(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit()
    }
}
