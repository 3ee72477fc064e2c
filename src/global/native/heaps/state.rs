//! The state that a heap's lock protects: the engine; the [`Purge`], which decides what free memory
//! goes back to the system, and when; and the [`Zeros`], which knows what free memory is zeros.
//! Each call leaves the three consistent.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::rest::Rest;
use crate::Usage;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Visit;
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::purge::{self, Granularity, Plan, Purge};
use crate::global::native::memory::slot::Slot;
use crate::global::native::memory::space::SPACE;
use crate::global::native::memory::zero::{KnownZeros, Zeros};
use crate::global::tuning::{Tuning, UNIT, unit_of};
use crate::os;
use crate::pages::{Config, PageHeap};
use crate::source::Source;
use crate::strategy::Strategy;

/// The state of a heap.
#[derive(Debug)]
pub(in crate::global::native) struct State {
    /// The blocks, free and in use, in the memory of a slot.
    engine: PageHeap<Slot>,
    /// Decides when free memory goes back to the system.
    purge: Purge,
    /// Which of the free OS pages are known to be zeros.
    zeros: Zeros,
    /// Whether free memory became a page or a block that is not small since this was last
    /// [asked](Self::take_spare).
    is_wanted: bool,
    /// When lists are asked again to make way before the heap grows.
    rest: Rest,
}

/// What freeing a block that is not small comes to.
#[derive(Clone, Copy, Debug)]
pub(in crate::global::native) struct Deallocated {
    /// Bytes of the block.
    pub(in crate::global::native) bytes: usize,
    /// Bytes of free memory that should go back at once.
    pub(in crate::global::native) surplus: usize,
}

/// Returns whether a block is small.
#[inline(always)]
fn is_small(block: NonNull<u8>) -> bool {
    SPACE.list_of(block.as_ptr()) != Some(0)
}

/// Returns the layout to request instead of one that is not small: see
/// [`paired`](PageHeap::paired). `None` if there is none.
#[inline(always)]
fn paired(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(PageHeap::<Slot>::paired(layout.size()), layout.align()).ok()
}

/// Returns the configuration of a heap's pages. Hardened mode keeps a state for each unit, so its
/// classes are whole units. So are those of pages too large for blocks of one unit: there the class
/// of half a unit less may be missing, behind which an odd one has to come.
fn config(tuning: &Tuning) -> Config {
    let has_units = PageHeap::<Slot>::least_block(tuning.pages.page_size) <= UNIT;
    let unit =
        if mode::is_hardened() || !has_units { UNIT } else { unit_of(&tuning.pages.sizemap) };
    tuning.pages.unit(unit)
}

impl State {
    /// Makes a state for this memory, without an engine in it yet: see [`begin`](Self::begin).
    #[inline(always)]
    pub(super) fn new(memory: Slot, tuning: &Tuning) -> Self {
        Self {
            zeros: Zeros::new(memory.extent().start),
            engine: PageHeap::new(config(tuning), memory, ()),
            purge: Purge::new(tuning.purge_delay),
            is_wanted: false,
            rest: Rest::new(),
        }
    }

    /// Begins the engine. If the memory does not suffice for its bookkeeping, gives the memory up
    /// and returns `None`.
    pub(super) fn begin(&mut self) -> Option<()> {
        self.engine.vet_all();
        if mode::pins() {
            self.engine.pin_pages();
        }
        if self.engine.open().is_err() {
            // SAFETY: nothing uses this memory.
            unsafe { self.engine.source().give_up() };
            return None;
        }
        Some(())
    }

    /// Runs `action`, which takes memory, while the heap may not grow. Returns its result, and
    /// whether anything was refused for that.
    #[inline]
    pub(in crate::global::native) fn without_growth<R>(
        &mut self,
        action: impl FnOnce(&mut Self) -> R,
    ) -> (R, bool) {
        self.engine.source().bar_growth();
        let result = action(self);
        (result, self.engine.source().allow_growth())
    }

    /// Counts a use of the heap that takes memory; returns whether lists [rest](Rest) in it.
    #[inline]
    pub(in crate::global::native) fn count_use_at_rest(&mut self) -> bool {
        let free = self.free_bytes();
        self.rest.count_use(free)
    }

    /// Runs `action`, which takes memory while lists rest.
    #[inline]
    pub(in crate::global::native) fn take_at_rest<R>(
        &mut self,
        action: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let held = self.engine.usage().held;
        let result = action(self);
        if self.engine.usage().held > held {
            self.rest.count_growth();
        }
        result
    }

    /// Lets lists rest after they made way, which takes them as long as `growths` growths of the
    /// heap, at least one.
    pub(in crate::global::native) fn let_lists_rest(&mut self, growths: usize) {
        self.rest.begin(growths);
    }

    /// Lets lists rest that stayed, until the heap has `more` free bytes than now.
    pub(in crate::global::native) fn let_lists_stay(&mut self, more: usize) {
        self.rest.begin_as_lists_stay(self.free_bytes().saturating_add(more));
    }

    /// Returns the bytes that the heap has and no block in use, or on a list, takes.
    #[inline]
    pub(in crate::global::native) fn free_bytes(&self) -> usize {
        let usage = self.engine.usage();
        usage.held - usage.block
    }

    /// Returns the bytes of a page.
    pub(in crate::global::native) fn page_size(&self) -> usize {
        self.engine.config().page_size
    }

    /// Allocates a block that is not small.
    pub(in crate::global::native) fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.allocate_with(layout, |_, _| ())
    }

    /// As [`allocate`](Self::allocate), from memory that the heap has; `None` if it would have to
    /// grow.
    pub(in crate::global::native) fn allocate_held(
        &mut self,
        layout: Layout,
    ) -> Option<NonNull<u8>> {
        let layout = paired(layout)?;
        let allocated = self.engine.allocate_held(layout)?;
        self.purge.note_usage(&self.engine);
        Some(self.hand_out(allocated, layout.size(), false))
    }

    /// Allocates up to `most` blocks of `layout`, which are not small. If there is free memory
    /// behind the first, they are adjacent to it; if not, the others come from free memory anywhere
    /// in the heap, which does not grow for them. Returns the first, which is the lowest of adjacent
    /// ones, and calls `visit` for each of the others. O(most).
    pub(in crate::global::native) fn allocate_run(
        &mut self,
        layout: Layout,
        most: usize,
        mut visit: impl FnMut(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        let first = self.allocate(layout)?;
        if most > 1 {
            let whole = PageHeap::<Slot>::tagged_size_of_run(layout.size(), most);
            // SAFETY: the block was just allocated, and is as long as the run once it was resized.
            let extended = unsafe {
                self.resize_and(first, whole, |state| {
                    state.engine.divide_tagged(first, layout.size(), most, &mut visit);
                })
            };
            if extended == Some(false) {
                self.allocate_apart(layout, most - 1, visit);
            }
        }
        Some(first)
    }

    /// Allocates up to `most` blocks of `layout`, which are not small, from free memory that the
    /// heap has, and calls `visit` for each.
    fn allocate_apart(&mut self, layout: Layout, most: usize, mut visit: impl FnMut(NonNull<u8>)) {
        let Some(layout) = paired(layout) else { return };
        for _ in 0..most {
            let Some(allocated) = self.engine.allocate_tagged(layout) else { break };
            self.note_allocated(allocated);
            visit(allocated.cast());
        }
        self.purge.note_usage(&self.engine);
    }

    /// Allocates a block that is not small, and copies to `known` which of its OS pages are known
    /// to be zeros.
    pub(in crate::global::native) fn allocate_known(
        &mut self,
        layout: Layout,
        known: &mut KnownZeros,
    ) -> Option<NonNull<u8>> {
        self.allocate_with(layout, |zeros, block| {
            zeros.copy_known(block.addr().get()..block.addr().get() + layout.size(), known);
        })
    }

    /// Allocates a block that is not small, and calls `ask` with it before it counts as in use.
    #[inline(always)]
    fn allocate_with(
        &mut self,
        layout: Layout,
        ask: impl FnOnce(&Zeros, NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        let layout = paired(layout)?;
        let held = self.engine.usage().held;
        let allocated = self.growing(layout.size(), |state| state.engine.allocate(layout));
        let end = self.engine.source().extent().end;
        let Ok(allocated) = allocated else {
            if !self.engine.source().is_growth_refused() {
                self.zeros.forget(end);
            }
            return None;
        };
        self.zeros.note_extended(self.engine.first_block(), end);
        ask(&self.zeros, allocated.cast());
        let is_extended = self.engine.usage().held > held;
        Some(self.hand_out(allocated, layout.size(), is_extended))
    }

    /// Notes that a block of `size` bytes, which is not small, has just been allocated, and returns
    /// it. `is_extended` tells whether the heap took more memory for it.
    #[inline(always)]
    fn hand_out(
        &mut self,
        allocated: NonNull<[u8]>,
        size: usize,
        is_extended: bool,
    ) -> NonNull<u8> {
        let block = allocated.cast::<u8>();
        let start = block.addr().get();
        if size >= purge::LARGE && !is_extended {
            self.note_reused(start..start + size);
        }
        self.note_allocated(allocated);
        if size >= purge::LARGE {
            match is_extended {
                true => self.engine.source().huge().advise_new_block(block.as_ptr(), size),
                false => self.engine.source().huge().unadvise_reused_block(block.as_ptr(), size),
            }
        }
        block
    }

    /// Notes that a block which is not small has just been allocated: its memory is in use.
    #[inline(always)]
    fn note_allocated(&mut self, allocated: NonNull<[u8]>) {
        let block = allocated.cast::<u8>();
        let start = block.addr().get();
        self.zeros.note_used(start..start + allocated.len());
        SPACE.set_list(block.as_ptr(), allocated.len(), 0);
        self.is_wanted = true;
    }

    /// Tells the purge if the free memory that a large block just got had gone back to the system.
    /// Looks at the OS page in its middle.
    #[cold]
    fn note_reused(&mut self, memory: Range<usize>) {
        let (page, middle) = (os::page_size(), memory.start.midpoint(memory.end));
        let middle = middle & !(page - 1);
        if self.zeros.skip(middle..middle + page) > middle {
            self.purge.note_reused();
        }
    }

    /// Frees a block that is not small; `None` if it is not in use.
    ///
    /// # Safety
    /// The block was [allocated](Self::allocate) here, and is freed once.
    pub(in crate::global::native) unsafe fn deallocate(
        &mut self,
        block: NonNull<u8>,
    ) -> Option<Deallocated> {
        // SAFETY: the caller gives the guarantees that `release` asks for.
        let bytes = unsafe { self.release(block)? };
        Some(Deallocated { bytes, surplus: self.purge.note_freed(&self.engine, bytes) })
    }

    /// Frees blocks that are not small, those that adjoin the one before as one; returns how many
    /// bytes of free memory should go back at once. O(blocks).
    ///
    /// # Errors
    /// The first block that is not in use, or lies beside damage; those before it are free.
    ///
    /// # Safety
    /// As for [`deallocate`](Self::deallocate), for each.
    pub(in crate::global::native) unsafe fn deallocate_all(
        &mut self,
        mut blocks: &[NonNull<u8>],
    ) -> Result<usize, NonNull<u8>> {
        let before = self.engine.usage().block;
        while let Some(&first) = blocks.first() {
            // SAFETY: the caller guarantees that the blocks were allocated here and are freed once.
            let count = unsafe { self.engine.free_tagged_run(blocks) }.map_err(|_| first)?;
            blocks = &blocks[count..];
        }
        let bytes = before - self.engine.usage().block;
        Ok(self.purge.note_freed(&self.engine, bytes))
    }

    /// Frees a block that is not small, without asking the purge; returns its bytes, `None` if it
    /// is not in use.
    ///
    /// # Safety
    /// As for [`deallocate`](Self::deallocate).
    unsafe fn release(&mut self, block: NonNull<u8>) -> Option<usize> {
        let before = self.engine.usage().block;
        // SAFETY: the caller guarantees that the block was allocated here and is freed once.
        unsafe { self.engine.free_tagged(block) }.ok()?;
        Some(before - self.engine.usage().block)
    }

    /// Fills `blocks` with blocks of a class for quick list `list`, as far as there are any;
    /// returns their number. The lowest addresses come last, because they should be used first.
    #[inline]
    pub(in crate::global::native) fn take(
        &mut self,
        class: u32,
        list: u32,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        let Self { engine, zeros, is_wanted, .. } = self;
        let page_size = engine.config().page_size;
        // All memory of small blocks' pages gets written, so as many bytes as they have may be huge
        // pages.
        engine.source().huge().allow(engine.page_bytes());
        let taken = engine.take_batch(class, blocks, |page, whole| {
            // A page that has blocks in use has its entries already; while there is a profile, some
            // may name shadows.
            if whole {
                SPACE.forget_states(page, page_size);
                SPACE.set_list(page, page_size, list);
                *is_wanted = true;
            }
            zeros.note_used(page.addr()..page.addr() + page_size);
        });
        engine.source().huge().allow(0);
        if taken == blocks.len() || engine.source().is_growth_refused() {
            zeros.note_extended_unknown(engine.source().extent().end);
        } else {
            // A page may have been made and given up again.
            zeros.forget(engine.source().extent().end);
        }
        taken
    }

    /// Puts back small blocks of this heap.
    ///
    /// # Errors
    /// The first of `blocks` that is free, or at which no block starts.
    ///
    /// # Safety
    /// The blocks were [taken](Self::take), and are put back once.
    #[inline]
    pub(in crate::global::native) unsafe fn put(
        &mut self,
        blocks: &[NonNull<u8>],
    ) -> Result<(), NonNull<u8>> {
        // SAFETY: the caller guarantees that the blocks were taken here and are put back once.
        unsafe { self.engine.free_batch(blocks) }
    }

    /// Puts back a block of any size.
    ///
    /// # Errors
    /// The block, if it is not in use.
    ///
    /// # Safety
    /// The block was allocated here, and is freed once.
    pub(super) unsafe fn put_back(&mut self, block: NonNull<u8>) -> Result<(), NonNull<u8>> {
        // SAFETY: the caller guarantees that the block was allocated here and is freed once.
        unsafe {
            match SPACE.list_of(block.as_ptr()) {
                Some(0) => self.release(block).map(|_| ()).ok_or(block),
                _ => self.put(&[block]),
            }
        }
    }

    /// Puts back blocks of any sizes.
    ///
    /// # Errors
    /// One of `blocks` that is not in use.
    ///
    /// # Safety
    /// The blocks were allocated here, and are freed once.
    pub(in crate::global::native) unsafe fn put_any(
        &mut self,
        blocks: &[NonNull<u8>],
    ) -> Result<(), NonNull<u8>> {
        // They come in runs of small blocks, or of others.
        blocks.chunk_by(|a, b| is_small(*a) && is_small(*b)).try_for_each(|blocks| match blocks {
            // SAFETY: the caller guarantees that the block was allocated here and is freed once.
            &[block] => unsafe { self.put_back(block) },
            // SAFETY: as above; a run of several blocks consists of small ones.
            _ => unsafe { self.put(blocks) },
        })
    }

    /// Resizes a block that is not small to `new_size` bytes in place; returns whether that was
    /// possible. `None` if the block is not in use.
    ///
    /// # Safety
    /// The block was [allocated](Self::allocate) here, and not freed.
    pub(in crate::global::native) unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        new_size: usize,
    ) -> Option<bool> {
        // SAFETY: the callee has the same contract.
        unsafe { self.resize_and(block, new_size, |_| ()) }
    }

    /// As [`resize_in_place`](Self::resize_in_place), and calls `then` if that was possible, before
    /// the bytes in use are noted.
    ///
    /// # Safety
    /// As for [`resize_in_place`](Self::resize_in_place).
    unsafe fn resize_and(
        &mut self,
        block: NonNull<u8>,
        new_size: usize,
        then: impl FnOnce(&mut Self),
    ) -> Option<bool> {
        let new_size = PageHeap::<Slot>::paired(new_size);
        let len = self.len_of(block)?;
        // SAFETY: the caller guarantees that the block was allocated here and not freed.
        if !unsafe { self.engine.is_tagged_sound(block) } {
            return Some(false);
        }
        let more = new_size.saturating_sub(len);
        let huge = self.engine.source().huge();
        let may_be_huge =
            more >= HUGE / 2 && huge.may_be_huge_below(block.addr().get().wrapping_add(new_size));
        if may_be_huge && huge::is_dense(block.as_ptr(), len) {
            // If the block was written all over, the part that is added probably will be, so it may
            // be huge pages.
            huge.allow(huge.advised() + more);
        }
        let mut new_len = len;
        // SAFETY: the caller guarantees that the block is in use. Its length is far below
        // `isize::MAX`, and is one that `allocate` could have been asked for.
        let resized = self.growing(new_size, |state| unsafe {
            let layout = Layout::from_size_align_unchecked(len, UNIT);
            let resized = state.engine.resize_in_place(block, layout, new_size).is_some();
            if resized {
                new_len = state.engine.block_size(block);
                then(state);
            }
            resized
        });
        self.engine.source().huge().allow(0);
        self.zeros.note_extended(self.engine.first_block(), self.engine.source().extent().end);
        let changed = changed(block.addr().get(), len, new_len);
        if new_len > len {
            SPACE.set_list(block.as_ptr().with_addr(changed.start), changed.len(), 0);
        }
        self.zeros.note_used(changed);
        Some(resized)
    }

    /// Returns the bytes of a block that is not small; `None` if it is not in use.
    pub(in crate::global::native) fn len_of(&self, block: NonNull<u8>) -> Option<usize> {
        // SAFETY: the block was allocated here; its size is read only if it is in use.
        unsafe { self.engine.is_tagged_in_use(block).then(|| self.engine.block_size(block)) }
    }

    /// Returns a block next to which the heap's own words were overwritten, if that was noticed.
    #[inline]
    pub(super) fn damaged(&self) -> Option<*mut u8> {
        self.engine.damaged()
    }

    /// Returns how many blocks and bytes are in use, held and requested.
    #[inline]
    pub(in crate::global::native) fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// Returns the number of size classes.
    pub(super) fn classes(&self) -> u32 {
        self.engine.classes()
    }

    /// Returns the block size of a class in bytes.
    pub(super) fn class_size(&self, class: u32) -> usize {
        self.engine.class_size(class)
    }

    /// Calls `visit` for each page with its class, its block size in bytes, its size in bytes, and
    /// the number of its blocks that are not free. O(pages).
    pub(super) fn for_each_page(&self, visit: &mut dyn FnMut(u32, usize, usize, usize)) {
        let bytes = self.engine.config().page_size;
        self.engine.for_each_page(&mut |class, in_use| {
            visit(class, self.engine.class_size(class), bytes, in_use as usize);
        });
    }

    /// Returns the addresses of the heap's memory: of its extent, and of the part dedicated to its
    /// bookkeeping.
    pub(super) fn memory(&self) -> (Range<usize>, Range<usize>) {
        let source = self.engine.source();
        (source.extent(), source.dedicated())
    }

    /// Returns the bytes of free memory given back to the system since the beginning.
    pub(in crate::global::native) fn purged(&self) -> u64 {
        self.purge.purged()
    }

    /// Returns the bytes that may be resident.
    #[inline]
    pub(super) fn most_resident(&self) -> usize {
        self.purge.most_resident(self.engine.usage().block)
    }

    /// Tells the purge how much is in use; returns the bytes that the heap has grown by since the
    /// last report, once they are enough for one.
    #[inline]
    pub(in crate::global::native) fn take_growth(&mut self) -> Option<usize> {
        self.purge.note_usage(&self.engine);
        self.purge.take_growth()
    }

    /// If free memory was wanted since the last call, returns how many bytes are left beyond a
    /// margin: an eighth of those in use, at least [`LARGE`](purge::LARGE).
    #[inline]
    pub(in crate::global::native) fn take_spare(&mut self) -> Option<usize> {
        core::mem::take(&mut self.is_wanted).then(|| {
            let used = self.usage().block;
            (self.most_resident() - used).saturating_sub(purge::LARGE.max(used / 8))
        })
    }

    /// Counts a use; returns whether it is time to [plan](Self::plan_purge).
    #[inline]
    pub(in crate::global::native) fn tick(&mut self) -> bool {
        self.purge.tick(&self.engine)
    }

    /// Decides whether memory should go back now or later.
    pub(in crate::global::native) fn plan_purge(&mut self) -> Plan {
        self.purge.plan(&self.engine)
    }

    /// Returns whether memory is going back.
    pub(super) fn is_purging(&self) -> bool {
        self.purge.is_under_way()
    }

    /// Returns whether a purge that should begin may be put off to the next visit; counts it.
    pub(in crate::global::native) fn try_put_off_purge(&mut self) -> bool {
        self.purge.try_put_off()
    }

    /// Notes that less memory went back at a free than should have.
    pub(in crate::global::native) fn note_remainder(&mut self) {
        self.purge.note_remainder();
    }

    /// Returns the bytes of that remainder, which should go back now; afterwards there is none.
    pub(in crate::global::native) fn take_remainder(&mut self) -> usize {
        self.purge.take_remainder(&self.engine)
    }

    /// Returns the milliseconds until memory is due to go back; `None` if none is unless the heap
    /// changes.
    pub(super) fn purge_due_in(&self) -> Option<u64> {
        self.purge.due_in()
    }

    /// Begins a purge of all free memory; returns the bytes that had been given back before.
    pub(super) fn begin_purge(&mut self) -> u64 {
        self.purge.begin(&mut self.engine);
        self.purge.purged()
    }

    /// Does a step of the purge under way; returns whether there are more.
    pub(super) fn purge_step(&mut self, visit: &mut Visit) -> bool {
        self.purge.step(&mut self.engine, &mut self.zeros, visit)
    }

    /// Does a step of a purge that gives back pieces of this granularity; returns the bytes given
    /// back, and whether there is more.
    pub(in crate::global::native) fn purge_step_partial(
        &mut self,
        visit: &mut Visit,
        granularity: Granularity,
    ) -> (usize, bool) {
        self.purge.step_partial(&mut self.engine, &mut self.zeros, visit, granularity)
    }

    /// Gives back a [huge page](Purge::give_back_huge_page) of free memory; returns the bytes given
    /// back.
    pub(in crate::global::native) fn give_back_huge_page(&mut self, visit: &mut Visit) -> usize {
        self.purge.give_back_huge_page(&self.engine, &mut self.zeros, visit)
    }

    /// Returns whether threads' lists should be emptied now; [`collect`](Self::collect) should
    /// follow.
    pub(in crate::global::native) fn start_trim_if_due(&mut self) -> bool {
        self.purge.start_trim_if_due()
    }

    /// Makes pages without blocks free memory.
    pub(in crate::global::native) fn collect(&mut self) {
        self.engine.release_empty_pages();
    }

    /// Gives back about `wanted` bytes of large free blocks, because as many were mapped beside the
    /// heap. Returns whether that was [worth while](Purge::give_back_large).
    pub(in crate::global::native) fn give_back_large(&mut self, wanted: usize) -> bool {
        self.purge.give_back_large(&self.engine, &mut self.zeros, wanted)
    }

    /// Notes that memory went back because `wanted` bytes were mapped beside the heap.
    pub(in crate::global::native) fn note_given_back_for(&mut self, wanted: usize) {
        self.purge.note_given_back_for(wanted);
    }

    /// Returns the engine and the known zeros, for a test that purges by itself.
    #[cfg(all(test, not(miri), target_pointer_width = "64"))]
    pub(in crate::global::native) fn split(&mut self) -> (&mut PageHeap<Slot>, &mut Zeros) {
        (&mut self.engine, &mut self.zeros)
    }

    /// Runs `action`, which allocates or grows a block of `size` bytes. If the heap has grown for a
    /// large one, gives as much free memory back.
    #[inline]
    fn growing<R>(&mut self, size: usize, action: impl FnOnce(&mut Self) -> R) -> R {
        let held = self.engine.usage().held;
        let result = action(self);
        self.purge.note_usage(&self.engine);
        if size >= purge::LARGE && self.engine.usage().held > held {
            self.give_back_large(self.engine.usage().held - held);
        }
        result
    }
}

/// Returns the memory by which a block at `start` became longer or shorter. The rest of the block
/// is known to be in use. It is not looked at, since a long block may grow by a little, many times.
fn changed(start: usize, len: usize, new_len: usize) -> Range<usize> {
    start + len.min(new_len)..start + len.max(new_len)
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;
    use crate::global::native::base::sizes;
    use crate::global::native::on_a_heap::on_a_heap;

    /// The remainder of what should have gone back at a free is given back once.
    #[test]
    fn a_remainder_is_taken_once() {
        on_a_heap(|state| {
            let layout = Layout::from_size_align(6 << 20, UNIT).expect("it is one");
            let block = state.allocate(layout).expect("there is memory");
            state.take_growth();
            // SAFETY: the block is freed once.
            unsafe { state.deallocate(block) }.expect("it is in use");
            assert_eq!(state.take_remainder(), 0);
            state.note_remainder();
            state.note_remainder();
            assert!(state.take_remainder() >= layout.size());
            assert_eq!(state.take_remainder(), 0);
        });
    }

    /// One in sixteen uses of a heap plans what goes back.
    #[test]
    fn few_uses_plan_a_purge() {
        on_a_heap(|state| assert_eq!((0..160).filter(|_| state.tick()).count(), 10));
    }

    /// A large block in new memory, or in memory that did not go back, says nothing about memory
    /// that did.
    #[test]
    fn memory_that_stayed_is_not_used_again() {
        on_a_heap(|state| {
            let layout = Layout::from_size_align(8 << 20, UNIT).expect("it is one");
            for _ in 0..2 {
                state.note_given_back_for(3 << 20);
                let block = state.allocate(layout).expect("there is memory");
                // SAFETY: the block has this many bytes, and is freed once.
                unsafe {
                    block.write_bytes(1, layout.size());
                    state.deallocate(block).expect("it is in use");
                }
            }
            assert!(state.give_back_large(3 << 20), "it is not known to be in vain");
        });
    }

    /// A request that is refused because the heap may not grow leaves everything as it was, also
    /// which memory is known to be zeros.
    #[test]
    fn a_heap_that_may_not_grow_loses_nothing() {
        on_a_heap(|state| {
            let layout = |size| Layout::from_size_align(size, UNIT).expect("it is one");
            let block = state.allocate(layout(8 << 20)).expect("there is memory");
            // SAFETY: the block has this many bytes, and is freed once.
            unsafe {
                block.write_bytes(1, 8 << 20);
                state.deallocate(block).expect("it is in use");
            }
            assert!(state.give_back_large(8 << 20));
            let middle = block.addr().get() + (4 << 20);
            let known = |state: &State| {
                let middle = middle & !(os::page_size() - 1);
                state.zeros.skip(middle..middle + os::page_size()) > middle
            };
            assert!(known(state) || !os::DISCARDED_ARE_ZEROS);
            let (before, known_before) = (state.usage(), known(state));
            let (block, is_refused) =
                state.without_growth(|state| state.allocate(layout(64 << 20)));
            assert!(block.is_none() && is_refused);
            assert_eq!((state.usage().held, known(state)), (before.held, known_before));
        });
    }

    /// Only what was added or removed is looked at when a block is resized. (Regression: all of it
    /// was, so a buffer of 200 MiB that grew by 80 bytes at a time took 22 times as long as with
    /// glibc.)
    #[test]
    fn a_block_changes_at_its_end() {
        let (start, len) = (1 << 30, 200 << 20);
        for new_len in [0, 16, len - 16, len, len + 16, 2 * len] {
            let changed = changed(start, len, new_len);
            assert_eq!(changed.len(), new_len.abs_diff(len));
            assert_eq!(changed.start, start + new_len.min(len));
        }
    }

    /// Small blocks and others are put back in any order, each once.
    #[test]
    fn blocks_of_any_sizes_are_put_back() {
        on_a_heap(|state| {
            let before = state.usage().blocks;
            let list = sizes::offset(64);
            let mut small = [const { MaybeUninit::uninit() }; 4];
            assert_eq!(state.take(sizes::class(list), list, &mut small), small.len());
            // SAFETY: all entries were written.
            let [a, b, c, d] = small.map(|block| unsafe { block.assume_init() });
            let layout = Layout::from_size_align(40 << 10, UNIT).expect("it is one");
            let medium = [(); 5].map(|()| state.allocate(layout).expect("there is memory"));
            assert_eq!(state.usage().blocks, before + 9);
            let [m, n, o, p, q] = medium;
            // SAFETY: each is freed once; the second free of `o` is noticed.
            unsafe {
                assert_eq!(state.put_any(&[m, n, a, b, o, c, p, q, d]), Ok(()));
                assert_eq!(state.usage().blocks, before);
                assert!(medium.iter().all(|&block| state.len_of(block).is_none()));
                assert_eq!(state.put_any(&[o]), Err(o));
            }
        });
    }

    /// No OS page of a run's blocks is known to be zeros, whether its memory went back before or
    /// not, and no byte of a run counts as free. (Regression: the words between its blocks did.
    /// While a heap grew, the time for giving back other heaps' memory went into a walk through its
    /// blocks.)
    #[test]
    fn runs_are_in_use_as_a_whole() {
        on_a_heap(|state| {
            let page = os::page_size();
            let layout = Layout::from_size_align(60 << 10, UNIT).expect("it is one");
            for round in 0..4 {
                let mut blocks = Vec::new();
                for _ in 0..50 {
                    let first = state.allocate_run(layout, 8, |block| blocks.push(block));
                    blocks.push(first.expect("there is memory"));
                }
                assert_eq!(blocks.len(), 400);
                let free = state.most_resident() - state.usage().block;
                assert!(round == 0 || free == 0, "{free} bytes are free in round {round}");
                for block in &blocks {
                    let start = block.addr().get() & !(page - 1);
                    let end = (block.addr().get() + layout.size()).next_multiple_of(page);
                    for at in (start..end).step_by(page) {
                        assert_eq!(state.zeros.skip(at..at + page), at, "round {round}");
                    }
                }
                blocks.sort_unstable();
                // SAFETY: the blocks are in use, and freed once.
                unsafe { state.deallocate_all(&blocks) }.expect("they are in use");
                state.begin_purge();
                while state.purge_step(&mut Visit::unbounded()) {}
            }
        });
    }

    /// Returns a heap's first block of `size` bytes, and the others of a run of 8.
    fn run(state: &mut State, size: usize) -> (NonNull<u8>, Vec<NonNull<u8>>) {
        let layout = Layout::from_size_align(size, UNIT).expect("it is one");
        let mut others = Vec::new();
        let first = state.allocate_run(layout, 8, |block| others.push(block));
        (first.expect("there is memory"), others)
    }

    /// What a heap has to spare is told once memory was wanted: what is free beyond a margin.
    #[test]
    fn a_heap_tells_what_it_has_to_spare() {
        on_a_heap(|state| {
            const MIB: usize = 1 << 20;
            let layout = |size| Layout::from_size_align(size, UNIT).expect("it is one");
            state.take_spare();
            assert_eq!(state.take_spare(), None, "nothing was wanted");
            let block = state.allocate(layout(16 * MIB)).expect("there is memory");
            assert_eq!(state.take_spare(), Some(0));
            // SAFETY: the block is in use, and freed once.
            unsafe { state.deallocate(block) }.expect("it is in use");
            assert_eq!(state.take_spare(), None);
            let left = |state: &State| state.most_resident() - state.usage().block;
            state.allocate(layout(MIB)).expect("there is memory");
            assert_eq!(state.take_spare(), Some(left(state) - MIB), "the least margin");
            let list = sizes::offset(1024);
            let mut small = [const { MaybeUninit::uninit() }; 100];
            assert_eq!(state.take(sizes::class(list), list, &mut small), small.len());
            assert_eq!(state.take_spare(), Some(left(state) - MIB), "a page");
            state.take(sizes::class(list), list, &mut small[..1]);
            assert_eq!(state.take_spare(), None, "its page was there");
            state.allocate(layout(10 * MIB)).expect("there is memory");
            let margin = state.usage().block / 8;
            assert_eq!(state.take_spare(), Some(left(state) - margin));
        });
    }

    /// The blocks of a run are adjacent, from the lowest up. Where there is no free memory for
    /// that, they come from the free memory that there is, and the heap does not grow. (Regression:
    /// such a run was one block, so a list took the heap's lock for each.)
    #[test]
    fn a_run_lies_apart_rather_than_grow_the_heap() {
        on_a_heap(|state| {
            const SIZE: usize = 40 << 10;
            let runs: Vec<_> = (0..4).map(|_| run(state, SIZE)).collect();
            for (first, others) in &runs {
                assert!(first < &others[0] && others.is_sorted() && others.len() == 7);
            }
            let mut held: Vec<_> = runs
                .into_iter()
                .flat_map(|(first, others)| [vec![first], others].concat())
                .collect();
            // What is left of the heap's memory is in use, too.
            let layout = Layout::from_size_align(SIZE, UNIT).expect("it is one");
            let whole = state.usage().held;
            while state.usage().held == whole {
                held.push(state.allocate(layout).expect("there is memory"));
            }
            let rest = State::free_bytes;
            while rest(state) > 2 * SIZE {
                held.push(state.allocate(layout).expect("there is memory"));
            }
            let (mut odd, mut even) = (Vec::new(), Vec::new());
            held.sort_unstable();
            for (number, block) in held.into_iter().enumerate() {
                if number % 2 == 1 { odd.push(block) } else { even.push(block) }
            }
            let whole = state.usage().held;
            // SAFETY: each block is in use, and freed once.
            unsafe { state.put_any(&odd[..12]) }.expect("they are in use");
            let (first, others) = run(state, SIZE);
            assert!(odd[..12].contains(&first) && others.len() == 7);
            assert!(others.iter().all(|other| odd[..12].contains(other)));
            let (first, others) = run(state, SIZE);
            assert!(odd[..12].contains(&first) && others.len() == 3, "four were left");
            assert_eq!(state.usage().held, whole);
            for block in &odd[..12] {
                assert_eq!(SPACE.list_of(block.as_ptr()), Some(0));
                // SAFETY: the block is in use, and the test's.
                unsafe { block.write_bytes(1, SIZE) };
            }
            // SAFETY: each block is in use, and freed once.
            unsafe { state.put_any(&[odd, even].concat()) }.expect("they are in use");
            assert_eq!(state.usage().blocks, 0);
        });
    }

    /// The blocks of a run count as not small where pages of small blocks were before.
    #[test]
    fn blocks_of_a_run_are_not_small() {
        on_a_heap(|state| {
            let list = sizes::offset(1024);
            let mut small = [const { MaybeUninit::uninit() }; 1000];
            assert_eq!(state.take(sizes::class(list), list, &mut small), small.len());
            // SAFETY: all entries were written.
            let small = small.map(|block| unsafe { block.assume_init() });
            let lists = |blocks: &[NonNull<u8>]| {
                blocks.iter().filter(|block| SPACE.list_of(block.as_ptr()) == Some(list)).count()
            };
            assert_eq!(lists(&small), small.len());
            // SAFETY: each is put back once.
            unsafe { state.put(&small) }.expect("they are in use");
            state.collect();
            assert_ne!(lists(&small), 0, "what becomes free memory is not looked at");
            let layout = Layout::from_size_align(40 << 10, UNIT).expect("it is one");
            let mut blocks = Vec::new();
            for _ in 0..10 {
                let first = state.allocate_run(layout, 8, |block| blocks.push(block));
                blocks.push(first.expect("there is memory"));
            }
            assert_eq!(blocks.len(), 80);
            assert_eq!(lists(&blocks), 0);
            let behind = |kib: usize| {
                move |block: &NonNull<u8>| block.map_addr(|at| at.saturating_add(kib << 10))
            };
            let within: Vec<_> =
                [16, 20, 36].into_iter().flat_map(|kib| blocks.iter().map(behind(kib))).collect();
            assert_eq!(lists(&within), 0, "a free of a pointer into a block is noticed");
            // SAFETY: each is put back once.
            unsafe { state.put_any(&blocks) }.expect("they are in use");
        });
    }
}
