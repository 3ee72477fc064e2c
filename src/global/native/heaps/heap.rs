//! A heap: an engine in a slot, behind a lock, with the state for giving its free memory back to
//! the system (`purge`).
//!
//! The number of heaps depends on the machine's CPUs, not on the number of threads; if there are
//! more threads, they share heaps. Heaps are never destroyed, so a block outlives the thread that
//! allocated it; nothing needs adopting. Blocks cross the lock in batches, from and to quick lists.
//! A block freed by another thread than allocated it (a remote free) is put back into its own heap,
//! under that heap's lock. If another thread holds that lock, the freeing thread does not wait: the
//! blocks are left [beside the heap](super::deferred) for the next thread that takes the lock.
//!
//! A misuse that is noticed under the lock is reported after unlocking, because the handlers of the
//! report may allocate.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

use super::deferred::Deferred;
use super::state::State;
use crate::global::native::base::lock::{Locked, Wait};
use crate::global::native::base::mode;
use crate::global::native::base::visit::Visit;
use crate::global::native::memory::huge::Marks;
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::purge::{self, Granularity};
use crate::global::native::memory::slot::Slot;
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::Tuning;
use crate::os;
use crate::pages::PageHeap;

/// What a step of a purge found.
#[derive(Clone, Copy, Debug)]
pub(in crate::global::native) struct Step {
    /// Whether there are more steps.
    pub(in crate::global::native) more: bool,
    /// Whether other threads are waiting for the lock.
    pub(in crate::global::native) awaited: bool,
}

/// A heap; it is at the start of its slot.
#[derive(Debug)]
pub(in crate::global::native) struct Heap {
    /// What the heap's lock protects.
    pub(super) state: Locked<State>,
    /// The marks of the state's huge pages. Kept here, so that opening a heap does not build them
    /// on the stack.
    marks: Marks,
    /// Blocks freed while another thread held the lock.
    pub(in crate::global::native) deferred: Deferred,
    /// The slot of the other heap that this heap's users maintain next.
    pub(super) turn: AtomicUsize,
    /// The threads' lists at which the search for blocks of this heap goes on before a purge (see
    /// [`idle`](crate::global::native::lists::idle)); null: at the first.
    pub(in crate::global::native) lists_at: AtomicPtr<()>,
    /// The NUMA node of the thread that the heap was opened for, or that joined it when it had no
    /// threads: the node whose thread touches memory first has that memory.
    pub(in crate::global::native) node: AtomicU32,
    /// Number of threads whose blocks come from this heap.
    pub(in crate::global::native) threads: AtomicU32,
    /// The slot, plus one, of a near heap with more free memory, which the next thread that fills a
    /// list from this heap should move to; 0: none.
    roomier: AtomicU32,
    /// Bytes in use, as of the last unlocking.
    pub(in crate::global::native) used: AtomicUsize,
    /// Bytes that may be resident, as of the last unlocking.
    pub(super) most_resident: AtomicUsize,
    /// The start and the end of the memory handed out, as of when they were last
    /// [asked](Self::reaches) for. The end only rises.
    reached: [AtomicUsize; 2],
    /// Whether a purge was under way at the last unlocking.
    pub(in crate::global::native) purging: AtomicBool,
}

impl Heap {
    /// Returns the bytes of free memory that may be resident.
    pub(in crate::global::native) fn free(&self) -> usize {
        self.most_resident.load(Relaxed).saturating_sub(self.used.load(Relaxed))
    }

    /// Lets the next thread that fills a list from this heap move to `other`, which has more room.
    pub(super) fn set_roomier(&self, other: &Self) {
        self.roomier.store(other.slot() as u32 + 1, Release);
    }

    /// Returns the heap that a thread should move to, once.
    #[inline]
    pub(super) fn take_roomier(&self) -> Option<&'static Self> {
        if self.roomier.load(Relaxed) == 0 {
            return None;
        }
        let slot = self.roomier.swap(0, Acquire).checked_sub(1)?;
        Some(Self::of_slot(slot as usize))
    }

    /// Makes the heap of a slot; `None` if there is no memory for it. Called for one slot at a
    /// time; again for the same slot after a failure, which leaves nothing mapped there.
    pub(super) fn open(slot: usize, tuning: &Tuning) -> Option<&'static Self> {
        let start = SPACE.slot(slot);
        let page = os::page_size();
        let own = size_of::<Self>().next_multiple_of(page);
        // With guards, an inaccessible OS page separates this struct from the first block.
        let guard = if mode::has_guards() { page } else { 0 };
        // Blocks begin one OS page past a multiple of the page size. So the tag behind the last
        // block is in the OS page in which the next page of blocks begins, and takes no OS page of
        // its own. The memory between the struct and `from` is for bookkeeping, unless there is a
        // guard in between.
        let from = (own + guard - page).next_multiple_of(tuning.pages.page_size) + page;
        let heap = start.cast::<Self>();
        // SAFETY: nothing else uses the slot. Once it is committed, the memory is accessible, large
        // enough, aligned, and zeros, which is a valid value of all fields that are not written
        // here; most of them are never touched. The state is built where it stays, since a thread
        // may have little stack.
        let opened = unsafe {
            if !SPACE.reserve_slot(slot) || !SPACE.commit(start, from, tuning.huge_pages.advice()) {
                return None;
            }
            if guard != 0 {
                os::guard(start.add(own), guard);
            }
            let front = if guard == 0 { size_of::<Self>() } else { from };
            let huge_pages = tuning.huge_pages.of_heap(slot);
            let memory = Slot::new(slot, front, from, huge_pages, &(*heap).marks);
            (&raw mut (*heap).state).write(Locked::new(State::new(memory, tuning)));
            (&raw mut (*heap).turn).write(AtomicUsize::new(slot));
            &*heap
        };
        if opened.state.with(State::begin).flatten().is_none() {
            // SAFETY: the heap is not published, so nothing uses this memory.
            unsafe { SPACE.give_up(start, from) };
            return None;
        }
        Some(opened)
    }

    /// Returns the heap of a slot that was opened.
    pub(in crate::global::native) fn of_slot(slot: usize) -> &'static Self {
        // SAFETY: an opened slot has its heap at its start, for ever.
        unsafe { &*SPACE.slot(slot).cast::<Self>() }
    }

    /// Returns the heap of a block; the caller knows that the block is in one.
    #[inline(always)]
    pub(in crate::global::native) fn of(block: *mut u8) -> &'static Self {
        Self::of_slot(SPACE.slot_of(block))
    }

    /// Returns the slot of the heap.
    pub(in crate::global::native) fn slot(&self) -> usize {
        SPACE.slot_of(ptr::from_ref(self).cast_mut().cast())
    }

    /// Runs `action` under the heap's lock; `None` if the lock cannot be waited for. Stops the
    /// process if damage was noticed meanwhile.
    #[inline]
    pub(in crate::global::native) fn with<R>(
        &self,
        action: impl FnOnce(&mut State) -> R,
    ) -> Option<R> {
        self.with_if(Wait::Always, action)
    }

    /// As [`with`](Self::with), but `wait` says whether to wait. First puts back the deferred
    /// blocks.
    #[inline]
    pub(in crate::global::native) fn with_if<R>(
        &self,
        wait: Wait,
        action: impl FnOnce(&mut State) -> R,
    ) -> Option<R> {
        let action = |state: &mut State| {
            let refused = if self.deferred.is_empty() { None } else { self.put_deferred(state) };
            let result = action(state);
            (result, self.publish(state).or(refused))
        };
        let (result, misuse) = self.state.with_if(wait, action)?;
        match misuse {
            None => Some(result),
            Some((misuse, block)) => misuse::stop(misuse, block),
        }
    }

    /// Looks at the heap under its lock. Unlike [`with`](Self::with), does not put back the
    /// deferred blocks.
    #[inline]
    fn look<R>(&self, look: impl FnOnce(&State) -> R) -> Option<R> {
        self.state.with(|state| look(state))
    }

    /// Publishes the fields that other threads read without the lock. Returns the damage that was
    /// found in the heap, and where. (A function of its own, as a copy in each caller of `with_if`
    /// makes the library longer, but not faster.)
    #[inline(never)]
    fn publish(&self, state: &State) -> Option<(Misuse, *mut u8)> {
        self.used.store(state.usage().block, Relaxed);
        self.most_resident.store(state.most_resident(), Relaxed);
        self.purging.store(state.is_purging(), Relaxed);
        state.damaged().map(|block| (Misuse::Damaged, block))
    }

    /// Returns whether an address in the slot may be a block of this heap: whether it is within the
    /// memory handed out so far.
    #[inline]
    pub(in crate::global::native) fn reaches(&self, block: *mut u8) -> bool {
        let [start, end] = &self.reached;
        let reached = start.load(Relaxed)..end.load(Relaxed);
        reached.contains(&block.addr()) || self.reaches_now(block)
    }

    /// As [`reaches`](Self::reaches), by the heap's state.
    #[cold]
    fn reaches_now(&self, block: *mut u8) -> bool {
        let look = |state: &State| {
            let reached = state.memory().0;
            let [start, end] = &self.reached;
            start.store(reached.start, Relaxed);
            end.store(reached.end, Relaxed);
            reached.contains(&block.addr())
        };
        self.look(look).unwrap_or(true)
    }

    /// Gives back about `wanted` bytes of free memory while the visit lasts: whole huge pages, then
    /// what a walk in steps finds, in pieces of this granularity. Returns the bytes given back.
    /// O(bytes).
    pub(in crate::global::native) fn give_back(
        &self,
        wanted: usize,
        visit: &mut Visit,
        granularity: Granularity,
    ) -> usize {
        let mut given = self.give_back_huge_pages(wanted, visit);
        for _ in 0..purge::steps_for(wanted) {
            if given >= wanted || visit.is_over() {
                break;
            }
            let step = self.with(|state| state.purge_step_partial(visit, granularity));
            let (bytes, more) = step.unwrap_or_default();
            given += bytes;
            if !more {
                break;
            }
        }
        given
    }

    /// Gives back about `wanted` bytes of free huge pages while the visit lasts, and lets other
    /// threads have the lock after each. Returns the bytes given back.
    fn give_back_huge_pages(&self, wanted: usize, visit: &mut Visit) -> usize {
        let mut given = 0;
        while given < wanted && !visit.is_over() {
            match self.with(|state| state.give_back_huge_page(visit)).unwrap_or_default() {
                0 => break,
                bytes => given += bytes,
            }
        }
        given
    }

    /// Returns the milliseconds until [`maintain`](Self::maintain) has something to do; `None` if
    /// it has nothing to do unless the heap changes.
    pub(super) fn due_in(&self) -> Option<u64> {
        self.with(|state| state.purge_due_in()).flatten()
    }

    /// Puts the deferred blocks back, under the lock; returns a misuse, if one was noticed.
    #[cold]
    fn put_deferred(&self, state: &mut State) -> Option<(Misuse, *mut u8)> {
        /// Blocks put back at a time.
        const AT_ONCE: usize = 64;
        self.deferred.begin_taking();
        let mut refused = None;
        loop {
            let mut blocks = [const { MaybeUninit::<NonNull<u8>>::uninit() }; AT_ONCE];
            let count = self.deferred.take(&mut blocks);
            if count == 0 {
                break;
            }
            // SAFETY: the first `count` were written; callers of `push` guarantee that each was
            // freed once, which is checked here as far as possible.
            let done =
                unsafe { state.put_any(slice::from_raw_parts(blocks.as_ptr().cast(), count)) };
            refused = refused.or(done.err().map(|block| (Misuse::FreedTwice, block.as_ptr())));
        }
        let slot = self.slot();
        let is_own = |block: *mut u8| SPACE.contains(block) && SPACE.slot_of(block) == slot;
        let overwritten = self.deferred.take_linked(is_own, |block| {
            // SAFETY: callers of `push_linked` guarantee that each block of this heap was freed
            // once.
            if unsafe { state.put_back(block) }.is_err() {
                refused = Some((Misuse::FreedTwice, block.as_ptr()));
            }
        });
        refused.or(overwritten.map(|block| (Misuse::Damaged, block)))
    }

    /// Begins a purge of all free memory; returns the bytes that had been given back before.
    pub(in crate::global::native) fn begin_purge(&self) -> u64 {
        self.with(State::begin_purge).unwrap_or(0)
    }

    /// Does a step of a purge.
    pub(in crate::global::native) fn step(&self, visit: &mut Visit) -> Step {
        let step = self
            .with(|state| Step { more: state.purge_step(visit), awaited: self.state.is_awaited() });
        step.unwrap_or(Step { more: false, awaited: false })
    }

    /// Gives every free OS page back to the system; returns the bytes. Other threads can take the
    /// lock in between. O(bytes held).
    pub(in crate::global::native) fn purge(&self) -> u64 {
        let before = self.begin_purge();
        while let Step { more: true, awaited } = self.step(&mut Visit::unbounded()) {
            if awaited {
                // A thread that waits was woken, but needs a moment to take the lock.
                os::pause();
            }
        }
        self.look(|state| state.purged()).map_or(0, |purged| purged - before)
    }

    /// Returns the bytes of a block that is not small.
    ///
    /// # Safety
    /// The block is in this heap, is not small, and is in use.
    pub(in crate::global::native) unsafe fn len_of(&self, block: NonNull<u8>) -> usize {
        let len = self.look(|state| state.len_of(block)).unwrap_or_else(|| {
            // SAFETY: the caller guarantees that the block is in use and not small. The lock is not
            // needed: only the caller, by resizing it, could change the length of its block.
            Some(unsafe { PageHeap::<Slot>::tagged_size(block) })
        });
        match len {
            Some(len) => len,
            None => misuse::stop(Misuse::NotInUse, block.as_ptr()),
        }
    }

    /// Returns whether the thread with this token holds the lock.
    pub(in crate::global::native) fn is_held_by(&self, thread: u32) -> bool {
        self.state.is_held_by(thread)
    }

    /// Takes the lock for a fork; see [`Locked::take_for_fork`].
    pub(in crate::global::native) fn take_for_fork(&self, pause: impl FnMut() -> bool) {
        self.state.take_for_fork(pause);
    }

    /// Unlocks after a fork, in the parent.
    pub(in crate::global::native) fn after_fork(&self) {
        self.state.after_fork();
    }

    /// Unlocks after a fork, in the child; returns whether the heap is lost. Its free memory is then
    /// of use to nobody.
    pub(in crate::global::native) fn after_fork_in_child(&self) -> bool {
        self.deferred.skip_lost();
        let is_lost = self.state.after_fork_in_child();
        if is_lost {
            self.most_resident.store(self.used.load(Relaxed), Relaxed);
        }
        is_lost
    }

    /// Returns whether the heap is lost: nobody can take its lock any more.
    pub(in crate::global::native) fn is_lost(&self) -> bool {
        self.state.is_lost()
    }

    /// Returns the number of size classes.
    pub(in crate::global::native) fn classes(&self) -> u32 {
        self.look(|state| state.classes()).unwrap_or(0)
    }

    /// Returns the block size of a class in bytes.
    pub(in crate::global::native) fn class_size(&self, class: u32) -> usize {
        self.look(|state| state.class_size(class)).unwrap_or(0)
    }

    /// Calls `visit` for each page with its class, its block size in bytes, its size in bytes, and
    /// the number of its blocks that are not free. O(pages), under the lock.
    pub(in crate::global::native) fn for_each_page(
        &self,
        visit: &mut dyn FnMut(u32, usize, usize, usize),
    ) {
        let _ = self.look(|state| state.for_each_page(visit));
    }

    /// Returns the bytes of the heap's resident OS pages. O(OS pages), mostly without the lock.
    pub(in crate::global::native) fn resident(&self) -> usize {
        let Some((extent, dedicated)) = self.look(|state| state.memory()) else { return 0 };
        let page = os::page_size();
        let start = ptr::from_ref(self).cast_mut().cast::<u8>();
        let mut resident = 0;
        for range in [start.addr()..extent.end, dedicated] {
            let (from, to) = (range.start & !(page - 1), range.end.next_multiple_of(page));
            os::for_each_resident(start.with_addr(from), to - from, &mut |_, len| resident += len);
        }
        resident
    }
}

// With 32 bits there are too few slots for a heap in each test.
#[cfg(all(test, not(miri), not(pagewise_portable_os), target_pointer_width = "64"))]
mod tests;
