//! The code that all strategies share: [`Heap`] implements [`Strategy`] around an [`Engine`].
//!
//! ```text
//!  program ──▶ Heap: size 0, alignment, counts, moves, walk and audit
//!                │ Engine: which memory serves which request
//!                └ Backing: source, meter, tally
//! ```
//! An engine implements what a paper describes: it finds memory for a block and takes the memory
//! back. The heap serves requests of size 0 itself.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::error::{AllocError, Fault, FreeResult};
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::{Span, SpanKind, Strategy, Usage, empty_block, move_to_another};
use crate::tally::{Change, Tally};
use crate::walk;

/// A strategy: the engine `E` over a source, metered by `M`.
///
/// The strategies of the [`catalogue`](crate::catalogue) are heaps of this type. The module of each
/// strategy documents how to create one, and its methods in addition to [`Strategy`].
#[derive(Debug)]
pub struct Heap<E, S, M = ()> {
    pub(crate) engine: E,
    pub(crate) backing: Backing<S, M>,
}

/// The parts of a heap other than its engine.
#[derive(Debug)]
pub struct Backing<S, M> {
    pub(crate) source: Owned<S>,
    pub(crate) meter: M,
    pub(crate) tally: Tally,
}

/// A block that an engine has allocated.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The part of the block that the program gets.
    pub(crate) contents: NonNull<[u8]>,
    /// Bytes of the whole block. They exceed the contents if there is a gap in front.
    pub(crate) bytes: usize,
    /// The part of the strategy that served the request.
    pub(crate) part: Part,
}

/// A block whose size an engine has changed.
#[derive(Clone, Copy, Debug)]
pub struct Resized {
    /// The part of the block that the program has now.
    pub(crate) contents: NonNull<[u8]>,
    /// Bytes of the whole block.
    pub(crate) bytes: Change,
}

impl Served {
    /// Returns a block that consists only of contents.
    #[inline(always)]
    pub(crate) fn whole(block: NonNull<u8>, bytes: usize, part: Part) -> Self {
        Self { contents: NonNull::slice_from_raw_parts(block, bytes), bytes, part }
    }
}

impl Resized {
    /// Returns a block that consists only of contents, with the change of its length.
    #[inline(always)]
    pub(crate) fn whole(block: NonNull<u8>, bytes: Change) -> Self {
        Self { contents: NonNull::slice_from_raw_parts(block, bytes.new), bytes }
    }
}

/// The part in which strategies differ. Only [`allocate`](Self::allocate) gets layouts of size 0.
///
/// # Safety
/// Implementers give the same guarantees for their blocks as implementers of [`Strategy`]. They
/// take memory only from the backing's source, and all of their blocks are in that memory.
pub unsafe trait Engine<S: Source, M: Meter>: Sized {
    /// Whether [`slide`](Self::slide) is the last resort, tried only if there is no memory to move
    /// a block to. Otherwise it is tried first.
    const SLIDES_LAST: bool = false;

    /// Serves a request of any size, including 0. By default calls [`Heap::serve`]. An engine with
    /// a faster path tries that one first.
    ///
    /// # Errors
    /// As for [`Strategy::allocate`].
    #[inline(always)]
    fn allocate(heap: &mut Heap<Self, S, M>, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        heap.serve(layout)
    }

    /// Allocates a block for a layout. The caller [counts](Backing::served) it.
    ///
    /// # Errors
    /// As for [`Strategy::allocate`].
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError>;

    /// Frees a block and [counts](Backing::freed) it.
    ///
    /// # Safety
    /// As for [`Strategy::deallocate`].
    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout);

    /// Resizes a block in place, if the result suits the new size as well as a new block would.
    ///
    /// # Safety
    /// As for [`Strategy::resize_in_place`]. Both layouts have the same alignment, unless
    /// [`keep`](Self::keep) is the caller.
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized>;

    /// Resizes a block in place even if the result suits the new layout badly, because there is no
    /// memory to move it to. Its address is aligned for the new layout.
    ///
    /// # Safety
    /// As for [`Strategy::keep`].
    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.resize(block, layout, new_layout, backing) }
    }

    /// Resizes a block by moving it, with its contents, into adjacent free memory.
    ///
    /// # Safety
    /// As for [`Strategy::relocate`].
    unsafe fn slide(
        &mut self,
        _block: NonNull<u8>,
        _layout: Layout,
        _new_layout: Layout,
        _backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        None
    }

    /// See [`Strategy::has_block`].
    fn has_block(&self, block: NonNull<u8>, layout: Layout, backing: &Backing<S, M>) -> bool;

    /// Returns whether the caller may free this block, which is in use. Only an engine whose blocks
    /// have owners returns `false`.
    #[inline(always)]
    fn may_free(&self, _block: NonNull<u8>) -> bool {
        true
    }

    /// Calls `visit` for every span of the source's extent, in address order.
    fn walk(&self, visit: &mut dyn FnMut(Span));

    /// Checks the invariants of the engine's own structures.
    ///
    /// # Errors
    /// As for [`Strategy::audit`].
    fn audit(&self) -> Result<(), Fault>;
}

impl<E, S, M> Heap<E, S, M> {
    /// Returns a heap that has no memory yet.
    pub(crate) const fn over(engine: E, source: S, meter: M) -> Self {
        let backing = Backing { source: Owned::new(source), meter, tally: Tally::new() };
        Self { engine, backing }
    }

    /// Returns the source of the heap's memory.
    pub const fn source(&self) -> &S {
        self.backing.source.get()
    }
}

impl<S: Source, M: Meter> Backing<S, M> {
    /// Counts an allocated block, and returns its contents.
    #[inline(always)]
    pub(crate) fn served(&mut self, layout: Layout, block: Served) -> NonNull<[u8]> {
        self.meter.served(block.part);
        self.tally.allocated(layout.size(), block.bytes);
        block.contents
    }

    /// Counts a freed block: `requested` is the size that the program requested, `bytes` that of
    /// the whole block.
    #[inline(always)]
    pub(crate) fn freed(&mut self, requested: usize, bytes: usize, part: Part) {
        self.meter.served(part);
        self.tally.freed(requested, bytes);
    }

    /// Counts a block whose layout changed, and returns its contents.
    #[inline(always)]
    fn resized(&mut self, layout: Layout, new_layout: Layout, block: Resized) -> NonNull<[u8]> {
        let requested = Change { old: layout.size(), new: new_layout.size() };
        self.tally.resized(requested, block.bytes);
        block.contents
    }
}

impl<E: Engine<S, M>, S: Source, M: Meter> Heap<E, S, M> {
    /// Serves a request of any size, including 0.
    #[inline]
    pub(crate) fn serve(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        let served = self.engine.take(layout, &mut self.backing)?;
        Ok(self.backing.served(layout, served))
    }

    /// Resizes a block by moving it into adjacent free memory.
    ///
    /// # Safety
    /// As for [`Strategy::relocate`].
    unsafe fn slide(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        // SAFETY: the caller guarantees that the rounded size does not overflow.
        let new_layout = unsafe { resized(layout, new_size)? };
        // SAFETY: the caller gives the same guarantees.
        let moved = unsafe { self.engine.slide(block, layout, new_layout, &mut self.backing)? };
        Some(self.backing.resized(layout, new_layout, moved))
    }
}

/// Returns the layout with another size; `None` if either size is 0, since there is no block then.
///
/// # Safety
/// The new size, rounded up to the alignment, does not overflow `isize`.
#[inline(always)]
unsafe fn resized(layout: Layout, new_size: usize) -> Option<Layout> {
    if layout.size() == 0 || new_size == 0 {
        return None;
    }
    // SAFETY: the caller guarantees that the rounded size does not overflow.
    Some(unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) })
}

// SAFETY: the engine gives the guarantees; its blocks are in the source's extent or mappings, which
// only this heap uses.
unsafe impl<E: Engine<S, M>, S: Source, M: Meter> Strategy for Heap<E, S, M> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        E::allocate(self, layout)
    }

    #[inline]
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        // SAFETY: the caller gives the same guarantees.
        unsafe { E::free(self, block, layout) };
    }

    #[inline]
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        // SAFETY: the caller guarantees that the rounded size does not overflow.
        let new_layout = unsafe { resized(layout, new_size)? };
        // SAFETY: the caller gives the same guarantees.
        let block = unsafe { self.engine.resize(block, layout, new_layout, &mut self.backing)? };
        Some(self.backing.resized(layout, new_layout, block))
    }

    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if !E::SLIDES_LAST {
            // SAFETY: the caller gives the same guarantees.
            if let Some(moved) = unsafe { self.slide(block, layout, new_size) } {
                return Ok(moved);
            }
        }
        // SAFETY: the caller gives the same guarantees; the block is unchanged.
        let moved = unsafe { move_to_another(self, block, layout, new_size) };
        match moved {
            // SAFETY: as above.
            Err(error) if E::SLIDES_LAST => unsafe {
                self.slide(block, layout, new_size).ok_or(error)
            },
            moved => moved,
        }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        let aligned = block.addr().get().is_multiple_of(new_layout.align());
        if layout.size() == 0 || new_layout.size() == 0 || !aligned {
            return None;
        }
        // SAFETY: the caller gives the same guarantees.
        let kept = unsafe { self.engine.keep(block, layout, new_layout, &mut self.backing)? };
        Some(self.backing.resized(layout, new_layout, kept))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.engine.has_block(block, layout, &self.backing)
    }

    fn serves_around(&self, block: NonNull<u8>) -> Option<usize> {
        let address = block.addr().get();
        let extent = self.backing.source.extent();
        let mut around = extent.contains(&address).then(|| extent.len());
        self.backing.source.mapped(&mut |mapping, mapped| {
            if mapped == address {
                // A strategy may have the whole block as its memory, and must count as smaller.
                around = Some(mapping.len() + 1);
            }
        });
        around
    }

    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        if !self.is_in_use(block, layout) {
            return FreeResult::Unallocated;
        }
        if !self.engine.may_free(block) {
            return FreeResult::NotOwner;
        }
        // SAFETY: a block in use that fits this layout starts there, and the caller does not use it
        // any more.
        unsafe { self.deallocate(block, layout) };
        self.backing.tally.note_unknown_layout();
        FreeResult::Freed
    }

    #[inline]
    fn usage(&self) -> Usage {
        let Backing { source, tally, .. } = &self.backing;
        tally.usage(source.held(), source.peak_held())
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let source = &self.backing.source;
        let origin = source.extent().start;
        walk_mapped(source, visit, |mapping| mapping < origin);
        self.engine.walk(visit);
        let dedicated = source.dedicated();
        if !dedicated.is_empty() {
            visit(Span { start: dedicated.start, len: dedicated.len(), kind: SpanKind::Header });
        }
        walk_mapped(source, visit, |mapping| mapping >= origin);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.engine.audit()?;
        walk::check(self)
    }
}

/// Calls `visit` for the spans of each mapping whose start address is `chosen`: bookkeeping, and
/// the block above it.
fn walk_mapped<S: Source>(source: &S, visit: &mut dyn FnMut(Span), chosen: impl Fn(usize) -> bool) {
    source.mapped(&mut |mapping, block| {
        if chosen(mapping.start) {
            let header = block - mapping.start;
            visit(Span { start: mapping.start, len: header, kind: SpanKind::Header });
            visit(Span { start: block, len: mapping.end - block, kind: SpanKind::Block });
        }
    });
}
