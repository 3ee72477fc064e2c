//! A heap: an engine in a slot, behind a lock, with what returns its free memory to the system.
//!
//! There are as many heaps as the machine's CPUs ask for, whatever the number of threads: threads
//! beyond that share. A heap outlives its threads, so blocks do, too, and nothing has to be
//! adopted. Blocks cross the lock by the batch, from and to quick lists; a block freed by another
//! thread than allocated it is put back into its own heap under that heap's lock, so that there is
//! no second protocol for remote frees, and they keep no memory.
//!
//! # When memory goes back
//! A heap remembers the most bytes that were in use since its free memory was last returned. Once
//! that many less by an eighth (and [`SURPLUS`]) are in use, and still are after the purge delay,
//! the whole heap is walked and every free OS page that takes memory is given back, also within
//! partly used pages. In a steady state that never happens, so nothing is faulted in again.
//!
//! When the heap grows for a block of [`LARGE`] bytes or more, as much goes back of the large free
//! blocks, none of which could hold it: the tables that a growing collection leaves behind are too
//! small for the next, and would stay resident beside it. A heap that has all it needs returns
//! nothing, and what is faulted in again is never more than what the heap has grown by.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::lock::Locked;
use super::os;
use super::space::{SPACE, Slot};
use super::tuning::{Tuning, UNIT};
use crate::page_heap::PageHeap;
use crate::strategy::{Strategy, Usage};
use crate::walk::{Span, SpanKind};

/// A heap, at the start of its slot.
#[derive(Debug)]
pub(super) struct Heap {
    state: Locked<State>,
    /// Threads whose blocks come from here.
    pub(super) threads: AtomicU32,
}

/// What a heap's lock protects.
#[derive(Debug)]
pub(super) struct State {
    engine: PageHeap<Slot>,
    /// The most bytes in use since the last purge.
    most: usize,
    /// Bytes of free memory given back since the beginning.
    purged: u64,
    /// When free memory goes back, if much is free; 0 if not much is. Milliseconds.
    due: u64,
    /// Frees until that is looked at again.
    countdown: u32,
    purge_delay: u32,
}

/// Free memory that is not worth returning, bytes.
const SURPLUS: usize = 1 << 20;

/// The least free block, and the least request, that large blocks are returned for, bytes.
const LARGE: usize = 1 << 20;

/// Batches put back between two looks at the clock.
const LOOK: u32 = 16;

impl Heap {
    /// Makes the heap of a slot; `None` if there is no memory for it. Done once for each slot.
    pub(super) fn open(slot: usize, tuning: &Tuning) -> Option<&'static Self> {
        let start = SPACE.slot(slot);
        let len = SPACE.slot_len();
        let own = size_of::<Self>().next_multiple_of(os::page_size());
        // SAFETY: the slot lies in the reservation.
        if !SPACE.open_table(slot) || !unsafe { os::commit(start, own) } {
            return None;
        }
        if let Some(wanted) = tuning.huge_pages.advice() {
            // SAFETY: as above.
            unsafe { os::advise_huge_pages(start, len, wanted) };
        }
        // SAFETY: the slot is used by nobody else, and its memory behind `own` not yet accessible.
        let memory = unsafe { Slot::new(start.wrapping_add(own), len - own, tuning.huge_pages) };
        let mut state = State {
            engine: PageHeap::new(tuning.pages, memory, ()),
            most: 0,
            purged: 0,
            due: 0,
            countdown: LOOK,
            purge_delay: tuning.purge_delay,
        };
        state.engine.open().ok()?;
        let heap = start.cast::<Self>();
        // SAFETY: the memory is accessible, large enough and aligned, and never given up.
        unsafe {
            heap.write(Self { state: Locked::new(state), threads: AtomicU32::new(0) });
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

    /// Runs `action` under the heap's lock.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        self.state.with(action)
    }

    /// Takes the lock, before a fork.
    pub(super) fn lock(&self) {
        self.state.lock();
    }

    /// Lets go of the lock, after a fork.
    ///
    /// # Safety
    /// It was [taken](Self::lock) by this thread, or by the one that forked it.
    pub(super) unsafe fn unlock(&self) {
        // SAFETY: passed on.
        unsafe { self.state.unlock() };
    }

    /// The number of size classes.
    pub(super) fn classes(&self) -> u32 {
        self.with(|state| state.engine.classes())
    }

    /// Block size of a class, bytes.
    pub(super) fn class_size(&self, class: u32) -> usize {
        self.with(|state| state.engine.class_size(class))
    }

    /// Takes blocks of a class for a quick list, and says how many there were. The lowest are to be
    /// used first, and come last.
    pub(super) fn take(
        &self,
        class: u32,
        list: u16,
        blocks: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        self.with(|state| {
            let page_size = state.engine.config().page_size;
            let count = state.engine.take_batch(class, blocks, |page| {
                SPACE.set_list_of_page(page, page_size, list);
            });
            state.grown();
            count
        })
    }

    /// Puts small blocks back to the heaps they lie in. Their order changes.
    ///
    /// # Safety
    /// They were [taken](Self::take), and are put back once.
    pub(super) unsafe fn put(mut blocks: &mut [NonNull<u8>]) {
        while !blocks.is_empty() {
            let (slot, own) = first_heaps(blocks);
            let (ours, others) = blocks.split_at_mut(own);
            Self::of_slot(slot).with(|state| {
                // SAFETY: the caller's promise; they lie in this heap.
                if unsafe { state.engine.free_batch(ours) }.is_err() {
                    os::stop(b"pagewise: a block was freed twice\n");
                }
                state.shrunk();
            });
            blocks = others;
        }
    }
}

impl State {
    /// A block that is not small.
    pub(super) fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.growing(layout.size(), |state| state.engine.allocate(layout)).ok()?.cast();
        SPACE.set_list(block.as_ptr(), 0);
        Some(block)
    }

    /// Frees a block that is not small.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and is freed once.
    pub(super) unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        if unsafe { self.engine.free_tagged(block) }.is_err() {
            os::stop(b"pagewise: a block was freed twice, or is none\n");
        }
        self.shrunk();
    }

    /// Makes a block that is not small longer or shorter, if it can stay where it is.
    ///
    /// # Safety
    /// It was [allocated](Self::allocate) here, and not freed.
    pub(super) unsafe fn resize_in_place(&mut self, block: NonNull<u8>, new_size: usize) -> bool {
        // SAFETY: the caller's promise.
        let done = self.growing(new_size, |state| unsafe {
            let layout = state.layout_of(block);
            state.engine.resize_in_place(block, layout, new_size).is_some()
        });
        self.shrunk();
        done
    }

    /// A layout that a block in use could have been allocated for: all of it.
    ///
    /// # Safety
    /// The block is in use.
    unsafe fn layout_of(&self, block: NonNull<u8>) -> Layout {
        // SAFETY: the caller's promise; blocks are far smaller than `isize::MAX`.
        unsafe { Layout::from_size_align_unchecked(self.len_of(block), UNIT) }
    }

    /// Bytes of a block.
    ///
    /// # Safety
    /// The block is in use.
    pub(super) unsafe fn len_of(&self, block: NonNull<u8>) -> usize {
        if !self.engine.is_tagged_in_use(block) {
            os::stop(b"pagewise: a block was resized or measured that is free, or is none\n");
        }
        // SAFETY: passed on.
        unsafe { self.engine.block_size(block) }
    }

    pub(super) fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// Bytes of free memory given back to the system since the beginning.
    pub(super) fn purged(&self) -> u64 {
        self.purged
    }

    #[inline]
    fn grown(&mut self) {
        self.most = self.most.max(self.engine.usage().block);
    }

    #[inline]
    fn shrunk(&mut self) {
        self.countdown -= 1;
        if self.countdown == 0 {
            self.countdown = LOOK;
            self.look();
        }
    }

    /// Runs `action`, which needs `size` bytes; as many go back as the heap has grown by for them.
    #[inline]
    fn growing<R>(&mut self, size: usize, action: impl FnOnce(&mut Self) -> R) -> R {
        let held = self.engine.usage().held;
        let result = action(self);
        self.grown();
        if size >= LARGE && self.engine.usage().held > held && self.purge_delay != u32::MAX {
            self.purge_large(self.engine.usage().held - held);
        }
        result
    }

    /// Returns about so many bytes of large free blocks.
    #[cold]
    fn purge_large(&mut self, wanted: usize) {
        /// Bytes looked at, at most, for each byte wanted: many blocks may have gone back before.
        const LOOKED_AT: usize = 8;
        let (mut purged, mut left) = (0, wanted * LOOKED_AT);
        self.engine.for_each_large_free(LARGE, &mut |free| {
            if purged < wanted && left > 0 {
                purged += discard(free);
                left = left.saturating_sub(free.len);
            }
        });
        self.purged += purged as u64;
    }

    /// Returns free memory if its time has come.
    fn look(&mut self) {
        let free = self.most - self.engine.usage().block;
        if free < SURPLUS.max(self.most / 8) || self.purge_delay == u32::MAX {
            self.due = 0;
            return;
        }
        let now = os::now();
        if self.due == 0 {
            self.due = now + u64::from(self.purge_delay);
        }
        if now >= self.due {
            self.purge();
        }
    }

    /// Gives every free OS page back to the system. O(what the heap holds).
    #[cold]
    pub(super) fn purge(&mut self) {
        let mut purged = 0;
        let mut free = Span { start: 0, len: 0, kind: SpanKind::Free };
        self.engine.walk(&mut |span| {
            if span.kind == SpanKind::Free && span.start == free.end() {
                free.len += span.len;
                return;
            }
            purged += discard(free);
            free = Span { len: if span.kind == SpanKind::Free { span.len } else { 0 }, ..span };
        });
        purged += discard(free);
        self.purged += purged as u64;
        self.most = self.engine.usage().block;
        self.due = 0;
    }
}

/// Bytes at both ends of free memory that may hold links and sizes.
const TAGS: usize = 16;

/// Gives the OS pages of free memory back that take memory; returns their bytes.
fn discard(free: Span) -> usize {
    let page = os::page_size();
    let start = (free.start + TAGS).next_multiple_of(page);
    let end = (free.end().saturating_sub(TAGS)) & !(page - 1);
    let mut discarded = 0;
    if start < end {
        let address = SPACE.slot(0).with_addr(start);
        os::for_each_resident(address, end - start, &mut |run, len| {
            // SAFETY: the pages lie within free memory, in which the engine keeps nothing.
            unsafe { os::discard(run, len) };
            discarded += len;
        });
    }
    discarded
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

/// Of the heaps of the first slots, that which the fewest threads use; the lowest of those.
pub(super) fn least_used(heaps: usize) -> &'static Heap {
    let used = |slot: &usize| Heap::of_slot(*slot).threads.load(Relaxed);
    Heap::of_slot((0..heaps).min_by_key(used).unwrap_or(0))
}
