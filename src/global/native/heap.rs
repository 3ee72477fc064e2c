//! A heap: an engine in a slot, behind a lock, with what returns its free memory to the system
//! (`purge`).
//!
//! There are as many heaps as the machine's CPUs ask for, whatever the number of threads; threads
//! beyond that share. Heaps are never destroyed, so a block outlives the thread that allocated it;
//! nothing needs adopting. Blocks cross the lock by the batch, from and to quick lists. A block freed
//! by another thread than allocated it is put back into its own heap under that heap's lock. Where somebody
//! else has that, the blocks wait rather than the thread: [beside the heap](super::deferred), for its next user.
//!
//! A misuse that is noticed under the lock is reported after letting go of it: whoever is called then
//! may allocate.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use super::deferred::Deferred;
use super::fault::{self, Fault};
use super::huge::Marks;
use super::lock::{Locked, Wait};
use super::mode;
use super::purge::{self, Parts};
use super::space::{SPACE, Slot};
use super::state::State;
use super::tuning::Tuning;
use super::visit::Visit;
use crate::os;
use crate::pages::PageHeap;

/// A heap, at the start of its slot.
#[derive(Debug)]
pub(super) struct Heap {
    pub(super) state: Locked<State>,
    /// A part of the state.
    marks: Marks,
    /// Blocks freed while somebody else had the lock.
    pub(super) deferred: Deferred,
    /// Which heap this one's users look after next, besides this one.
    pub(super) turn: AtomicUsize,
    /// The NUMA node of the thread that it was opened for, or that came to it when it had none: memory is of the node
    /// whose thread touches it first.
    pub(super) node: AtomicU32,
    /// Threads whose blocks come from here.
    pub(super) threads: AtomicU32,
    /// Bytes in use, and bytes that may take memory, as they were when the lock was last let go of.
    pub(super) used: AtomicUsize,
    pub(super) most: AtomicUsize,
    /// Whether a purge was under way then.
    pub(super) purging: AtomicBool,
}

impl Heap {
    /// Makes the heap of a slot; `None` if there is no memory for it. Done once for each slot.
    pub(super) fn open(slot: usize, tuning: &Tuning) -> Option<&'static Self> {
        let start = SPACE.slot(slot);
        let page = os::page_size();
        let own = size_of::<Self>().next_multiple_of(page);
        // No block lies right behind the heap's own words.
        let guard = if mode::has_guards() { page } else { 0 };
        // The tag behind the last block lies in the OS page that the next page of blocks begins in: another for each
        // would take memory. What is between is not touched.
        let from = (own + guard - page).next_multiple_of(tuning.pages.page_size) + page;
        let heap = start.cast::<Self>();
        // SAFETY: the slot is used by nobody else, and not accessible yet. The marks are where the heap will be, and zeros.
        let memory = unsafe {
            if !SPACE.take(slot) || !SPACE.commit(start, from, tuning.huge_pages.advice()) {
                return None;
            }
            if guard > 0 {
                os::guard(start.add(own), guard);
            }
            Slot::new(slot, from, tuning.huge_pages, &(*heap).marks)
        };
        let Some(state) = State::open(memory, tuning) else {
            // SAFETY: nothing of it is used.
            unsafe { SPACE.give_up(start, from) };
            return None;
        };
        // SAFETY: the memory is accessible, large enough and aligned, and never given up. It is zeros, a value of
        // all that is not written: most of that is never used.
        unsafe {
            (&raw mut (*heap).state).write(Locked::new(state));
            (&raw mut (*heap).turn).write(AtomicUsize::new(slot));
            Some(&*heap)
        }
    }

    /// The heap of a slot that was opened.
    pub(super) fn of_slot(slot: usize) -> &'static Self {
        // SAFETY: an opened slot has its heap at its start, for ever.
        unsafe { &*SPACE.slot(slot).cast::<Self>() }
    }

    /// The heap a block lies in; the caller knows that it lies in one.
    #[inline(always)]
    pub(super) fn of(block: *mut u8) -> &'static Self {
        Self::of_slot(SPACE.slot_of(block))
    }

    /// The slot it lies in.
    pub(super) fn slot(&self) -> usize {
        SPACE.slot_of(ptr::from_ref(self).cast_mut().cast())
    }

    /// Runs `action` under the heap's lock; `None` if the lock cannot be waited for. Stops the process if
    /// damage was noticed meanwhile.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        self.enter(Wait::Always, action)
    }

    /// As [`with`](Self::with), perhaps without waiting. Puts back first what waits for the lock.
    #[inline]
    pub(super) fn enter<R>(&self, wait: Wait, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        let action = |state: &mut State| {
            let refused = if self.deferred.is_empty() { None } else { self.put_deferred(state) };
            let result = action(state);
            self.note(state);
            (result, refused.or_else(|| state.damaged().map(|block| (Fault::Damaged, block))))
        };
        let (result, fault) = self.state.with_if(wait, action)?;
        match fault {
            None => Some(result),
            Some((fault, block)) => fault::stop(fault, block),
        }
    }

    /// Notes what others are told without the lock.
    #[inline]
    fn note(&self, state: &State) {
        self.used.store(state.usage().block, Relaxed);
        self.most.store(state.most(), Relaxed);
        self.purging.store(state.is_purging(), Relaxed);
    }

    /// Whether a block of this heap may lie at an address of its slot: not beyond all that were handed out.
    pub(super) fn reaches(&self, block: *mut u8) -> bool {
        self.with(|state| state.memory().0.contains(&block.addr())).unwrap_or(true)
    }

    /// Gives about `wanted` bytes of these parts of free memory back, in steps, while the visit lasts; returns the bytes.
    /// O(bytes).
    pub(super) fn give_back(&self, wanted: usize, visit: &mut Visit, parts: Parts) -> usize {
        let mut given = 0;
        for _ in 0..purge::steps_for(wanted) {
            if visit.is_over() {
                break;
            }
            let step = self.with(|state| state.purge_some(visit, parts));
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
        self.with(|state| state.purge_due_in()).flatten()
    }

    /// Puts back the blocks that wait for the lock, which the caller has; a misuse that was noticed.
    #[cold]
    fn put_deferred(&self, state: &mut State) -> Option<(Fault, *mut u8)> {
        /// Blocks put back at a time.
        const AT_ONCE: usize = 64;
        self.deferred.begin();
        let mut refused = None;
        loop {
            let mut blocks = [const { MaybeUninit::<NonNull<u8>>::uninit() }; AT_ONCE];
            let count = self.deferred.take(&mut blocks);
            if count == 0 {
                break;
            }
            // SAFETY: so many were written; each was freed once, as far as that is not noticed here.
            let done =
                unsafe { state.put_any(slice::from_raw_parts(blocks.as_ptr().cast(), count)) };
            refused = refused.or(done.err().map(|block| (Fault::FreedTwice, block.as_ptr())));
        }
        let slot = self.slot();
        let is_own = |block: *mut u8| SPACE.contains(block) && SPACE.slot_of(block) == slot;
        let overwritten = self.deferred.take_linked(is_own, |block| {
            // SAFETY: as above.
            if unsafe { state.put_back(block) }.is_err() {
                refused = Some((Fault::FreedTwice, block.as_ptr()));
            }
        });
        refused.or(overwritten.map(|block| (Fault::Damaged, block)))
    }

    /// Begins a purge of all there is; returns the bytes given back before.
    pub(super) fn begin_purge(&self) -> u64 {
        self.with(State::begin_purge).unwrap_or(0)
    }

    /// A step of a purge; whether there are more, and whether somebody waited for the lock.
    pub(super) fn step(&self, visit: &mut Visit) -> (bool, bool) {
        let step = self.with(|state| (state.purge_step(visit), self.state.is_awaited()));
        step.unwrap_or_default()
    }

    /// Gives every free OS page back to the system; returns the bytes. Others get the lock in
    /// between. O(what the heap holds).
    pub(super) fn purge(&self) -> u64 {
        let before = self.begin_purge();
        while let (true, awaited) = self.step(&mut Visit::unbounded()) {
            if awaited {
                // Who waits was woken, but needs a moment to take the lock.
                os::pause();
            }
        }
        self.with(|state| state.purged()).map_or(0, |purged| purged - before)
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
            None => fault::stop(Fault::NotInUse, block.as_ptr()),
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
        self.deferred.skip_lost();
        self.state.after_fork_in_child()
    }

    /// The number of size classes.
    pub(super) fn classes(&self) -> u32 {
        self.with(|state| state.classes()).unwrap_or(0)
    }

    /// Block size of a class, bytes.
    pub(super) fn class_size(&self, class: u32) -> usize {
        self.with(|state| state.class_size(class)).unwrap_or(0)
    }

    /// Calls `visit` for each page with its class, the size of its blocks, its bytes and its blocks
    /// that are not free. O(pages), under the lock.
    pub(super) fn for_each_page(&self, visit: &mut dyn FnMut(u32, usize, usize, usize)) {
        let _ = self.with(|state| state.for_each_page(visit));
    }

    /// Bytes of the heap's OS pages that take memory. O(OS pages), without the lock.
    pub(super) fn resident(&self) -> usize {
        let Some((extent, dedicated)) = self.with(|state| state.memory()) else { return 0 };
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
