//! A heap: an engine in a slot, behind a lock, with what returns its free memory to the system
//! (`purge`).
//!
//! There are as many heaps as the machine's CPUs ask for, whatever the number of threads; threads
//! beyond that share. Heaps are never destroyed, so a block outlives the thread that allocated it;
//! nothing needs adopting. Blocks cross the lock by the batch, from and to quick lists. A block freed
//! by another thread than allocated it is put back into its own heap under that heap's lock: there is
//! no second protocol for remote frees, and they keep no memory. Only where the lock
//! [cannot be waited for](super::lock) does a freed block wait itself (`deferred`).
//!
//! A misuse that is noticed under the lock is reported after letting go of it: whoever is called then
//! may allocate.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::background;
use super::deferred::Deferred;
use super::huge::{self, HUGE};
use super::lock::Locked;
use super::os;
use super::purge::{self, Purge};
use super::registry;
use super::relief;
use super::space::{SPACE, Slot};
use super::tuning::{Tuning, UNIT};
use super::zero::{Known, Zeros};
use crate::page_heap::PageHeap;
use crate::source::Source;
use crate::strategy::{Strategy, Usage};

/// A heap, at the start of its slot.
#[derive(Debug)]
pub(super) struct Heap {
    state: Locked<State>,
    /// Blocks freed while the lock could not be waited for.
    deferred: Deferred,
    /// Threads whose blocks come from here.
    pub(super) threads: AtomicU32,
    /// Bytes in use, and bytes that may take memory, as they were when the lock was last let go of.
    pub(super) used: AtomicUsize,
    pub(super) most: AtomicUsize,
}

const FREED_TWICE: &[u8] = b"pagewise: a block was freed twice, or is none\n";
const NOT_IN_USE: &[u8] = b"pagewise: a block was resized or measured that is free, or is none\n";

/// What a heap's lock protects.
#[derive(Debug)]
pub(super) struct State {
    engine: PageHeap<Slot>,
    purge: Purge,
    zeros: Zeros,
}

impl Heap {
    /// Makes the heap of a slot; `None` if there is no memory for it. Done once for each slot.
    pub(super) fn open(slot: usize, tuning: &Tuning) -> Option<&'static Self> {
        let start = SPACE.slot(slot);
        let own = size_of::<Self>().next_multiple_of(os::page_size());
        // SAFETY: the slot is used by nobody else, and not accessible yet.
        let memory = unsafe {
            if !SPACE.commit(start, own, tuning.huge_pages.advice()) {
                return None;
            }
            Slot::new(slot, own, tuning.huge_pages)
        };
        let mut state = State {
            zeros: Zeros::new(memory.extent().start),
            engine: PageHeap::new(tuning.pages, memory, ()),
            purge: Purge::new(tuning.purge_delay),
        };
        if state.engine.open().is_err() {
            // SAFETY: nothing of it is used.
            unsafe {
                state.engine.source().give_up();
                SPACE.give_up(start, own);
            }
            return None;
        }
        let heap = start.cast::<Self>();
        // SAFETY: the memory is accessible, large enough and aligned, and never given up.
        unsafe {
            heap.write(Self {
                state: Locked::new(state),
                deferred: Deferred::new(),
                threads: AtomicU32::new(0),
                used: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
            });
            Some(&*heap)
        }
    }

    /// The heap of a slot that was opened.
    pub(super) fn of_slot(slot: usize) -> &'static Self {
        // SAFETY: an opened slot has its heap at its start, for ever.
        unsafe { &*SPACE.slot(slot).cast::<Self>() }
    }

    /// The heap a block lies in, of which is known that it lies in one.
    #[inline(always)]
    pub(super) fn of(block: *mut u8) -> &'static Self {
        Self::of_slot(SPACE.slot_of(block))
    }

    /// The slot it lies in.
    pub(super) fn slot(&self) -> usize {
        SPACE.slot_of(ptr::from_ref(self).cast_mut().cast())
    }

    /// Runs `action` under the heap's lock; `None` if the lock cannot be waited for.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        if !self.deferred.is_empty() {
            self.put_deferred();
        }
        self.state.with(action)
    }

    /// Runs `action` as [`with`](Self::with); if the heap has grown, free memory of all heaps goes back.
    #[inline]
    pub(super) fn grow<R>(&self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        let (result, growth) = self.with(|state| {
            let result = action(state);
            state.purge.grown(&state.engine);
            self.note(state);
            (result, state.purge.growth())
        })?;
        if let Some(growth) = growth {
            relief::grown(growth);
        }
        Some(result)
    }

    /// Runs `action` as [`grow`](Self::grow), and looks now and then whether memory goes back.
    #[inline]
    fn work<R>(&self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        let (result, look) = self.grow(|state| {
            let result = action(state);
            (result, state.purge.tick(&state.engine))
        })?;
        if look {
            self.maintain();
        }
        Some(result)
    }

    /// Notes what others are told without the lock.
    #[inline]
    fn note(&self, state: &State) {
        self.used.store(state.usage().block, Relaxed);
        self.most.store(state.purge.most(), Relaxed);
    }

    /// Gives about so many bytes of free memory back, in steps; returns the bytes. O(bytes).
    pub(super) fn give_back(&self, wanted: usize) -> usize {
        let mut given = 0;
        for _ in 0..purge::steps_for(wanted) {
            let step = self.with(|state| {
                let step = state.purge.some(&mut state.engine, &mut state.zeros);
                self.note(state);
                step
            });
            let (bytes, more) = step.unwrap_or_default();
            given += bytes;
            if !more || given >= wanted {
                break;
            }
        }
        given
    }

    /// Milliseconds until [`maintain`](Self::maintain) has something to do; `None` if it has nothing to
    /// do as the heap is.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.with(|state| state.purge.next()).flatten()
    }

    /// Puts back the blocks that were freed while the lock could not be waited for.
    #[cold]
    fn put_deferred(&self) {
        let slot = self.slot();
        let is_own = |block: *mut u8| SPACE.contains(block) && SPACE.slot_of(block) == slot;
        let intact = self.state.with(|state| {
            let mut freed = true;
            let linked = self.deferred.take(is_own, |block| {
                // SAFETY: the block was freed once, as far as that is not noticed here.
                freed &= unsafe { state.put_back(block) };
            });
            freed && linked
        });
        if intact == Some(false) {
            os::stop(FREED_TWICE);
        }
    }

    /// Looks whether memory goes back, of this heap and of another, and does some of it.
    #[cold]
    pub(super) fn maintain(&self) {
        self.purge_some();
        let other = registry::next_heap();
        if !ptr::eq(self, other) {
            other.purge_some();
        }
    }

    /// Does a few steps of a purge, if one is under way or due, while nobody waits.
    pub(super) fn purge_some(&self) {
        let look = |state: &mut State| (state.purge.look(&mut state.engine), state.purge.is_due());
        let (goes_on, is_due) = self.state.try_with(look).unwrap_or_default();
        if is_due {
            background::due();
        }
        if !goes_on {
            return;
        }
        for _ in 0..purge::STEPS {
            let (more, awaited) = self.step();
            if awaited || !more {
                return;
            }
        }
    }

    /// Begins a purge of all there is; returns the bytes given back before.
    pub(super) fn begin_purge(&self) -> u64 {
        let begun = self.with(|state| {
            state.purge.begin(&mut state.engine);
            state.purge.purged()
        });
        begun.unwrap_or(0)
    }

    /// A step of a purge; whether there are more, and whether somebody waited for the lock.
    pub(super) fn step(&self) -> (bool, bool) {
        let step = self.with(|state| {
            let more = state.purge.step(&mut state.engine, &mut state.zeros);
            self.note(state);
            (more, self.state.is_awaited())
        });
        step.unwrap_or_default()
    }

    /// Gives every free OS page back to the system; returns the bytes. Others get the lock in
    /// between. O(what the heap holds).
    pub(super) fn purge(&self) -> u64 {
        let before = self.begin_purge();
        while let (true, awaited) = self.step() {
            if awaited {
                // Who waits was woken, but needs a moment to take the lock.
                os::pause();
            }
        }
        self.with(|state| state.purge.purged()).map_or(0, |purged| purged - before)
    }

    /// Frees a block that is not small; returns its bytes, 0 if it waits for its heap.
    ///
    /// # Safety
    /// It lies here, is not small, and is freed once.
    pub(super) unsafe fn deallocate(&self, block: NonNull<u8>) -> usize {
        // SAFETY: passed on.
        let freed = self.work(|state| unsafe {
            let bytes = state.deallocate(block)?;
            Some((bytes, state.purge.freed(&state.engine, bytes)))
        });
        match freed {
            Some(Some((bytes, wanted))) => {
                if wanted > 0 {
                    self.give_back(wanted);
                }
                bytes
            }
            Some(None) => os::stop(FREED_TWICE),
            None => {
                // SAFETY: the caller's promise; every block has room for a link.
                unsafe { self.deferred.push(&[block]) };
                0
            }
        }
    }

    /// After a large block was freed: has `empty_lists` put back what the calling thread keeps, and
    /// gathers the pages that then are free, if enough has happened here since that was last done.
    pub(super) fn settle(&self, empty_lists: impl FnOnce()) {
        if self.with(|state| state.purge.settles()) == Some(true) {
            empty_lists();
            let _ = self.with(|state| state.engine.gather());
        }
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is.
    ///
    /// # Safety
    /// It lies here, is not small, and is in use.
    pub(super) unsafe fn resize_in_place(&self, block: NonNull<u8>, new_size: usize) -> bool {
        // SAFETY: passed on.
        match self.work(|state| unsafe { state.resize_in_place(block, new_size) }) {
            Some(Some(resized)) => resized,
            Some(None) => os::stop(NOT_IN_USE),
            None => false,
        }
    }

    /// Bytes of a block that is not small.
    ///
    /// # Safety
    /// It lies here, is not small, and is in use.
    pub(super) unsafe fn len_of(&self, block: NonNull<u8>) -> usize {
        let len = self.with(|state| state.len_of(block)).unwrap_or_else(|| {
            // SAFETY: the caller's promise. The lock is not needed: nobody changes the length of a
            // block in use but who resizes it, the caller.
            Some(unsafe { PageHeap::<Slot>::tagged_size(block) })
        });
        match len {
            Some(len) => len,
            None => os::stop(NOT_IN_USE),
        }
    }

    /// Takes the lock for a fork, as [`Locked::take_for_fork`].
    pub(super) fn take_for_fork(&self, pause: impl FnMut() -> bool) {
        self.state.take_for_fork(pause);
    }

    /// Lets go of a lock taken for a fork, in the parent.
    pub(super) fn after_fork(&self) {
        self.state.after_fork();
    }

    /// As above, in the child; whether the heap is lost.
    pub(super) fn after_fork_in_child(&self) -> bool {
        self.state.after_fork_in_child()
    }

    /// The number of size classes.
    pub(super) fn classes(&self) -> u32 {
        self.with(|state| state.engine.classes()).unwrap_or(0)
    }

    /// Block size of a class, bytes.
    pub(super) fn class_size(&self, class: u32) -> usize {
        self.with(|state| state.engine.class_size(class)).unwrap_or(0)
    }

    /// Calls `visit` for each page with its class, the size of its blocks, its bytes and its blocks
    /// that are not free. O(pages), under the lock.
    pub(super) fn for_each_page(&self, visit: &mut dyn FnMut(u32, usize, usize, usize)) {
        let _ = self.with(|state| {
            let bytes = state.engine.config().page_size;
            state.engine.for_each_page(&mut |class, in_use| {
                visit(class, state.engine.class_size(class), bytes, in_use as usize);
            });
        });
    }

    /// Bytes of the heap's OS pages that take memory. O(OS pages), without the lock.
    pub(super) fn resident(&self) -> usize {
        let Some((extent, dedicated)) = self.with(|state| {
            let source = state.engine.source();
            (source.extent(), source.dedicated())
        }) else {
            return 0;
        };
        let page = os::page_size();
        let start = ptr::from_ref(self).cast_mut().cast::<u8>();
        let mut resident = 0;
        for range in [start.addr()..extent.end, dedicated] {
            let (from, to) = (range.start & !(page - 1), range.end.next_multiple_of(page));
            os::for_each_resident(start.with_addr(from), to - from, &mut |_, len| resident += len);
        }
        resident
    }

    /// Takes blocks of a class for a quick list, and says how many there were. The lowest are to be
    /// used first, and come last.
    pub(super) fn take(
        &self,
        class: u32,
        list: u16,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        let taken = self.work(|state| {
            let page_size = state.engine.config().page_size;
            let State { engine, zeros, .. } = state;
            // Pages of small blocks are written densely.
            engine.source().huge().allow(engine.page_bytes());
            let taken = engine.take_batch(class, blocks, |page| {
                SPACE.set_list_of_page(page, page_size, list);
                zeros.used(page.addr()..page.addr() + page_size);
            });
            engine.source().huge().allow(0);
            if taken == blocks.len() {
                zeros.extended_unknown(engine.source().extent().end);
            } else {
                // A page may have been made and given up.
                zeros.forget(engine.source().extent().end);
            }
            taken
        });
        taken.unwrap_or(0)
    }

    /// Puts small blocks back to the heaps they lie in. Their order changes.
    ///
    /// # Safety
    /// They were [taken](Self::take), and are put back once.
    pub(super) unsafe fn put(mut blocks: &mut [NonNull<u8>]) {
        while !blocks.is_empty() {
            let (slot, own) = first_heaps(blocks);
            let (ours, others) = blocks.split_at_mut(own);
            let heap = Self::of_slot(slot);
            // SAFETY: the caller's promise; they lie in this heap.
            match heap.work(|state| unsafe { state.engine.free_batch(ours) }) {
                Some(Ok(())) => {}
                Some(Err(_)) => os::stop(FREED_TWICE),
                // SAFETY: as above; every block has room for a link.
                None => unsafe { heap.deferred.push(ours) },
            }
            blocks = others;
        }
    }
}

impl State {
    /// A block that is not small.
    pub(super) fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.allocate_with(layout, |_, _| ()).map(|(block, ())| block)
    }

    /// A block that is not small, with what is known of its memory.
    pub(super) fn allocate_known(&mut self, layout: Layout) -> Option<(NonNull<u8>, Known)> {
        self.allocate_with(layout, |zeros, block| {
            zeros.known(block.addr().get()..block.addr().get() + layout.size())
        })
    }

    /// A block that is not small, and what `ask` says of it before it is in use.
    #[inline(always)]
    fn allocate_with<R>(
        &mut self,
        layout: Layout,
        ask: impl FnOnce(&Zeros, NonNull<u8>) -> R,
    ) -> Option<(NonNull<u8>, R)> {
        let allocated = self.growing(layout.size(), |state| state.engine.allocate(layout));
        let end = self.engine.source().extent().end;
        let Ok(allocated) = allocated else {
            self.zeros.forget(end);
            return None;
        };
        let block = allocated.cast::<u8>();
        self.zeros.extended(self.engine.first_block(), end);
        let answer = ask(&self.zeros, block);
        let start = block.addr().get();
        self.zeros.used(start..start + allocated.len());
        SPACE.set_list(block.as_ptr(), 0);
        if layout.size() >= purge::LARGE {
            self.engine.source().huge().take_back(block.as_ptr(), layout.size());
        }
        Some((block, answer))
    }

    /// Frees a block that is not small; returns its bytes, `None` if it is not in use.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and is freed once.
    unsafe fn deallocate(&mut self, block: NonNull<u8>) -> Option<usize> {
        let before = self.engine.usage().block;
        // SAFETY: the caller's promise.
        unsafe { self.engine.free_tagged(block) }.ok()?;
        Some(before - self.engine.usage().block)
    }

    /// Puts back a block of any size; `false` if it is not in use.
    ///
    /// # Safety
    /// It was allocated here, and is freed once.
    unsafe fn put_back(&mut self, block: NonNull<u8>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match SPACE.list_of(block.as_ptr()) {
                Some(0) => self.deallocate(block).is_some(),
                _ => self.engine.free_batch(&[block]).is_ok(),
            }
        }
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is; `None` if it is
    /// not in use.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and not freed.
    unsafe fn resize_in_place(&mut self, block: NonNull<u8>, new_size: usize) -> Option<bool> {
        let len = self.len_of(block)?;
        let more = new_size.saturating_sub(len);
        let huge = self.engine.source().huge();
        let concerned =
            more >= HUGE / 2 && huge.concerns(block.addr().get().wrapping_add(new_size));
        if concerned && huge::is_dense(block.as_ptr(), len) {
            // What is added to a block that was written will be written, too.
            huge.allow(huge.advised() + more);
        }
        // SAFETY: the caller's promise; blocks are far smaller than `isize::MAX`, and one in use could
        // have been allocated for all of its length.
        let resized = self.growing(new_size, |state| unsafe {
            let layout = Layout::from_size_align_unchecked(len, UNIT);
            state.engine.resize_in_place(block, layout, new_size).is_some()
        });
        self.engine.source().huge().allow(0);
        self.zeros.extended(self.engine.first_block(), self.engine.source().extent().end);
        let start = block.addr().get();
        // SAFETY: the block is in use.
        let new_len = unsafe { self.engine.block_size(block) };
        self.zeros.used(start..start + len.max(new_len));
        Some(resized)
    }

    /// Bytes of a block that is not small; `None` if it is not in use.
    fn len_of(&self, block: NonNull<u8>) -> Option<usize> {
        // SAFETY: the block was allocated here; its size is asked for if it is in use.
        unsafe { self.engine.is_tagged_in_use(block).then(|| self.engine.block_size(block)) }
    }

    pub(super) fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// Bytes of free memory given back to the system since the beginning.
    pub(super) fn purged(&self) -> u64 {
        self.purge.purged()
    }

    /// Returns about so many bytes of large free blocks: as many were mapped beside the heap.
    pub(super) fn purge_large(&mut self, wanted: usize) {
        self.purge.large(&self.engine, &mut self.zeros, wanted);
    }

    /// Runs `action`, which needs `size` bytes; as many go back as the heap has grown by for them.
    #[inline]
    fn growing<R>(&mut self, size: usize, action: impl FnOnce(&mut Self) -> R) -> R {
        let held = self.engine.usage().held;
        let result = action(self);
        self.purge.grown(&self.engine);
        if size >= purge::LARGE && self.engine.usage().held > held {
            self.purge_large(self.engine.usage().held - held);
        }
        result
    }
}

/// The slot of the first block, and how many of the blocks lie in it: those are moved to the front.
#[inline(always)]
fn first_heaps(blocks: &mut [NonNull<u8>]) -> (usize, usize) {
    let slot = SPACE.slot_of(blocks[0].as_ptr());
    // Mostly all do, and to see just that takes an instruction or two a block.
    if SPACE.slot_has(slot, blocks) {
        return (slot, blocks.len());
    }
    let mut own = 0;
    for index in 0..blocks.len() {
        if SPACE.slot_of(blocks[index].as_ptr()) == slot {
            blocks.swap(own, index);
            own += 1;
        }
    }
    (slot, own)
}
